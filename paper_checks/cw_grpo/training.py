"""Table 5 and the appendices: steps, batches and samples of the training, beside the tables of results."""

from paper_checks.claim import Amended, claim
from paper_checks.cw_grpo.tables import TABLE_2, TABLE_3
from paper_checks.evidence import satisfies

# Table 5.
TRAINING_STEPS = 100
BATCH = 12
ACCUMULATED = 4
GENERATIONS = 12


@claim(
    "cw-grpo:training-steps",
    where="Appendix C, Table 5 (training steps 100, 'for experiments') beside Tables 2 and 3",
    says="Training takes 100 steps.",
    refuted_by="a table whose scores are of a later step",
    reading="Table 5 as the configuration of all experiments, as its caption says; Table 3 has checkpoints at 150 and "
    "200. Table 2's 1.5B scores are those of step 100. On the reading that Table 5 is only for Table 2 it holds; the "
    "longer runs, with Table 2's scores on the way, then have a configuration that is not given.",
    met="partly: Table 2's 1.5B scores are those of step 100; of its 7B runs no step is printed.",
    statement=lambda steps, table: steps <= TRAINING_STEPS,
    condition=Amended("Of the runs of Table 2.", lambda steps, table: steps <= TRAINING_STEPS if table == 2 else None),
    planted={"50 steps": lambda steps, table: steps <= 50 if table == 2 else None},
)
def training_steps(statement):
    """The latest step of a table; Table 2's is the step of Table 3 at which both methods have its two scores."""

    def latest(table):
        if table == 3:
            return max(step for steps in TABLE_3.values() for step in steps)
        return next(
            step for step in TABLE_3["GRPO"] if all(TABLE_2["1.5B", m][0][1::3] == TABLE_3[m][step] for m in TABLE_3)
        )

    yield from satisfies(statement, [{"table": 3}, {"table": 2}], latest, method="arithmetic")


@claim(
    "cw-grpo:fine-tuning-samples",
    where="Section 3.2, Table 2 (fine-tuning samples 7000) beside Table 5 and Appendix C (four GPUs)",
    says="Training as configured draws on all 7,000 samples.",
    refuted_by="a way to count the batch by which fewer than 7,000 prompts are drawn",
    reading="Table 2 counts 7,000 'fine-tuning samples', and does not say that each is drawn. Prompts drawn = 100 "
    "steps x 4 accumulated x batch 12, by 4 if the batch is a GPU's, over 12 generations if it counts completions, as "
    "TRL's GRPO trainer does: 1,600 then, 23 % of the data. Only 'prompts, on each GPU' suffices, at 19,200 prompts. "
    "One GPU may also serve generation only.",
    met="unknown: Table 5 does not say what the batch counts, nor on how many GPUs.",
    inferred=True,
    statement=lambda prompts, **_: prompts >= 7000,
    condition=Amended(
        "The batch of 12 counts prompts, and is that of one GPU.",
        lambda prompts, counts, GPUs: prompts >= 7000 if counts == "prompts" and GPUs == 4 else None,
    ),
    planted={
        "of all GPUs": lambda prompts, counts, GPUs: prompts >= 7000 if counts == "prompts" and GPUs == 1 else None
    },
)
def fine_tuning_samples(statement):
    """Multiply."""
    yield from satisfies(
        statement,
        [{"counts": counts, "GPUs": GPUs} for counts in ("completions", "prompts") for GPUs in (1, 4)],
        lambda counts, GPUs: (
            TRAINING_STEPS * ACCUMULATED * BATCH * GPUs // (GENERATIONS if counts == "completions" else 1)
        ),
        method="arithmetic",
    )
