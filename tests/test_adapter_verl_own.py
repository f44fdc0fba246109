"""An estimator of a user's own under verl, as docs/verl.md says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.verl
ROOT = Path(__file__).parents[1]
ASKED = """
import numpy as np, torch, verl
from verl.trainer.ppo.core_algos import get_adv_estimator_fn
rewards = torch.tensor([[1.0], [0.0], [0.0], [0.0]])
given = dict(token_level_rewards=rewards, response_mask=torch.ones(4, 1), index=np.array(["a"] * 4), config=None)
own, grpo = (get_adv_estimator_fn(name)(**given)[0] for name in ("simlab_half_grpo", "simlab_grpo"))
print("same", torch.allclose(2 * own, grpo), float(grpo.abs().sum()))
"""


def test_the_module_of_the_docs_is_imported_by_verl_and_gives_half_of_grpos_advantages(tmp_path):
    pytest.importorskip("verl")
    text = (ROOT / "docs/verl.md").read_text()
    (block,) = re.findall(r"```python\n(from simlab\.adapters import verl\n.*?)```", text, re.DOTALL)
    (tmp_path / "mine_verl.py").write_text(block)
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{tmp_path}", "VERL_USE_EXTERNAL_MODULES": "mine_verl"}
    found = subprocess.run(
        [sys.executable, "-c", ASKED], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert re.search(r"same True [1-9]", found.stdout), found.stderr[-2000:]
