"""Let the devices of a process compute one piece of work each, in turns."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax


def on_each(
    devices: Sequence[jax.Device], compute: Callable[..., Any], pieces: Iterable[Any], *arrays: Any
) -> Iterator[Any]:
    """``compute(piece, *arrays)`` of each piece in their order: the i-th on device i modulo their number.

    What is computed does not depend on the number of devices. A piece is computed by one device alone, by the same
    program whichever it is; so its bits are the same on devices of one kind. The results are on the first device.

    Args:
        devices: one or more. Only as many are used as there are pieces.
        compute: must leave what it computes to JAX, which does not wait for it: that is why the devices work at once.
        pieces: each device is given its next one when all devices are done with theirs, so that no more results than
            devices wait to be taken.
        arrays: nested arrays, which every device gets a copy of.
    """
    if len(devices) == 1:
        yield from (compute(piece, *arrays) for piece in pieces)
        return
    copies, left = [arrays], iter(pieces)
    while turn := list(itertools.islice(left, len(devices))):
        for device in devices[len(copies) : len(turn)]:
            copies.append(jax.device_put(arrays, device))
        found = [compute(piece, *copy) for piece, copy in zip(turn, copies, strict=False)]
        jax.block_until_ready(found)  # type: ignore[no-untyped-call]
        yield from (_moved(each, devices[0]) for each in found)


def _moved(found: Any, device: jax.Device) -> Any:
    """With its arrays on this device; what holds none, such as a microbatch of NumPy's, stays as it is."""
    return jax.tree.map(lambda leaf: jax.device_put(leaf, device) if isinstance(leaf, jax.Array) else leaf, found)
