"""Name views after the papers' figures: a panel, and those of its settings that differ from the defaults."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from simlab.explore.controls import BY_NAME, EQUAL_ROLLOUTS, SIMULATED


class Preset(NamedTuple):
    """A panel with settings that differ from the defaults, the question that it answers, and the finding seen there."""

    panel: str
    question: str  # the page lists presets by it
    title: str
    settings: Mapping[str, Any]  # by their names without the panel


EQUAL_COST: Mapping[str, Any] = {
    "problem": "interfering prompts", "down": "learning rate (sgd)", "quantity": "correct mass",
    "optimizer": "sgd", "length": EQUAL_ROLLOUTS, "rollouts": 2**18,
}  # fmt: skip
PRESETS: Mapping[str, Preset] = {
    "f-grpo-fig1a": Preset(
        "miss", "Which group size misses a rare answer most often?",
        "F-GRPO Figure 1(a): groups of middling size teach most often without having seen the rare target",
        {"group_size": 32, "correct_mass": 0.5, "target_mass": 0.01},
    ),
    "f-grpo-fig5": Preset(
        "miss", "How large must a group be to see an answer of 6 in 100 000?",
        "F-GRPO Figure 5: the tail-miss probability of one rare correct action in the simulator of its App. J",
        {"group_size": 256, "correct_mass": 0.6301, "target_mass": 6.297e-5},
    ),
    "f-grpo-fig4": Preset(
        "masses", "What does gamma do to easy and to hard prompts?",
        "F-GRPO Figure 4: the focal weight turns GRPO towards prompts that are rarely solved",
        {"weight": "grpo", "group_size": 8, "pinned": "f_grpo(gamma=0.5);f_grpo(gamma=1);f_grpo(gamma=2)"},
    ),
    "a-grae-fig6": Preset(
        "masses", "Which prompts move GRPO most?",
        "A-GRAE Figure 6: GRPO's update is largest at a solve rate of one half, and symmetric about it",
        {"weight": "grpo", "group_size": 16, "pinned": "hard_focused;easy_focused"},
    ),
    "a-grae-table1": Preset(
        "masses", "What if successes, or failures, weigh ten times as much?",
        "A-GRAE's controls: successes or failures weighed ten times as much",
        {"weight": "a_grae", "group_size": 8, "pinned": "grpo;positive_dominant;negative_dominant"},
    ),
    "fade-fig2": Preset(
        "masses", "How do published weights differ in sign and difficulty?",
        "FADE Figure 2: mixed pass@k and W-REINFORCE beside the two axes, sign and difficulty",
        {"weight": "grpo", "group_size": 16,
         "pinned": "mix(k=4);w_reinforce;power_alpha(alpha=3);asym_grpo(delta=0.5)"},
    ),
    "f-grpo-prop-3.2": Preset(
        "step", "Who loses when the correct mass grows?",
        "F-GRPO Proposition 3.2: the correct mass grows, and the correct actions that the group missed lose",
        {"sampled_correct": "10000", "sampled_incorrect": "01000", "group_size": 4},
    ),
    "f-grpo-fig2": Preset(
        "run", "Why do middling groups lose rare answers?",
        "F-GRPO Figure 2 in small: middling groups reach all of the correct mass and lose most rare actions",
        {"weight": "grpo", "group_size": 64, "actions": 1280, "correct": 0.08, "steps": 800,
         "pinned": "weight=grpo&group_size=4&steps=800;weight=grpo&group_size=512&steps=800"},
    ),
    "f-grpo-fig2-focal": Preset(
        "run", "Does gamma keep rare answers, and at what cost?",
        "F-GRPO Figure 2 in small, with the focal weight: slower, and more of the rare actions stay",
        {"weight": "f_grpo(gamma=1,base=grpo)", "group_size": 64, "actions": 1280, "correct": 0.08, "steps": 800,
         "pinned": "weight=f_grpo(gamma=0,base=grpo)&group_size=64&steps=800"},
    ),
    "expected-drift": Preset(
        "run", "Does theory predict a run?",
        "Plain gradient steps beside their expectation: the line is theory, the band is simulated",
        {"weight": "dr_grpo", "pinned": "", "optimizer": "sgd", "learning_rate": 1.0, "group_size": 16, "actions": 64,
         "correct": 0.25},
    ),
    "fade-fig10": Preset(
        "bank", "What does a bank of very easy and very hard prompts look like?",
        "FADE Figure 10: most prompts are nearly unsolved or nearly solved",
        {"beta_a": 0.3, "beta_b": 0.7},
    ),
    "fade-fig12": Preset(
        "bank", "What is pass@k where most prompts are hard?",
        "FADE Figure 12: what pass@k becomes where some prompts are easy and most are hard",
        {"beta_a": 0.3, "beta_b": 4.0, "second_share": 0.4, "second_a": 6.0, "second_b": 2.0},
    ),
    "interference": Preset(
        "interference", "When does pass@256 fall while pass@1 rises?",
        "The phenomenon: pass@1 rises while pass@256 falls below the base model's, for prompts share features",
        {},
    ),
    "interference-large-groups": Preset(
        "interference", "Can large groups keep pass@256?",
        "MaxRL with groups that see the hard prompts' answers: nothing falls",
        {"weight": "maxrl", "second": "grpo", "group_size": 32, "map": "group-size"},
    ),
    "when-a-weight-matters": Preset(
        "interference", "When does a weight matter at equal pass@1?",
        "In a network with Adam, MaxRL keeps more of pass@256 than GRPO at equal pass@1; with plain steps hardly more",
        {"representation": "network", "optimizer": "adam", "learning_rate": 0.0005, "level": 0.45},
    ),
    "casp-fig5": Preset(
        "tree", "Which method keeps several right answers?",
        "CaSP Figure 5: GRPO ends in few modes, an entropy bonus leaks, CaSP keeps modes (in some settings)",
        {"candidates": "4"},
    ),
    "f-grpo-fig2c": Preset(
        "map", "Which group size, and which gamma?",
        "F-GRPO Figure 2(c) in small: middling groups lose the rare answers, and gamma keeps them",
        {"quantity": "retained mass"},
    ),
    "group-size-budget": Preset(
        "map", "Which group size for 2^18 rollouts, where a tenth of the prompts are hard?",
        "At equal rollouts, each size at its best learning rate: all sizes lose the hard prompts; drag their share",
        {**EQUAL_COST, "hard_share": 0.1, "cell": "64,64", "pinned": "4,64"},
    ),
    "group-size-mostly-hard": Preset(
        "map", "Which group size for 2^18 rollouts, where three quarters of the prompts are hard?",
        "At equal rollouts, each size at its best learning rate: up to 128 they solve the hard ones; drag the rollouts",
        {**EQUAL_COST, "hard_share": 0.75, "cell": "64,256", "pinned": "8,64"},
    ),
    "map-overlap": Preset(
        "map", "At which overlap and group size does pass@256 fall?",
        "Interfering prompts: pass@256 after training by group size and overlap, beside correct mass",
        {"problem": "interfering prompts", "across": "group size", "down": "overlap", "quantity": "pass@256",
         "optimizer": "sgd", "learning_rate": 1.0, "steps": 200, "seeds": 4, "cell": "8,0.3", "pinned": "8,0"},
    ),
}  # fmt: skip
# Compiled at start, the likeliest first.
WARM: tuple[tuple[str, Mapping[str, Any]], ...] = (
    *((panel, {}) for panel in SIMULATED),
    *((preset.panel, preset.settings) for preset in PRESETS.values() if preset.panel in SIMULATED),
    ("interference", {"weight": BY_NAME["interference.second"].default}),
)
