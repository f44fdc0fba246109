"""Name views after the papers' figures: a panel, and those of its settings that differ from the defaults."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simlab.errors import InputError
from simlab.explore.settings import SIMULATED


@dataclass(frozen=True)
class Preset:
    """A panel with settings, named by their names without the panel; ``title`` says what is to be seen there."""

    panel: str
    title: str
    settings: Mapping[str, Any]


PRESETS: Mapping[str, Preset] = {
    "f-grpo-fig1a": Preset(
        "miss",
        "F-GRPO Figure 1(a): groups of middling size teach most often without having seen the rare target",
        {"group_size": 32, "correct_mass": 0.5, "target_mass": 0.01},
    ),
    "f-grpo-fig5": Preset(
        "miss",
        "F-GRPO Figure 5: the tail-miss probability of one rare correct action in the simulator of its App. J",
        {"group_size": 256, "correct_mass": 0.6301, "target_mass": 6.297e-5},
    ),
    "f-grpo-fig4": Preset(
        "masses",
        "F-GRPO Figure 4: the focal weight turns GRPO towards prompts that are rarely solved",
        {"weight": "grpo", "group_size": 8, "pinned": "f_grpo(gamma=0.5);f_grpo(gamma=1);f_grpo(gamma=2)"},
    ),
    "a-grae-fig6": Preset(
        "masses",
        "A-GRAE Figure 6: GRPO's update is largest at a solve rate of one half, and symmetric about it",
        {"weight": "grpo", "group_size": 16, "pinned": "hard_focused;easy_focused"},
    ),
    "a-grae-table1": Preset(
        "masses",
        "A-GRAE's controls: successes or failures weighed ten times as much",
        {"weight": "a_grae", "group_size": 8, "pinned": "grpo;positive_dominant;negative_dominant"},
    ),
    "fade-fig2": Preset(
        "masses",
        "FADE Figure 2: mixed pass@k and W-REINFORCE beside the two axes, sign and difficulty",
        {
            "weight": "grpo",
            "group_size": 16,
            "pinned": "mix(k=4);w_reinforce;power_alpha(alpha=3);asym_grpo(delta=0.5)",
        },
    ),
    "f-grpo-prop-3.2": Preset(
        "step",
        "F-GRPO Proposition 3.2: the correct mass grows, and the correct actions that the group missed lose",
        {"sampled_correct": "10000", "sampled_incorrect": "01000", "group_size": 4},
    ),
    "f-grpo-fig2": Preset(
        "run",
        "F-GRPO Figure 2 in small: middling groups reach all of the correct mass and lose most rare actions",
        {"group_size": 64, "actions": 1280, "correct": 0.08, "steps": 800},
    ),
    "f-grpo-fig2-focal": Preset(
        "run",
        "F-GRPO Figure 2 in small, with the focal weight: slower, and more of the rare actions stay",
        {"weight": "f_grpo(gamma=1,base=grpo)", "group_size": 64, "actions": 1280, "correct": 0.08, "steps": 800},
    ),
    "expected-drift": Preset(
        "run",
        "Plain gradient steps beside their expectation: the line is theory, the band is simulated",
        {
            "weight": "dr_grpo",
            "optimizer": "sgd",
            "learning_rate": 1.0,
            "group_size": 16,
            "actions": 64,
            "correct": 0.25,
        },
    ),
    "fade-fig10": Preset(
        "bank",
        "FADE Figure 10: most prompts are nearly unsolved or nearly solved",
        {"beta_a": 0.3, "beta_b": 0.7},
    ),
    "fade-fig12": Preset(
        "bank",
        "FADE Figure 12: what pass@k becomes where some prompts are easy and most are hard",
        {"beta_a": 0.3, "beta_b": 4.0, "second_share": 0.4, "second_a": 6.0, "second_b": 2.0},
    ),
    "interference": Preset(
        "interference",
        "The phenomenon: pass@1 rises while pass@256 falls below the base model's, for prompts share features",
        {},
    ),
    "interference-large-groups": Preset(
        "interference",
        "MaxRL with groups that see the hard prompts' answers: nothing falls",
        {"weight": "maxrl", "group_size": 32, "map": "group-size"},
    ),
    "casp-fig5": Preset(
        "tree",
        "CaSP Figure 5: GRPO ends in few modes, an entropy bonus leaks, CaSP keeps modes (in some settings)",
        {"candidates": "4"},
    ),
}
# What is compiled at start, the likeliest first.
WARM: tuple[tuple[str, Mapping[str, Any]], ...] = (
    *((panel, {}) for panel in SIMULATED),
    *((preset.panel, preset.settings) for preset in PRESETS.values() if preset.panel in SIMULATED),
)


def preset(name: str) -> Preset:
    """The preset of a name.

    Raises:
        InputError: for an unknown one; it lists the known, the closest first.
    """
    if name not in PRESETS:
        closest = difflib.get_close_matches(name, PRESETS, len(PRESETS), cutoff=0)
        raise InputError(f"preset = {name!r} is unknown; allowed: {', '.join(closest)}")
    return PRESETS[name]
