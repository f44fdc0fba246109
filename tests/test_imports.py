"""What importing the library loads."""

import subprocess
import sys

import pytest

MODULES = ["simlab", "simlab.arms", "simlab.estimators", "simlab.surrogates", "simlab.theory", "simlab.llm.tasks"]


@pytest.mark.parametrize("module", MODULES)
def test_neither_jax_nor_torch_is_imported(module: str) -> None:
    program = f"import sys, {module}; print(sorted({{'jax', 'torch'}} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_language_models_are_loaded_by_those_who_ask_for_them() -> None:
    program = "import sys, simlab; print([name for name in sys.modules if name.startswith('simlab.llm')])"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
