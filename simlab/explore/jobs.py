"""Run a job in the simulating process, that is a block of seeds of one panel, and compile the presets' programs."""

from collections.abc import Callable, Iterator
from typing import Any

from simlab.errors import InputError
from simlab.explore.bank import bank_block, simulate_bank
from simlab.explore.block import Block
from simlab.explore.interference import interference_block, simulate_interference
from simlab.explore.presets import WARM
from simlab.explore.settings import hold_panel
from simlab.explore.simulation import policy_block, simulate_policy, simulate_tree, tree_blocks

SIMULATED = {
    "run": simulate_policy,
    "tree": simulate_tree,
    "interference": simulate_interference,
    "bank": simulate_bank,
}
BLOCKS: dict[str, Callable[[dict[str, Any]], list[Block]]] = {
    "run": lambda given: [policy_block(given)],
    "tree": lambda given: [*tree_blocks(given).values()],
    "interference": lambda given: [interference_block(given)],
    "bank": lambda given: [bank_block(given)],
}


def done(job: dict[str, Any], say: Callable[[str], None]) -> dict[str, Any]:
    """The last event of a job, its result or what was wrong; ``say`` hears of its stages."""
    try:
        result = SIMULATED[job["panel"]](job["settings"], job["first"], say)
    except (InputError, MemoryError) as error:
        return {"event": "error", "error": str(error) or "too little memory for this"}
    return {"event": "result", "result": result}


def compiled() -> Iterator[int]:
    """Compile what the presets need, one after another; yields how many are left."""
    for left, (panel, settings) in zip(reversed(range(len(WARM))), WARM, strict=True):
        for block in BLOCKS[panel](hold_panel(panel, settings)[0]):
            block.compile()
        yield left
