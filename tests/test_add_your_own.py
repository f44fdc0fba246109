"""Add your own: ten lines outside the package, and it is simulated, weighed, held to the contract and trained with."""

import importlib
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from contract import CHECKS

import simlab
from simlab.arms import parse
from simlab.estimators import Estimator
from simlab.problems import anchored
from simlab.simulator.runner import simulate
from simlab.theory import masses

FILE = Path(__file__).parent / "own_estimator.py"
NAME = "signed_power"


@pytest.fixture(scope="module", autouse=True)
def registered(library_alone: None) -> None:
    """Importing the file is all it takes."""
    importlib.import_module(FILE.stem)


@pytest.fixture
def chosen() -> Estimator:
    return simlab.estimator(NAME)


def test_it_takes_ten_lines() -> None:
    body = FILE.read_text().partition("@register")[2].splitlines()
    assert len([line for line in body if line.strip()]) <= 10


def test_it_is_called_by_name() -> None:
    np.testing.assert_allclose(simlab.advantages(NAME, [1, 0, 0, 0]), [0.75**0.5] + [-0.5] * 3)


def test_it_is_named_by_its_file_in_an_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILE.parent)
    arm = parse(f"{FILE.name}:{NAME}(power=2)")
    advantages = simlab.advantages(arm.build().estimator, [1, 0, 0, 0])
    np.testing.assert_allclose(advantages, simlab.advantages(NAME, [1, 0, 0, 0], power=2))
    assert arm.floats == {"estimator.power": 2.0}


def test_it_is_listed() -> None:
    program = f"import sys; sys.path.insert(0, {str(FILE.parent)!r}); import {FILE.stem}; from simlab import cli; "
    program += "cli.main(['estimators']); print('then'); cli.main(['estimators', '--markdown'])"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert all(NAME in listed for listed in output.split("then\n"))


def test_it_is_simulated() -> None:
    result = simulate(anchored(60, 6), NAME, group_size=8, steps=100, seeds=2)
    assert (result.q_pos.isel(step=-1) > result.q_pos.isel(step=0)).all()


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_its_masses_are_those_of_its_formula(power: float) -> None:
    result = masses(NAME, 8, power=power)
    p = np.arange(9) / 8
    np.testing.assert_allclose(result.success, p * (1 - p) ** power, rtol=1e-12)
    np.testing.assert_allclose(result.failure, (1 - p) * p**power, rtol=1e-12)


@pytest.mark.parametrize("check", CHECKS)
def test_it_keeps_the_contract(check: str, chosen: Estimator) -> None:
    with jax.enable_x64(True):
        CHECKS[check](chosen)
