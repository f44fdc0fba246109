"""Train a small model, and compare pass@k

Unbiased pass@k ``[f-grpo:eq-27]`` of two weights on addition, with what one run can and cannot say.
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="Train a small model and compare pass@k")

with app.setup(hide_code=True):
    import json
    import math
    import tempfile
    from pathlib import Path

    import marimo as mo
    import matplotlib.pyplot as plt
    import numpy as np
    from matplotlib.figure import Figure

    from simlab.llm.compare import comparison_table, read_run
    from simlab.llm.instruments.pass_at_k import interval, powers, unbiased_pass_at_k
    from simlab.llm.instruments.significance import subsampling_test
    from simlab.llm.training.run import train
    from simlab.llm.training.settings import TrainingSettings
    from simlab.plotting import STYLE

    plt.style.use(STYLE)
    plt.switch_backend(plt.get_backend())  # Jupyter draws figures only once a backend is loaded


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # Train a small model, and compare pass@k

    After this notebook you will be able to

    - train a transformer from scratch with any estimator, in under a minute on a processor;
    - read the folder that a run leaves;
    - compute pass@k without bias, with its interval, and tell a difference from noise.
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## A run

    `7+5=` is to be answered by `12`. A small model first sees worked sums, until it is right now and then. Then
    it goes on by its own attempts, once with GRPO and once with F-GRPO, from the same start and on the same problems.
    `simlab train` does this at more length; its options are the same settings.
    """)
    return


@app.cell
def _():
    settings = TrainingSettings.from_data(
        {
            "task": {"name": "addition", "digits": 1, "evaluation_size": 11},
            "model": {"hidden_size": 32, "intermediate_size": 64, "num_layers": 1, "num_heads": 2, "num_kv_heads": 1},
            "warm_start": {"steps": 200, "batch": 64, "learning_rate": 3e-3},
            "rl": {"steps": 30, "prompts": 32, "group_size": 16, "learning_rate": 1e-3, "microbatch": 512},
            "evaluation": {"every": 15, "samples": 64},
            "record": {"checkpoint_every": 30, "instruments_every": 1000},
            "arms": ["grpo", "f_grpo(gamma=1.0)"],
        }
    )
    home = tempfile.TemporaryDirectory()
    folder = Path(home.name) / "run"
    train(settings, folder)
    return folder, home, settings


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## The folder

    `run.json` has the settings, commit and versions. Each arm and seed has a line of metrics a step, a line an
    evaluation, a checkpoint to go on from, and at the end a model that `transformers` opens.
    """)
    return


@app.cell
def _(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    mo.plain_text("\n".join(f"{path.stat().st_size:>9,}  {path.relative_to(folder)}" for path in files))
    return


@app.cell
def _(folder, home, settings):
    run = read_run(folder)
    arms = {name: seeds[0] for name, seeds in run.arms.items()}
    first_line = json.loads((folder / "arms" / "grpo" / "seed-0" / "metrics.jsonl").read_text().splitlines()[0])
    before = {path: path.read_bytes() for path in folder.rglob("*.jsonl")}
    train(settings, folder)

    assert {path: path.read_bytes() for path in before} == before, "asked again, a finished run stays as it is"
    assert arms["grpo"].metrics["reward"][0] == first_line["reward"]
    assert arms["grpo"].metrics["reward"][0] == arms["f_grpo(gamma=1.0)"].metrics["reward"][0], "one start, one batch"
    assert home is not None
    mo.md(f"A line of metrics has {len(first_line)} entries: " + ", ".join(f"`{name}`" for name in first_line))
    return arms, run


@app.cell
def _(arms):
    for trained_arm, course in arms.items():
        rewards = course.metrics["reward"]
        assert rewards[-5:].mean() > rewards[:5].mean(), (
            f"{trained_arm}: own attempts raise the reward on training problems"
        )

    course_figure = Figure(figsize=(6.8, 2.6), layout="constrained")
    reward_panel, entropy_panel = course_figure.subplots(1, 2)
    for (arm, training), dash in zip(arms.items(), ("-", "--"), strict=True):
        reward_panel.plot(training.metrics["step"], training.metrics["reward"], dash, label=arm)
        entropy_panel.plot(training.metrics["step"], training.metrics["entropy"], dash)
    reward_panel.set(xlabel="step", ylabel="mean reward")
    entropy_panel.set(xlabel="step", ylabel="entropy of a token, nats")
    reward_panel.legend()
    course_figure
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Pass@k

    Each of the 11 problems that were held out of training was sampled $n = 64$ times, $c$ of them right. The chance
    that $k$ of those samples, drawn without replacement, hold a right one is $1 - \binom{n - c}{k} / \binom{n}{k}$. It
    is unbiased; $1 - (1 - c/n)^k$ is not.
    """)
    return


@app.cell
def _(arms, run):
    evaluated = {"start": run.starts[0].evaluations[-1]} | {name: arm.evaluations[-1] for name, arm in arms.items()}
    ks = powers(64)
    curves = {}
    for name, evaluation in evaluated.items():
        per_problem = [unbiased_pass_at_k(evaluation.correct, 64, k) for k in ks]
        by_hand = [np.mean([1 - math.comb(64 - int(c), k) / math.comb(64, k) for c in evaluation.correct]) for k in ks]
        biased = [np.mean(1 - (1 - evaluation.correct / 64) ** k) for k in ks]
        curves[name] = [interval(values, seed=0, resamples=2000) for values in per_problem]

        assert np.allclose([values.mean() for values in per_problem], by_hand), "the formula, in whole numbers"
        assert np.all(np.array(biased) <= np.array(by_hand) + 1e-12), "the other estimate is too low"
    return curves, evaluated, ks


@app.cell
def _(curves, ks):
    curve_figure = Figure(figsize=(4.6, 3.0), layout="constrained")
    curve_panel = curve_figure.subplots()
    for (curve_name, points), line, colour in zip(curves.items(), (":", "-", "--"), ("0.5", "C0", "C1"), strict=True):
        curve_panel.plot(ks, [point.mean for point in points], line, color=colour, label=curve_name)
        curve_panel.fill_between(
            ks, [point.low for point in points], [point.high for point in points], color=colour, alpha=0.15, linewidth=0
        )
    curve_panel.set_xscale("log", base=2)
    curve_panel.set(xlabel="k", ylabel="pass@k", ylim=(-0.03, 1.03))
    curve_panel.legend()
    curve_figure
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Bands are 95 % intervals over problems. The reward above is that of training problems, pass@k that of others: 44
    sums can be learned by heart, so that the one may rise while the other falls.

    Is the difference between the two arms more than the noise of their samples?
    F-GRPO's Appendix Q tests that by subsampling. Drag k:
    """)
    return


@app.cell
def _():
    power = mo.ui.slider(0, 5, value=0, label="power of 2 that k is", show_value=True)
    power
    return (power,)


@app.cell
def _(evaluated, power):
    k = 2**power.value
    grpo, f_grpo = evaluated["grpo"], evaluated["f_grpo(gamma=1.0)"]
    difference = subsampling_test(grpo.correct, f_grpo.correct, 64, k, seed=0, iterations=5000)
    itself = subsampling_test(grpo.correct, grpo.correct, 64, k, seed=0, iterations=5000)

    means = [unbiased_pass_at_k(model.correct, 64, k).mean() for model in (grpo, f_grpo)]
    assert np.isclose(difference.difference, means[1] - means[0]), "the difference of the two curves above"
    assert not itself.significant, "a model does not differ from itself"
    mo.md(
        f"pass@{k} of F-GRPO less that of GRPO: **{difference.difference:+.3f}**, 95 % from {difference.low:+.3f} to "
        f"{difference.high:+.3f}."
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The test speaks of these two models and their samples. It does not speak of the two methods: another seed gives
    another start and other models, and the spread between seeds is the larger one. To compare methods, train several
    seeds. The same comparison as text:
    """)
    return


@app.cell
def _(run):
    mo.plain_text(comparison_table([run], baseline="grpo"))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Where to go next

    ```sh
    simlab train --preset countdown --arms "grpo,f_grpo(gamma=0.5),maxrl+clip_higher" --seeds 3 --out run
    simlab compare run --baseline grpo --figure compare.svg
    ```

    `countdown` has several solutions to a problem, so that some can be lost; `figures/` has what was found there.
    """)
    return


if __name__ == "__main__":
    app.run()
