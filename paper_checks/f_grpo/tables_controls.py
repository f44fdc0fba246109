"""The text's claims about Tables 2, 3 and 4: group sizes, controls, the maze."""

from paper_checks.claim import claim, undecided
from paper_checks.evidence import Printed, arithmetic, satisfies
from paper_checks.f_grpo.printed import TABLE_2, TABLE_2_NLL, TABLE_3, TABLE_4

SWEEP = tuple(name for name in TABLE_2 if name.startswith("GRPO"))
LOOKED_UP = [{"table": "as printed"}]


@claim(
    "f-grpo:sec-5.4-shape",
    where="Section 5.4, Table 2",
    says="Pass@256 is non-monotonic in G: high at 2, lowest at 8 on math and at 8 to 16 on OOD, partly back at 32, "
    "while math pass@1 rises throughout.",
    refuted_by="another order in Table 2",
    reading="High: the highest of the five. OOD is lowest at 16 by 0.2.",
    caveat="One run for each G, each its best checkpoint. GRPO at G = 2 (75.0 and 67.3) is also above F-GRPO at G = 8 "
    "(70.3 and 63.3), at the price of pass@1, a comparison that the paper does not make.",
    statement=lambda math, ood: (
        max(math) == math[0] and min(math) == math[2] < math[4] and {min(ood)} <= {ood[2], ood[3]} and ood[4] > ood[3]
    ),
    planted={"lowest at 16 on math": lambda math, ood: min(math) == math[3]},
)
def shape(statement):
    """The two columns of pass@256, and that of math pass@1."""
    yield from satisfies(
        lambda value, **_: statement(*value[:2]) and sorted(value[2]) == list(value[2]),
        LOOKED_UP,
        lambda table: (
            *([TABLE_2[name][domain][1] for name in SWEEP] for domain in (0, 1)),
            tuple(TABLE_2[name][0][0] for name in SWEEP),
        ),
        method="arithmetic",
    )


@claim(
    "f-grpo:sec-5.4-lowest-pass-at-1",
    where="Section 5.4, Table 2",
    says="G = 2 has the lowest pass@1 of the group sizes.",
    refuted_by="a larger G with a lower average pass@1 on math",
    reading="Math pass@1, of which the next sentence speaks.",
    caveat="On OOD it is the second highest of five, 18.0 where G = 8 has 17.1.",
    statement=(0,),
    planted={"OOD alone": (1,), "OOD too": (0, 1)},
)
def lowest_pass_at_1(statement):
    """Compare G = 2 with the others in the domains that are meant."""
    yield from satisfies(
        lambda value, domain: value[0] == min(value),
        [{"domain": domain} for domain in statement],
        lambda domain: [TABLE_2[name][domain][0] for name in SWEEP],
        method="arithmetic",
        names="pass@1 of each G, that of 2 first",
    )


@claim(
    "f-grpo:sec-5.4-matches-32",
    where="Section 5.4, Table 2",
    says="F-GRPO at G = 8 matches GRPO at G = 32 on pass@256 with fewer rollouts, improves OOD pass@1, and gives up "
    "some math pass@1.",
    refuted_by="a lower pass@256, no higher OOD pass@1, or no lower math pass@1, in Table 2",
    reading="'Matches' as 'is not below'. On OOD it is above by 1.6 and 1.5.",
    caveat="One run each.",
    statement=lambda ours, theirs: (
        ours[0][1] >= theirs[0][1]
        and ours[1][1] >= theirs[1][1]
        and ours[1][0] > theirs[1][0]
        and ours[0][0] < theirs[0][0]
    ),
    planted={"also on math pass@1": lambda ours, theirs: ours[0][0] >= theirs[0][0]},
)
def matches_32(statement):
    """Look them up."""
    yield from satisfies(
        lambda value, **_: statement(*value),
        LOOKED_UP,
        lambda table: (TABLE_2["F-GRPO 8"], TABLE_2["GRPO 32"]),
        method="arithmetic",
    )


@claim(
    "f-grpo:sec-5.4-nll",
    where="Section 5.4, Table 2",
    says="The order of the NLL of rare correct trajectories agrees with the loss of pass@256; F-GRPO lies between.",
    refuted_by="two rows of Table 2 of which that with the higher NLL has the higher math pass@256",
    reading="All six rows, math pass@256: they are in exactly opposite order.",
    caveat="Against OOD pass@256 the order is not opposite: there G = 16 is below G = 8, and G = 4 below G = 32.",
    statement=0,
    planted={"OOD": 1},
)
def nll(statement):
    """Sort by NLL and compare."""
    names = sorted(TABLE_2_NLL, key=TABLE_2_NLL.__getitem__)
    yield from satisfies(
        lambda value, domain: sorted(value, reverse=True) == value,
        [{"domain": statement}],
        lambda domain: [TABLE_2[name][domain][1] for name in names],
        method="arithmetic",
    )


@claim(
    "f-grpo:sec-5.6-order",
    where="Section 5.6, Table 3",
    says="F-GRPO has the highest math pass@1 and the second highest OOD pass@1, behind GRPO-KL; DS-GRPO has higher "
    "pass@256 and lower pass@1; low-LR has higher pass@256 than GRPO and lower than F-GRPO.",
    refuted_by="another order in Table 3",
    reading="The best checkpoints, as in the paper.",
    caveat="One run each.",
    statement=lambda rows, plain: (
        max(rows, key=lambda name: rows[name][0][0]) == "F-GRPO"
        and sorted(rows, key=lambda name: -rows[name][1][0])[:2] == ["KL", "F-GRPO"]
        and all(rows["DS-GRPO"][d][1] > rows["F-GRPO"][d][1] > rows["low-LR"][d][1] > plain[d][1] for d in (0, 1))
        and all(rows["DS-GRPO"][d][0] < rows["F-GRPO"][d][0] for d in (0, 1))
    ),
    planted={"highest pass@256": lambda rows, plain: max(rows, key=lambda name: rows[name][0][1]) == "F-GRPO"},
)
def controls_order(statement):
    """Look them up, with GRPO from Table 2."""
    yield from satisfies(
        lambda value, **_: statement(*value),
        LOOKED_UP,
        lambda table: (TABLE_3, TABLE_2["GRPO 8"]),
        method="arithmetic",
    )


@claim(
    "f-grpo:sec-5.2-maze-ranges",
    where="Section 5.2 and Appendix K, Table 4",
    says="With one gamma F-GRPO improves pass@1 at every G (74.4-93.6, GRPO 65.6-75.8) and pass@256 (75.9-96.5, GRPO "
    "67.3-76.9).",
    refuted_by="a G without gain, or other ends of a range in Table 4",
    reading="The second of the three columns, taken to be gamma = 0.5.",
    statement={0: ((65.6, 75.8), (74.4, 93.6)), 2: ((67.3, 76.9), (75.9, 96.5))},
    planted={"one end": {0: ((65.6, 75.8), (74.4, 96.3))}},
)
def maze_ranges(statement):
    """Ends and gains in Table 4."""
    for metric, ranges in statement.items():
        columns = list(zip(*(row[metric] for row in TABLE_4.values()), strict=True))
        yield from arithmetic(
            Printed(f"column {metric}, method {method}", stated, bound, 0)
            for method, both in enumerate(ranges)
            for stated, bound in zip(both, (min(columns[method]), max(columns[method])), strict=True)
        )
        yield from satisfies(
            lambda value, G, metric=metric: value[1] > value[0],
            [{"G": G} for G in TABLE_4],
            lambda G, metric=metric: TABLE_4[G][metric],
            method="arithmetic",
        )


undecided(
    "f-grpo:app-k-parameters",
    where="Appendix K",
    says="The maze model has approximately 3 million parameters.",
    needs="Its sizes, which the paper does not give. Those of the published code of Tajwar et al. (Qwen2, width 256, 4 "
    "layers, 4 heads and 2 KV heads, FFN 1024, vocabulary 32, tied embeddings) make 3.94 million.",
    reading="If 'the reported configuration' is that of the published code, approximately 4 million would be right; "
    "the three matrices of its FFN alone are 3.1 million.",
)
undecided(
    "f-grpo:app-l.4-compute",
    where="Appendix L.4, selection of checkpoints",
    says="The F-GRPO checkpoints that are compared took no more compute than the baselines'.",
    needs="The epochs of the checkpoints, which no table prints.",
    reading="Selected by average math pass@1 of the same benchmarks; the search over three gammas is not counted.",
)
undecided(
    "f-grpo:sec-1-below-base",
    where="Section 1, second paragraph; Section 6 (sharpening below the base model, of others)",
    says="Models trained by RLVR may underperform their base model at large k.",
    needs="The base models' pass@k under this evaluation: no table of the paper has a base model.",
    reading="A citation. What the tables show of sharpening is among trained models alone: pass@256 of GRPO falls with "
    "G up to 8 (f-grpo:sec-5.4-shape). A-GRAE's tables have a base model: a-grae:app-a-shrinkage.",
)


@claim(
    "f-grpo:table-4-gains",
    where="Section 5.2 and Appendix K, Table 4",
    says="After the 20K steps the maze's gains at pass@256 are nearly all gains at pass@1: the two differ by at most "
    "3.5 points, and pass@256 exceeds pass@1 by at most 4.5.",
    refuted_by="a group size and gamma with a larger difference",
    reading="The gains over GRPO at one G. The paper has the maze for the pass@k effect, and does not compare the two; "
    "what it says of a drop early in training is not in the table.",
    caveat="One run each; with one solution a prompt a small model is nearly sure of its answer.",
    inferred=True,
    statement=lambda gains, rises: abs(gains[1] - gains[0]) <= 3.5 and max(rises) <= 4.5 + 1e-9,
    planted={
        "more at pass@256": lambda gains, rises: gains[1] > gains[0],
        "the measures differ by 10 points": lambda gains, rises: max(rises) > 10,
    },
)
def maze_gains(statement):
    """Subtract GRPO's column, at pass@1 and pass@256; and pass@1 from pass@256."""
    yield from satisfies(
        lambda pair, **_: statement(*pair),
        [{"G": G, "column": column} for G in TABLE_4 for column in (1, 2)],
        lambda G, column: (
            tuple(TABLE_4[G][metric][column] - TABLE_4[G][metric][0] for metric in (0, 2)),
            tuple(TABLE_4[G][2][method] - TABLE_4[G][0][method] for method in (0, column)),
        ),
        method="arithmetic",
    )
