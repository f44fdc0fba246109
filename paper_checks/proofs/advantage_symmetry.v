(** The symmetry of GRPO's advantages, Eq. 5 and Theorem 2 of A-GRAE, for every group of binary rewards.

    A = (r - mean) / (std + eps), std that of the population. Where all rewards are equal r - mean is 0, and so is every
    advantage: in Coq 0 / 0 is 0. *)

From proofs Require Import groups.

Section Group.

Variable rewards : list bool.

Definition size : R := INR (length rewards).
Definition mean : R := sum rewards indicator / size.
Definition std : R := sqrt (sum rewards (fun r => (indicator r - mean) ^ 2) / size).
Definition advantage (eps : R) (r : bool) : R := (indicator r - mean) / (std + eps).

Definition correct : list bool := filter (fun r => r) rewards.
Definition wrong : list bool := filter negb rewards.

Lemma sum_correct f : sum correct f = sum rewards indicator * f true.
Proof. unfold correct. induction rewards as [|[] l IH]; simpl; [|rewrite IH|rewrite IH]; ring. Qed.

Lemma sum_wrong f : sum wrong f = (size - sum rewards indicator) * f false.
Proof.
  unfold wrong, size. induction rewards as [|[] l IH]; [simpl; ring| |];
    cbn [length filter negb sum]; rewrite S_INR, ?IH; simpl in *; rewrite ?IH; ring.
Qed.

Lemma sum_both f : sum rewards f = sum correct f + sum wrong f.
Proof. unfold correct, wrong. induction rewards as [|[] l IH]; simpl; [|rewrite IH|rewrite IH]; ring. Qed.

Lemma count_in_range : 0 <= sum rewards indicator <= size.
Proof. unfold size. induction rewards as [|[] l IH]; [simpl; lra| |]; cbn [length sum]; rewrite S_INR; simpl; lra. Qed.

(** The number of correct rollouts is the mean times the size, in an empty group too. *)
Lemma count_correct : sum rewards indicator = mean * size.
Proof.
  pose proof count_in_range. unfold mean. destruct (Req_dec size 0) as [Z|Z]; [|now field].
  replace (sum rewards indicator) with 0 by lra. rewrite Z. ring.
Qed.

Lemma mean_in_range : 0 <= mean <= 1.
Proof.
  pose proof count_in_range. unfold mean, Rdiv. destruct (Req_dec size 0) as [Z|Z].
  - replace (sum rewards indicator) with 0 by lra. lra.
  - assert (0 < / size) by (apply Rinv_0_lt_compat; lra). split; [apply Rmult_le_pos; lra|].
    replace 1 with (size * / size) by (now field). apply Rmult_le_compat_r; lra.
Qed.

(** The advantages of a group sum to zero, whatever eps [a-grae:eq-19]. *)
Theorem zero_sum eps : sum rewards (advantage eps) = 0.
Proof. rewrite sum_both, sum_correct, sum_wrong, count_correct. unfold advantage, Rdiv. simpl. ring. Qed.

Lemma absolute_advantages eps :
  Rabs (advantage eps true) = (1 - mean) * Rabs (/ (std + eps)) /\
  Rabs (advantage eps false) = mean * Rabs (/ (std + eps)).
Proof.
  pose proof mean_in_range. unfold advantage, Rdiv; simpl. rewrite !Rabs_mult.
  rewrite (Rabs_right (1 - mean)), (Rabs_left1 (0 - mean)) by lra. split; ring.
Qed.

(** Absolute advantages of the correct and of the wrong rollouts have one sum, whatever eps [a-grae:eq-5]. *)
Theorem symmetry eps : sum correct (fun r => Rabs (advantage eps r)) = sum wrong (fun r => Rabs (advantage eps r)).
Proof.
  destruct (absolute_advantages eps) as [T F].
  rewrite sum_correct, sum_wrong, count_correct, T, F. ring.
Qed.

Lemma std_of_mean : std = sqrt (mean * (1 - mean)).
Proof.
  unfold std. rewrite sum_both, sum_correct, sum_wrong, count_correct.
  destruct (Req_dec size 0) as [Z|Z]; [|f_equal; simpl; now field].
  pose proof count_in_range. assert (M : mean = 0).
  { unfold mean. replace (sum rewards indicator) with 0 by lra. unfold Rdiv. ring. }
  rewrite M, Z. f_equal. unfold Rdiv. ring.
Qed.

(** At eps = 0 all of them sum to 2 G sqrt(p (1 - p)), p the share of correct rollouts [a-grae:thm-2]. *)
Theorem magnitude : sum rewards (fun r => Rabs (advantage 0 r)) = 2 * size * sqrt (mean * (1 - mean)).
Proof.
  destruct (absolute_advantages 0) as [T F]. pose proof mean_in_range.
  rewrite sum_both, sum_correct, sum_wrong, count_correct, T, F, std_of_mean, Rplus_0_r.
  set (s := sqrt _). assert (E : mean * (1 - mean) = s * s) by (symmetry; apply sqrt_sqrt, Rmult_le_pos; lra).
  transitivity (2 * size * (mean * (1 - mean)) * Rabs (/ s)); [ring|]. rewrite E.
  destruct (Req_dec s 0) as [Z|Z]; [rewrite Z; ring|].
  assert (0 <= s) by apply sqrt_pos. assert (0 < s) by lra.
  rewrite Rabs_right by (left; now apply Rinv_0_lt_compat). now field.
Qed.

End Group.

Print Assumptions zero_sum.
Print Assumptions symmetry.
Print Assumptions magnitude.
