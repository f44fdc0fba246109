(** The weights of binary rewards that do not look at the order of a group, and the expected update of all of them.

    A group of G = n + 1 rollouts is drawn one by one. Rollout i is weighed by its reward r and by the rewards of the
    n others, in whatever order, and the update is the mean over the group of weight times d log pi. Then

    - the weight is c(j) r - d(j), with j the number of correct rollouts among the others. Where c(j) is not 0, that is
      c(j) (r - b(j)) with a baseline b = d / c. It can be 0 where d is not: the weight 1 of every rollout;
    - the expected update is E[c(j)] times the gradient of Q, the probability of a correct rollout, j the number of
      correct ones among n rollouts. The baseline drops out. Gradients are told by their slope along any line of
      parameters, of any policy whose log-probabilities have slopes there: logits, a head, a network. *)

From Coq Require Import Permutation.
From proofs Require Import softmax.

(** Each rollout of a group, with the others *)
Fixpoint picks {A} (w : list A) : list (A * list A) :=
  match w with
  | [] => []
  | a :: w => (a, w) :: map (fun '(b, others) => (b, a :: others)) (picks w)
  end.

Definition blind_to_order (weight : bool -> list bool -> R) : Prop :=
  forall r l m, Permutation l m -> weight r l = weight r m.

Definition successes (rewards : list bool) : nat := length (filter (fun r => r) rewards).

(** n rewards with j successes, and from the weights there what a success adds, c, and what a failure takes away, d *)
Definition sorted (n j : nat) : list bool := repeat true j ++ repeat false (n - j).
Definition gain (weight : bool -> list bool -> R) (n j : nat) : R :=
  weight true (sorted n j) - weight false (sorted n j).
Definition offset (weight : bool -> list bool -> R) (n j : nat) : R := - weight false (sorted n j).

Definition update (weight : bool -> list bool -> R) (correct : nat -> bool) (score : nat -> R) (w : list nat) : R :=
  / INR (length w) * sum (picks w) (fun '(a, others) => weight (correct a) (map correct others) * score a).

Lemma successes_le l : (successes l <= length l)%nat.
Proof. unfold successes. induction l as [|[] l IH]; simpl; lia. Qed.

Lemma sorted_permutation l : Permutation l (sorted (length l) (successes l)).
Proof.
  unfold sorted. induction l as [|[] l IH]; [constructor|now constructor|].
  change (successes (false :: l)) with (successes l). simpl length. rewrite Nat.sub_succ_l by apply successes_le.
  now apply Permutation_cons_app.
Qed.

(** The normal form of a weight that does not look at the order of the group. *)
Theorem normal_form weight r others :
  blind_to_order weight ->
  let c := gain weight (length others) (successes others) in
  let d := offset weight (length others) (successes others) in
  weight r others = c * indicator r - d /\ (c <> 0 -> weight r others = c * (indicator r - d / c)).
Proof.
  intros blind c d. assert (E : weight r others = c * indicator r - d).
  { unfold c, d, gain, offset. rewrite (blind r _ _ (sorted_permutation others)). destruct r; simpl; ring. }
  split; [easy|]. intros. rewrite E. now field.
Qed.

(** Of a sum over the rollouts of a group, the expectation is that of one rollout beside n others, n + 1 times. *)
Lemma expect_picks p N n h :
  expect p N (S n) (fun w => sum (picks w) h)
    = INR (S n) * \sum_(a < N) p a * expect p N n (fun others => h (a, others)).
Proof.
  revert h. induction n as [|n IH]; intros h; rewrite expect_cons.
  - rewrite Rmult_1_l. apply sum_ext; intros. unfold expect; simpl. ring.
  - rewrite (sum_ext _ _ (fun a => p a * expect p N (S n) (fun w => h (a, w))
      + INR (S n) * \sum_(b < N) p b * (p a * expect p N n (fun w => h (b, a :: w))))).
    2:{ intros a _. simpl picks. cbn [sum]. rewrite expect_plus.
        rewrite (expect_ext _ _ _ (fun w => sum (map _ _) h) (fun w => sum (picks w) (fun '(b, w) => h (b, a :: w)))).
        2:{ intros w _ _. rewrite sum_map. apply sum_ext; now intros []. }
        rewrite IH, Rmult_plus_distr_l. f_equal. rewrite <- Rmult_assoc, (Rmult_comm (p a)), Rmult_assoc. f_equal.
        rewrite <- sum_scale. apply sum_ext; intros; ring. }
    rewrite sum_plus, sum_scale, sum_swap, (S_INR (S n)).
    rewrite (sum_ext (seq 0 N) (fun b => sum _ _) (fun b => p b * expect p N (S n) (fun w => h (b, w)))); [ring|].
    intros b _. rewrite expect_cons, <- sum_scale. apply sum_ext; intros; ring.
Qed.

(** The expected update of every weight that does not look at the order of the group [simlab:expected-update]. *)
Theorem expected_update weight correct N n (policy : R -> nat -> R) score slope t :
  blind_to_order weight ->
  (forall t a, 0 < policy t a) ->
  (forall t, \sum_(a < N) policy t a = 1) ->
  (forall a, derivable_pt_lim (fun t => ln (policy t a)) t (score a)) ->
  derivable_pt_lim (fun t => mass (policy t) N correct) t slope ->
  expect (policy t) N (S n) (update weight correct score)
    = expect (policy t) N n (fun others => gain weight n (successes (map correct others))) * slope.
Proof.
  intros blind positive total logs rise.
  assert (slopes : forall a, derivable_pt_lim (fun t => policy t a) t (policy t a * score a))
    by (intros a; now apply (derive_from_log (fun t => policy t a))).
  assert (unmoved : \sum_(a < N) policy t a * score a = 0).
  { apply (uniqueness_limite (fun t => \sum_(a < N) policy t a) t); [now apply (derive_sum _ (fun a t => policy t a))|].
    apply (derive_as (fun _ => 1) _ t 0); [apply derivable_pt_lim_const|easy|easy]. }
  assert (E : slope = \sum_(a < N) policy t a * (indicator (correct a) * score a)).
  { apply (uniqueness_limite _ _ _ _ rise), (derive_sum _ (fun a t => indicator (correct a) * policy t a)). intros a _.
    apply (derive_as (fun t => indicator (correct a) * policy t a) _ t
      (indicator (correct a) * (policy t a * score a))); [|easy|ring].
    apply (derivable_pt_lim_scal (fun t => policy t a)), slopes. }
  set (c := expect _ _ n (fun others => gain _ _ _)).
  set (d := expect (policy t) N n (fun others => offset weight n (successes (map correct others)))).
  assert (F : forall a, expect (policy t) N n (fun others => weight (correct a) (map correct others) * score a)
    = c * (indicator (correct a) * score a) - d * score a).
  { intros a. transitivity (indicator (correct a) * score a * c - score a * d); [|ring].
    unfold c, d. rewrite <- !expect_scale, <- expect_minus.
    apply expect_ext; intros w size _.
    destruct (normal_form weight (correct a) (map correct w) blind) as [-> _]. rewrite map_length, size. ring. }
  rewrite (expect_ext _ _ _ _ (fun w => / INR (S n) * sum (picks w)
    (fun '(a, others) => weight (correct a) (map correct others) * score a))).
  2:{ intros w size _. unfold update. now rewrite size. }
  rewrite expect_scale, expect_picks, <- Rmult_assoc, Rinv_l, Rmult_1_l by (now apply not_0_INR).
  rewrite (sum_ext _ _ (fun a => c * (policy t a * (indicator (correct a) * score a)) - d * (policy t a * score a))).
  2:{ intros a _. rewrite F. ring. }
  rewrite sum_minus, !sum_scale, unmoved, <- E. ring.
Qed.

(** The same for the softmax policy of any logits z, along any line z + t d. *)
Theorem expected_update_softmax weight correct N n z d slope t :
  (1 <= N)%nat ->
  blind_to_order weight ->
  derivable_pt_lim (fun t => mass (policy N z d t) N correct) t slope ->
  expect (policy N z d t) N (S n) (update weight correct (score N z d t))
    = expect (policy N z d t) N n (fun others => gain weight n (successes (map correct others))) * slope.
Proof.
  intros some_action blind rise. apply expected_update; trivial.
  - intros; now apply softmax_positive.
  - intros; now apply softmax_total.
  - intros; now apply derive_log_policy.
Qed.

Print Assumptions normal_form.
Print Assumptions expected_update.
Print Assumptions expected_update_softmax.
