"""Group size and tail miss: which rare answers a group leaves out

F-GRPO's Lemma 3.1 ``[f-grpo:lemma-3.1]``, its parts ``[f-grpo:eq-7]``, and the simulator beside them.
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="Group size and tail miss")

with app.setup(hide_code=True):
    import marimo as mo
    import matplotlib.pyplot as plt
    import numpy as np
    from matplotlib.figure import Figure

    import simlab
    from simlab.plotting import LABELS, STYLE
    from simlab.theory import active, conditional_tail_miss, tail_miss

    plt.style.use(STYLE)
    plt.switch_backend(plt.get_backend())  # Jupyter draws figures only once a backend is loaded


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # Group size and tail miss

    After this notebook you will be able to

    - say for any group size how often a group updates the policy without having seen a rare correct answer;
    - tell the parts of that probability apart, and find the group size at which it is largest;
    - check the formula against the simulator, and see what the missed answers lose.
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## The lemma

    A rollout is correct with probability $\mu$, and with probability $\tau \le \mu$ it is the rare correct answer that
    we care about. Three things can happen to a group of $G$:

    - all rollouts are alike: nothing is learned;
    - the group is *active*, it holds both outcomes, and it holds the rare answer;
    - the group is active and *misses* the rare answer. Then others are pushed, and the rare one pays.

    Lemma 3.1 gives the third: $(1 - \tau)^G - (\mu - \tau)^G - (1 - \mu)^G$. The first term is "the rare answer is not
    drawn"; the two others take away the groups that miss it but are all correct, or all wrong.
    """)
    return


@app.cell
def _():
    correct = mo.ui.slider(0.02, 0.98, step=0.02, value=0.7, label=r"correct mass $\mu$", show_value=True)
    correct
    return (correct,)


@app.cell
def _():
    decades = mo.ui.slider(0.3, 4, step=0.1, value=1.7, label=r"decades that $\tau$ is below $\mu$", show_value=True)
    decades
    return (decades,)


@app.cell
def _(correct, decades):
    mu = correct.value
    tau = mu * 10 ** -float(decades.value)
    sizes = np.unique(np.rint(2 ** np.arange(0, 16.1, 0.25)))
    missed = tail_miss(sizes, mu, tau)
    parts = {
        r"not drawn, $(1 - \tau)^G$": (1 - tau) ** sizes,
        r"all correct without it, $(\mu - \tau)^G$": (mu - tau) ** sizes,
        r"all wrong, $(1 - \mu)^G$": (1 - mu) ** sizes,
    }
    not_drawn, all_correct, all_wrong = parts.values()

    assert np.allclose(missed, not_drawn - all_correct - all_wrong, atol=1e-12), "the parts make up the whole"
    assert missed[0] < 1e-12, "a group of one is never active"
    assert (missed <= active(sizes, mu) + 1e-12).all(), "what is missed is active"
    return missed, mu, parts, sizes, tau


@app.cell
def _(missed, mu, parts, sizes, tau):
    lemma_figure = Figure(figsize=(6.8, 3.0), layout="constrained")
    lemma_panel = lemma_figure.subplots()
    for (name, part), dash in zip(parts.items(), ("--", ":", "-."), strict=True):
        lemma_panel.plot(sizes, part, dash, label=name)
    lemma_panel.plot(sizes, missed, "k-", label="active and missed")
    lemma_panel.fill_between(sizes, missed, color="k", alpha=0.08, linewidth=0)
    lemma_panel.set_xscale("log", base=2)
    lemma_panel.set(
        xlabel=LABELS["group_size"],
        ylabel="probability",
        ylim=(0, 1.02),
        title=rf"$\mu$ = {mu:g}, $\tau$ = {tau:.2g}",
    )
    lemma_figure.legend(*lemma_panel.get_legend_handles_labels(), loc="outside right center")
    lemma_figure
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Small groups are seldom active, large ones draw the rare answer. In between lies the worst group size. It hardly
    moves as $\tau$ shrinks; what moves is the end of the dangerous range, as $1 / \tau$: an answer that is ten times as
    rare takes a group ten times as large to be drawn as surely.
    """)
    return


@app.cell
def _(mu, tau):
    every_size = np.arange(1, 2**17)
    risk = tail_miss(every_size, mu, tau)
    worst = int(every_size[risk.argmax()])
    rising = np.diff(risk) > 0
    safe = int(np.ceil(np.log(0.1) / np.log1p(-tau)))

    assert rising[: worst - 1].all(), "the risk rises up to the worst size"
    assert not rising[worst:].any(), "and does not rise after it"
    assert tail_miss(safe, mu, tau) <= 0.1, "a group that draws the answer nine times in ten seldom misses it"
    mo.md(
        f"The worst group size is **G = {worst}**: {risk.max():.1%} of its groups update the policy without the rare "
        f"answer, which is {conditional_tail_miss(worst, mu, tau):.1%} of the active ones. "
        f"From G = {safe:,} on, at the latest, it is below 10 %."
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## The simulator counts

    The same three kinds of rollouts, drawn: a policy with the rare answer, one other correct answer and one wrong one,
    that learns at rate 0, so that the probabilities stay what they are. It draws 4000 groups of each size.
    """)
    return


@app.cell
def _(mu, tau):
    drawn_sizes = (2, 8, 32, 128)
    groups = 4 * 1000
    three = simlab.problems.custom(logits=np.log([tau, mu - tau, 1 - mu]).tolist(), correct=[0, 1], target=[0])
    still = {"steps": 1000, "record_every": 1000, "optimizer_parameters": {"learning_rate": 0.0}}
    counted = [simlab.simulate(three, "dr_grpo", group_size=size, **still) for size in drawn_sizes]
    shares = np.array([float(run.tail_miss_rate[:, -1].mean()) for run in counted])
    expected = tail_miss(np.array(drawn_sizes), mu, tau)
    error = np.sqrt(expected * (1 - expected) / groups)

    assert (np.abs(shares - expected) <= 5 * error + 1e-6).all(), "the counts are those of the lemma, to 5 errors"
    return drawn_sizes, error, expected, groups, shares


@app.cell
def _(drawn_sizes, error, groups, missed, shares, sizes):
    count_figure = Figure(figsize=(4.6, 2.8), layout="constrained")
    count_panel = count_figure.subplots()
    count_panel.plot(sizes, missed, "k-", label="Lemma 3.1")
    count_panel.errorbar(
        drawn_sizes, shares, 1.96 * error, fmt="o", markersize=5, color="C1", label=f"share of {groups} groups"
    )
    count_panel.set_xscale("log", base=2)
    count_panel.set(xlabel=LABELS["group_size"], ylabel="active and missed", ylim=(-0.02, 1.02))
    count_panel.legend()
    count_figure
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What the missed answers lose

    Now the policy learns. 1000 answers, 100 of them correct, one of these likely and the others rare; 1000 steps at
    each group size. Small groups keep most of the rare answers and learn little; large groups keep them and learn; in
    between the correct mass gathers on what was drawn. The lemma says where the risk is; how much is lost takes the
    simulator.
    """)
    return


@app.cell
def _():
    learned_sizes = (2, 16, 128, 1024)
    learned = simlab.sweep("grpo", actions=1000, correct=100, group_size=learned_sizes, record_every=1000).squeeze()
    first, last = (learned.isel(step=step).mean("seed") for step in (0, -1))
    retained, gained = last.retained_mass.values, (last.q_pos - first.q_pos).values

    assert 0 < retained.argmin() < len(learned_sizes) - 1, "the largest loss is at neither end"
    assert (gained > 0).all(), "every group size learns"
    return last, learned_sizes


@app.cell
def _(last, learned_sizes):
    problem = simlab.problems.anchored(1000, 100).listed()
    weights = np.exp(problem.logits)
    probability = weights / weights.sum()
    risk_of_one = tail_miss(
        np.array(learned_sizes), probability[problem.correct].sum(), probability[problem.target].sum()
    )

    loss_figure = Figure(figsize=(6.8, 2.8), layout="constrained")
    result_panel, risk_panel = loss_figure.subplots(1, 2)
    for metric, label, line in (("q_pos", LABELS["q_pos"], "--"), ("retained_mass", LABELS["retained_mass"], "-")):
        result_panel.plot(learned_sizes, last[metric], line, marker="o", label=label)
    risk_panel.plot(learned_sizes, risk_of_one, "k-", marker="o")
    for each in (result_panel, risk_panel):
        each.set_xscale("log", base=2)
        each.set(xlabel=LABELS["group_size"], ylim=(-0.03, 1.03))
    result_panel.legend()
    result_panel.set_title("after 1000 steps", loc="left")
    risk_panel.set_title("risk of one rare answer at the start", loc="left")
    loss_figure
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Where to go next

    `simlab sweep --preset f-grpo-fig2` is this at the paper's size, `simlab where f-grpo lemma-3.1` lists the code, the
    check and the figures of the lemma. Notebook 04 shows how its check works.
    """)
    return


if __name__ == "__main__":
    app.run()
