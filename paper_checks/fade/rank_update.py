"""Section 15.1: the update of an output head, its rank-1 part and its residual."""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
import sympy
from mpmath import mp, mpf

from paper_checks.claim import CONDITIONS, Amended, claim
from paper_checks.evidence import Estimate, equals, grid, number, satisfies
from paper_checks.fade.variance_common import numerically
from paper_checks.simulated import estimate

# Exact tokens (advantage, error vector, hidden state) and a unit direction, for identities.
TOKENS = (
    (Fraction(1, 2), (Fraction(2, 3), Fraction(-1, 3), Fraction(-1, 3)), (Fraction(1), Fraction(2), Fraction(-1))),
    (Fraction(-1), (Fraction(-1, 4), Fraction(3, 4), Fraction(-1, 2)), (Fraction(0), Fraction(1), Fraction(3))),
    (Fraction(1, 3), (Fraction(-1, 5), Fraction(-2, 5), Fraction(3, 5)), (Fraction(-2), Fraction(1), Fraction(1))),
)
DIRECTIONS = {
    "axis": (Fraction(1), Fraction(0), Fraction(0)),
    "oblique": (Fraction(2, 3), Fraction(2, 3), Fraction(1, 3)),
}
FLOAT = mpf("1e-10")


class Kinds(NamedTuple):
    """A distribution of tokens of a softmax head.

    Attributes:
        chances: (n,) of each kind of token.
        errors: (n, V) advantage times error vector e_y - pi.
        states: (n, d) hidden states.
    """

    chances: np.ndarray
    errors: np.ndarray
    states: np.ndarray


def kinds(seed, separated=True):
    """Eight kinds of tokens of a random head of 5 tokens and 4 features; not separated: one hidden state for all."""
    rng = np.random.default_rng(seed)
    head, states = rng.normal(size=(5, 4)), rng.normal(size=(8, 4)) + 1
    if not separated:
        states = np.outer(rng.uniform(1, 2, 8), states[0])
    scores = np.exp(states @ head.T)
    policies = scores / scores.sum(axis=1, keepdims=True)
    sampled = np.eye(5)[rng.integers(0, 5, 8)]
    return Kinds(np.full(8, 1 / 8), rng.normal(size=(8, 1)) * (sampled - policies), states)


def gradient(tokens, counts=None):
    """The mean gradient, or the sum for given counts of each kind."""
    return np.einsum("n,nv,nd->vd", tokens.chances if counts is None else counts, tokens.errors, tokens.states)


def leading_share(update):
    """r1, the share of the squared Frobenius norm in the leading singular value."""
    singular = np.linalg.svd(update, compute_uv=False)
    return float(singular[0] ** 2 / np.sum(singular**2))


def signal_and_residual(tokens):
    """Squared norms of E[A alpha v] and of R, along the top right singular vector of the mean gradient."""
    direction = np.linalg.svd(gradient(tokens))[2][0]
    along = tokens.states @ direction
    signal = (tokens.chances * along) @ tokens.errors
    residual = gradient(tokens._replace(states=tokens.states - np.outer(along, direction)))
    return float(signal @ signal), float(np.sum(residual**2))


@claim(
    "fade:app-15-token-gradient",
    where="Section 15.1, first sentence",
    says="The policy gradient of a token with respect to the output head is A (e_y - pi) h^T.",
    formula=r"g_i=A_i\,v_i\otimes h_i,\quad v_i=e_{y_i}-\pi_i",
    refuted_by="a token whose gradient of A log pi with respect to a head entry differs",
    reading="Logits W h, no tying of input and output embeddings (Qwen 2.5 7B does not tie), no clipping, and the "
    "plain gradient. The update of an adaptive optimiser is not the sum of these.",
    identity=True,
    statement=lambda advantage, error, state: [advantage * v * h for v in error for h in state],
    planted={
        "pi - e_y": lambda advantage, error, state: [-advantage * v * h for v in error for h in state],
        "without h": lambda advantage, error, state: [advantage * v for v in error for _ in state],
    },
)
def token_gradient(statement):
    """Differentiate log softmax symbolically at a head of 3 tokens and 2 features; difference it numerically."""
    values = [sympy.Rational(n, 7) for n in (3, -2, 1, 5, 0, -4)]
    state = (sympy.Rational(1, 2), sympy.Integer(-2))
    advantage = sympy.Rational(-3, 4)
    head = sympy.symbols("w:6", real=True)

    def log_policy(entries, y, exp, log):
        logits = [entries[2 * token] * state[0] + entries[2 * token + 1] * state[1] for token in range(3)]
        return logits[y] - log(sum(exp(logit) for logit in logits))

    def derived(y):
        objective = advantage * log_policy(head, y, sympy.exp, sympy.log)
        at = dict(zip(head, values, strict=True))
        return tuple(number(sympy.diff(objective, entry).subs(at)) for entry in head)

    def differenced(y):
        def along(coordinate):
            def objective(entry):
                entries = [number(v) if index != coordinate else entry for index, v in enumerate(values)]
                logits = [entries[2 * t] * number(state[0]) + entries[2 * t + 1] * number(state[1]) for t in range(3)]
                return number(advantage) * (logits[y] - mp.log(sum(mp.exp(logit) for logit in logits)))

            return mp.diff(objective, number(values[coordinate]))

        return tuple(along(coordinate) for coordinate in range(6))

    def stated(y):
        logits = [values[2 * t] * state[0] + values[2 * t + 1] * state[1] for t in range(3)]
        scores = [mp.exp(number(logit)) for logit in logits]
        error = [(token == y) - score / sum(scores) for token, score in enumerate(scores)]
        return tuple(statement(number(advantage), error, [number(h) for h in state]))

    yield from numerically(
        equals(stated, grid(y=[0, 2]), derived=derived, enumerated=differenced, tolerance=mpf("1e-18"))
    )


def outer(left, right):
    """The outer product as a flat tuple."""
    return tuple(x * y for x in left for y in right)


def added(terms):
    """Add vectors entry by entry."""
    return tuple(sum(entries) for entries in zip(*terms, strict=True))


@claim(
    "fade:eq-32",
    where="Section 15.1, Eq. 32; Proposition 15.1, Orthogonality",
    says="The rank-1 part and the residual of the update are orthogonal: their squared Frobenius norms add up to the "
    "update's.",
    formula=r"W_\Delta=\Bigl(\sum_iA_i\alpha_iv_i\Bigr)\otimes u_1+\sum_iA_iv_i\otimes h_i^\perp,\quad "
    r"\|W_\Delta\|_F^2=\|M_1\|_F^2+\|M_2\|_F^2",
    refuted_by="tokens for which the two parts do not add up to the update, or their squared norms not to its "
    "squared norm",
    reading="An identity for any unit u; the split itself is Eq. 8 again (fade:eq-8). 'Higher rank' of the residual "
    "is a name: it may have rank 1 or be zero.",
    identity=True,
    statement=lambda state, along, u: tuple(h - along * entry for h, entry in zip(state, u, strict=True)),
    planted={
        "not projected": lambda state, along, u: state,
        "projected twice": lambda state, along, u: tuple(h - 2 * along * e for h, e in zip(state, u, strict=True)),
    },
)
def decomposition(statement):
    """Exact sums over three tokens, along two directions."""

    def split(direction):
        u = DIRECTIONS[direction]
        alongs = [sum(h * entry for h, entry in zip(state, u, strict=True)) for _, _, state in TOKENS]
        signal = added(
            outer([A * along * v for v in error], u) for (A, error, _), along in zip(TOKENS, alongs, strict=True)
        )
        residual = added(
            outer([A * v for v in error], statement(state, along, u))
            for (A, error, state), along in zip(TOKENS, alongs, strict=True)
        )
        energy = sum(entry**2 for entry in signal) + sum(entry**2 for entry in residual)
        return (*added([signal, residual]), energy)

    def whole(direction):
        update = added(outer([A * v for v in error], state) for A, error, state in TOKENS)
        return (*update, sum(entry**2 for entry in update))

    yield from equals(split, grid(direction=list(DIRECTIONS)), enumerated=whole)


@claim(
    "fade:prop-15.1",
    where="Section 15.1, Proposition 15.1, Eq. 33",
    says="With many i.i.d. tokens, the leading share r1 of the update tends to |E[A alpha v]|^2 / (|E[A alpha v]|^2 "
    "+ |R|^2).",
    formula=r"r_1\to\frac{\|\mathbb{E}[A_i\alpha_iv_i]\|^2}{\|\mathbb{E}[A_i\alpha_iv_i]\|^2+\|R\|_F^2}",
    refuted_by="a distribution of tokens whose mean gradient has another leading share",
    reading="u1 is the top right singular vector of the mean gradient, so the claim says no more than that r1 of the "
    "update tends to r1 of the mean gradient. With u1 of the batch, or of the hidden states, as the footnote of "
    "Section 15.1 measures it, the fraction is only a lower bound of r1.",
    caveat="For independent tokens; those of one trajectory are not: fade:prop-15.1-iid.",
    statement=lambda signal, residual: signal / (signal + residual),
    planted={
        "not squared": lambda signal, residual: signal**0.5 / (signal**0.5 + residual**0.5),
        "over the residual": lambda signal, residual: signal / (signal + 2 * residual),
    },
)
def leading_share_limit(statement):
    """Singular values of the mean gradient of four random softmax heads; 200 drawn batches of 20,000 tokens."""

    def sampled(seed) -> Estimate:
        tokens = kinds(seed)
        counts = np.random.default_rng(0).multinomial(20_000, tokens.chances, size=200)
        return estimate(np.asarray([leading_share(gradient(tokens, count)) for count in counts]))

    yield from numerically(
        equals(
            lambda seed: statement(*signal_and_residual(kinds(seed))),
            grid(seed=[0, 1, 2, 3]),
            enumerated=lambda seed: leading_share(gradient(kinds(seed))),
            sampled=sampled,
            sampled_points=[{"seed": 0}, {"seed": 1}],
            tolerance=FLOAT,
        )
    )


# Table 11's tokens, and the length that a trajectory of the 7B model may have (Appendix 11.1).
BATCH_TOKENS, LONGEST = 8_968 + 54_700, 8_192


@claim(
    "fade:prop-15.1-iid",
    where="Section 15.1, Proposition 15.1, its assumption; Section 15.2, Table 11",
    says="The tokens of a large batch may be taken as i.i.d.: the leading share of its update is near the limit.",
    formula=r"\{(A_i,v_i,h_i)\}_{i=1}^N\ \mathrm{i.i.d.}",
    refuted_by="a batch of as many tokens whose leading share is, on average, more than 0.02 from the limit",
    reading="Tokens of one trajectory share their advantage and their context. The law of large numbers then works on "
    "trajectories. With 63,668 tokens, as in Table 11, in 8 trajectories r1 strays from the limit; in one trajectory "
    "a token, or many, it does not. The paper assumes such tokens and does not say that its batches have them.",
    inferred=True,
    met="unknown: 63,668 tokens at up to 8,192 each may be as few as 8 trajectories",
    caveat="How alike the tokens of a trajectory are is our assumption, half of them of one kind; the measure of "
    "0.02 is ours.",
    statement=lambda distance, trajectories: distance < 0.02,
    condition=Amended(
        "the batch holds many independent trajectories, not only many tokens",
        lambda distance, trajectories: distance < 0.02 if trajectories >= 2_000 else None,
    ),
    planted={"however few": lambda distance, trajectories: distance < 0.002},
)
def tokens_of_trajectories(statement):
    """The mean distance from the limit in 200 drawn batches of one size, in few trajectories and in many."""
    tokens = kinds(0)
    limit = leading_share(gradient(tokens))

    def distance(trajectories):
        rng = np.random.default_rng(0)
        length = BATCH_TOKENS // trajectories
        shared = length // 2 * rng.multinomial(trajectories, tokens.chances, size=200)
        fresh = rng.multinomial((length - length // 2) * trajectories, tokens.chances, size=200)
        return float(np.mean([abs(leading_share(gradient(tokens, counts)) - limit) for counts in shared + fresh]))

    few = -(-BATCH_TOKENS // LONGEST)
    yield from satisfies(
        statement, [{"trajectories": count} for count in (few, 4_000, BATCH_TOKENS)], distance, method="Monte Carlo"
    )


@claim(
    "fade:prop-15.1-iff",
    where="Section 15.1, Proposition 15.1, last sentence",
    says="r1 tends to 1 exactly if the residual R is zero.",
    formula=r"r_1\to1\iff R=0",
    refuted_by="a distribution with r1 = 1 and R not zero, or with R = 0 and r1 below 1",
    reading="R along the top right singular vector of the mean gradient, as in the proposition.",
    statement=lambda share, residual: (share > 1 - 1e-9) == (residual < 1e-9),
    planted={"never 1": lambda share, residual: share < 1 - 1e-9},
)
def share_is_one(statement):
    """Heads with one hidden direction, whose residual is zero, and with eight."""

    def share_and_residual(seed, separated):
        tokens = kinds(seed, separated)
        return leading_share(gradient(tokens)), signal_and_residual(tokens)[1]

    yield from satisfies(
        lambda values, seed, separated: statement(*values),
        grid(separated=[False, True], seed=[0, 1]),
        share_and_residual,
        method="numerical",
    )


def rotating_update(steps, degrees):
    """The sum of w_t u_t^T, both unit vectors of the plane that turn by an angle a step."""
    angles = np.radians(degrees) * np.arange(steps)
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return np.einsum("ti,tj->ij", directions, directions)


@claim(
    "fade:cor-15.3",
    where="Section 15.2, Corollary 15.3",
    says="If every step's gradient is w_t u^T for one u, approximately, the accumulated update has rank exactly 1.",
    formula=r"g_t\approx w_t\otimes u\;\Rightarrow\;W_\Delta\approx(\sum_t\eta_tw_t)\otimes u\text{ is exactly rank-1}",
    refuted_by="gradients near w_t u^T whose sum has a second singular value that is not zero",
    reading="'~' in the premise and 'exactly' in the conclusion. Gradients off by one part in a thousand give rank 2.",
    caveat="The sum is that of plain gradient steps: Adam divides each entry by its own scale, which does not keep "
    "rank 1.",
    statement=lambda deviation: 1,
    slip=Amended(
        "approximately of rank 1; exactly, where every gradient is w_t u^T", lambda deviation: None if deviation else 1
    ),
    planted={"rank 2": lambda deviation: None if deviation else 2},
)
def accumulated_rank(statement):
    """Rank, exactly, of the sum of four steps of different sizes, with and without a deviation of the direction."""

    def rank(deviation):
        total = sympy.zeros(3, 3)
        for step in range(1, 5):
            left = sympy.Matrix([step, 1 - step, step**2])
            right = sympy.Matrix([1, 2, deviation * (-1) ** step])
            total += sympy.Rational(1, step) * left * right.T
        return total.rank()

    yield from equals(statement, grid(deviation=[sympy.Integer(0), sympy.Rational(1, 1000)]), enumerated=rank)


@claim(
    "fade:sec-4-2-successive-alignment",
    where="Section 4.2, condition 2; after Corollary 15.3",
    says="That successive gradients align, with |cos| about 1, confirms that one direction is shared and the "
    "accumulated update of rank 1.",
    refuted_by="rank-1 steps with |cos| > 0.999 between successive ones whose sum has a leading share below 0.99",
    reading="The evidence given is the cosine between successive steps; Corollary 15.3 needs one direction for all. "
    "A direction that turns by one degree a step has |cos| = 0.9998 throughout and a leading share of one half after "
    "360 steps. On the reading that 'successive' compares any two steps, it would hold.",
    met="unknown: only the cosine between successive steps is reported, not that between distant ones",
    statement=lambda share, degrees: share > 0.99,
    condition=Amended("the direction does not drift", lambda share, degrees: None if degrees else share > 0.99),
    planted={"full rank": lambda share, degrees: share < 0.6},
)
def successive_alignment(statement):
    """The leading share after 360 steps that turn by no degree and by one."""
    yield from satisfies(
        statement,
        grid(degrees=[0, 1]),
        lambda degrees: leading_share(rotating_update(360, degrees)),
        method="numerical",
    )


def head_share(scale):
    """r1 of the head's update, and its share of the squared norm, when the inner layer's inputs are scaled.

    A head on h = W x: its input x times ``scale`` and W over it leave every h, and so the head's update, as they are.
    """
    rng = np.random.default_rng(0)
    tokens = kinds(0, separated=False)
    head, inner = rng.normal(size=(5, 4)), rng.normal(size=(4, 4)) / scale
    inputs = np.linalg.solve(inner, tokens.states.T).T
    update = gradient(tokens)
    below = np.einsum("n,nv,vd,nx->dx", tokens.chances, tokens.errors, head, inputs)
    return leading_share(update), float(np.sum(update**2) / (np.sum(update**2) + np.sum(below**2)))


@claim(
    "fade:sec-15-2-last-layers",
    where="Section 15.2, Causal verification",
    says="Proposition 15.1 predicts that asymmetric learning is concentrated in the last layers.",
    refuted_by="two networks whose heads have one and the same update of rank 1, and whose inner layers have little of "
    "the whole update in one and nearly all in the other",
    reading="The proposition is about the shape of the output head's update and has no word on any other layer. That "
    "the update concentrates in the head is measured (Table 9, Figure 8), and resetting the last four layers tests "
    "where the gains lie; neither tests the proposition. A prediction from both, the proposition and the measured "
    "share of the head, is not refuted. The reason given, that the signal starts at the head and runs backward, is "
    "true of both networks.",
    severity=CONDITIONS,
    caveat="Only the derivation is refuted; that the gains lie in the last layers is what the authors measured.",
    statement=lambda shares, scale: shares[0] < 0.99 or shares[1] > 0.5,
    correction=Amended(
        "r1 of the head says nothing of the head's share of the update",
        lambda shares, scale: shares[0] > 0.99 and (shares[1] > 0.5) == (scale < 1),
    ),
    planted={"in the inner layers": lambda shares, scale: shares[0] < 0.99 or shares[1] < 0.5},
)
def share_of_the_head(statement):
    """Two layers whose head has an update of rank 1, the inner layer's input being scaled down and up."""
    yield from satisfies(
        statement,
        grid(scale=[0.02, 50.0]),
        head_share,
        method="numerical",
        names=("r1 of the head's update", "its share of the squared norm"),
    )
