"""From a log of TRL's to a decision

What ``simlab diagnose`` reads out of one real log, step by step: solve rates, dead groups, solutions, a budget; and,
from a probe's measurements, which prompts harm one another.
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="From a log of TRL's to a decision")

with app.setup(hide_code=True):
    import tempfile
    from pathlib import Path

    import marimo as mo
    import matplotlib.pyplot as plt
    import numpy as np

    from simlab.bundled import SAMPLE_LOG
    from simlab.diagnose.dead_groups import SIZES, estimate_groups, observe_groups
    from simlab.diagnose.estimate import share, shown
    from simlab.diagnose.interference import harm_by_source, mean_changes
    from simlab.diagnose.interference_map import draw_map
    from simlab.diagnose.predict import score
    from simlab.diagnose.reading import read_log
    from simlab.diagnose.recommend import recommend
    from simlab.diagnose.solve_rates import fit_population, mean_solve_rate, share_below, split_windows
    from simlab.diagnose.tail_misses import estimate_tail_misses, typical_solution
    from simlab.diagnose.unseen import count_solutions, estimate_unseen_mass
    from simlab.interference import Record, measure, read_records, rollout_weights, write_record
    from simlab.interference.head import head_features, residuals
    from simlab.methods import method
    from simlab.plotting import STYLE
    from simlab.problems import interference
    from simlab.rollouts import Rollouts

    LEVEL, SEED = 0.9, 0
    plt.style.use(STYLE)
    plt.switch_backend(plt.get_backend())  # Jupyter draws figures only once a backend is loaded


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # From a log of TRL's to a decision

    After this notebook you will be able to

    - read any trainer's log as groups, and say what is in it;
    - tell solve rates from raw frequencies, and say how many groups would be dead at another size;
    - say what is known of solutions that were never drawn;
    - read a recommendation with its uncertainty, and see predictions scored on the log itself;
    - measure which prompts harm one another, and read the map.

    `simlab diagnose LOG` answers in five sentences; here are the steps behind them.
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## The log

    A small model was trained by TRL's own `GRPOTrainer` on countdown, 16 prompts a step in groups of 16, from a start
    that solves one problem in thirty. `log_completions=True` left a file a step.
    Here they are as one, the sample that comes with simlab.
    """)
    return


@app.cell
def _():
    reading = read_log([SAMPLE_LOG])
    log = reading.log
    mo.plain_text(
        f"{int(log.group_size.sum()):,} rollouts in {len(log.prompt)} groups of {observe_groups(log).group_size}, "
        f"{log.correct.sum() / log.group_size.sum():.1%} correct"
    )
    return (log,)


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Solve rates

    The policy changes, so the present is the last quarter of the steps. A prompt with 0 of 16 right is not one of solve
    rate 0: the distribution of solve rates is fitted to all counts, and intervals hold every distribution that explains
    them as well.
    """)
    return


@app.cell
def _(log):
    last = split_windows(log, 4)[-1]
    now = fit_population(last, LEVEL)
    unsolved = now.estimate("p <= 0.01", share_below(0.01))
    raw = float((last.correct == 0).mean())
    assert unsolved.low < raw, "some prompts without a right answer are solved now and then"
    mo.plain_text(
        f"mean solve rate          {shown(mean_solve_rate(now))}\n"
        f"prompts with p <= 0.01   {share(unsolved)}; with 0 of 16 right {raw:.0%}"
    )
    return last, now


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Dead groups

    A group whose rollouts are all right or all wrong teaches nothing. At the size in use that is counted; at another it
    follows from the solve rates, $E[(1-p)^G + p^G]$.
    """)
    return


@app.cell
def _(last, now):
    seen = observe_groups(last)
    groups = estimate_groups(seen, now, "grpo")
    dead = {own.group_size: own.dead for own in groups.at_sizes if own.group_size in (4, 16, 64)}
    counted = seen.all_right + seen.all_wrong
    assert dead[16].low <= counted <= dead[16].high
    assert dead[4].low > dead[64].high, "larger groups are dead less often"
    mo.plain_text("\n".join(f"G = {size:<3} {share(own)}" for size, own in dead.items()))
    return (groups,)


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Solutions

    Two right answers of a prompt are one solution if their canonical forms are equal. What share of the right answers
    was never drawn? And which groups move the policy without having drawn the typical solution, so that they teach
    against it (Lemma 3.1 of F-GRPO)?
    """)
    return


@app.cell
def _(last):
    drawn = count_solutions(last)
    assert drawn is not None
    left, usual = estimate_unseen_mass(drawn, LEVEL), typical_solution(drawn, LEVEL, SEED, SIZES)
    missed = estimate_tail_misses(usual, (16,))
    assert 0 < left.share.low < left.share.high < 0.5
    assert missed.mass.value <= missed.solve_rate.value, "a solution is no likelier than all of them together"
    mo.plain_text(
        f"never drawn               {share(left.share)} of the right answers' probability\n"
        f"typical solution          {shown(missed.mass)}, where p is {shown(missed.solve_rate)}\n"
        f"taught against by         {share(missed.against[0])} of teaching groups"
    )
    return (usual,)


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## A budget

    256 rollouts a step can be 128 prompts in groups of 2, or 4 in groups of 64. A split is recommended only if surely
    more groups teach, and surely more of them hold the typical solution. That counts groups; how much a group of 2
    teaches beside one of 16, a log does not tell. Take it as advice for pass@1: where it was tested by training, pass@1
    rose and pass@64 fell.
    """)
    return


@app.cell
def _(groups, now, usual):
    advice = recommend(now, groups, usual, 256)
    if advice.recommended is not None:
        assert advice.recommended.gain.low > 0
        assert advice.recommended.net.low > 0
    mo.plain_text(
        "\n".join(
            f"{own.prompts:>3} x {own.group_size:<3} teach {shown(own.teaching)}; more than now {shown(own.gain, '+')}"
            for own in advice.splits
        )
        + f"\n{advice.reason}"
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Is it right?

    Predictions of the last third of the steps, from the others, beside what came.
    """)
    return


@app.cell
def _(log):
    scored = score(log, 1 / 3, LEVEL)
    held = np.array([own.held for own in scored])
    assert held.mean() >= 0.5, "90 % intervals, of six quantities that are not independent"
    mo.plain_text("\n".join(f"{own.predicted.name:<32} {shown(own.predicted)}; came {own.truth:.3g}" for own in scored))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Who harms whom

    No log says what prompts share. A probe measures it: how far the update of each prompt moves the solve rate of every
    other, to first order. Here it is beside what happens, in the simulator's problem `interference`: nine easy prompts
    have one answer, which is wrong for three hard ones, and all share features. Of each rollout the probe reads the
    gradient of its log-probability by the head.
    """)
    return


@app.cell
def _():
    problem = interference(
        12, 32, overlap=0.6, easy_share=0.75, easy_rate=0.4, hard_rate=0.1, distractor_share=0.8
    ).listed()
    names = [f"{'hard' if hard else 'easy'} {row}" for row, hard in enumerate(~problem.correct[:, 0])]

    def policies(head):
        logits = problem.features @ head.T
        scores = np.exp(logits - logits.max(axis=1, keepdims=True))
        return scores / scores.sum(axis=1, keepdims=True)

    def solve_rates(head):
        return (policies(head) * problem.correct).sum(axis=1)

    def measured(head, random, size=64):
        """Measure rollouts of every prompt; also return the update that a batch of them makes."""
        policy = policies(head)
        actions = (random.random((len(policy), size, 1)) > policy.cumsum(axis=1)[:, None, :-1]).sum(axis=-1)
        hidden = np.broadcast_to(problem.features[:, None, None], (*actions.shape, 1, problem.features.shape[1]))
        residual = residuals(hidden @ head.T, actions[..., None], 1.0, np.eye(len(head)))
        features = head_features(hidden, residual, np.ones((*actions.shape, 1), bool))
        correct = np.take_along_axis(problem.correct, actions, axis=1)
        weights, without = rollout_weights(method("dr_grpo"), Rollouts(correct.astype(float)))
        update = np.einsum("nr,nrf->f", weights, features).reshape(-1, len(head)).T
        return measure([features], correct, weights, without), correct, update

    return measured, names, problem, solve_rates


@app.cell
def _(measured, names, problem, solve_rates):
    start, draws = np.array(problem.weights), np.random.default_rng(SEED)
    found, _, _ = measured(start, draws)
    others = np.mean([measured(start, draws)[2] for _ in range(20)], axis=0)
    came = (solve_rates(start + 1e-3 * others) - solve_rates(start)) / 1e-3
    errors = (found.push.net - came) / found.error.net
    assert abs(errors).max() < 4, "what other rollouts do is what it says, within its standard errors"
    assert (came[-3:] < 0).all()
    mo.plain_text(
        "\n".join(
            f"{name:<8} {net:+.4f} +- {error:.4f}; by other rollouts {true:+.4f}"
            for name, net, error, true in zip(names, found.push.net, found.error.net, came, strict=True)
        )
    )
    return (start,)


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    A trainer writes such a measurement now and then (`simlab train --param probe.every=10`, a callback for TRL, a
    setting for verl), and `simlab diagnose` reads the last eight. Here are eight steps. The mean solve rate rises; the
    probe names the prompts that fall, and those who push them.
    """)
    return


@app.cell
def _(measured, names, solve_rates, start):
    random, head, rate = np.random.default_rng(SEED), start, 0.5
    with tempfile.TemporaryDirectory() as folder:
        for step in range(1, 9):
            kernel, right, update = measured(head, random)
            facts = {
                "step": step, "estimator": "head", "preconditioner": "none", "optimizer": "sgd", "method": "dr_grpo",
                "learning_rate": rate, "clip": 1.0, "updates": 1, "sketch": 0, "group_size": 64, "temperature": 1.0,
            }  # fmt: skip
            every, counts = np.ones(len(names), bool), np.full(len(names), 64)
            write_record(Path(folder), Record(facts, names, every, counts, right.mean(axis=1), kernel))
            head = head + rate * update
        records = read_records(Path(folder), "head")
    changes = mean_changes(records)
    lost = {changes.prompts[row] for row in np.flatnonzero(changes.surely(LEVEL))}
    sources = harm_by_source(records, lost)
    harmful = [sources.prompts[row] for row in np.flatnonzero(sources.surely(LEVEL))]
    moved = solve_rates(head) - solve_rates(start)
    assert lost == {"hard 9", "hard 10", "hard 11"}
    assert all(name.startswith("easy") for name in harmful)
    assert moved.mean() > 0
    assert (moved[-3:] < 0).all()
    mo.plain_text(
        f"pushed down      {share(changes.share_below('in danger', LEVEL))}: {', '.join(sorted(lost))}\n"
        f"by               {', '.join(harmful)}\n"
        f"mean solve rate  {moved.mean():+.3f}; of the hard prompts {moved[-3:].mean():+.3f}"
    )
    return (records,)


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The map that `simlab diagnose --html` draws: the update of a row moves the column, red down and blue up.
    """)
    return


@app.cell
def _(records):
    draw_map(records)
    return


if __name__ == "__main__":
    app.run()
