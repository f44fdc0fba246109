(** Lemma 3.1 of F-GRPO [f-grpo:lemma-3.1], for every N, G >= 1, policy, set of correct actions and target inside it.

    G rollouts are drawn one by one. The group is active and misses the target if it holds a correct rollout, a wrong
    one, and none of the target. This has probability (1 - tau)^G - (mu - tau)^G - (1 - mu)^G, with mu the probability
    of the correct actions and tau that of the target. The group of no rollouts is the only exception: there the
    formula gives -1. *)

From proofs Require Import groups.
Open Scope bool_scope.

Definition wrong (correct : nat -> bool) (a : nat) : bool := negb (correct a).

Definition active_and_missed (correct target : nat -> bool) (w : list nat) : bool :=
  existsb correct w && existsb (wrong correct) w && negb (existsb target w).

Lemma none_is_all_not (test : nat -> bool) w : negb (existsb test w) = forallb (fun a => negb (test a)) w.
Proof. induction w; simpl; [easy|]. now rewrite Bool.negb_orb, IHw. Qed.

(** Of the groups that miss the target, take off those without a wrong rollout and those without a correct one. *)
Lemma inclusion_exclusion correct target a w :
  (forall a, target a = true -> correct a = true) ->
  let v := a :: w in
  indicator (active_and_missed correct target v) =
    indicator (forallb (fun a => negb (target a)) v)
    - indicator (forallb (fun a => correct a && negb (target a)) v)
    - indicator (forallb (wrong correct) v).
Proof.
  intros inside v. unfold active_and_missed.
  assert (E : forallb (fun a => correct a && negb (target a)) v
            = forallb correct v && forallb (fun a => negb (target a)) v).
  { induction v as [|b v IH]; simpl; [easy|]. rewrite IH. destruct (correct b), (target b), (forallb correct v); auto. }
  assert (W : forallb (wrong correct) v = true -> forallb (fun a => negb (target a)) v = true).
  { rewrite !forallb_forall. intros H b Hb. specialize (H b Hb). unfold wrong in H.
    destruct (target b) eqn:T; [|easy]. now rewrite (inside b T) in H. }
  assert (C : existsb correct v = negb (forallb (wrong correct) v)).
  { unfold wrong. now rewrite <- none_is_all_not, Bool.negb_involutive. }
  assert (D : existsb (wrong correct) v = negb (forallb correct v)).
  { rewrite <- (Bool.negb_involutive (existsb _ _)), none_is_all_not. f_equal. unfold wrong.
    clear. induction v; simpl; [easy|]. now rewrite IHv, Bool.negb_involutive. }
  assert (B : forallb correct v = true -> forallb (wrong correct) v = true -> False).
  { simpl. unfold wrong. now destruct (correct a). }
  rewrite E, C, D, none_is_all_not.
  destruct (forallb correct v), (forallb (wrong correct) v), (forallb (fun a => negb (target a)) v); simpl;
    try lra; try (now specialize (W eq_refl)); now specialize (B eq_refl eq_refl).
Qed.

Theorem tail_miss p N G correct target :
  (1 <= G)%nat ->
  mass p N (fun _ => true) = 1 ->
  (forall a, target a = true -> correct a = true) ->
  let mu := mass p N correct in
  let tau := mass p N target in
  expect p N G (fun w => indicator (active_and_missed correct target w))
    = (1 - tau) ^ G - (mu - tau) ^ G - (1 - mu) ^ G.
Proof.
  intros size total inside mu tau.
  replace (1 - tau) with (mass p N (fun a => negb (target a))).
  2:{ unfold tau. rewrite <- total. unfold mass. rewrite <- sum_minus. apply sum_ext; intros a _.
      destruct (target a); simpl; ring. }
  replace (mu - tau) with (mass p N (fun a => correct a && negb (target a))).
  2:{ unfold mu, tau, mass. rewrite <- sum_minus. apply sum_ext; intros a _.
      destruct (target a) eqn:T; [rewrite (inside a T)|]; destruct (correct a); simpl; ring. }
  replace (1 - mu) with (mass p N (wrong correct)).
  2:{ unfold mu. rewrite <- total. unfold mass. rewrite <- sum_minus. apply sum_ext; intros a _.
      unfold wrong. destruct (correct a); simpl; ring. }
  rewrite <- !expect_all, <- !expect_minus. apply expect_ext; intros w length_w _.
  destruct w as [|a w]; [simpl in *; lia|]. now apply inclusion_exclusion.
Qed.

Print Assumptions tail_miss.
