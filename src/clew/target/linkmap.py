"""The dynamic loader's own list of what it loaded, read from a target's memory.

``link.h`` of glibc defines ``struct r_debug`` and ``struct link_map`` for debuggers; musl has the same. The executable's
``DT_DEBUG`` (gABI chapter 5, "Dynamic Section") holds the address of the former.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os import fsdecode
from struct import Struct
from typing import Final

from clew.arch import Machine
from clew.errors import Problem
from clew.memory import Memory

DT_DEBUG: Final = 21

MAXIMUM_ENTRIES = 1 << 14
"""How many loaded files are followed; a damaged list could go on as long as there is memory."""

_MAXIMUM_NAME = 4096  # PATH_MAX
_MAXIMUM_DYNAMIC = 1 << 10
_MAXIMUM_SPACES = 64  # glibc has at most 16 namespaces


@dataclass(frozen=True, slots=True)
class LinkMapEntry:
    """One loaded file.

    Attributes:
        bias: how far it was moved; negative where it lies below the addresses it was linked for.
        dynamic: the address of its dynamic section in memory.
        name: its path; empty for the program; None where it cannot be read.
    """

    bias: int
    dynamic: int
    name: str | None


def _words(machine: Machine, count: int) -> Struct:
    order = ">" if machine.byte_order == "big" else "<"
    return Struct(order + ("Q" if machine.bits == 64 else "I") * count)


def debug_address(memory: Memory, machine: Machine, dynamic: int) -> int | None:
    """What ``DT_DEBUG`` says in the dynamic section at an address in memory, or None where it says nothing yet."""
    record = _words(machine, 2)
    for index in range(_MAXIMUM_DYNAMIC):
        data = memory.read(dynamic + index * record.size, record.size)
        if data is None:
            return None
        tag, value = record.unpack(data)
        if tag == 0:
            return None
        if tag == DT_DEBUG:
            return int(value) or None
    return None


def read_string(memory: Memory, address: int, limit: int = _MAXIMUM_NAME) -> str | None:
    """The text at an address, up to its null byte; None where it cannot be read or has no end."""
    text = b""
    while len(text) < limit:
        # What follows a page may not be readable.
        piece = memory.read(address + len(text), 256 - (address + len(text)) % 256)
        if piece is None:
            return None
        end = piece.find(b"\0")
        if end >= 0:
            return fsdecode(text + piece[:end])
        text += piece
    return None


def read_link_map(
    memory: Memory, machine: Machine, debug: int, report: Callable[[Problem], None]
) -> Iterator[LinkMapEntry]:
    """The loaded files in the loader's order, the program first, of every namespace.

    A list that runs in circles, or into memory that cannot be read, ends there and is reported.

    Args:
        debug: the address of ``struct r_debug``.
    """
    entry, head = _words(machine, 4), _words(machine, 6)
    seen: set[int] = set()
    for _ in range(_MAXIMUM_SPACES):
        # int r_version, r_map, r_brk, int r_state, r_ldbase, and r_next since version 2: each takes a word.
        data = memory.read(debug, head.size) or memory.read(debug, 5 * head.size // 6)
        if data is None:
            report(Problem(f"the loader's list of files cannot be read at {debug:#x}"))
            return
        version = int.from_bytes(data[:4], machine.byte_order)
        words = [
            int.from_bytes(data[at : at + head.size // 6], machine.byte_order)
            for at in range(0, len(data), head.size // 6)
        ]
        address = words[1]
        while address:
            if address in seen or len(seen) >= MAXIMUM_ENTRIES:
                why = "runs in circles" if address in seen else "is too long"
                report(Problem(f"the loader's list of files {why} at {address:#x}"))
                return
            seen.add(address)
            record = memory.read(address, entry.size)
            if record is None:
                report(Problem(f"the loader's list of files cannot be read at {address:#x}"))
                break
            bias, name, dynamic, following = entry.unpack(record)
            # What lies below the addresses it was linked for was moved by a negative distance.
            bias = bias - (1 << machine.bits) if bias > dynamic else bias
            yield LinkMapEntry(bias, dynamic, read_string(memory, name))
            address = following
        debug = words[5] if version >= 2 and len(words) > 5 else 0
        if not debug or debug in seen:
            return
        seen.add(debug)
