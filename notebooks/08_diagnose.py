"""From a log of TRL's to a decision

What ``simlab diagnose`` reads out of one real log, step by step: solve rates, dead groups, solutions and a budget.
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="From a log of TRL's to a decision")

with app.setup(hide_code=True):
    import marimo as mo
    import numpy as np

    from simlab.bundled import SAMPLE_LOG
    from simlab.diagnose.dead_groups import SIZES, estimate_groups, observe_groups
    from simlab.diagnose.estimate import share, shown
    from simlab.diagnose.predict import score
    from simlab.diagnose.reading import read_log
    from simlab.diagnose.recommend import recommend
    from simlab.diagnose.solve_rates import fit_population, mean_solve_rate, share_below, split_windows
    from simlab.diagnose.tail_misses import estimate_tail_misses, typical_solution
    from simlab.diagnose.unseen import count_solutions, estimate_unseen_mass

    LEVEL, SEED = 0.9, 0


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # From a log of TRL's to a decision

    After this notebook you will be able to

    - read any trainer's log as groups, and say what is in it;
    - tell solve rates from raw frequencies, and say how many groups would be dead at another size;
    - say what is known of solutions that were never drawn;
    - read a recommendation with its uncertainty, and see predictions scored on the log itself.

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


if __name__ == "__main__":
    app.run()
