"""Spend what is known of interference: weigh the prompts of a batch, turn its update, or choose its prompts.

With K_ij the push of source i on target j (``simlab.interference.kernel``), and a target *in danger* where its net push
is below 0:

- **damp, drop.** The harm of a source is the sum of the negative parts of K_ij over the targets in danger. A source
  gets a smaller weight by its harm, or none if it is among those that harm most.
- **project.** The update g moves to the nearest one that pushes no protected target down: g + sum_j l_j u_j, with the
  smallest l >= 0 for which <u_j, M g> + sum_k l_k <u_j, M u_k> >= 0. For one target in danger that is gradient surgery
  (PCGrad, Yu et al., arXiv:2001.06782), which takes away the part of a gradient along a gradient that it conflicts
  with; for many it is the quadratic programme of gradient episodic memory (GEM, Lopez-Paz and Ranzato,
  arXiv:1706.08840), solved by Hildreth's method, one target after another. u_j is a weighted sum of the gradients of
  j's rollouts, so that this is a weight on rollouts too: l_j times ``kernel.solve_rate_weights`` beside their own.
- **endangered.** Targets in danger come into the batch first.

Functions take arrays of NumPy, torch or JAX. Axes: S sources, N targets.
"""

from collections.abc import Callable
from typing import Any

from array_api_compat import array_namespace
from jaxtyping import Bool, Float, Int, Num

from simlab.rollouts import or_one

SWEEPS = 16  # of Hildreth's method
Array = Any
Loop = Callable[[int, int, Callable[[Any, Any], Any], Any], Any]


def harm(kernel: Float[Array, "S N"], in_danger: Bool[Array, " N"]) -> Float[Array, " S"]:
    """Sum the negative parts of the pushes of each source over the targets in danger.

    >>> import numpy as np
    >>> harm(np.array([[1.0, -2.0], [-0.5, 1.0]]), np.array([False, True]))
    array([2., 0.])
    """
    xp = array_namespace(kernel)
    counted = (kernel < 0) & in_danger[None, :]
    return xp.sum(xp.where(counted, -kernel, xp.zeros_like(kernel)), axis=1)


def damped(harms: Float[Array, " S"], strength: Any) -> Float[Array, " S"]:
    """Return the weight of each source, 1 - ``strength`` harm / largest harm; 1 where none harms.

    >>> import numpy as np
    >>> damped(np.array([2.0, 0.0, 1.0]), 0.5)
    array([0.5 , 1.  , 0.75])
    """
    xp = array_namespace(harms)
    worst = xp.max(harms)
    return 1 - strength * harms / or_one(worst)


def without_worst(harms: Float[Array, " S"], strength: Any) -> Float[Array, " S"]:
    """Return 0 for the share ``strength`` of the sources that harm, the worst of them, and 1 for all others.

    Of three sources that harm, a strength of .5 drops the worst two: the number is rounded up. Equal ones go together.

    >>> import numpy as np
    >>> without_worst(np.array([2.0, 0.0, 1.0, 3.0]), 0.5)
    array([0., 1., 1., 0.])
    """
    xp = array_namespace(harms)
    harmful, worse = xp.astype(harms > 0, harms.dtype), xp.astype(harms[None, :] > harms[:, None], harms.dtype)
    dropped = (harms > 0) & (xp.sum(worse, axis=1) < strength * xp.sum(harmful))
    return xp.where(dropped, xp.zeros_like(harms), xp.ones_like(harms))


def in_sequence(first: int, last: int, function: Callable[[Any, Any], Any], carry: Any) -> Any:
    """Apply a function from ``first`` to ``last`` - 1, as ``jax.lax.fori_loop`` does in a compiled program."""
    for index in range(first, last):
        carry = function(index, carry)
    return carry


def projection(
    net: Float[Array, " N"],
    inner: Float[Array, "N N"],
    protected: Bool[Array, " N"],
    *,
    sweeps: int = SWEEPS,
    loop: Loop = in_sequence,
) -> Float[Array, " N"]:
    """Find how much of each u_j is added to an update for it to push no protected target down.

    Args:
        net: <u_j, M g>, what the update g does to each target.
        inner: <u_j, M u_k>; a target whose u is 0 gets 0.
        protected: targets that may not be pushed down, whether g does or what is added for others.
        sweeps: over the targets; the first is gradient surgery, one target after another.
        loop: ``jax.lax.fori_loop`` in a program that JAX compiles.

    >>> import numpy as np
    >>> projection(np.array([-1.0, 0.5]), np.array([[2.0, -0.5], [-0.5, 1.0]]), np.array([True, True]))
    array([0.5, 0. ])
    """
    xp = array_namespace(net)
    count, positions = net.shape[0], xp.arange(net.shape[0])
    length = xp.linalg.diagonal(inner)
    able = protected & (length > 0)

    def lift(turn: Any, multipliers: Float[Array, " N"]) -> Float[Array, " N"]:
        target = turn % count
        pushed = net[target] + xp.sum(inner[target] * multipliers)
        raised = multipliers[target] - pushed / xp.where(able[target], length[target], xp.ones_like(pushed))
        chosen = (positions == target) & able[target] & (raised > 0)
        cleared = xp.where(positions == target, xp.zeros_like(multipliers), multipliers)
        return xp.where(chosen, raised, cleared)

    return loop(0, sweeps * count, lift, xp.zeros_like(net))


def in_danger_first(
    net: Float[Array, " N"], order: Num[Array, " N"], count: int, strength: Any
) -> Int[Array, " count"]:
    """Choose a batch: the worst prompts in danger on a share of the seats, and all others by their ``order``.

    ``strength`` is the largest share of the batch that prompts in danger get for being so, rounded down; a net push of
    0 or NaN is no danger. ``order`` are numbers of which the smaller come first, such as random ones.

    >>> import numpy as np
    >>> in_danger_first(np.array([-1.0, 0.0, -3.0, 2.0]), np.array([3, 1, 2, 0]), 2, 0.5)
    array([2, 3])
    """
    xp = array_namespace(net)
    pushed = xp.where(net < 0, net, xp.zeros_like(net))
    rank = xp.argsort(xp.argsort(pushed, stable=True), stable=True)
    first = (net < 0) & (rank + 1 <= strength * count)
    by_order = xp.argsort(xp.argsort(order, stable=True), stable=True)
    return xp.argsort(xp.where(first, rank - net.shape[0], by_order), stable=True)[:count]
