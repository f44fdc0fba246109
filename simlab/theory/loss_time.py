"""The time until an easy prompt has pushed a hard one down, where what they share stays fixed.

Two prompts share parameters, and what the update of one moves the log-odds of the other by stays in one direction: the
regime of a fixed tangent kernel (Jacot et al., arXiv:1806.07572), exact for two answers on a linear head. With x the
log-odds, m(x) = kappa Q (1 - Q) the pace of learning at them, and t the learning rate times the steps,

    dx_easy / dt = own m(x_easy),   dx_hard / dt = -pull m(x_easy),

as the hard prompt's own part vanishes with its solve rate ``[simlab:interference-drift]``. The hard prompt loses
pull / own of what the easy one gains, along a straight line; the time is that of the easy one alone. A prompt that is
drowned by a faster one is the gradient starvation of Pezeshki et al. (arXiv:2011.09468) between features.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from simlab.errors import check_choice, check_range

# The integral of dx / m(x): of one speed at all solve rates; of GRPO in large groups, m = sqrt(Q (1 - Q)); and of steps
# of one length, as Adam's are where one prompt rules the update.
CLOCKS: Mapping[str, Callable[[Any], Any]] = {
    "one speed": lambda x: 2 * x + 2 * np.sinh(x),
    "grpo": lambda x: 4 * np.sinh(x / 2),
    "one length": lambda x: x,
}


def time_until_lost(easy_rate: float, drop: float, *, own: float, pull: float, pace: str = "one speed") -> float:
    """Learning rate x steps until the hard prompt's log-odds have fallen by ``drop`` ``[simlab:interference-time]``.

    (F(x + own drop / pull) - F(x)) / own, with F the integral of dx / m(x) and x the log-odds of the easy prompt. It
    grows as exp(own drop / pull) at one speed, as the square root of that under GRPO, and as the drop in steps of one
    length: nothing but the vanishing of its gradient keeps an easy prompt from taking all.

    Args:
        easy_rate: solve rate of the easy prompt at the start.
        drop: in nats; from Q to a rate at which n rollouts hold no success, about log(n Q).
        own, pull: of the easy prompt's update on itself, and minus that on the hard one, in log-odds, at m = 1.
        pace: a key of ``CLOCKS``.

    >>> round(time_until_lost(0.5, 2.0, own=1.0, pull=0.5), 3), time_until_lost(0.5, 2.0, own=1, pull=0.5,
    ...                                                                          pace="one length")
    (62.58, 4.0)
    """
    check_range("easy_rate", easy_rate, 1e-12, 1 - 1e-12)
    for name, value in (("drop", drop), ("own", own), ("pull", pull)):
        check_range(name, value, 0, open_low=True)
    check_choice("pace", pace, CLOCKS)
    clock, start = CLOCKS[pace], np.log(easy_rate / (1 - easy_rate))
    return float((clock(start + own * drop / pull) - clock(start)) / own)
