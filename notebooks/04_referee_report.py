"""Reading the referee report: what a claim of a paper is worth, and how to tell

Three claims are judged: one that holds ``[f-grpo:lemma-3.1]``, a slip ``[a-grae:thm-1-probability]`` and one that
fails ``[a-grae:app-b5-increase]``.
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="Reading the referee report")

with app.setup(hide_code=True):
    import re
    from pathlib import Path

    import marimo as mo
    import matplotlib.pyplot as plt
    import numpy as np
    from matplotlib.figure import Figure

    import simlab
    from simlab.bundled import make_importable
    from simlab.plotting import STYLE
    from simlab.theory import first_order_change

    make_importable()
    import paper_checks
    from paper_checks.claim import TITLES, load
    from paper_checks.run import recorded
    from paper_checks.verdict import FAILS, HOLDS, HOLDS_IF, IDENTITY, SLIP, UNDECIDED, judge, stands, weigh

    plt.style.use(STYLE)
    plt.switch_backend(plt.get_backend())  # Jupyter draws figures only once a backend is loaded


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # Reading the referee report

    After this notebook you will be able to

    - find what became of any claim of the five papers, and read its line in `paper_checks/INDEX.md`;
    - judge a claim anew, and tell from the evidence how far to trust the verdict;
    - follow a counterexample to the point where the claim breaks.
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## The whole report

    Every claim has one of six verdicts. *Holds*: the printed statement stands by every method that could tell.
    *Identity*: so does a definition, or a line of algebra of definitions. *Holds if*: it needs a condition that the
    paper does not state. *Fails*: it is wrong as said. *Slip*: a typographical error, and the form that was meant
    stands. *Not decidable here*: the line says what it would take.
    """)
    return


@app.cell
def _():
    known = recorded()
    papers = list(TITLES)
    counts = {kind: [0] * len(papers) for kind in (HOLDS, IDENTITY, HOLDS_IF, SLIP, FAILS, UNDECIDED)}
    for claimed, found in known.items():
        counts[found][papers.index(claimed.partition(":")[0])] += 1

    count_figure = Figure(figsize=(6.8, 2.8), layout="constrained")
    count_panel = count_figure.subplots()
    left = np.zeros(len(papers))
    for (kind, numbers), colour in zip(counts.items(), ("C2", "C0", "C5", "C4", "C1", "0.75"), strict=True):
        count_panel.barh([TITLES[paper] for paper in papers], numbers, left=left, label=kind, color=colour)
        left += numbers
    count_panel.invert_yaxis()
    count_panel.set(xlabel="claims")
    count_figure.legend(*count_panel.get_legend_handles_labels(), loc="outside lower center", ncols=6)
    count_figure
    return (known,)


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    `paper_checks/README.md` tells what matters, in five sentences a paper. `INDEX.md` lists the claims one a line, in
    the paper's own order: the place, the claim with its tag and a link to the check, the verdict with the condition or
    what holds instead, and how much it matters. These are its lines on F-GRPO that fail or are slips:
    """)
    return


@app.cell
def _(known):
    index = Path(paper_checks.__file__).with_name("INDEX.md").read_text(encoding="utf-8").splitlines()
    rows = {match[1]: line for line in index if (match := re.search(r"\| \[([a-z-]+:[^\]]+)\]\(", line))}
    verdicts = {tag: re.search(r"\| \*\*([a-z ]+)\*\*", line) for tag, line in rows.items()}
    listed = {tag: match[1] for tag, match in verdicts.items() if match}

    assert listed == known, "the index says what was recorded, claim by claim"
    shown = [rows[tag] for tag, found in known.items() if tag.startswith("f-grpo:") and found in (FAILS, SLIP)]
    mo.md("| where | claim | verdict | severity |\n|---|---|---|---|\n" + "\n".join(shown))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## A claim, judged now

    Choose a claim. Its check runs as you look, and takes from a moment to some seconds. The first on the list is the
    lemma of notebook 02.
    """)
    return


@app.cell
def _():
    claims = load()
    return (claims,)


@app.cell
def _(claims):
    tag = mo.ui.dropdown(list(claims), value="f-grpo:lemma-3.1", label="claim", searchable=True)
    tag
    return (tag,)


@app.cell
def _(claims, known, tag):
    claim = claims[tag.value]
    verdict = judge(claim)
    evidence = [
        f"- {piece.method}: {piece.figures}" + (f"; {piece.counterexample}" if piece.counterexample else "")
        for piece in verdict.evidence
    ]
    lines = [
        f"**{verdict.verdict}** {verdict.condition}{verdict.correction}",
        f"*{claim.where}.* {claim.says}",
        f"$${claim.formula}$$" if claim.formula else "",
        f"Counterexample: {verdict.counterexample}" if verdict.counterexample else "",
        *evidence,
        f"Reading: {claim.reading}",
    ]

    assert verdict.verdict == known[tag.value], "judged again, it comes out as recorded"
    mo.md("\n\n".join(line for line in lines if line))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    A method may be a derivation in symbols, the sum over all samples in exact arithmetic, 50-digit numbers, or Monte
    Carlo in the simulator. Where two of ours disagree there is no verdict. The *reading* says how the sentence was
    understood, and under which other reading another verdict would be right: that is the part to argue with.

    A check that cannot say no is worth nothing. So each has wrong statements planted, which it must refute:
    """)
    return


@app.cell
def _(claims, tag):
    refuted = {name: not stands(weigh(claims[tag.value], wrong)) for name, wrong in claims[tag.value].planted.items()}

    assert all(refuted.values()), "every planted error is refuted"
    mo.md("\n".join(f"- *{name}*: refuted" for name in refuted) or "This claim has no planted error.")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## A slip

    A-GRAE's Theorem 1 gives the change $\eta [1(b \text{ sampled}) A_b - C \pi_b]$, with $C$ the sum of the sampled
    advantages, and calls it the update of the *probability*. It is the update of the logit. That is a slip, not a
    failure: what was meant is plain from the theorem's proof, and stands.
    """)
    return


@app.cell
def _(claims):
    slip = judge(claims["a-grae:thm-1-probability"])

    assert slip.verdict == SLIP
    mo.md(f"**{slip.verdict}**: {slip.correction}\n\nCounterexample: {slip.counterexample}")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## A claim that fails

    It matters, for the paper goes on from logits to probabilities once more: "under the negative-dominant control the
    probabilities of all unsampled responses increase".
    """)
    return


@app.cell
def _(claims):
    failed = judge(claims["a-grae:app-b5-increase"])

    assert failed.verdict == FAILS
    mo.md(
        f"**{failed.verdict}**; instead: {failed.correction}\n\nCounterexample: {failed.counterexample}\n\n"
        f"Reading: {failed.reading}"
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    By hand: four answers, of which a group of two draws one correct and one wrong. The control divides positive
    advantages by 10, so the two sum to less than 0, and every unsampled logit rises. But it rises in proportion to the
    answer's probability. Where one unsampled answer dominates, it takes from the rare one. Drag its probability:
    """)
    return


@app.cell
def _():
    dominant = mo.ui.slider(0.1, 0.85, step=0.05, value=0.8, label="the likelier unsampled answer", show_value=True)
    dominant
    return (dominant,)


@app.cell
def _(dominant):
    answers = ["drawn, correct", "drawn, wrong", "likelier, not drawn", "rarer, not drawn"]
    policy = np.array([0.05, 0.05, dominant.value, 0.9 - dominant.value])
    advantages = simlab.advantages("negative_dominant", [1, 0])
    step = 0.1 * (np.append(advantages, [0, 0]) - advantages.sum() * policy)
    after = policy * np.exp(step) / (policy * np.exp(step)).sum()
    change = after - policy

    assert (step[2:] > 0).all(), "every unsampled logit rises: what the correction says"
    assert np.abs(change - first_order_change(policy, step)).max() < np.abs(step).max() ** 2, "to first order"
    assert (change[3] < 0) == (step[3] < float(np.log(policy @ np.exp(step)))), "a logit must beat the mean to gain"
    if dominant.value == 0.8:
        assert change[3] < 0, "the counterexample: the rare unsampled answer loses"

    bar_figure = Figure(figsize=(6.8, 2.6), layout="constrained")
    for bar_panel, values, what in zip(
        bar_figure.subplots(1, 2, sharey=True), (step, change), ("logit", "probability"), strict=True
    ):
        bar_panel.barh(answers, values, color=["C2" if value > 0 else "C1" for value in values])
        bar_panel.axvline(0, color="k", linewidth=0.8)
        bar_panel.set(xlabel=f"change of the {what}")
        bar_panel.locator_params(axis="x", nbins=5)
    bar_panel.invert_yaxis()
    bar_figure
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Where to go next

    `simlab check` judges all claims in a minute or two; `simlab check --html report.html` writes all of this as one
    page with the code that decided; `simlab where a-grae app-b5-increase` finds the check. If you think that a verdict
    is wrong, change the statement in the check and see whether it still stands.
    """)
    return


if __name__ == "__main__":
    app.run()
