"""Bytes that a program holds and moves on a device, read off its operations before any compiler sees them.

Two models of a compiler bound a real one. One keeps the result of every operation in memory (``apart``); the
other makes element-wise operations part of what reads them, so that only results of sums, gathers, scatters, products,
sorts and loops, and what the program returns, are ever in memory (``fused``). Two arrays of the same size may share
memory if an element-wise operation reads the first for the last time and writes the second. A loop of a known length
counts as often as it runs, any other once.
"""

import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "custom_jvp_call": "call_jaxpr",
         "custom_vjp_call": "call_jaxpr", "remat2": "jaxpr", "checkpoint": "jaxpr"}  # fmt: skip
LOOKS_UP = {"gather", "dynamic_slice"}  # they read as much as they return
REPLACES = {"dynamic_update_slice"}  # like scatters, they write into the array that they read, if nobody needs it again
KEPT_APART = {"dot_general", "conv_general_dilated", "sort", "top_k", "approx_top_k", "optimization_barrier", "copy_p"}
KEPT_BEGINNINGS = ("reduce_", "arg", "cum", "scatter")


class Value:
    """An array of a program. It is in memory, or made anew by each reader from its ``roots``, which are."""

    def __init__(self, size: int, roots: Iterable["Value"] | None = None):
        self.size = size
        self.roots = frozenset([self]) if roots is None else frozenset(roots)


Views = list[tuple[Value, Value]]


class Operation(NamedTuple):
    """Bytes that an operation reads and writes of each array, moves in all, with its loops, and holds inside."""

    reads: dict[Value, int]
    writes: dict[Value, int]
    moved: int
    inside: int = 0
    in_place: bool = True


class Estimate(NamedTuple):
    """Bytes of a program.

    Attributes:
        held: by its inputs.
        peak: held at most, together.
        moved: read and written.
        least: read of its inputs, and written of its outputs: no program of its kind moves less.
    """

    held: int
    peak: int
    moved: int
    least: int


def estimate(program: ClosedJaxpr, platform: str, reuse: Sequence[bool], *, fused: bool) -> Estimate:
    """The bytes of a program on a platform; ``reuse`` says of each input whether the caller needs it afterwards."""
    inputs = [Value(_size(variable.aval)) for variable in program.jaxpr.invars]
    block = _Block(platform, fused)
    outputs = [block.in_memory(value) for value in block.follow(program.jaxpr, inputs)]
    held = sum(value.size for value in inputs)
    needed = {value for value, needs in zip(inputs, reuse, strict=True) if needs} | set(outputs)
    peak = held + most_held(block.operations, set(inputs), needed)
    read, written = _totals(block.operations)
    least = sum(min(value.size, read.get(value, 0)) for value in inputs)
    least += sum(min(value.size, written.get(value, 0)) for value in set(outputs) - set(inputs))
    return Estimate(held, peak, sum(operation.moved for operation in block.operations), least)


def most_held(operations: Sequence[Operation], inputs: set[Value], needed: set[Value]) -> int:
    """Bytes that operations hold at most, beside their ``inputs``; ``needed`` arrays outlive them."""
    last = {value: index for index, step in enumerate(operations) for value in (*step.reads, *step.writes)}
    live, most, mine = 0, 0, set(inputs)
    for index, operation in enumerate(operations):
        new = [value for value in operation.writes if value not in mine]
        ending = [v for v in operation.reads if last[v] == index and v not in needed and v in mine]
        taken = _same_size(new, ending) if operation.in_place else 0
        live += sum(value.size for value in new) - taken
        most = max(most, live + operation.inside)
        mine.update(new)
        unread = [value for value in new if last[value] == index and value not in needed]
        live -= sum(value.size for value in (*ending, *unread)) - taken
    return most


def _same_size(new: Sequence[Value], ending: Sequence[Value]) -> int:
    """Bytes of new arrays that can reuse the memory of arrays that end."""
    free, taken = [value.size for value in ending], 0
    for value in new:
        if value.size in free:
            free.remove(value.size)
            taken += value.size
    return taken


def _totals(operations: Iterable[Operation]) -> tuple[dict[Value, int], dict[Value, int]]:
    read: dict[Value, int] = {}
    written: dict[Value, int] = {}
    for operation in operations:
        for total, sizes in ((read, operation.reads), (written, operation.writes)):
            for value, size in sizes.items():
                total[value] = total.get(value, 0) + size
    return read, written


def _size(aval: Any) -> int:
    return math.prod(aval.shape) * getattr(aval.dtype, "itemsize", 8)  # a key has two words


class _Block:
    """The operations of a program, or of one round of a loop, calls written out."""

    def __init__(self, platform: str, fused: bool):
        self.platform, self.fused = platform, fused
        self.operations: list[Operation] = []

    def follow(self, jaxpr: Jaxpr, arrays: Sequence[Value]) -> list[Value]:
        """Add the operations of a program on some arrays, and return its outputs."""
        values: dict[Any, Value] = dict(zip(jaxpr.invars, arrays, strict=True))
        values |= {variable: Value(_size(variable.aval)) for variable in jaxpr.constvars}

        def of(variable: Any) -> Value:
            return Value(0, ()) if isinstance(variable, Literal) else values[variable]

        for equation in jaxpr.eqns:
            results = self._added(equation, [of(variable) for variable in equation.invars])
            values.update(zip(equation.outvars, results, strict=True))
        return [of(variable) for variable in jaxpr.outvars]

    def in_memory(self, value: Value) -> Value:
        """The array itself if it is in memory, or else one that it is written to."""
        if value in value.roots:
            return value
        written = Value(value.size)
        self._work({root: root.size for root in value.roots}, {written: written.size})
        return written

    def _work(self, reads: dict[Value, int], writes: dict[Value, int], *, in_place: bool = True) -> None:
        moved = sum(reads.values()) + sum(writes.values())
        self.operations.append(Operation(reads, writes, moved, in_place=in_place))

    def _added(self, equation: Any, reads: list[Value]) -> list[Value]:
        name, sizes = equation.primitive.name, [_size(variable.aval) for variable in equation.outvars]
        if name in CALLS:
            inner = equation.params[CALLS[name]]
            return self.follow(getattr(inner, "jaxpr", inner), reads)
        if name == "cond" and equation.params.get("branches_platforms"):
            return self.follow(equation.params["branches"][self._branch(equation)].jaxpr, reads[1:])
        if name in ("scan", "while", "cond"):
            return self._nested(name, equation.params, reads, sizes)
        return self._worked(name, reads, sizes)

    def _worked(self, name: str, reads: list[Value], sizes: list[int]) -> list[Value]:
        """Outputs of an operation without programs inside."""
        if name == "optimization_barrier":
            return [self.in_memory(value) for value in reads]
        if name in LOOKS_UP:
            return self._looked_up(reads, sizes)
        if name in REPLACES or name.startswith("scatter"):
            return self._replaced(reads, sizes)
        roots = frozenset[Value]().union(*(value.roots for value in reads))
        is_kept = name in KEPT_APART or name.startswith(KEPT_BEGINNINGS)
        if self.fused and not is_kept:
            return [Value(size, roots) for size in sizes]
        results = [Value(size) for size in sizes]
        self._work({root: root.size for root in roots}, {value: value.size for value in results}, in_place=not is_kept)
        return results

    def _branch(self, equation: Any) -> int:
        platforms = equation.params["branches_platforms"]
        return next(index for index, names in enumerate(platforms) if names is None or self.platform in names)

    def _looked_up(self, reads: list[Value], sizes: list[int]) -> list[Value]:
        results, (operand, *indices) = [Value(size) for size in sizes], reads
        needed = {root: min(root.size, sizes[0]) for root in operand.roots}
        needed |= {root: root.size for index in indices for root in index.roots}
        self._work(needed, {value: value.size for value in results}, in_place=False)
        return results

    def _replaced(self, reads: list[Value], sizes: list[int]) -> list[Value]:
        """The array, changed in place. A copy for a later reader of the old array is not counted."""
        operand, *others = reads
        result, needed = Value(sizes[0]), {root: root.size for value in others for root in value.roots}
        size = sizes[0]
        if operand in operand.roots:
            size = min(size, 2 * max(value.size for value in others))
            needed |= {operand: 0}  # the result counts its reads and writes
        else:
            needed |= {root: root.size for root in operand.roots}
        self._work(needed, {result: size})
        return [result]

    def _nested(self, name: str, params: Any, reads: list[Value], sizes: list[int]) -> list[Value]:
        """A loop or a choice: the work of one round times the rounds, or of the dearest branch."""
        inputs = [self.in_memory(value) for value in (reads[1:] if name == "cond" else reads)]
        results, times = [Value(size) for size in sizes], params.get("length", 1)
        rounds = [self._round(body, views, carried) for body, views, carried in _bodies(name, params, inputs)]
        moved, inside, read = max(rounds, key=lambda counts: counts[0])
        outer = {value: min(value.size, times * read.get(value, 0)) for value in inputs}
        self.operations.append(Operation(outer, {value: value.size for value in results}, times * moved, inside))
        return results

    def _round(self, jaxpr: Jaxpr, views: Views, carried: slice) -> tuple[int, int, dict[Value, int]]:
        """Bytes that a round moves, holds beside its inputs, and reads of each array outside.

        Only arrays that are carried from round to round may be written over.
        """
        block = _Block(self.platform, self.fused)
        inner = [array for array, _ in views]
        outputs = [block.in_memory(value) for value in block.follow(jaxpr, inner)]
        inside = most_held(block.operations, set(inner), set(outputs) | set(inner) - set(inner[carried]))
        read, _ = _totals(block.operations)
        outer: dict[Value, int] = {}
        for array, outside in views:
            outer[outside] = outer.get(outside, 0) + read.get(array, 0)
        return sum(operation.moved for operation in block.operations), inside, outer


def _bodies(name: str, params: Any, inputs: list[Value]) -> list[tuple[Jaxpr, Views, slice]]:
    """The programs inside, their inputs, and the slice that is carried from round to round."""
    if name == "cond":
        return [(branch.jaxpr, _views(branch.jaxpr, inputs), slice(0)) for branch in params["branches"]]
    if name == "scan":
        body = params["jaxpr"].jaxpr
        if "ft_in" in params:  # JAX 0.12 on
            first, carried, _ = map(len, params["ft_in"].unpack())
        else:
            first, carried = params["num_consts"], params["num_carry"]
        return [(body, _views(body, inputs), slice(first, first + carried))]
    body = params["body_jaxpr"].jaxpr
    return [(body, _views(body, inputs[params["cond_nconsts"] :]), slice(params["body_nconsts"], None))]


def _views(jaxpr: Jaxpr, inputs: list[Value]) -> Views:
    """Each input of a program, and the array outside that holds it."""
    return [(Value(_size(variable.aval)), outside) for variable, outside in zip(jaxpr.invars, inputs, strict=True)]


apart = functools.partial(estimate, fused=False)
fused = functools.partial(estimate, fused=True)
