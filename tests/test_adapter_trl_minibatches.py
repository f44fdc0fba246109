"""In which order TRL itself takes several updates by parts of a batch, and how simlab's differ. Run with ``-m trl``."""

import numpy as np
import pytest

pytestmark = [
    pytest.mark.trl,
    pytest.mark.filterwarnings("default"),  # of TRL, transformers and accelerate
]
pytest.importorskip("trl")

from trl import GRPOTrainer
from trl_cases import PROMPTS, trainer

from simlab.llm.training.policy_gradient import minibatches

SIZE, PARTS, ITERATIONS = 4, 2, 2  # rollouts of a prompt


class Seen(GRPOTrainer):
    """Notes the prompts of the rows of each update, and how many tokens TRL divides the sum of losses by."""

    def _compute_loss(self, model, inputs):
        prompts = self.processing_class.batch_decode(inputs["prompt_ids"], skip_special_tokens=True)
        completions = inputs["completion_ids"][:, :1].flatten().tolist()
        own = int(inputs["completion_mask"].sum())
        self.seen.append((prompts, list(zip(prompts, completions, strict=True)), own, inputs["num_items_in_batch"]))
        return super()._compute_loss(model, inputs)


@pytest.fixture(scope="module")
def updates(tmp_path_factory):
    """Of one batch of all prompts: two parts, each taken twice."""
    rows = len(PROMPTS) * SIZE // PARTS
    settings = {
        "per_device_train_batch_size": rows, "num_generations": SIZE, "steps_per_generation": PARTS,
        "gradient_accumulation_steps": 1, "num_iterations": ITERATIONS, "max_steps": PARTS * ITERATIONS,
    }  # fmt: skip
    one = trainer(tmp_path_factory.mktemp("trl"), kind=Seen, settings=settings)
    one.seen = []
    one.train()
    return one.seen


def test_trl_takes_the_parts_in_one_order_in_all_iterations_as_simlab_does(updates):
    rows = [row for _, row, _, _ in updates]
    assert len(rows) == PARTS * ITERATIONS
    assert rows[:PARTS] == rows[PARTS:]
    found = [part.tolist() for part in minibatches(len(PROMPTS), PARTS)]
    assert found == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_but_trls_parts_are_of_rollouts_in_a_random_order_and_simlabs_of_prompts(updates):
    """Every rollout once; a prompt's rollouts fall into both parts, where simlab's all fall into one."""
    first, second = (prompts for prompts, *_ in updates[:PARTS])
    assert sorted(first + second) == sorted(SIZE * PROMPTS)
    assert set(first) & set(second), "no part has whole groups alone"
    counts = [first.count(prompt) for prompt in PROMPTS]
    assert set(counts) != {0, SIZE}


def test_and_trl_divides_by_an_equal_share_of_the_batchs_tokens_where_simlab_divides_by_those_of_the_part(updates):
    """Of the losses dapo, cispo and vespo. ``@token_mean`` here is of the part, as verl's token-mean is."""
    tokens = [own for _, _, own, _ in updates]
    whole = [int(count) for *_, count in updates]
    assert set(whole) == {tokens[0] + tokens[1]}
    assert tokens[0] != tokens[1], "so that the two differ"
    np.testing.assert_array_equal(tokens[:PARTS], tokens[PARTS:])
