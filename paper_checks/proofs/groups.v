(** Groups of G rollouts, drawn one by one from a policy over the actions 0, ..., N - 1.

    [groups N G] lists every group, [prob p w] is the product of the probabilities of its rollouts, and
    [expect p N G f] is the sum of prob p w * f w over that list: nothing is assumed about probability. *)

From Coq Require Export Reals Bool List FinFun Arith Lia Lra.
Export ListNotations.
Open Scope R_scope.

Fixpoint sum {A} (l : list A) (f : A -> R) : R :=
  match l with [] => 0 | a :: l => f a + sum l f end.

Notation "\sum_ ( a < N ) e" := (sum (seq 0 N) (fun a => e)) (at level 41, a name, e at level 41).

Definition indicator (b : bool) : R := if b then 1 else 0.

(** The probability of the actions that a test accepts. *)
Definition mass (p : nat -> R) (N : nat) (accepts : nat -> bool) : R := \sum_(a < N) indicator (accepts a) * p a.

Fixpoint groups (N G : nat) : list (list nat) :=
  match G with
  | O => [[]]
  | S G => flat_map (fun a => map (cons a) (groups N G)) (seq 0 N)
  end.

Fixpoint prob (p : nat -> R) (w : list nat) : R :=
  match w with [] => 1 | a :: w => p a * prob p w end.

Definition expect (p : nat -> R) (N G : nat) (f : list nat -> R) : R := sum (groups N G) (fun w => prob p w * f w).

(** Sums *)

Lemma sum_ext {A} (l : list A) f g : (forall a, In a l -> f a = g a) -> sum l f = sum l g.
Proof. induction l; simpl; intros H; [easy|]. rewrite H, IHl; auto. Qed.

Lemma sum_plus {A} (l : list A) f g : sum l (fun a => f a + g a) = sum l f + sum l g.
Proof. induction l; simpl; [|rewrite IHl]; lra. Qed.

Lemma sum_scale {A} (l : list A) c f : sum l (fun a => c * f a) = c * sum l f.
Proof. induction l; simpl; [|rewrite IHl]; lra. Qed.

Lemma sum_minus {A} (l : list A) f g : sum l (fun a => f a - g a) = sum l f - sum l g.
Proof. induction l; simpl; [|rewrite IHl]; lra. Qed.

Lemma sum_app {A} (l m : list A) f : sum (l ++ m) f = sum l f + sum m f.
Proof. induction l; simpl; [|rewrite IHl]; lra. Qed.

Lemma sum_map {A B} (g : A -> B) l f : sum (map g l) f = sum l (fun a => f (g a)).
Proof. induction l; simpl; [|rewrite IHl]; lra. Qed.

Lemma sum_flat_map {A B} (g : A -> list B) l f : sum (flat_map g l) f = sum l (fun a => sum (g a) f).
Proof. induction l; simpl; [|rewrite sum_app, IHl]; lra. Qed.

Lemma sum_le {A} (l : list A) f g : (forall a, In a l -> f a <= g a) -> sum l f <= sum l g.
Proof.
  induction l as [|a l IH]; simpl; intros H; [lra|].
  pose proof (H a (or_introl eq_refl)). specialize (IH (fun b h => H b (or_intror h))). lra.
Qed.

Lemma sum_at_least {A} (l : list A) f a : (forall b, 0 <= f b) -> In a l -> f a <= sum l f.
Proof.
  intros H. assert (P : forall m, 0 <= sum m f) by (induction m as [|b m]; simpl; [|pose proof (H b)]; lra).
  induction l as [|b l IH]; simpl; [easy|]. pose proof (P l). pose proof (H b). intros [->|Ha]; [lra|].
  specialize (IH Ha). lra.
Qed.

Lemma sum_const N c : \sum_(a < N) c = INR N * c.
Proof.
  rewrite <- (seq_length N 0) at 2. induction (seq 0 N); [simpl; ring|]. cbn [sum length]. rewrite S_INR, IHl. ring.
Qed.

Lemma sum_swap {A B} (l : list A) (m : list B) f :
  sum l (fun a => sum m (fun b => f a b)) = sum m (fun b => sum l (fun a => f a b)).
Proof.
  induction l; simpl; [|now rewrite IHl, <- sum_plus].
  rewrite (sum_ext _ _ (fun b => 0 * 0)) by (intros; ring). rewrite sum_scale. ring.
Qed.

(** The list holds every group of G rollouts, and each one once. *)

Theorem in_groups N G w : In w (groups N G) <-> length w = G /\ Forall (fun a => (a < N)%nat) w.
Proof.
  revert w; induction G as [|G IH]; intros w; simpl.
  - split; [intros [<-|[]]; auto|]. destruct w; simpl; intuition discriminate.
  - rewrite in_flat_map; split.
    + intros (a & Ha & Hw). apply in_map_iff in Hw as (v & <- & Hv). apply IH in Hv as [<- Hv].
      apply in_seq in Ha. split; [easy|]. constructor; [lia|easy].
    + destruct w as [|a v]; simpl; intros [Hl Hf]; [discriminate|]. inversion Hf; subst.
      exists a. rewrite in_seq. split; [lia|]. apply in_map, IH. split; [lia|easy].
Qed.

Lemma apart_once {A} (l m : list A) :
  NoDup l -> NoDup m -> (forall a, In a l -> In a m -> False) -> NoDup (l ++ m).
Proof.
  induction l as [|a l IH]; simpl; intros Hl Hm H; [easy|]. inversion Hl; subst.
  constructor; [rewrite in_app_iff; intros []; eauto|eauto].
Qed.

Theorem groups_once N G : NoDup (groups N G).
Proof.
  induction G as [|G IH]; simpl; [repeat constructor; auto|].
  generalize (seq_NoDup N 0). induction (seq 0 N) as [|a l IHl]; simpl; intros Hl; [constructor|].
  inversion Hl as [|? ? Ha Hl']; subst.
  apply apart_once; auto.
  - apply Injective_map_NoDup; [intros v w E; now inversion E|easy].
  - intros w Hw Hr. apply in_map_iff in Hw as (v & <- & _).
    apply in_flat_map in Hr as (b & Hb & Hv). apply in_map_iff in Hv as (u & E & _). inversion E; subst; auto.
Qed.

(** Expectations *)

Lemma expect_cons p N G f : expect p N (S G) f = \sum_(a < N) p a * expect p N G (fun w => f (a :: w)).
Proof.
  unfold expect; simpl. rewrite sum_flat_map. apply sum_ext; intros a _.
  rewrite sum_map, <- sum_scale. apply sum_ext; intros w _; simpl. ring.
Qed.

Lemma expect_ext p N G f g :
  (forall w, length w = G -> Forall (fun a => (a < N)%nat) w -> f w = g w) -> expect p N G f = expect p N G g.
Proof. intros H. apply sum_ext; intros w Hw. apply in_groups in Hw as [Hl Hf]. now rewrite H. Qed.

Lemma expect_plus p N G f g : expect p N G (fun w => f w + g w) = expect p N G f + expect p N G g.
Proof. unfold expect. rewrite <- sum_plus. apply sum_ext; intros; ring. Qed.

Lemma expect_minus p N G f g : expect p N G (fun w => f w - g w) = expect p N G f - expect p N G g.
Proof. unfold expect. rewrite <- sum_minus. apply sum_ext; intros; ring. Qed.

Lemma expect_scale p N G c f : expect p N G (fun w => c * f w) = c * expect p N G f.
Proof. unfold expect. rewrite <- sum_scale. apply sum_ext; intros; ring. Qed.

(** All rollouts of a group pass a test with the G-th power of the probability that one does. *)
Lemma expect_all p N G accepts : expect p N G (fun w => indicator (forallb accepts w)) = mass p N accepts ^ G.
Proof.
  induction G as [|G IH]; [unfold expect; simpl; lra|].
  rewrite expect_cons; simpl. unfold mass at 1. rewrite (Rmult_comm (sum _ _)), <- sum_scale.
  apply sum_ext; intros a _. rewrite <- IH. destruct (accepts a); simpl; [ring|].
  unfold expect at 1.
  rewrite (sum_ext _ _ (fun w => 0 * prob p w)) by (intros; ring). rewrite sum_scale. ring.
Qed.

Print Assumptions in_groups.
Print Assumptions groups_once.
