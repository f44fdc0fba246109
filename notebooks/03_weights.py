"""Weights as masses, and an estimator of your own in ten lines

FADE's masses ``[fade:masses]`` of any weight, its two axes, and a new weight taken through masses and simulator.
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="Weights as masses")

with app.setup(hide_code=True):
    import marimo as mo
    import matplotlib.pyplot as plt
    import numpy as np
    import pandas as pd
    from array_api_compat import array_namespace
    from matplotlib.figure import Figure

    import simlab
    from simlab.estimators import REGISTRY, center, chain
    from simlab.estimators_table import markdown_line
    from simlab.plotting import DASHES, LABELS, STYLE, draw_band
    from simlab.theory import CLOSED_FORMS, alike, closed_form, masses

    plt.style.use(STYLE)
    plt.switch_backend(plt.get_backend())  # Jupyter draws figures only once a backend is loaded


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # Weights as masses

    After this notebook you will be able to

    - read any policy-gradient weight as two curves, the pull towards successes and the push off failures;
    - place a weight on FADE's two axes, sign and difficulty;
    - write a weight of your own in ten lines, and know what it does before a model is trained.
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Two curves for every weight

    In a group of $G$ with $s$ successes, $m_S = \frac{1}{G} \sum_{\text{successes}} A_i$ and $m_F = -\frac{1}{G}
    \sum_{\text{failures}} A_i$. The update is $m_S$ times the mean gradient of the successes less $m_F$ times that of
    the failures. Choose weights to compare:
    """)
    return


@app.cell
def _():
    chosen = mo.ui.multiselect(
        sorted(CLOSED_FORMS),
        value=["dr_grpo", "grpo", "maxrl", "f_grpo", "w_reinforce"],
        max_selections=6,
        label="weights",
    )
    chosen
    return (chosen,)


@app.cell
def _():
    size = mo.ui.slider(2, 64, value=16, label="group size G", show_value=True)
    size
    return (size,)


@app.cell
def _(chosen, size):
    curves = {name: masses(name, size.value) for name in chosen.value}
    rate = np.arange(size.value + 1) / size.value

    for name, curve in curves.items():
        success, failure = closed_form(name, rate, size.value)
        assert np.allclose(curve.success, success, atol=1e-12), f"{name}: m_S is its closed form"
        assert np.allclose(curve.failure, failure, atol=1e-12), f"{name}: m_F is its closed form"
    return curves, rate


@app.cell
def _(curves, rate):
    curve_figure = Figure(figsize=(6.8, 3.0), layout="constrained")
    success_panel, failure_panel = curve_figure.subplots(1, 2, sharey=True)
    for place, (curve_name, each) in enumerate(curves.items()):
        dash = DASHES[place % len(DASHES)]
        success_panel.plot(rate, each.success, dash, label=curve_name)
        failure_panel.plot(rate, each.failure, dash)
    success_panel.set(xlabel="solve rate", ylabel="mass", title="$m_S$, towards successes")
    failure_panel.set(xlabel="solve rate", title="$m_F$, away from failures")
    curve_figure.legend(*success_panel.get_legend_handles_labels(), loc="outside lower center", ncols=6)
    curve_figure
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The table says the same in formulas: whether the masses balance, and where they peak. `simlab estimators --markdown`
    prints it for all estimators.
    """)
    return


@app.cell
def _(chosen):
    heading = "| estimator | advantage | masses | needs | rewards | signs | peak |\n|---|---|---|---|---|---|---|\n"
    mo.md(heading + "\n".join(markdown_line(REGISTRY[name]) for name in chosen.value))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Two axes

    FADE's account: a weight differs from mean GRPO in *sign*, how much failures weigh against successes, and in
    *difficulty*, which solve rates it looks at. `asym_grpo` moves along the first axis by $\delta$, `power_alpha` along
    the second by $\alpha$. Both are mean GRPO at 1.
    """)
    return


@app.cell
def _():
    delta = mo.ui.slider(0.2, 3, step=0.1, value=0.5, label=r"$\delta$, divides failures", show_value=True)
    delta
    return (delta,)


@app.cell
def _():
    alpha = mo.ui.slider(1, 4, step=0.25, value=3, label=r"$\alpha$, looks at hard prompts", show_value=True)
    alpha
    return (alpha,)


@app.cell
def _(alpha, delta):
    fine = np.arange(65) / 64
    mean_grpo = masses("dr_grpo", 64)
    tilted = masses("asym_grpo", 64, delta=float(delta.value))
    harder = masses("power_alpha", 64, alpha=float(alpha.value))

    assert np.allclose(tilted.success, mean_grpo.success), "the sign axis leaves successes alone"
    assert np.allclose(tilted.failure * delta.value, mean_grpo.failure), "and divides failures by delta"
    assert np.allclose(harder.success, harder.failure), "the difficulty axis keeps the balance"
    assert abs(fine[harder.success.argmax()] - 1 / (1 + alpha.value)) <= 1 / 64, "its peak lies at 1 / (1 + alpha)"
    return fine, harder, mean_grpo, tilted


@app.cell
def _(alpha, delta, fine, harder, mean_grpo, tilted):
    axes_figure = Figure(figsize=(6.8, 2.8), layout="constrained")
    sign_panel, difficulty_panel = axes_figure.subplots(1, 2, sharey=True)
    sign_panel.plot(fine, mean_grpo.success, label="$m_S$")
    sign_panel.plot(fine, tilted.failure, "--", label="$m_F$")
    sign_panel.set(xlabel="solve rate", ylabel="mass", title=rf"sign, $\delta$ = {delta.value:g}")
    difficulty_panel.plot(fine, mean_grpo.success, "--", color="0.6", label="mean GRPO")
    difficulty_panel.plot(fine, harder.success, label="$m_S = m_F$")
    difficulty_panel.set(xlabel="solve rate", title=rf"difficulty, $\alpha$ = {alpha.value:g}")
    sign_panel.legend()
    difficulty_panel.legend()
    axes_figure
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Your own

    A link takes advantages and rollouts and returns advantages; a chain of links is an estimator. This one takes the
    deviation from the mean of the group to a power: below 1 it evens out what rollouts weigh, above 1 it listens to the
    odd one out. Written with the array's own library, one source serves NumPy, JAX and torch. Change it; the rest of
    the notebook follows.
    """)
    return


@app.function
def signed_power(power=0.5):
    def raised(advantages, rollouts):
        xp = array_namespace(advantages)
        return xp.sign(advantages) * xp.abs(advantages) ** power

    return chain(center("mean"), raised)


@app.cell
def _():
    power = mo.ui.slider(0.25, 3, step=0.25, value=0.5, label="power", show_value=True)
    power
    return (power,)


@app.cell
def _(power):
    mine = signed_power(float(power.value))
    my_masses = masses(mine, 64)
    p = my_masses.successes / 64

    assert np.allclose(my_masses.success, p * (1 - p) ** power.value), "m_S by hand: p successes of weight q^power"
    assert np.allclose(my_masses.failure, (1 - p) * p**power.value), "m_F by hand: q failures of weight p^power"
    assert alike(mine, simlab.estimator("dr_grpo"), 6) == (power.value == 1), "at power 1, and only there, mean GRPO"
    return mine, my_masses, p


@app.cell
def _(my_masses, p, power):
    own_figure = Figure(figsize=(4.6, 2.8), layout="constrained")
    own_panel = own_figure.subplots()
    own_panel.plot(p, my_masses.success, label="$m_S$")
    own_panel.plot(p, my_masses.failure, "--", label="$m_F$")
    own_panel.set(xlabel="solve rate", ylabel="mass", title=f"signed power {power.value:g}")
    own_panel.legend()
    own_figure
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Below 1 the signs tip: a hard prompt pushes off its failures more than it pulls towards its successes, an easy one
    the other way round. The weights of a group then do not cancel, and that moves answers that nobody drew. Take four
    answers and a group that drew the first once and the second three times. The change of the logits is the mean of
    $A_i (e_i - \pi)$, so that an answer that was not drawn moves by $-\pi_j$ times the mean of $A$.
    """)
    return


@app.cell
def _(mine, power):
    policy = np.array([0.4, 0.3, 0.2, 0.1])
    drawn = np.array([0, 1, 1, 1])
    changes = {}
    for whose, own in {"mean GRPO": "dr_grpo", "yours": mine}.items():
        weight = simlab.advantages(own, [1, 0, 0, 0])
        changes[whose] = (weight[:, None] * (np.eye(4)[drawn] - policy)).mean(axis=0)

    assert np.allclose(changes["mean GRPO"][2:], 0, atol=1e-15), "weights that cancel move drawn answers only"
    assert np.allclose(changes["yours"][2:], 0) == (power.value == 1), "yours cancel at power 1 only"
    pd.DataFrame(
        {"answer": ["drawn, correct", "drawn, wrong", "not drawn", "not drawn"], "probability": policy}
        | {f"logit change, {label}": change.round(4) + 0.0 for label, change in changes.items()},
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What it does to rare answers

    The same learning problem for GRPO, mean GRPO and yours: no registration is needed. A method is an estimator and a
    surrogate, which turns its advantages into what the loss multiplies $\nabla \log \pi$ with.
    """)
    return


@app.cell
def _(mine, power):
    yours = simlab.Method(mine, simlab.surrogates.ppo_clip())
    rivals = {"grpo": "grpo", "dr_grpo": "dr_grpo", f"signed power {power.value:g}": yours}
    problem = simlab.problems.anchored(1000, 100)
    results = {
        label: simlab.simulate(problem, method, group_size=32, steps=300, record_every=20)
        for label, method in rivals.items()
    }

    assert all((run.q_pos[:, -1] > run.q_pos[:, 0]).all() for run in results.values()), "all three learn"
    return (results,)


@app.cell
def _(results):
    rival_figure = Figure(figsize=(6.8, 3.0), layout="constrained")
    rival_panels = rival_figure.subplots(1, 2)
    for metric, rival_panel in zip(("q_pos", "retained_mass"), rival_panels, strict=True):
        for (label, run), line in zip(results.items(), DASHES, strict=False):
            draw_band(rival_panel, run.step.values, run[metric], label=label, linestyle=line)
        rival_panel.set(xlabel="step", ylabel=LABELS[metric])
    rival_figure.legend(*rival_panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    rival_figure
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Where to go next

    In a file `mine.py`, the estimator has a name: `simlab sweep --arms "grpo,mine.py:signed_power(power=2)"`. With
    `@register("own:signed-power", "formula")` above it, `simlab.estimator("signed_power")` knows it too, and
    `tests/contract.py` of the repository holds it to what every estimator keeps.
    Notebook 05 runs the two axes on a bank of prompts, notebook 07 takes a weight of your own elsewhere.
    """)
    return


if __name__ == "__main__":
    app.run()
