"""Breakpad symbol files, read and asked by a program of the tests' own: what a stack walker would make of them.

It is written for judging and knows nothing of clew's reader: the records FILE, FUNC with its lines, INLINE, INLINE_ORIGIN and
PUBLIC of well-formed files only.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from symbols_judges import Chain, JudgedFrame, chain_of, path_of

OMITTED = "<name omitted>"
"""The name of a function that has none."""


@dataclass
class Function:
    """A FUNC record with what follows it: lines by address, and inlined calls as (depth, line, file, origin, pieces)."""

    address: int
    size: int
    name: str
    lines: list[tuple[int, int, int, int]] = field(default_factory=list)
    inlines: list[tuple[int, int, int, int, list[tuple[int, int]]]] = field(default_factory=list)


class SymFile:
    """A symbol file, by address; addresses are those of the file that it was made from, less ``base``."""

    def __init__(self, path: Path, base: int = 0) -> None:
        self.base = base
        self.files: dict[int, str] = {}
        self.origins: dict[int, str] = {}
        self.functions: list[Function] = []
        self.publics: list[tuple[int, str]] = []
        with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
            for line in lines:
                self._read(line.rstrip("\r\n"))
        self.functions.sort(key=lambda function: function.address)
        self.publics.sort()
        for function in self.functions:
            function.lines.sort()
        self._starts = [function.address for function in self.functions]

    def _read(self, line: str) -> None:
        kind, _, rest = line.partition(" ")
        if kind in ("MODULE", "INFO", "STACK", ""):
            return
        if kind == "FILE":
            number, _, name = rest.partition(" ")
            self.files[int(number)] = name
        elif kind == "INLINE_ORIGIN":
            number, _, name = rest.partition(" ")
            self.origins[int(number)] = name
        elif kind in ("FUNC", "PUBLIC"):
            rest = rest.removeprefix("m ")
            if kind == "PUBLIC":
                address, _, name = rest.split(" ", 2)
                self.publics.append((int(address, 16), name))
            else:
                address, size, _, name = [*rest.split(" ", 3), ""][:4]
                self.functions.append(Function(int(address, 16), int(size, 16), "" if name == OMITTED else name))
        elif kind == "INLINE":
            depth, number, file, origin, *pieces = rest.split(" ")
            spans = [(int(start, 16), int(size, 16)) for start, size in zip(pieces[::2], pieces[1::2], strict=True)]
            self.functions[-1].inlines.append((int(depth), int(number), int(file), int(origin), spans))
        else:
            address, size, number, file = line.split(" ")
            self.functions[-1].lines.append((int(address, 16), int(size, 16), int(number), int(file)))

    def lookup(self, address: int) -> Chain:
        """What is at an address, the innermost inlined call first."""
        address -= self.base
        place = bisect.bisect_right(self._starts, address) - 1
        function = self.functions[place] if place >= 0 else None
        if function is None or address >= function.address + function.size:
            public = bisect.bisect_right(self.publics, (address, "\U0010ffff")) - 1
            if public < 0 or (function is not None and self.publics[public][0] < function.address):
                return ()
            return (JudgedFrame(self.publics[public][1], None, 0),)
        at = bisect.bisect_right(function.lines, (address, 1 << 64)) - 1
        file, line = None, 0
        if at >= 0 and address < sum(function.lines[at][:2]):
            line, file = function.lines[at][2], self.files.get(function.lines[at][3])
        frames: list[JudgedFrame] = []
        name = function.name
        calls = {
            depth: (number, call_file, origin)
            for depth, number, call_file, origin, pieces in function.inlines
            if any(start <= address < start + size for start, size in pieces)
        }
        for depth in range(len(calls)):
            number, call_file, origin = calls[depth]
            frames.append(JudgedFrame(name or None, path_of(self.files.get(call_file)), number))
            name = self.origins[origin]
        frames.append(JudgedFrame(name or None, path_of(file), line))
        return chain_of(frames[::-1])

    def answers(self, addresses: Sequence[int]) -> list[Chain]:
        """What is at each of the addresses."""
        return [self.lookup(address) for address in addresses]
