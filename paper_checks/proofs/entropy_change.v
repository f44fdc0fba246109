(** How the entropy changes when the logits move from z to z + d, for every N >= 1, z and d: by minus the covariance
    under the policy of log p and d, with a remainder of second order.

    No term stands beside the covariance: a constant added to d changes neither it nor the policy. Under the natural
    gradient d is eta A, under the plain one eta p (A - mean A). The remainder is bounded by D^2 (ln N + 1) / 2, where
    no two changes differ by more than D: at a step of size eta D is eta times a constant. *)

From proofs Require Import softmax.

Definition entropy (N : nat) (p : nat -> R) : R := - mean N p (fun a => ln (p a)).

Definition covariance (N : nat) (p f g : nat -> R) : R := mean N p (fun a => f a * g a) - mean N p f * mean N p g.

(** Calculus: what a function gains over [0, 1] beyond its slope at 0, where its second derivative is bounded *)

Lemma gain_at_most f f1 f2 M :
  (forall t, derivable_pt_lim f t (f1 t)) -> (forall t, derivable_pt_lim f1 t (f2 t)) ->
  (forall t, f2 t <= M) -> f 1 - f 0 - f1 0 <= M / 2.
Proof.
  intros H1 H2 bound.
  assert (L : forall c, 0 < c -> f1 c - f1 0 <= M * c).
  { intros c Hc. destruct (MVT_cor2 f1 f2 0 c Hc) as (e & -> & _); [auto|].
    rewrite Rminus_0_r. apply Rmult_le_compat_r; [lra|apply bound]. }
  destruct (MVT_cor2 (fun t => f t - (f1 0 * t + M / 2 * t ^ 2)) (fun t => f1 t - (f1 0 * 1 + M / 2 * (2 * t)))
    0 1 Rlt_0_1) as (c & E & Hc).
  - intros c _. apply (derivable_pt_lim_minus f); [apply H1|].
    apply (derivable_pt_lim_plus (fun t => f1 0 * t) (fun t => M / 2 * t ^ 2)).
    + apply (derivable_pt_lim_scal id), derivable_pt_lim_id.
    + apply (derivable_pt_lim_scal (fun t => t ^ 2)). apply (derive_as _ _ _ _ _ (derivable_pt_lim_pow c 2)); [easy|].
      simpl. ring.
  - specialize (L c (proj1 Hc)). lra.
Qed.

Lemma gain_bounded f f1 f2 M :
  (forall t, derivable_pt_lim f t (f1 t)) -> (forall t, derivable_pt_lim f1 t (f2 t)) ->
  (forall t, - M <= f2 t <= M) -> Rabs (f 1 - f 0 - f1 0) <= M / 2.
Proof.
  intros H1 H2 bound. pose proof (gain_at_most f f1 f2 M H1 H2 (fun t => proj2 (bound t))).
  assert (- f 1 - - f 0 - - f1 0 <= M / 2).
  { apply (gain_at_most (fun t => - f t) (fun t => - f1 t) (fun t => - f2 t)); intros t.
    - now apply (derivable_pt_lim_opp f).
    - now apply (derivable_pt_lim_opp f1).
    - pose proof (bound t). lra. }
  apply Rabs_le. lra.
Qed.

Lemma ln_le x : 0 < x -> ln x <= x - 1.
Proof. intros H. pose proof (exp_ineq1_le (ln x)). rewrite exp_ln in *; lra. Qed.

Section Change.

Variables (N : nat) (z d : nat -> R) (D : R).
Hypothesis some_action : (1 <= N)%nat.
Hypothesis spread : forall a b, (a < N)%nat -> (b < N)%nat -> d a - d b <= D.

Let p := policy N z d.
Let s := score N z d.
Let variance (t : R) : R := mean N (p t) (fun a => s t a * s t a).

Let positive t a : 0 < p t a := softmax_positive N some_action _ a.
Let total t : \sum_(a < N) p t a = 1 := softmax_total N some_action _.

Let no_mean_score t : mean N (p t) (s t) = 0 := score_mean N some_action z d t.

Lemma mean_constant t c : mean N (p t) (fun _ => c) = c.
Proof. transitivity (c * 1); [|ring]. rewrite <- (total t), <- sum_scale. apply sum_ext; intros; ring. Qed.

Lemma mean_between t f low high :
  (forall a, (a < N)%nat -> low <= f a <= high) -> low <= mean N (p t) f <= high.
Proof.
  intros H. rewrite <- (mean_constant t low), <- (mean_constant t high).
  unfold mean. split; apply sum_le; intros a Ha; apply in_seq in Ha; pose proof (positive t a);
    apply Rmult_le_compat_l; try lra; apply H; lia.
Qed.

Lemma covariance_of_score t f : mean N (p t) (fun a => s t a * f a) = covariance N (p t) f d.
Proof.
  unfold covariance. rewrite (Rmult_comm (mean N (p t) f)). unfold mean at 1 2 4. rewrite <- sum_scale, <- sum_minus.
  apply sum_ext; intros. unfold s, score. fold p. ring.
Qed.

(** The slope of the entropy along the line of logits z + t d [cw-grpo:entropy-covariance]. *)
Theorem entropy_slope t :
  derivable_pt_lim (fun t => entropy N (policy N z d t)) t
    (- covariance N (policy N z d t) (fun a => ln (policy N z d t a)) d).
Proof.
  apply (derivable_pt_lim_opp (fun t => mean N (p t) (fun a => ln (p t a)))).
  apply (derive_as _ _ _ _ _ (derive_mean N some_action z d (fun t a => ln (p t a)) (s t) t
    (fun a => derive_log_policy N some_action z d a t))); [easy|].
  fold p s. rewrite mean_plus, covariance_of_score, no_mean_score. ring.
Qed.

Let bend (t : R) : R := mean N (p t) (fun a => (s t a * s t a - variance t) * ln (p t a)) + variance t.

Lemma derive_score t a : derivable_pt_lim (fun t => s t a) t (- variance t).
Proof.
  apply (derive_as (fun t => d a - mean N (p t) d) _ t (0 - mean N (p t) (fun a => s t a * d a + 0))); [|easy|].
  - apply (derivable_pt_lim_minus (fun _ => d a)); [apply derivable_pt_lim_const|].
    apply (derive_mean N some_action z d (fun _ => d)). intros; apply derivable_pt_lim_const.
  - unfold variance. rewrite mean_plus, mean_constant, (covariance_of_score t (s t)).
    unfold covariance. rewrite no_mean_score. ring.
Qed.

Lemma derive_slope t :
  derivable_pt_lim (fun t => - covariance N (p t) (fun a => ln (p t a)) d) t (- bend t).
Proof.
  apply (derivable_pt_lim_opp (fun t => covariance N (p t) (fun a => ln (p t a)) d)).
  apply (derive_as (fun t => mean N (p t) (fun a => s t a * ln (p t a))) _ t
    (mean N (p t) (fun a => s t a * (s t a * ln (p t a)) + (- variance t * ln (p t a) + s t a * s t a)))).
  - apply (derive_mean N some_action z d (fun t a => s t a * ln (p t a))). intros a.
    apply (derivable_pt_lim_mult (fun t => s t a) (fun t => ln (p t a))); [apply derive_score|].
    now apply derive_log_policy.
  - intros. symmetry. apply covariance_of_score.
  - unfold bend, variance at 2. rewrite <- mean_plus. unfold mean. apply sum_ext; intros; ring.
Qed.

Lemma score_in_range t a : (a < N)%nat -> - D <= s t a <= D.
Proof.
  intros Ha. assert (E : s t a = mean N (p t) (fun b => d a + -1 * d b)).
  { rewrite mean_plus, mean_constant, mean_scale. unfold s, score. fold p. ring. }
  rewrite E. apply mean_between. intros b Hb. pose proof (spread a b Ha Hb). pose proof (spread b a Hb Ha). lra.
Qed.

Lemma square_in_range t a : (a < N)%nat -> 0 <= s t a * s t a <= D * D.
Proof. intros Ha. pose proof (score_in_range t a Ha). split; nra. Qed.

Lemma variance_in_range t : 0 <= variance t <= D * D.
Proof. apply mean_between. intros. now apply square_in_range. Qed.

Lemma log_negative t a : (a < N)%nat -> ln (p t a) <= 0.
Proof.
  intros Ha. rewrite <- ln_1. assert (p t a <= 1) as [H|H]; [|left; now apply ln_increasing|rewrite H; lra].
  rewrite <- (total t). apply (sum_at_least _ (p t)); [intros; left; apply positive|apply in_seq; lia].
Qed.

(** Gibbs: ln x <= x - 1 at x = 1 / (N p) *)
Lemma entropy_at_most t : entropy N (p t) <= ln (INR N).
Proof.
  assert (0 < INR N) by (apply lt_0_INR; lia).
  assert (E : entropy N (p t) - ln (INR N) = mean N (p t) (fun a => ln (/ (INR N * p t a)))).
  { unfold entropy. rewrite <- (mean_constant t (ln (INR N))). unfold mean, Rminus.
    transitivity (-1 * (\sum_(a < N) p t a * ln (p t a)) + -1 * \sum_(a < N) p t a * ln (INR N)); [ring|].
    rewrite <- !sum_scale, <- sum_plus. apply sum_ext; intros a _. pose proof (positive t a).
    rewrite ln_Rinv, ln_mult by (try easy; now apply Rmult_lt_0_compat). ring. }
  enough (mean N (p t) (fun a => ln (/ (INR N * p t a))) <= 0) by lra.
  apply Rle_trans with (\sum_(a < N) (/ INR N + -1 * p t a)).
  - unfold mean. apply sum_le; intros a _. pose proof (positive t a).
    replace (/ INR N + -1 * p t a) with (p t a * (/ (INR N * p t a) - 1)) by (field; lra).
    apply Rmult_le_compat_l; [lra|]. apply ln_le, Rinv_0_lt_compat, Rmult_lt_0_compat; easy.
  - rewrite sum_plus, sum_const, sum_scale, total, Rinv_r by lra. lra.
Qed.

Lemma bend_in_range t : - (D * D * (ln (INR N) + 1)) <= bend t <= D * D * (ln (INR N) + 1).
Proof.
  pose proof (variance_in_range t). pose proof (entropy_at_most t) as H0.
  assert (L : - (D * D) * entropy N (p t)
    <= mean N (p t) (fun a => (s t a * s t a - variance t) * ln (p t a)) <= D * D * entropy N (p t)).
  { replace (- (D * D) * entropy N (p t)) with (mean N (p t) (fun a => D * D * ln (p t a)))
      by (rewrite mean_scale; unfold entropy; ring).
    replace (D * D * entropy N (p t)) with (mean N (p t) (fun a => - (D * D) * ln (p t a)))
      by (rewrite mean_scale; unfold entropy; ring).
    unfold mean. split; apply sum_le; intros a Ha; apply in_seq in Ha; apply Rmult_le_compat_l;
      try (left; apply positive);
      pose proof (square_in_range t a ltac:(lia)); pose proof (log_negative t a ltac:(lia)); nra. }
  assert (0 <= D * D) by nra. unfold bend. split; nra.
Qed.

(** The exact change of the entropy is minus the covariance, up to D^2 (ln N + 1) / 2. This holds in place of Eq. 7 of
    FADE, which adds a drift [fade:eq-7]. *)
Theorem entropy_remainder :
  Rabs (entropy N (softmax N (fun a => z a + d a)) - entropy N (softmax N z)
    + covariance N (softmax N z) (fun a => ln (softmax N z a)) d) <= D ^ 2 * (ln (INR N) + 1) / 2.
Proof.
  assert (bound : forall t, - (D * D * (ln (INR N) + 1)) <= - bend t <= D * D * (ln (INR N) + 1))
    by (intros t; pose proof (bend_in_range t); lra).
  pose proof (gain_bounded (fun t => entropy N (p t)) (fun t => - covariance N (p t) (fun a => ln (p t a)) d)
    (fun t => - bend t) (D * D * (ln (INR N) + 1)) entropy_slope derive_slope bound) as H.
  assert (start : forall a, p 0 a = softmax N z a) by (intros; apply policy_start).
  assert (finish : forall a, p 1 a = softmax N (fun a => z a + d a) a).
  { intros a. unfold p, policy, softmax, partition, along. rewrite Rmult_1_l. f_equal.
    apply sum_ext; intros. now rewrite Rmult_1_l. }
  unfold entropy, covariance in *. set (after := softmax N (fun a => z a + d a)) in *. set (before := softmax N z) in *.
  rewrite (mean_ext N (p 1) after _ (fun a => ln (after a))) in H by (intros; now rewrite ?finish).
  rewrite (mean_ext N (p 0) before (fun a => ln (p 0 a)) (fun a => ln (before a))) in H by (intros; now rewrite ?start).
  rewrite (mean_ext N (p 0) before (fun a => ln (p 0 a) * d a) (fun a => ln (before a) * d a)) in H
    by (intros; now rewrite ?start).
  rewrite (mean_ext N (p 0) before d d) in H by easy.
  replace (D ^ 2) with (D * D) by ring. apply Rle_trans with (2 := H), Req_le. f_equal. ring.
Qed.

End Change.

Print Assumptions entropy_slope.
Print Assumptions entropy_remainder.
