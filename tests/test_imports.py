"""What importing the library loads."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["simlab", "simlab.estimators", "simlab.surrogates", "simlab.theory"])
def test_neither_jax_nor_torch_is_imported(module: str) -> None:
    program = f"import sys, {module}; print(sorted({{'jax', 'torch'}} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
