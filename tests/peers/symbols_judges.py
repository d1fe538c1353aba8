"""Programs that name addresses, asked for many at once and answering in one form: the judges of clew's names and lines.

They are ``addr2line`` of binutils, ``llvm-symbolizer`` and the symbol cache of ``symbolic`` (what Sentry and mozilla's
``dump_syms`` use). None of them is asked to demangle.
"""

from __future__ import annotations

import bisect
import json
import os.path
import re
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

TIMEOUT = 600


@dataclass(frozen=True, slots=True)
class JudgedFrame:
    """One frame: the function as the linker calls it and the file, None if unknown; the line, 0 if unknown."""

    function: str | None
    file: str | None
    line: int


Chain = tuple[JudgedFrame, ...]
"""What is at an address, the innermost inlined call first. Empty: nothing is known."""
Judge = Callable[[Path, Sequence[int]], list[Chain]]

UNKNOWN = JudgedFrame(None, None, 0)


class Unusable(Exception):
    """A judge is not here, or cannot read this file; the text says why."""


def path_of(text: str | None) -> str | None:
    """A path without ``.`` and ``..``; None for what stands for an unknown one."""
    if not text or text == "??" or text == "<unknown>":
        return None
    return os.path.normpath(text)


def name_of(text: str | None) -> str | None:
    return None if not text or text == "??" else text


def chain_of(frames: list[JudgedFrame]) -> Chain:
    """A chain of which something is known, or the empty one."""
    return () if all(frame == UNKNOWN for frame in frames) else tuple(frames)


def _run(command: list[str], lines: list[str]) -> list[str]:
    if shutil.which(command[0]) is None:
        raise Unusable(f"{command[0]} is not installed")
    done = subprocess.run(
        command,
        check=False,
        input="\n".join([*lines, ""]),
        capture_output=True,
        text=True,
        errors="replace",
        timeout=TIMEOUT,
    )
    if done.returncode or not done.stdout:
        raise Unusable(f"{command[0]}: {done.stderr.strip()[:300] or f'exit code {done.returncode}'}")
    return done.stdout.splitlines()


# binutils

_PLACE = re.compile(r"(.*):(\d+|\?)(?: \(discriminator \d+\))?$")


def addr2line(path: Path, addresses: Sequence[int], tool: str = "addr2line", *options: str) -> list[Chain]:
    """binutils' answers (or those of another program with its options)."""
    command = [tool, "-i", "-f", "-a", *options, "-e", str(path)]
    found: list[Chain] = []
    frames: list[JudgedFrame] = []
    lines = iter(_run(command, [f"{address:#x}" for address in addresses]))
    expected = iter(addresses)
    due = next(expected, None)
    for line in lines:
        if due is not None and line.startswith("0x") and len(line) <= 18 and int(line, 16) == due:
            if frames or found or due != addresses[0]:
                found.append(chain_of(frames))
            frames = []
            due = next(expected, None)
            continue
        place = _PLACE.match(next(lines))
        assert place is not None, line
        number = int(place[2]) if place[2] != "?" else 0
        frames.append(JudgedFrame(name_of(line), path_of(place[1]), number))
    found.append(chain_of(frames))
    assert len(found) == len(addresses), (len(found), len(addresses))
    return found


# LLVM


def llvm_symbolizer(path: Path, addresses: Sequence[int], *options: str) -> list[Chain]:
    """LLVM's answers: the JSON that it prints since version 13."""
    command = ["llvm-symbolizer", "--no-demangle", "--inlines", "--output-style=JSON", *options, f"--obj={path}"]
    lines = _run(command, [f"{address:#x}" for address in addresses])
    assert len(lines) == len(addresses)
    return [_llvm_chain(json.loads(line)) for line in lines]


def _llvm_chain(answer: dict[str, Any]) -> Chain:
    if "Error" in answer:
        raise Unusable(f"llvm-symbolizer: {answer['Error']}")
    return chain_of(
        [
            JudgedFrame(name_of(frame["FunctionName"]), path_of(frame["FileName"]), frame["Line"])
            for frame in answer.get("Symbol", ())
        ]
    )


# symbolic


def symbolic(path: Path, addresses: Sequence[int]) -> list[Chain]:
    """The answers of symbolic's symbol cache. It counts addresses from the first segment that is loaded."""
    try:
        from symbolic.debuginfo import Archive
    except ImportError as error:
        raise Unusable("symbolic is not installed") from error
    try:
        archive = Archive.open(str(path))
        symcache = next(archive.iter_objects()).make_symcache()
    except Exception as error:
        raise Unusable(f"symbolic: {error}") from error
    base = load_base(path) if path.suffix != ".sym" else 0
    return [
        chain_of(
            [
                JudgedFrame(name_of(found.symbol), path_of(found.full_path), found.line)
                for found in symcache.lookup(address - base)  # type: ignore[no-untyped-call]
            ]
        )
        if address >= base
        else ()
        for address in addresses
    ]


JUDGES: dict[str, Judge] = {"addr2line": addr2line, "llvm-symbolizer": llvm_symbolizer, "symbolic": symbolic}


# The file that is asked about


def _form(data: bytes) -> tuple[str, bool]:
    """The byte order, as struct says it, and whether the file is one of 64 bits."""
    if data[:4] != b"\x7fELF":
        raise Unusable("not an ELF file")
    return ("<" if data[5] == 1 else ">"), data[4] == 2


@cache
def load_base(path: Path) -> int:
    """The address of the first segment that is loaded; 0 if there is none."""
    data = path.read_bytes()
    order, wide = _form(data)
    start = struct.unpack_from(f"{order}Q" if wide else f"{order}I", data, 32 if wide else 28)[0]
    size, count = struct.unpack_from(f"{order}HH", data, 54 if wide else 42)
    for number in range(count):
        at = start + number * size
        if struct.unpack_from(f"{order}I", data, at)[0] == 1:
            return int(struct.unpack_from(f"{order}{'Q' if wide else 'I'}", data, at + (16 if wide else 8))[0])
    return 0


def sections(path: Path, wanted: Callable[[str, int], bool]) -> Iterator[tuple[str, int, int, int]]:
    """Name, address, size and place in the file of each section that is wanted, by name and flags."""
    data = path.read_bytes()
    order, wide = _form(data)
    start = struct.unpack_from(f"{order}Q" if wide else f"{order}I", data, 40 if wide else 32)[0]
    size, count, names = struct.unpack_from(f"{order}HHH", data, 58 if wide else 46)
    form = f"{order}IIQQQQ" if wide else f"{order}IIIIII"
    headers = [struct.unpack_from(form, data, start + number * size) for number in range(count)]
    for name, _, flags, address, offset, length in headers:
        at = headers[names][4] + name
        text = data[at : data.index(0, at)].decode("latin-1")
        if wanted(text, flags):
            yield text, address, length, offset


def text_range(path: Path) -> tuple[int, int]:
    """Where ``.text`` begins and ends. A separate debug file says it as well as the file with the code does."""
    for _, address, size, _ in sections(path, lambda name, _: name == ".text"):
        return address, address + size
    raise Unusable("no .text")


@cache
def code_symbols(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Name without version, address and size of each symbol of the linker for code, by address; and of those of unknown kind.

    A function without a size has that which reaches to the next symbol.
    """
    data = path.read_bytes()
    order, wide = _form(data)
    start = struct.unpack_from(f"{order}Q" if wide else f"{order}I", data, 40 if wide else 32)[0]
    size, count = struct.unpack_from(f"{order}HH", data, 58 if wide else 46)
    form = f"{order}IIQQQQIIQQ" if wide else f"{order}IIIIIIIIII"
    headers = [struct.unpack_from(form, data, start + number * size) for number in range(count)]
    found: set[tuple[int, int, int, str]] = set()
    for _, kind, _, _, at, length, link, _, _, each in headers:
        if kind not in (2, 11) or not each:
            continue
        names, entry = headers[link][4], f"{order}IBBHQQ" if wide else f"{order}IIIBBH"
        for fields in struct.iter_unpack(entry, data[at : at + length]):
            name, info, value, extent = fields[:1] + (fields[1:2] + fields[4:6] if wide else fields[3:4] + fields[1:3])
            if info & 15 in (0, 2, 10) and name:
                text = data[names + name : data.index(0, names + name)].decode("latin-1")
                found.add((value, extent, info & 15, text.partition("@")[0]))
    ordered = sorted(found)
    starts = [symbol[0] for symbol in ordered]
    symbols = []
    for value, extent, sort, text in ordered:
        if not extent and sort:
            place = bisect.bisect_right(starts, value)
            extent = starts[place] - value if place < len(starts) else 0
        symbols.append((text, value, extent))
    return tuple(symbols)


# Comparing

_SUFFIX = re.compile(
    r"(\.(cold|part|constprop|isra|lto_priv|localalias|clone|llvm|warm|hot|unlikely|__uniq|__part|ipa|eh|abi0|abiinternal)|\.\d+)+$"
)


def bare(name: str | None) -> str | None:
    """A function's name without its version and what compilers append for its pieces and copies (Go: for its ABI)."""
    return None if name is None else _SUFFIX.sub("", name.partition("@")[0].replace("·", "."))


def lines_of(chain: Chain) -> tuple[tuple[str | None, int], ...]:
    """Path and line of each frame."""
    return tuple((frame.file, frame.line) for frame in chain or (UNKNOWN,))


def same_leaf(a: Chain, b: Chain) -> bool:
    """The innermost frames name the same place."""
    return lines_of(a)[0] == lines_of(b)[0]


class Comparison:
    """Compares what judges say of one file, whose symbols tell which names are names of the same code.

    The outermost function of a chain has several right names: a compiler makes one body for complete and base constructors
    (C1, C2), a library gives one body several names, and a piece or copy has a symbol with a suffix. Which of them a judge says
    (DWARF's, or some symbol's) is its choice, so all of them count as one.
    """

    def __init__(self, path: Path, spoken: Callable[[str], str] | None = None) -> None:
        """``spoken`` makes of a name what the names to compare are: a demangler, where they are demangled."""
        self._spoken = spoken
        self._aliases: dict[str, set[int]] = {}
        pieces = []
        for name, address, size in code_symbols(path):
            for each in {name, bare(name) or name}:
                self._aliases.setdefault(spoken(each) if spoken else each, set()).add(address)
            if size:
                pieces.append((address, address + size))
        self._covered: list[tuple[int, int]] = []
        for start, end in sorted(pieces):
            if self._covered and start <= self._covered[-1][1]:
                self._covered[-1] = (self._covered[-1][0], max(end, self._covered[-1][1]))
            else:
                self._covered.append((start, end))

    def covers(self, address: int) -> bool:
        """Whether a symbol that has a size covers an address. What none covers is mostly padding."""
        place = bisect.bisect_right(self._covered, (address, 1 << 64)) - 1
        return place >= 0 and address < self._covered[place][1]

    def speak(self, chain: Chain) -> Chain:
        """A chain with the names as they are to be compared."""
        if self._spoken is None:
            return chain
        return tuple(
            JudgedFrame(self._spoken(bare(frame.function) or "") or None, frame.file, frame.line) for frame in chain
        )

    def tidy(self, address: int, chain: Chain) -> Chain:
        """A chain without two guesses of a judge's that has only a symbol.

        That the symbol before an address reaches to it, although its size says that it ends: ``addr2line`` guesses so for the
        padding between functions. And that its file is the one which the symbol table names before it, without a folder.
        """
        if len(chain) != 1:
            return chain
        function, file, line = chain[0].function, chain[0].file, chain[0].line
        if function is not None and function.partition("@")[0] in self._aliases and not self.covers(address):
            function = None
        if not line and (function is None or (file and "/" not in file)):
            file = None
        return chain_of([JudgedFrame(function, file, line)])

    def same_name(self, a: str | None, b: str | None) -> bool:
        """Whether these are names of the same function. A label of the assembler, which LLVM takes for one, tells nothing."""
        if bare(a) == bare(b) or (a or "").startswith(".L") or (b or "").startswith(".L"):
            return True
        if a is None or b is None:
            return False
        none: set[int] = set()
        return any(
            self._aliases.get(one, none) & self._aliases.get(other, none)
            for one in {a.partition("@")[0], bare(a) or ""}
            for other in {b.partition("@")[0], bare(b) or ""}
        )

    def same_chain(self, a: Chain, b: Chain) -> bool:
        """All frames name the same places and the same functions; the outermost one under any of its names."""
        if lines_of(a) != lines_of(b):
            return False
        if not a or not b:
            return a == b
        inner = all(bare(x.function) == bare(y.function) for x, y in zip(a[:-1], b[:-1], strict=True))
        return inner and self.same_name(a[-1].function, b[-1].function)


# Saying it


def show(chain: Chain) -> str:
    """A chain on one line."""
    return (
        " < ".join(
            f"{frame.function or '??'} at {os.path.basename(frame.file) if frame.file else '??'}:{frame.line}"
            for frame in chain
        )
        or "nothing"
    )


def kind(mine: Chain, other: Chain) -> str:
    """How two chains differ, in the words of a class."""
    if not mine:
        return "says nothing"
    if not other:
        return "says something where they say nothing"
    if len(mine) != len(other):
        return f"{'fewer' if len(mine) < len(other) else 'more'} inlined calls"
    if lines_of(mine)[0] != lines_of(other)[0]:
        return "line of the leaf" if mine[0].file == other[0].file else "file of the leaf"
    if lines_of(mine) != lines_of(other):
        return "line of a call"
    if mine[-1].function is None or other[-1].function is None:
        return "a function known to one only"
    return "name of a function"
