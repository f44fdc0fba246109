"""Sections 2.1 and 2.3: GRPO's advantage, its objective in two forms, and the token-level loss."""

from fractions import Fraction

import sympy
from mpmath import mp, mpf

from paper_checks.claim import COSMETIC, Amended, claim
from paper_checks.cw_grpo.batches import deviation, kernel, mean, normalised, terms
from paper_checks.evidence import equals, grid, number, satisfies
from paper_checks.exact import POLICIES, logits, softmax, stepped


@claim(
    "cw-grpo:advantage",
    where="Section 2.1, the advantage",
    says="The advantage of a response is its reward less the group's mean, over the group's standard deviation.",
    formula=r"\hat{A}_i = (r_i - \bar{r}) / \sigma_r",
    refuted_by="a group of unequal rewards whose advantages have another mean or deviation",
    reading="Tested as mean 0 and deviation 1, in groups whose rewards are not all equal. The deviation with divisor "
    "G, and no epsilon, as printed. With the usual epsilon the deviation is slightly below 1.",
    caveat="Of equal rewards it is 0/0: how such groups are treated is not said.",
    identity=True,
    statement=lambda rewards: (0, 1) if len(set(rewards)) > 1 else None,
    planted={
        "variance in place of deviation": lambda rewards: (0, 1 / deviation(rewards) if deviation(rewards) else 1),
        "of equal rewards too": lambda rewards: (0, 1),
    },
)
def advantage(statement):
    """Mean and deviation of the quotients; no number where the quotient is 0/0."""

    def moments(rewards):
        exact = [number(r) for r in rewards]
        sigma = deviation(exact)
        advantages = [(r - mean(exact)) / sigma if sigma else mp.nan for r in exact]
        return mean(advantages), mp.sqrt(mean([a * a for a in advantages]))

    groups = [(1,), (1, 0), (1, 1), (2, 1, 0, 0), (1, 0, 0, 0, 0)]
    yield from equals(statement, [{"rewards": rewards} for rewards in groups], enumerated=moments)


@claim(
    "cw-grpo:objective-forms",
    where="Section 2.1, J_GRPO, beside Section 2.3, L_GRPO",
    says="The GRPO objective with the ratio of whole responses is the 'vanilla' one with the mean of token ratios.",
    formula=r"\frac{\pi_\theta(o_i|q)}{\pi_{\theta_{old}}(o_i|q)}\hat{A}_i \;\text{and}\; "
    r"\frac{1}{|o_i|}\sum_t \frac{\pi_\theta(o_{i,t}|q,o_{i,<t})}{\pi_{\theta_{old}}(o_{i,t}|q,o_{i,<t})}\hat{A}_i",
    refuted_by="a response at which the two have different gradients on policy",
    reading="The gradient of one response's term with respect to its tokens' log-probabilities, at ratios of 1. Both "
    "are called GRPO's objective; on the reading that they are two methods there is nothing to refute. Off policy not "
    "even the corrected form agrees: a product of ratios is no sum.",
    inferred=True,
    severity=COSMETIC,
    statement=lambda ratios, advantage: sum(ratios) / len(ratios) * advantage,
    correction=Amended(
        "On policy its gradient is that of the sum of token ratios, without 1/|o_i|.",
        lambda ratios, advantage: sum(ratios) * advantage,
    ),
    planted={
        "the root of the product": lambda ratios, advantage: sympy.prod(ratios) ** sympy.Rational(1, 2) * advantage
    },
)
def objective_forms(statement):
    """Differentiate both by sympy."""

    def gradient(objective, length, A):
        changes = sympy.symbols(f"d:{length}")
        value = objective([sympy.exp(change) for change in changes], A)
        return tuple(sympy.diff(value, change).subs({each: 0 for each in changes}) for change in changes)

    points = [{"length": length, "A": A} for length in (1, 2, 3) for A in (1, -2)]
    yield from equals(
        lambda length, A: gradient(statement, length, A),
        points,
        derived=lambda length, A: gradient(lambda ratios, advantage: sympy.prod(ratios) * advantage, length, A),
    )


@claim(
    "cw-grpo:loss",
    where="Section 2.3, the token-level loss",
    says="The policy term of the token-level loss is ratio times advantage.",
    formula=r"\ell_{i,t} = \frac{\pi_\theta(o_{i,t}|q,o_{i,<t})}{\pi_{\theta_{old}}(o_{i,t}|q,o_{i,<t})} \hat{A}_i",
    refuted_by="a policy, an older one, an action and an advantage at which the gradient is another",
    reading="Its gradient, for a softmax of one state and without the KL term, is ratio A grad log pi whatever the "
    "ratio. On the reading that PPO's clip is understood, because the paper calls GRPO an extension of PPO, it fails "
    "beyond the clip's bounds: cw-grpo:vanilla-clip.",
    identity=True,
    statement=lambda ratio, advantage: ratio * advantage,
    planted={
        "REINFORCE": lambda ratio, advantage: advantage,
        "a clip": lambda ratio, advantage: min(ratio, mpf("1.2")) * advantage,
    },
)
def loss_gradient(statement):
    """Differentiate ratio A at each logit, by sympy and numerically."""
    old = (Fraction(1, 4), Fraction(1, 4), Fraction(1, 2))
    policies = [(Fraction(1, 4), Fraction(1, 4), Fraction(1, 2)), (Fraction(2, 5), Fraction(1, 10), Fraction(1, 2))]
    points = grid(policy=policies, action=[0, 1], A=[1, -2])

    def stated(policy, action, A):
        coefficient = statement(number(policy[action] / old[action]), A)
        return tuple(coefficient * ((j == action) - number(p)) for j, p in enumerate(policy))

    def derived(policy, action, A):
        z = sympy.symbols(f"z:{len(policy)}")
        pi = sympy.exp(z[action]) / sum(map(sympy.exp, z))
        at = {symbol: sympy.log(sympy.sympify(p)) for symbol, p in zip(z, policy, strict=True)}
        return tuple(sympy.diff(pi / sympy.sympify(old[action]) * A, symbol).subs(at) for symbol in z)

    def numerical(policy, action, A):
        def loss(j, logit):
            scores = logits(policy)
            scores[j] = logit
            return softmax(scores)[action] / number(old[action]) * A

        return tuple(mp.diff(lambda logit, j=j: loss(j, logit), logits(policy)[j]) for j in range(len(policy)))

    yield from equals(stated, points, derived=derived, enumerated=numerical, tolerance=mpf("1e-20"))


@claim(
    "cw-grpo:loss-sign",
    where="Section 2.3: 'token-level loss'",
    says="l is the token-level loss.",
    refuted_by="a token of positive advantage that a step down l makes less likely",
    reading="'Loss' by the letter, to be minimised, as if descending it made tokens of positive advantage likelier. "
    "The expression is the objective that Section 2.1 maximises, and is called an objective in the sentence before; "
    "the word is meant loosely.",
    statement=-1,
    slip=Amended("l is a gain, to be ascended.", 1),
    planted={"no step": 0},
)
def loss_sign(statement):
    """The exact change of log pi after a small step along the stated sign of the gradient, times the advantage."""

    def gain(policy, action, A):
        p = policy[action]
        gradient = [p / p * A * ((j == action) - other) for j, other in enumerate(policy)]
        moved = stepped(policy, gradient, statement * mpf("1e-3"))
        return A * (moved[action] - number(p))

    points = grid(policy=[policy for policy, _ in POLICIES], action=[0, 1], A=[1, -2])
    yield from satisfies(lambda value, **_: value > 0, points, gain)


@claim(
    "cw-grpo:vanilla-clip",
    where="Section 2.3: 'the vanilla GRPO objective is'",
    says="Vanilla GRPO's token term is ratio A.",
    formula=r"\ell_{i,t} = \frac{\pi_\theta}{\pi_{\theta_{old}}} \hat{A}_i - \beta \mathrm{KL}_{i,t}",
    refuted_by="a ratio and an advantage at which GRPO as published, min(r A, clip(r, 0.8, 1.2) A), has another slope",
    reading="Vanilla: DeepSeekMath, which the paper cites and which clips as PPO does; epsilon 0.2. On policy, with "
    "one update a batch, ratios are 1 and the two agree; the paper does not say how many updates it takes.",
    met="unknown: the number of updates a batch is not printed.",
    statement=lambda r, A: mpf(A),
    condition=Amended(
        "The ratios are within the clip's bounds, as on policy.",
        lambda r, A: mpf(A) if mpf("0.8") < r < mpf("1.2") else None,
    ),
    planted={"the slope of log r": lambda r, A: A / r},
)
def vanilla_clip(statement):
    """The slope in the ratio of the clipped term."""

    def slope(r, A):
        return mp.diff(lambda x: min(x * A, min(max(x, mpf("0.8")), mpf("1.2")) * A), r)

    points = grid(r=[mpf(1), mpf("0.9"), mpf("1.1"), mpf("1.5"), mpf("0.5")], A=[1, -1])
    yield from equals(statement, points, derived=slope, tolerance=mpf("1e-20"))


FORMS = {
    "k1": lambda d: d,
    "k2": lambda d: d**2 / 2,
    "k3": lambda d: mp.exp(-d) - 1 + d,
}


@claim(
    "cw-grpo:kl",
    where="Section 2.3, beta KL_{i,t}, beside Section 2.1, beta D_KL(pi || pi_ref)",
    says="The gradient of the sampled token's penalty KL_{i,t} is in expectation that of D_KL(pi || pi_ref).",
    refuted_by="a policy and a reference at which an estimator's expected gradient is another",
    reading="KL_{i,t} is not defined; it is one of the usual estimators in d = log pi - log pi_ref at the sampled "
    "token, differentiated on policy without a ratio. k1's gradient is 0 in expectation, and k3's, which GRPO takes, "
    "that of KL(pi_ref || pi). On the reading that KL_{i,t} is the exact sum over the vocabulary, or that the "
    "estimator carries a ratio, it holds.",
    inferred=True,
    met="unknown: the paper does not define KL_{i,t}.",
    statement=lambda gaps, form: max(gaps) < mpf("1e-20"),
    condition=Amended(
        "KL_{i,t} is k2 = d^2 / 2.", lambda gaps, form: max(gaps) < mpf("1e-20") if form == "k2" else None
    ),
    planted={"k3": lambda gaps, form: max(gaps) < mpf("1e-20") if form == "k3" else None},
)
def kl_estimators(statement):
    """The expected gradient of each estimator and the gradient of the divergence, by numerical derivatives."""
    policy, reference = POLICIES[1][0], (*POLICIES[2][0][:2], Fraction(1, 2))

    def log_policy(j, logit):
        scores = logits(policy)
        scores[j] = logit
        return [mp.log(p) for p in softmax(scores)]

    def gap(form, j):
        here = logits(policy)[j]
        references = logits(reference)

        def estimator(action, logit):
            return FORMS[form](log_policy(j, logit)[action] - references[action])

        def divergence(logit):
            return mp.fsum(mp.exp(x) * (x - y) for x, y in zip(log_policy(j, logit), references, strict=True))

        sampled = mp.fsum(
            number(p) * mp.diff(lambda logit, a=a: estimator(a, logit), here) for a, p in enumerate(policy)
        )
        return abs(sampled - mp.diff(divergence, here))

    yield from satisfies(
        statement,
        [{"form": form} for form in ("k2", "k3", "k1")],
        lambda form: tuple(gap(form, j) for j in range(len(policy))),
        method="numerical",
        names="gap of the gradient in each logit",
    )


@claim(
    "cw-grpo:stop-gradient",
    where="Section 2.3: the weights, with pi_theta in them, times ratio A",
    says="The reweighted term has the gradient w A grad log pi: reweighting only scales each token's advantage.",
    formula=r"\frac{\pi_\theta}{\pi_{\theta_{old}}} \cdot (\tilde{w}_{i,t}\hat{A}_i)",
    refuted_by="a group at which the gradient at a token's log-probability is not w A / N at ratios of 1",
    reading="The paper says nothing of gradients. c is printed with pi_theta, the policy under training, not pi_old, "
    "so that w depends on it. With 'advantages are constants, w too', usual in code, it holds.",
    severity=COSMETIC,
    met="unknown: the paper does not say; holding them fixed is usual.",
    inferred=True,
    statement=lambda weight, advantage, detached: weight * advantage,
    condition=Amended(
        "The weights are held fixed.",
        lambda weight, advantage, detached: weight * advantage if detached else None,
    ),
    planted={"the bare advantage": lambda weight, advantage, detached: advantage},
)
def stop_gradient(statement):
    """Differentiate the mean of ratio w A at one token's log-probability, the weights held fixed or not."""
    logp = [mpf(x) for x in (-1, -2, -4, -1)]
    advantages = [mpf(a) for a in (1, 1, -1, -1)]

    def weights(scores):
        return normalised(kernel(terms(scores, advantages)))

    def moved(token, score):
        return [score if index == token else x for index, x in enumerate(logp)]

    def gradient(token, detached):
        def objective(score):
            scores = moved(token, score)
            used = weights(logp if detached else scores)
            return mp.fsum(
                mp.exp(new - old) * w * a for new, old, w, a in zip(scores, logp, used, advantages, strict=True)
            )

        return mp.diff(objective, logp[token])

    yield from equals(
        lambda token, detached: statement(weights(logp)[token], advantages[token], detached),
        grid(token=range(4), detached=[True, False]),
        derived=gradient,
        tolerance=mpf("1e-20"),
    )
