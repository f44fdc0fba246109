"""The list of estimators: its signs and peaks are computed, and the documentation shows what the command prints."""

import json
from pathlib import Path

import numpy as np
import pytest

import simlab.estimators_table
from simlab.cli import main
from simlab.estimators import REGISTRY, Estimator, center, chain, register, stateless
from simlab.estimators import registry as registry_module
from simlab.estimators_table import HEADINGS, as_entries, markdown_line, peak, plain_list, signs
from simlab.theory import Masses

MARKER = "<!-- estimators table -->"
PAGE = Path(__file__).parent.parent / "docs" / "reference" / "estimators.md"


@pytest.fixture
def own_estimators(monkeypatch):
    """Registers estimators for one test only."""
    monkeypatch.setattr(registry_module, "_REGISTRY", registry := dict(REGISTRY))
    monkeypatch.setattr("simlab.estimators_table.REGISTRY", registry)
    return register


def cells(name):
    """The cells of an estimator's line, by heading."""
    line = markdown_line(simlab.estimators_table.REGISTRY[name])
    return dict(zip(HEADINGS, line.strip("| ").replace(r"\|", "!").split(" | "), strict=True))


def made(success, failure):
    """Masses by number of successes."""
    return Masses(np.arange(len(success)), np.array(success, dtype=float), np.array(failure, dtype=float))


def test_the_documentation_shows_what_the_command_prints(capsys):
    assert main(["estimators", "--markdown"]) == 0
    before, shown, after = PAGE.read_text(encoding="utf-8").split(MARKER)
    assert before.endswith("\n")
    assert after.startswith("\n")
    assert shown == f"\n\n{capsys.readouterr().out}\n"


def test_a_line_says_what_the_registry_and_the_closed_forms_say():
    assert cells("asym_power") == {
        "estimator": "`asym_power(alpha_success=2.0, alpha_failure=2.0)` [fade:asym-power]",
        "advantage of rollout i": f"`{REGISTRY['asym_power'].formula}`",
        "m_S, m_F": "`p q^alpha_success`, `p^alpha_failure q`",
        "needs": "rewards",
        "for rewards": "[0, 1]",
        "signs": "biased, evens out",
        "mass peaks at p": "m_S 0.33, m_F 0.67",
    }


def test_a_bar_in_a_formula_does_not_end_its_cell():
    assert r"\|A_i\| / kappa" in markdown_line(REGISTRY["entropy_advantage"])
    assert cells("entropy_advantage")["advantage of rollout i"] == "`A_i + min(alpha H_it, !A_i! / kappa)`"


def test_signs():
    for success, failure, expected in (
        ([0, 1, 0], [0, 1 + 1e-12, 0], "balanced"),
        ([0, 1, 0], [0, 0, 0], "successes only"),
        ([0, 0, 0], [1, 1, 0], "failures only"),
        ([0, 2, 0], [0, 1, 0], "biased +"),
        ([0, 1, 0], [0, 1, 0.5], "biased -"),
        ([0, 2, 1], [0, 1, 2], "biased, evens out"),
        ([0, 0, 0], [0, 0, 0], "balanced"),
    ):
        assert signs(made(success, failure)) == expected


def test_peak():
    for success, failure, expected in (
        ([0, 1, 3, 0], [0, 1, 3, 0], "0.67"),
        ([0, 1, 3, 0], [0, 0, 0, 0], "0.67"),
        ([0, 0, 0, 0], [2, 1, 0, 0], "0.00"),
        ([0, 1, 3, 0], [0, -4, -1, 0], "m_S 0.67, m_F 0.33"),
        ([0, 1, 1 + 1e-12, 0], [0, 1, 1, 0], "0.33"),
        ([0, 0, 0, 0], [0, 0, 0, 0], "-"),
    ):
        assert peak(made(success, failure)) == expected


def test_an_own_estimator_is_listed_without_formula_and_form(own_estimators):
    @own_estimators("fade:dr-grpo")
    def doubled(factor: float = 2.0) -> Estimator:
        """Twice Dr. GRPO."""
        return chain(center(), lambda advantages, rollouts: factor * advantages)

    @own_estimators("casp:eq-4")
    def ranked() -> Estimator:
        """Reads candidates."""
        return chain(stateless(lambda advantages, rollouts: advantages, needs=frozenset({"topn_logp"})))

    assert list(cells("doubled").values()) == [
        "`doubled(factor=2.0)` [fade:dr-grpo]", "-", "none (computed)", "rewards", "any", "balanced", "0.50",
    ]  # fmt: skip
    assert list(cells("ranked").values()) == [
        "`ranked()` [casp:eq-4]", "-", "none (computed)", "rewards, topn_logp", "any", "-", "-",
    ]  # fmt: skip
    assert "doubled(factor=2.0)  [fade:dr-grpo]  needs rewards\n    Twice Dr. GRPO." in plain_list()
    assert as_entries()[-1]["formula"] == ""


def test_json_carries_formula_and_domain(capsys):
    assert main(["estimators", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert [(entry["formula"], entry["domain"]) for entry in entries] == [
        (entry.formula, entry.build().domain) for entry in REGISTRY.values()
    ]
