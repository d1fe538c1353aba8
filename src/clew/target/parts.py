"""What targets of every kind are put together with: problems, the limits of stacks, the mask of code pointers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from clew.arch import Machine
from clew.errors import Problem
from clew.memory import Mapping
from clew.target.model import Thread

MAXIMUM_PROBLEMS = 1000
"""How many problems a target remembers."""


def reporter(problems: list[Problem]) -> Callable[[Problem], None]:
    """Adds problems to a list: each once, and not without end."""

    def report(problem: Problem) -> None:
        if len(problems) < MAXIMUM_PROBLEMS and problem not in problems:
            problems.append(problem)

    return report


def mapping_at(mappings: Sequence[Mapping], address: int) -> Mapping | None:
    """The mapping that an address is in; the mappings are sorted and do not overlap."""
    index = bisect_right(mappings, address, key=lambda each: each.start) - 1
    return mappings[index] if index >= 0 and address < mappings[index].end else None


def stack_limits(
    threads: Iterable[Thread], machine: Machine, mappings: Sequence[Mapping]
) -> dict[int, tuple[int, int]]:
    """The mapping that each thread's stack pointer is in, start and end by the thread's number, where there is one."""
    limits = {}
    for thread in threads:
        there = mapping_at(mappings, thread.registers.get(machine.stack_pointer, -1))
        if there is not None:
            limits[thread.id] = there.start, there.end
    return limits


def guessed_code_mask(ends: Iterable[int]) -> int:
    """The bits of a user's code pointer that hold an authentication code, where nothing says which they are (qemu's cores).

    They are those between the address and bit 55, which selects the half of the address space. An address has 48 bits
    unless a mapping is higher (Linux, "Pointer authentication in AArch64 Linux").
    """
    highest = max((end - 1 for end in ends if end <= 1 << 55), default=0)
    bits = max(48, highest.bit_length())
    return (1 << 55) - (1 << bits)
