"""A tour: one weight, from its formula to a trained model

The focal weight ``[f-grpo:eq-13]`` as masses, in the simulator, beside a claim ``[f-grpo:lemma-3.1]``, and in training.
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="A tour of simlab")

with app.setup(hide_code=True):
    import tempfile
    from pathlib import Path

    import marimo as mo
    import matplotlib.pyplot as plt
    import numpy as np
    import pandas as pd
    from matplotlib.figure import Figure

    import simlab
    from simlab.bundled import make_importable
    from simlab.llm.compare import comparison_table, read_run
    from simlab.llm.training.run import train
    from simlab.llm.training.settings import TrainingSettings
    from simlab.plotting import LABELS, STYLE, draw_band

    make_importable()
    from paper_checks.claim import load
    from paper_checks.verdict import judge, stands, weigh

    plt.style.use(STYLE)
    plt.switch_backend(plt.get_backend())  # Jupyter draws figures only once a backend is loaded


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # A tour of simlab

    In five minutes you will be able to

    - give rollouts the weight of a paper, and see how much it puts on successes and on failures;
    - watch in an exact simulator what that weight does to rare correct answers;
    - put a claim of the paper to the test;
    - train a language model with the very same weight.

    What you see was run before. Run all (▶ at the lower right); then drag a slider, and everything that depends on it
    is computed again.
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## A weight

    A prompt is answered $G$ times, and $X$ of the answers are correct. GRPO weighs each by
    $A_i = (r_i - \text{mean}) / \text{std}$. F-GRPO turns easy prompts down: it multiplies by $(1 - X/G)^\gamma$.
    """)
    return


@app.cell
def _():
    gamma = mo.ui.slider(0, 3, step=0.25, value=1, label=r"focal exponent $\gamma$", show_value=True)
    gamma
    return (gamma,)


@app.cell
def _():
    solved = mo.ui.slider(1, 7, value=5, label="correct answers X of 8", show_value=True)
    solved
    return (solved,)


@app.cell
def _(gamma, solved):
    rewards = [1] * solved.value + [0] * (8 - solved.value)
    plain = simlab.advantages("grpo", rewards)
    focal = simlab.advantages("f_grpo", rewards, gamma=gamma.value)

    assert abs(focal.sum()) < 1e-12, "the weights of a group cancel"
    assert np.allclose(focal, (1 - solved.value / 8) ** gamma.value * plain), "F-GRPO is GRPO times (1 - X/G)^gamma"
    pd.DataFrame(
        {"rollout": range(1, 9), "reward": rewards, "GRPO": plain.round(3), "F-GRPO": focal.round(3)},
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Summed over the successes of a group and divided by $G$, the advantages are the mass $m_S$ that pulls the policy
    towards them; summed over the failures, the mass $m_F$ that pushes it away. Here the two are equal at every solve
    rate.
    """)
    return


@app.cell
def _(gamma):
    grpo_mass = simlab.theory.masses("grpo", 64)
    focal_mass = simlab.theory.masses("f_grpo", 64, gamma=gamma.value)
    rate = grpo_mass.successes / 64

    assert np.allclose(focal_mass.success, focal_mass.failure), "both masses are one"
    mass_figure = Figure(figsize=(4.6, 2.6), layout="constrained")
    mass_panel = mass_figure.subplots()
    mass_panel.plot(rate, grpo_mass.success, "--", label="GRPO")
    mass_panel.plot(rate, focal_mass.success, label=rf"F-GRPO, $\gamma$ = {gamma.value:g}")
    mass_panel.set(xlabel="solve rate X/G", ylabel="mass $m_S = m_F$", ylim=(0, 0.55))
    mass_panel.legend()
    mass_figure
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## The simulator

    A softmax policy over 1000 answers. One correct answer is likely, 99 more are rare, the others are wrong. Each of
    600 steps draws a group of 64 and follows the weights. The correct mass rises; the question is whether the rare
    correct answers keep theirs: $M_{ret}$ is the share of the initial correct mass that is still in place. Bands are
    95 % over four seeds.
    """)
    return


@app.cell
def _(gamma):
    problem = simlab.problems.anchored(1000, 100)
    runs = {
        exponent: simlab.simulate(problem, f"f_grpo(gamma={exponent})", group_size=64, steps=600, record_every=20)
        for exponent in (0.0, float(gamma.value))
    }

    assert all((run.q_pos[:, -1] > run.q_pos[:, 0]).all() for run in runs.values()), "both learn, in every seed"
    return (runs,)


@app.cell
def _(runs):
    run_figure = Figure(figsize=(6.8, 2.6), layout="constrained")
    for panel, metric in zip(run_figure.subplots(1, 2), ("q_pos", "retained_mass"), strict=True):
        for exponent, run, dash in zip(runs, runs.values(), ("--", "-"), strict=False):
            draw_band(panel, run.step.values, run[metric], label=rf"$\gamma$ = {exponent:g}", linestyle=dash)
        panel.set(xlabel="step", ylabel=LABELS[metric], ylim=(-0.03, 1.03))
        panel.legend()
    run_figure
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## A claim

    F-GRPO's Lemma 3.1 says how often a group updates the policy without having drawn a rare answer. `paper_checks` has
    a check for each claim of the five papers. It finds the truth by itself, in several ways, and the claim may come out
    wrong. To see that it can, the check is also given a wrong formula.
    """)
    return


@app.cell
def _():
    lemma = load()["f-grpo:lemma-3.1"]
    verdict = judge(lemma)
    mutated = weigh(lemma, lemma.planted["a sign"])

    assert verdict.verdict == "holds", "the lemma stands"
    assert not stands(mutated), "the same check refutes the formula with a wrong sign"
    mo.md(
        f"$${lemma.formula}$$\n\n**{verdict.verdict}**\n\n"
        + "\n".join(f"- {piece.method}: {piece.figures}" for piece in verdict.evidence)
        + "\n\nWith a sign changed:\n\n"
        + "\n".join(f"- {piece.method}: {piece.counterexample}" for piece in mutated if piece.stands is False)
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## A model

    The same two weights, with $\gamma = 1$, train a small transformer to add two digits: first on worked sums, then by
    its own attempts. Twenty steps settle nothing between two methods; notebook 06 compares them at more length.
    """)
    return


@app.cell
def _():
    settings = TrainingSettings.from_data(
        {
            "task": {"name": "addition", "digits": 1, "evaluation_size": 10},
            "model": {"hidden_size": 32, "intermediate_size": 64, "num_layers": 1, "num_heads": 2, "num_kv_heads": 1},
            "warm_start": {"steps": 200, "batch": 64, "learning_rate": 3e-3},
            "rl": {"steps": 20, "prompts": 16, "group_size": 16, "learning_rate": 1e-3},
            "evaluation": {"samples": 16},
            "record": {"instruments_every": 1000},
            "arms": ["grpo", "f_grpo(gamma=1.0)"],
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        train(settings, Path(folder))
        trained = read_run(folder)
    table = comparison_table([trained])

    for arm, seeds in trained.arms.items():
        reward = seeds[0].metrics["reward"]
        assert reward[-5:].mean() > reward[:5].mean(), f"{arm}: its own attempts raise the reward"
    mo.plain_text(table)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Where to go next

    - **02** how group size decides which rare answers are missed
    - **03** any weight as two masses, and a weight of your own in ten lines
    - **04** the referee report: which claims of the papers hold, and when
    - **05** the sign axis and the difficulty axis on a bank of prompts
    - **06** train a small model and compare pass@k
    - **07** take your weight to TRL or verl
    - **08** what a log of training says

    On the command line the same things are `simlab sweep`, `simlab check` and `simlab train`.
    """)
    return


if __name__ == "__main__":
    app.run()
