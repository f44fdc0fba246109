"""The numbers that figures keep of runs say what README.md and the figures say of them."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import figures
from figures import ceiling_or_clock, interference_league, league, network_law, network_league, remax
from figures import surrogates as surrogates_figure
from figures.shared import decomposition
from figures.shared.decomposition import PAIRS
from simlab.surrogates import SURROGATES
from simlab.sweeps.presets.base import WEIGHTS

pytestmark = pytest.mark.slow
FOLDER = Path(figures.__file__).parent
README = (FOLDER / "README.md").read_text()
PARAGRAPHS = " ".join(README.split())


def load(script):
    return json.loads(script.DATA.read_text())


def test_both_readmes_count_the_weights_that_fall_as_the_data_do():
    """A weight at the better of its best rate and its best norm; between the two kinds lies a gap of .27."""
    data = load(interference_league)
    at_equal_mass: dict[str, float] = {}
    for rival in data["rivals"]:
        if rival["sweep"] in {"rate", "norm"}:
            mean = (rival["levels"][interference_league.SHOWN] or {"mean": 0.0})["mean"]
            at_equal_mass[rival["name"]] = max(mean, at_equal_mass.get(rival["name"], 0.0))
    fallen = [mean for mean in at_equal_mass.values() if 0 < mean < 0.73]
    assert f"{len(fallen)} of the {len(at_equal_mass)} weights" in README
    assert f"{len(fallen)} of {len(at_equal_mass)} weights" in (FOLDER.parent / "README.md").read_text()
    easy = {rival["name"] for rival in data["rivals"] if rival["sweep"] == "easy"}
    assert easy == {"reject_easy(base=grpo)", "reject_easy(base=maxrl)"}
    pairs, weights, shares = decomposition.tables(data["decomposition"]).split("\n\n")
    assert len(pairs.splitlines()) == 2 + sum(map(len, PAIRS.values()))
    assert len(weights.splitlines()) == 2 + len(data["decomposition"]["norm"]["weights"])
    assert [line.split(":")[0] for line in shares.splitlines()] == ["norm", "rate"]


def test_on_a_bank_remax_keeps_more_rare_mass_than_any_baseline_and_takes_longer():
    data = load(remax)
    assert remax.table(data) in README
    weights = data["bank"]["weights"]
    for name in ("reinforce", "dr_grpo", "mc_grpo", "nsr"):
        first, second = weights["remax"]["at_level"], weights[name]["at_level"]
        assert first["mean"] - second["mean"] > 5 * np.hypot(first["error"], second["error"])
    cost = {name: np.argmax(np.array(weight["pass_at_1"]["mean"]) >= 0.6) for name, weight in weights.items()}
    assert cost["remax"] > 1.5 * cost["dr_grpo"]


# Not on the bank, which is of one advantage a rollout: advantages of tokens, parts and roles.
TOKENS = {"cw_grpo", "entropy_advantage", "advantage_reweighting", "optimal_token_baseline", "opd", "gdpo", "rae"}
WITHOUT_EPOCHS = {"entropy_target_clip"}  # its target is a choice of the run


def rows_of(data, sweeps):
    return {rival["name"] for rival in data["rivals"] if rival["sweep"] in sweeps}


def test_every_weight_has_a_row_in_the_leagues_and_in_ceiling_or_clock():
    weights = set(WEIGHTS)
    assert rows_of(load(interference_league), {"rate"}) == rows_of(load(interference_league), {"norm"}) == weights
    wanted = {"representation": "one", "optimizer": "adam", "group_size": "8", "hard_rate": "0.01", "prompts": "32"}
    of_network = network_league.selected(load(network_league), wanted | {"prompts_per_step": "0", "level": "0.45"})
    assert weights <= {row["method"].removesuffix("(gamma=1)") for row in of_network if row["beside"] == ""}
    assert set(load(league)["named"]) == weights - TOKENS
    sweeps = load(ceiling_or_clock)["sweeps"]
    assert set(sweeps["interference"]["pass@1"]["whole"]) == weights
    assert set(sweeps["bank"]["pass@1"]["whole"]) == weights - TOKENS
    surrogates = {f"grpo+{name}" for name in SURROGATES}
    assert rows_of(load(interference_league), {"surrogates"}) == surrogates
    several = {row["method"] for row in of_network if row["beside"] == "epochs = 4"}
    assert surrogates - {"grpo+reinforce"} | {"grpo"} <= several
    assert set(load(surrogates_figure)["epochs"]) == set(SURROGATES) - WITHOUT_EPOCHS


def counted(data, sweep, metric):
    fits = data["sweeps"][sweep][metric]["whole"]
    return Counter(ceiling_or_clock.verdict(fit) for name, fit in fits.items() if name != "grpo")


def test_the_readme_counts_ceilings_and_clocks_as_the_data_do():
    data = load(ceiling_or_clock)
    ceiling = counted(data, "interference", "pass@1")
    alike = sum(number for words, number in ceiling.items() if words.startswith("same asymptote"))
    assert f"**{alike} of {ceiling.total()} weights change only the clock of pass@1**" in PARAGRAPHS
    assert f"{ceiling['same asymptote, slower']} of them slower" in PARAGRAPHS
    assert f"The other {ceiling['no sigmoid']} have no ceiling" in PARAGRAPHS
    wide = counted(data, "interference", "pass@256")
    later = sum(number for words, number in wide.items() if words.startswith("same asymptote"))
    assert f"For pass@256 (c) {later} of {wide.total()} come to GRPO's asymptote" in PARAGRAPHS
    bank = counted(data, "bank", "pass@1")
    assert f"{bank['undecided']} of {bank.total()} weights are undecided" in PARAGRAPHS
    assert f"for GRPO and {counted(data, 'bank', 'pass@256')['not bending yet']} others" in PARAGRAPHS
    # Weights whose pass@1 fits no sigmoid end above GRPO's pass@256, at 1 to three places.
    sweep = data["sweeps"]["interference"]
    plateaus = [name for name, fit in sweep["pass@1"]["whole"].items() if ceiling_or_clock.verdict(fit) == "no sigmoid"]
    assert len(plateaus) == 6
    curves = sweep["pass@256"]["curves"]
    assert all(curves[name]["mean"][-1] == pytest.approx(1, abs=5e-4) for name in plateaus)
    assert curves["grpo"]["mean"][-1] < 0.51


def hits_of(data):
    """Hits and judgements of levels, orders and partings, over all cells."""
    cells = [[*network_law.judged(data["methods"], cell).values()] for cell in data["cells"]]
    return np.sum(cells, axis=0).tolist()


def test_the_league_judges_two_predictions_as_the_page_of_the_law_says():
    earlier, later = (
        network_law.in_the_league(json.loads(path.read_text()))
        for path in (network_law.EARLIER, network_law.PREDICTION)
    )
    assert hits_of(later) == [[119, 124], [193, 195], [100, 101]]
    adam = [cell for cell in earlier["cells"] if cell["optimizer"] == "adam"]
    assert hits_of(earlier | {"cells": adam})[:2] == [[13, 24], [65, 66]]
    (four,) = (cell for cell in adam if cell["group_size"] == 4)
    assert (min(four["measured"]), max(four["measured"])) == pytest.approx((0.729, 0.781), abs=5e-4)
    above = [np.subtract(cell["measured"], cell["predicted"]) for cell in adam]
    assert np.max(above) < 0.001


def test_the_law_hits_what_its_page_says_and_turned_coordinates_hardly_part_the_weights():
    data = load(network_law)
    assert hits_of(data) == [[184, 190], [258, 260], [149, 153]]
    standard, turned = (data["control"]["bases"][name]["measured"] for name in ("adam", "adam, turned"))
    assert max(standard) - min(standard) > 0.1
    assert max(turned) - min(turned) < 0.04
