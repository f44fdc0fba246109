"""Read the arms of a training run: a method, and behind ``@`` settings of ``rl`` that this arm has for itself.

``simlab.arms`` reads the method::

    grpo@group_size=4@learning_rate=1e-4    f_grpo(gamma=0.5)@token_mean@temperature=0.8
"""

import re
from typing import Any, NamedTuple

from simlab.arms import Arm, parse
from simlab.errors import InputError
from simlab.text import read_value

OWN = re.compile(r"(.*)@([^@=()]+)=([^@=()]*)", re.DOTALL)


class TrainingArm(NamedTuple):
    """An arm as it is written.

    Attributes:
        method: what weights it gives.
        own: by name, the settings of ``rl`` that are not the run's.
    """

    method: Arm
    own: dict[str, Any]

    @property
    def key(self) -> tuple[Arm, frozenset[tuple[str, Any]]]:
        """Equal for arms that differ in spelling alone."""
        return self.method, frozenset(self.own.items())


def read_arm(text: str) -> TrainingArm:
    """The arm that a text says.

    Raises:
        InputError: for a text that cannot be read, and a setting that is given twice.

    >>> arm = read_arm("f_grpo(gamma=0.5)@token_mean @ group_size = 4 @learning_rate=1e-4")
    >>> str(arm.method), arm.own
    ('f_grpo(gamma=0.5)@token_mean', {'group_size': 4, 'learning_rate': 0.0001})
    """
    method, own = text, dict[str, Any]()
    while found := OWN.fullmatch(method):
        method, name, value = found[1], found[2].strip(" "), read_value(found[3].strip(" "))
        if name in own:
            raise InputError(f"arm {text!r} has {name} twice; allowed: each setting once")
        own = {name: value, **own}
    return TrainingArm(parse(method), own)
