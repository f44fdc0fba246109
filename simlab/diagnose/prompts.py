"""Answer what the estimates tell of prompts: how hard they are, which groups teach, which solutions, what next."""

import math

from simlab.diagnose.diagnosis import Diagnosis, Finding
from simlab.diagnose.estimate import IntervalEstimate, share, shown
from simlab.diagnose.reading import Reading
from simlab.diagnose.recommend import PASS_AT
from simlab.diagnose.solve_rates import SHARES_BELOW

HARD, EASY = 0.1, 0.9  # solve rates
FEW, MANY = 0.1, 0.25  # groups that teach without the typical solution
FEWEST_MISSED = 5  # groups all right or all wrong that chance would have to hide
HOW_OFTEN = ("at most one time in four", "one to three times in four", "more than three times in four")


def how_hard(_: Reading, result: Diagnosis) -> Finding:
    """Say whether most prompts are too hard or too easy to teach much."""
    rates = result.solve_rates
    if not rates.below:
        sentence = f"One rollout a prompt: only pass@1 can be said, {shown(rates.mean, form='.2g')}."
        return Finding("are the prompts too hard, or too easy?", sentence, 0.15, (("pass@1", rates.mean),))
    hard, below = rates.below[SHARES_BELOW.index(HARD)], rates.below[SHARES_BELOW.index(EASY)]
    easy = below.linear(below.name, 1.0, -1.0)
    if hard.low > 0.5:
        sentence = f"The prompts are hard for this policy: {share(hard)} are solved at most one time in ten."
        concern, advice = 0.5, " Easier ones among them would teach more a rollout."
    elif easy.low > 0.5:
        sentence = f"The prompts are easy for this policy: {share(easy)} are solved more than nine times in ten."
        concern, advice = 0.5, " Harder ones would teach more a rollout."
    else:
        kinds = f"{share(hard)} are solved at most one time in ten, {share(easy)} more than nine"
        sentence, concern, advice = f"The prompts are mixed: {kinds}.", 0.15, ""
    rows = (
        ("mean solve rate", rates.mean),
        ("prompts solved at most 1 time in 10", hard),
        ("prompts solved more than 9 times in 10", easy),
    )
    return Finding("are the prompts too hard, or too easy?", sentence + advice, concern, rows)


def which_group_size(_: Reading, result: Diagnosis) -> Finding | None:
    """Say whether the same rollouts would teach more in groups of another size."""
    advice = result.recommendation
    if advice is None or _is_filtered(result):
        return None
    best, size = advice.recommended, advice.group_size
    splits = {split.group_size: split for split in advice.splits}
    if best is not None:
        better, now = shown(best.teaching, form=".2g"), shown(splits[size].teaching, form=".2g")
        sentence = f"Of the same {advice.rollouts:,} rollouts a step, {better} groups of {best.group_size} would teach,"
        sentence += f" where {now} groups of {size} do. Take it for pass@1 alone: where it was tried, pass@64 fell."
    else:
        sentence = f"Groups of {size} may stay: {advice.reason}."
    named = sorted({size // 2, size, 2 * size, best.group_size if best else size} & splits.keys())
    rows: list[tuple[str, IntervalEstimate | str]] = [
        (f"groups that teach, {splits[each].prompts} x {each}" + " (in use)" * (each == size), splits[each].teaching)
        for each in named
    ]
    rows += [("to try", command) for command in result.commands]
    return Finding("would another group size teach more?", sentence, 0.35 if best else 0.1, tuple(rows))


def _is_filtered(result: Diagnosis) -> bool:
    """Return True where no group is all right or all wrong, though some should be: these prompts were chosen."""
    assert result.groups is not None  # there is advice
    observed = result.groups.observed
    expected = next(sizes.dead for sizes in result.groups.at_sizes if sizes.group_size == observed.group_size)
    return observed.all_right + observed.all_wrong == 0 and observed.groups * expected.low > FEWEST_MISSED


def who_is_heard(_: Reading, result: Diagnosis) -> Finding | None:
    """Say from which prompts the gradient comes."""
    if result.groups is None:
        return None
    masses = result.groups.gradient_masses
    of_prompts = masses[0].of_prompts
    if math.isnan(of_prompts[0].value):
        return None
    most = max(range(len(of_prompts)), key=lambda index: of_prompts[index].value)
    kind, most_of = f"prompts that are solved {HOW_OFTEN[most]}", share(of_prompts[most])
    gradient = f"of its gradient under {masses[0].estimator}"
    if of_prompts[most].low > max(each.high for each in of_prompts if each is not of_prompts[most]):
        sentence, concern = f"The update listens most to {kind}: {most_of} {gradient} comes from them.", 0.12
    else:
        sentence, concern = f"Whom the update listens to is open: {kind} give {most_of} {gradient}.", 0.05
    rows = tuple((f"their share under {each.estimator}", each.of_prompts[most]) for each in masses[:4])
    return Finding("who does the update listen to?", sentence, concern, rows)


def would_more_rollouts_solve_more(_: Reading, result: Diagnosis) -> Finding | None:
    """Say how many prompts are solved within k rollouts."""
    curve = result.pass_at_k
    if result.groups is None:
        return None
    within = f"Within {curve.k[-1]} rollouts, {share(curve.carried[-1])} of the prompts are solved"
    rows = [("pass@1", curve.carried[0]), *([(f"pass@{curve.k[-1]}", curve.carried[-1])] if len(curve.k) > 1 else [])]
    if curve.beyond:
        within += f"; within {curve.beyond_k[-1]} it would be {share(curve.beyond[-1])}"
        rows.append((f"pass@{curve.beyond_k[-1]}, extrapolated", curve.beyond[-1]))
    return Finding("would more rollouts solve more?", f"{within}.", 0.14, tuple(rows))


def are_solutions_lost(_: Reading, result: Diagnosis) -> Finding | None:
    """Say how much of the right answers was never drawn, and how often groups teach without the typical one."""
    if result.unseen is None or result.groups is None:
        return None
    window, typical = result.unseen.windows[-1], result.unseen.typical
    against = typical.against[typical.group_sizes.index(result.groups.observed.group_size)]
    if not window.distinct or math.isnan(against.value):
        return None
    if against.low > MANY:
        verdict, concern = "Solutions are lost from sight, and larger groups would hold them", 0.45
    elif max(against.low, window.share.low) > FEW:
        verdict, concern = "Some solutions are lost from sight", 0.2
    elif against.high < FEW:
        verdict, concern = "Few solutions are lost from sight", 0.13
    else:
        verdict, concern = "Whether solutions are lost from sight is open", 0.13
    sentence = f"{verdict}: {share(against)} of the groups that teach lack the prompt's typical solution, and "
    sentence += f"{share(window.share)} of the right answers' probability was never drawn."
    rows = (
        ("right answers' probability never drawn", window.share),
        ("different right answers drawn", f"{window.distinct:,}"),
        ("groups teach against the typical solution", against),
    )
    return Finding("are solutions lost from sight?", sentence, concern, rows)


def what_comes_next(_: Reading, result: Diagnosis) -> Finding | None:
    """Say what a walk through the steps predicts, and how well it did on the log itself."""
    ahead = result.prediction
    rate = ahead.next_steps[0]
    if math.isnan(rate.low):
        return None
    sentence = "If the steps go on as they did, the mean solve rate of "
    sentence += f"the next {ahead.steps} is {shown(rate, form='.2g')}."
    scored = [entry.held for entry in ahead.scored if math.isfinite(entry.predicted.low)]
    if scored:
        sentence += f" {sum(scored)} of {len(scored)} such intervals hold what came in the last {ahead.share:.0%}."
    rows = tuple((f"{estimate.name}, next {ahead.steps} steps", estimate) for estimate in ahead.next_steps[:3])
    return Finding("what comes next?", sentence, 0.1, rows)


def would_a_weight_help(_: Reading, result: Diagnosis) -> Finding | None:
    """Name the simulated weights that surely raise pass@1 and pass@k."""
    effects = result.weights
    if effects is None:
        return None
    first, many = effects.for_pass_at_1, effects.for_pass_at_k
    rows = []
    rows += [(f"pass@1, more by {first.weight}", first.pass_at_1)] if first else []
    rows += [(f"pass@{PASS_AT}, more by {many.weight}", many.pass_at_k)] if many else []
    names = " and ".join(dict.fromkeys(effect.weight for effect in (first, many) if effect))
    sentence = f"Simulated on these prompts, {names or 'no difficulty weight'} surely ends higher."
    return Finding("would a difficulty weight help?", sentence, 0.3 if names else 0.11, tuple(rows))
