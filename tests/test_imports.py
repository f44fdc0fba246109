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


def test_simulate_and_sweep_are_functions_of_the_library_whatever_is_imported_before() -> None:
    program = (
        "import inspect, sys, simlab;"
        "print(sorted({'jax', 'torch'} & set(sys.modules)), end=' ');"
        "first = simlab.simulate, simlab.sweep;"
        "import simlab.simulate.runner, simlab.sweep.run;"
        "assert first == (simlab.simulate, simlab.sweep);"
        "from simlab.problems import anchored;"
        "found = simlab.simulate(anchored(20, 2), 'grpo', group_size=4, steps=2, seeds=1);"
        "print(dict(found.q_pos.sizes), list(inspect.signature(simlab.simulate).parameters)[:2], end=' ');"
        "found = simlab.sweep('grpo', actions=20, correct=2, steps=2, seeds=1);"
        "print(found.q_pos.sizes['step'])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "[] {'seed': 1, 'step': 2} ['problem', 'method'] 2\n"


def test_the_library_offers_no_other_name() -> None:
    program = "import simlab; simlab.simulator"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "module 'simlab' has no attribute 'simulator'" in found.stderr
