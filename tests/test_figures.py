"""The committed figures are drawn from the committed numbers, and drawn the same way every time."""

import importlib.util
import json
from pathlib import Path

import pytest

FIGURES = Path(__file__).parent.parent / "figures"
NAMES = ["f_grpo_fig2", "f_grpo_fig2_readings", "f_grpo_bank", "a_grae_controls", "fade", "fade_rank"]
NAMES += ["casp", "cw_grpo", "f_grpo_regime_map", "league"]
TRAINED = ["countdown", "fewshot"]
QUICK = "league"  # drawing takes up to ten seconds: the others are drawn by hand


@pytest.fixture(autouse=True)
def _helpers_are_found(monkeypatch):
    """As they are for a script that Python runs."""
    monkeypatch.syspath_prepend(FIGURES)


def script(name: str):
    specification = importlib.util.spec_from_file_location(name, FIGURES / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name != QUICK)) for name in NAMES + TRAINED]
)
def test_two_runs_give_identical_bytes(name, tmp_path, monkeypatch):
    module = script(name)
    images = []
    for run in ("first", "second"):
        (tmp_path / run).mkdir()
        monkeypatch.setattr(module, "HERE", tmp_path / run)
        module.main([])
        images.append({path.name: path.read_bytes() for path in (tmp_path / run).glob("*.[sp][vd][gf]")})
    assert sorted(images[0]) == [f"{name}.pdf", f"{name}.svg"]
    assert images[0] == images[1]


@pytest.mark.parametrize("name", NAMES)
def test_the_numbers_carry_their_provenance(name):
    kept = json.loads((FIGURES / "data" / f"{name}.json").read_text())["provenance"]
    for provenance in kept if isinstance(kept, list) else [kept]:
        assert {"commit", "code", "versions", "dtype", "platform"} <= set(provenance)
        assert "+changes" not in provenance["commit"]


@pytest.mark.parametrize("name", TRAINED)
def test_the_numbers_of_trained_models_carry_their_run(name):
    run = json.loads((FIGURES / "data" / f"{name}.json").read_text())["run.json"]
    assert {"settings", "commit", "versions", "platform"} <= set(run)
    assert "+changes" not in run["commit"]
