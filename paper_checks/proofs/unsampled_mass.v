(** Proposition 3.2 of F-GRPO: the mass of the correct actions that a group did not sample, for every N >= 1, softmax
    policy, set of correct actions, sampled set, R_c and R_w.

    The sampled actions get the reward R_c or R_w, the others 0, and a step of size eta climbs the surrogate
    (1/G) sum R_a p_a. "To first order" is the slope at eta = 0. Masses and second moments are those of the paper:
    A and B the sampled correct and wrong actions, U the unsampled, U_pos the unsampled correct ones. *)

From proofs Require Import softmax.
Open Scope bool_scope.

Section Step.

Variables (N G : nat) (z : nat -> R) (correct sampled : nat -> bool) (R_c R_w : R).
Hypothesis some_action : (1 <= N)%nat.

Definition p : nat -> R := softmax N z.

Definition A (a : nat) : bool := sampled a && correct a.
Definition B (a : nat) : bool := sampled a && negb (correct a).
Definition U (a : nat) : bool := negb (sampled a).
Definition U_pos (a : nat) : bool := U a && correct a.

Definition second (test : nat -> bool) : R := \sum_(a < N) indicator (test a) * p a ^ 2.

Definition reward (a : nat) : R := if sampled a then if correct a then R_c else R_w else 0.
Definition S_R : R := R_c * mass p N A + R_w * mass p N B.
Definition step (a : nat) : R := / INR G * (p a * (reward a - S_R)).

Lemma S_R_mean : S_R = mean N p reward.
Proof.
  unfold S_R, mean, mass. rewrite <- !sum_scale, <- sum_plus. apply sum_ext; intros a _.
  unfold reward, A, B. destruct (sampled a), (correct a); simpl; ring.
Qed.

Definition logit (k a : nat) : R := indicator (Nat.eqb a k).

Lemma mean_logit k q f : (k < N)%nat -> mean N q (fun a => logit k a * f a) = q k * f k.
Proof.
  intros H. unfold mean, logit. assert (Hk : In k (seq 0 N)) by (apply in_seq; lia).
  pose proof (seq_NoDup N 0) as once. induction (seq 0 N) as [|b l IH]; [easy|]. inversion once; subst. simpl.
  destruct (Nat.eqb_spec b k) as [->|E]; simpl.
  - rewrite (sum_ext _ _ (fun a => 0 * 1)); [rewrite sum_scale; ring|].
    intros a Ha. destruct (Nat.eqb_spec a k) as [->|]; [easy|simpl; ring].
  - destruct Hk as [|Hk]; [easy|]. rewrite IH by easy. ring.
Qed.

(** The step is the surrogate's gradient in the logits [f-grpo:eq-5]. *)
Theorem surrogate_gradient k :
  (k < N)%nat -> derivable_pt_lim (fun t => / INR G * mean N (policy N z (logit k) t) reward) 0 (step k).
Proof.
  intros H. unfold step. apply (derivable_pt_lim_scal (fun t => mean N (policy N z (logit k) t) reward)).
  apply (derive_as _ _ _ _ _ (derive_mean N some_action z (logit k) (fun _ => reward) (fun _ => 0) 0
    (fun a => derivable_pt_lim_const _ _))); [easy|].
  unfold mean at 1. rewrite (sum_ext _ _ (fun a => p a * (logit k a * reward a)
    + (- mean N p (logit k)) * (p a * reward a))).
  2:{ intros a _. unfold score. rewrite policy_start. fold p.
      replace (mean N (policy N z (logit k) 0) (logit k)) with (mean N p (logit k)); [ring|].
      apply sum_ext; intros. now rewrite policy_start. }
  rewrite sum_plus, sum_scale. fold (mean N p reward). rewrite <- S_R_mean.
  fold (mean N p (fun a => logit k a * reward a)). rewrite mean_logit by easy.
  replace (mean N p (logit k)) with (p k); [ring|].
  rewrite <- (Rmult_1_r (p k)), <- (mean_logit k p (fun _ => 1)) by easy. apply sum_ext; intros; ring.
Qed.

(** The mass of any set under any change d of the logits [f-grpo:eq-19]. *)
Theorem subset_change d test :
  derivable_pt_lim (fun eta => mass (policy N z d eta) N test) 0
    (\sum_(a < N) indicator (test a) * (p a * d a) - mass p N test * mean N p d).
Proof.
  apply (derive_as (fun eta => \sum_(a < N) indicator (test a) * policy N z d eta a) _ 0
    (\sum_(a < N) indicator (test a) * (policy N z d 0 a * score N z d 0 a))); [|easy|].
  - apply (derive_sum _ (fun a eta => indicator (test a) * policy N z d eta a)). intros a _.
    now apply (derivable_pt_lim_scal (fun eta => policy N z d eta a)), derive_policy.
  - unfold mass. rewrite Rmult_comm, <- sum_scale, <- sum_minus. apply sum_ext; intros a _.
    unfold score. replace (mean N (policy N z d 0) d) with (mean N p d).
    + rewrite policy_start. fold p. ring.
    + apply sum_ext; intros. now rewrite policy_start.
Qed.

(** Proposition 3.2, Eq. 10 [f-grpo:prop-3.2]. *)
Theorem unsampled_mass :
  derivable_pt_lim (fun eta => mass (policy N z step eta) N U_pos) 0
    (/ INR G * (- S_R * second U_pos
      - mass p N U_pos * ((R_c - S_R) * second A + (R_w - S_R) * second B - S_R * second U))).
Proof.
  apply (derive_as _ _ _ _ _ (subset_change step U_pos)); [easy|].
  assert (drift : \sum_(a < N) indicator (U_pos a) * (p a * step a) = / INR G * (- S_R * second U_pos)).
  { unfold second. rewrite <- !sum_scale. apply sum_ext; intros a _.
    unfold step, reward, U_pos, U. destruct (sampled a), (correct a); simpl; ring. }
  assert (bracket : mean N p step
    = / INR G * ((R_c - S_R) * second A + (R_w - S_R) * second B - S_R * second U)).
  { unfold second, mean. rewrite <- !sum_scale, <- sum_plus, <- sum_minus, <- sum_scale. apply sum_ext; intros a _.
    unfold step, reward, A, B, U. destruct (sampled a), (correct a); simpl; ring. }
  rewrite drift, bracket. ring.
Qed.

End Step.

Print Assumptions surrogate_gradient.
Print Assumptions subset_change.
Print Assumptions unsampled_mass.
