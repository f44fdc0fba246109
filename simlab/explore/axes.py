"""Say what the axes of the map are: which setting each is, and at which values it is simulated."""

from typing import NamedTuple


class Axis(NamedTuple):
    """An axis of the map.

    Attributes:
        setting: the setting of the panel whose runs the cells are; of ``weight`` it is gamma.
        values: of its columns or rows, increasing; every second one is in the coarse map.
        scale: ``log`` where curves are drawn against its logarithm.
    """

    setting: str
    values: tuple[float, ...]
    scale: str = "linear"


AXES = {
    "group size": Axis("group_size", (2, 4, 8, 16, 32, 64, 128, 256, 512), "log"),
    "gamma": Axis("weight", (0, 0.25, 0.5, 1, 2)),
    "learning rate": Axis("learning_rate", (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1), "log"),
    "actions": Axis("actions", (64, 128, 256, 512, 1024, 1536, 2048), "log"),
    "correct share": Axis("correct", (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64), "log"),
    "lag": Axis("lag", (0, 1, 2, 4, 8, 16, 32)),
    "false positives": Axis("false_positive", (0, 0.02, 0.05, 0.1, 0.2)),
    "epochs": Axis("epochs", (1, 2, 4, 6, 8)),
    "overlap": Axis("overlap", (-0.3, -0.1, 0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7)),
    "conflict": Axis("conflict", (0, 0.25, 0.5, 0.75, 1)),
    "hard rate": Axis("hard_rate", (0.001, 0.003, 0.01, 0.03, 0.1), "log"),
}
