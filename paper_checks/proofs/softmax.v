(** The softmax policy of N logits, and how it changes along a line of logits z + t d, for every N >= 1, z and d. *)

From proofs Require Export groups.

Definition partition (N : nat) (z : nat -> R) : R := \sum_(a < N) exp (z a).
Definition softmax (N : nat) (z : nat -> R) (a : nat) : R := exp (z a) / partition N z.
Definition along (z d : nat -> R) (t : R) (a : nat) : R := z a + t * d a.

(** The mean of f under p. *)
Definition mean (N : nat) (p f : nat -> R) : R := \sum_(a < N) p a * f a.

(** The derivative of a sum *)
Lemma derive_sum {A} (l : list A) (f : A -> R -> R) (f' : A -> R) t :
  (forall a, In a l -> derivable_pt_lim (f a) t (f' a)) ->
  derivable_pt_lim (fun t => sum l (fun a => f a t)) t (sum l f').
Proof.
  induction l as [|a l IH]; simpl; intros H; [apply derivable_pt_lim_const|].
  apply (derivable_pt_lim_plus (f a) (fun t => sum l (fun a => f a t))); auto.
Qed.

(** A derivative under another name of its function and of its value *)
Lemma derive_as f g t f' g' : derivable_pt_lim f t f' -> (forall t, g t = f t) -> g' = f' -> derivable_pt_lim g t g'.
Proof. intros H E ->. intros e He. destruct (H e He) as [d Hd]. exists d. intros h. rewrite !E. apply Hd. Qed.

(** A positive function, from the derivative of its logarithm *)
Lemma derive_from_log f s t :
  (forall t, 0 < f t) -> derivable_pt_lim (fun t => ln (f t)) t s -> derivable_pt_lim f t (f t * s).
Proof.
  intros positive H. apply (derive_as (comp exp (fun t => ln (f t))) _ t (exp (ln (f t)) * s)).
  - apply derivable_pt_lim_comp; [apply H|apply derivable_pt_lim_exp].
  - intros; unfold comp. now rewrite exp_ln.
  - now rewrite exp_ln.
Qed.

Lemma mean_ext N p q f g : (forall a, p a = q a) -> (forall a, f a = g a) -> mean N p f = mean N q g.
Proof. intros P F. apply sum_ext; intros. now rewrite P, F. Qed.

Lemma mean_plus N p f g : mean N p (fun a => f a + g a) = mean N p f + mean N p g.
Proof. unfold mean. rewrite <- sum_plus. apply sum_ext; intros; ring. Qed.

Lemma mean_scale N p c f : mean N p (fun a => c * f a) = c * mean N p f.
Proof. unfold mean. rewrite <- sum_scale. apply sum_ext; intros; ring. Qed.

Section Softmax.

Variable N : nat.
Hypothesis some_action : (1 <= N)%nat.

Lemma partition_positive z : 0 < partition N z.
Proof.
  apply Rlt_le_trans with (exp (z 0%nat)); [apply exp_pos|].
  apply (sum_at_least _ (fun a => exp (z a))); [intros; left; apply exp_pos|apply in_seq; lia].
Qed.

Lemma softmax_positive z a : 0 < softmax N z a.
Proof. apply Rdiv_lt_0_compat; [apply exp_pos|apply partition_positive]. Qed.

Lemma softmax_total z : \sum_(a < N) softmax N z a = 1.
Proof.
  pose proof (partition_positive z). unfold softmax, Rdiv.
  rewrite (sum_ext _ _ (fun a => / partition N z * exp (z a))) by (intros; ring).
  rewrite sum_scale. fold (partition N z). field. lra.
Qed.

Lemma log_softmax z a : ln (softmax N z a) = z a - ln (partition N z).
Proof.
  pose proof (partition_positive z). unfold softmax, Rdiv.
  rewrite ln_mult, ln_exp, ln_Rinv by (try apply exp_pos; try apply Rinv_0_lt_compat; lra). ring.
Qed.

Section Line.

Variables z d : nat -> R.

Definition policy (t : R) : nat -> R := softmax N (along z d t).

(** d_a less the policy's mean of d: the score of action a along the line *)
Definition score (t : R) (a : nat) : R := d a - mean N (policy t) d.

Lemma policy_start a : policy 0 a = softmax N z a.
Proof.
  assert (E : forall a, along z d 0 a = z a) by (intros; unfold along; ring).
  unfold policy, softmax, partition. rewrite E. f_equal. apply sum_ext; intros. now rewrite E.
Qed.

Lemma derive_exp_along a t : derivable_pt_lim (fun t => exp (along z d t a)) t (exp (along z d t a) * d a).
Proof.
  apply (derivable_pt_lim_comp (fun t => along z d t a) exp); [|apply derivable_pt_lim_exp].
  apply (derive_as (fun t => z a + d a * t) _ t (0 + d a * 1)); [|intros; unfold along; ring|ring].
  apply (derivable_pt_lim_plus (fun _ => z a) (fun t => d a * t)); [apply derivable_pt_lim_const|].
  apply (derivable_pt_lim_scal id), derivable_pt_lim_id.
Qed.

Lemma derive_log_partition t : derivable_pt_lim (fun t => ln (partition N (along z d t))) t (mean N (policy t) d).
Proof.
  apply (derive_as (comp ln (fun t => partition N (along z d t))) _ t
    (/ partition N (along z d t) * \sum_(a < N) exp (along z d t a) * d a)); [|easy|].
  - apply derivable_pt_lim_comp; [|apply derivable_pt_lim_ln, partition_positive].
    apply (derive_sum _ (fun a t => exp (along z d t a))). intros; apply derive_exp_along.
  - rewrite <- sum_scale. apply sum_ext; intros. unfold policy, softmax, Rdiv. ring.
Qed.

Theorem derive_log_policy a t : derivable_pt_lim (fun t => ln (policy t a)) t (score t a).
Proof.
  apply (derive_as (fun t => z a + t * d a - ln (partition N (along z d t))) _ t
    (0 + d a - mean N (policy t) d)); [|intros; unfold policy; rewrite log_softmax; easy|unfold score; ring].
  apply (derivable_pt_lim_minus (fun t => z a + t * d a)); [|apply derive_log_partition].
  apply (derivable_pt_lim_plus (fun _ => z a)); [apply derivable_pt_lim_const|].
  apply (derive_as (fun t => d a * t) _ t (d a * 1)); [|intros; ring|ring].
  apply (derivable_pt_lim_scal id), derivable_pt_lim_id.
Qed.

Theorem derive_policy a t : derivable_pt_lim (fun t => policy t a) t (policy t a * score t a).
Proof.
  apply (derive_from_log (fun t => policy t a)); [intros; apply softmax_positive|apply derive_log_policy].
Qed.

(** The mean of something that itself changes along the line *)
Theorem derive_mean (f : R -> nat -> R) f' t :
  (forall a, derivable_pt_lim (fun t => f t a) t (f' a)) ->
  derivable_pt_lim (fun t => mean N (policy t) (f t)) t (mean N (policy t) (fun a => score t a * f t a + f' a)).
Proof.
  intros H. unfold mean at 1 2.
  apply (derive_sum _ (fun a t => policy t a * f t a)). intros a _.
  apply (derive_as (fun t => policy t a * f t a) _ t (policy t a * score t a * f t a + policy t a * f' a));
    [|easy|ring].
  apply (derivable_pt_lim_mult (fun t => policy t a) (fun t => f t a)); [apply derive_policy|apply H].
Qed.

Lemma score_mean t : mean N (policy t) (score t) = 0.
Proof.
  unfold mean at 1, score. rewrite (sum_ext _ _ (fun a => policy t a * d a - mean N (policy t) d * policy t a))
    by (intros; ring).
  rewrite sum_minus, sum_scale. unfold policy at 3. rewrite softmax_total. unfold mean. ring.
Qed.

End Line.

End Softmax.

Print Assumptions derive_log_policy.
Print Assumptions derive_policy.
Print Assumptions derive_mean.
