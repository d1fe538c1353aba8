"""Programs built with many compilers and options, and the comparison of what clew says of their code with what judges say."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
from symbols_judges import (
    JUDGES,
    Chain,
    Comparison,
    JudgedFrame,
    Unusable,
    bare,
    chain_of,
    kind,
    path_of,
    sections,
    show,
)

SOURCES = Path(__file__).parent / "programs" / "names"
TOOLS = {
    "clang": ("clang", "clang-14"),
    "clang++": ("clang++", "clang++-14"),
    "llvm-dwp": ("llvm-dwp", "llvm-dwp-14"),
}
BOTH = ("addr2line", "llvm-symbolizer")
LONGEST = 3000
"""At most so many addresses are asked of one file."""

_folder: list[str] = []


def folder() -> Path:
    """A new folder for what is built; it goes with this process."""
    if not _folder:
        _folder.append(tempfile.mkdtemp(prefix="clew-names-"))
        atexit.register(shutil.rmtree, _folder[0], ignore_errors=True)
    return Path(tempfile.mkdtemp(dir=_folder[0]))


def tool(name: str) -> str:
    """A tool's path; skips the test where it is not installed."""
    for each in TOOLS.get(name, (name,)):
        if found := shutil.which(each):
            return found
    pytest.skip(f"{name} is not installed")


def run(name: str, *arguments: object, cwd: Path, **variables: str) -> str:
    """Runs a tool in a folder; skips the test where it cannot do what it is asked."""
    words = [tool(name), *map(str, arguments)]
    done = subprocess.run(
        words,
        check=False,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=300,
        cwd=cwd,
        env=os.environ | variables,
    )
    if done.returncode:
        pytest.skip(f"{' '.join([name, *words[1:4]])} …: {done.stderr.strip()[:300] or done.returncode}")
    return done.stdout


@cache
def common_folder() -> Path:
    """The folder in which compilers run: all in one, since programs say where their compiler ran."""
    return folder()


@cache
def built(compiler: str, options: str, *sources: str) -> Path:
    """A program of these sources. What else is made has names that begin with the program's."""
    place = common_folder()
    words = options.split()
    if any(source.endswith(".cc") for source in sources):
        words.append("-std=c++17")
    output = place / f"program{len(list(place.iterdir()))}{'.o' if '-c' in words else ''}"
    run(compiler, *words, "-o", output, *(SOURCES / source for source in sources), cwd=place)
    return output


def text(path: Path) -> list[tuple[str, int, bytes]]:
    """Name, address and bytes of each section of code whose name begins with ``.text``."""
    data = path.read_bytes()
    return [
        (name, address, data[offset : offset + size])
        for name, address, size, offset in sections(
            path, lambda name, flags: name.startswith(".text") and flags & 6 == 6
        )
    ]


def addresses_of(path: Path, step: int = 1) -> list[int]:
    """Every address of the code, or as many as are asked of one file."""
    everything = [range(address, address + len(code)) for _, address, code in text(path)]
    step = max(step, sum(map(len, everything)) // LONGEST)
    return [address for each in everything for address in each[::step]]


def clew(path: Path, addresses: Sequence[int]) -> list[Chain]:
    """clew's answers."""
    from clew.symbols import Symbolizer

    symbolizer = Symbolizer.open(path)
    return [
        chain_of(
            [JudgedFrame(frame.function, path_of(frame.file), frame.line or 0) for frame in symbolizer.lookup(address)]
        )
        for address in addresses
    ]


@dataclass
class Outcome:
    """What the comparison of one file gave."""

    asked: int = 0
    known: int = 0
    """Addresses of which something is known."""
    inlined: int = 0
    """Addresses with inlined calls."""
    undecided: int = 0
    """Addresses of which the judges differ."""
    folded: int = 0
    """Addresses of code that is several functions': clew names another of them than the judges."""
    kinds: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return "\n".join(f"{count:6} {name}\n{self.examples[name]}" for name, count in self.kinds.most_common())


def compare(
    path: Path,
    reference: Path | None = None,
    judges: Sequence[str] = BOTH,
    step: int = 1,
    addresses: Sequence[int] = (),
) -> Outcome:
    """Asks clew of a file's code, and the judges of the same code in ``reference`` (default: in the file itself).

    What all judges say must be what clew says; where they differ, it must be what one of them says.
    """
    asked = reference or path
    if reference:
        assert text(path) == text(reference), "the code differs"
    places = list(addresses or addresses_of(asked, step))
    comparison = Comparison(asked)
    judged = {}
    for name in judges:
        try:
            judged[name] = JUDGES[name](asked, places)
        except Unusable as reason:
            pytest.skip(str(reason))
    outcome = Outcome(len(places))
    for place, (address, mine) in enumerate(zip(places, clew(path, places), strict=True)):
        answers = {name: comparison.tidy(address, chains[place]) for name, chains in judged.items()}
        first, *others = answers.values()
        outcome.known += any(answers.values())
        outcome.inlined += any(len(answer) > 1 for answer in answers.values())
        agreed = all(comparison.same_chain(first, other) for other in others)
        outcome.undecided += not agreed
        mine = comparison.tidy(address, mine)
        if not any(comparison.same_chain(mine, answer) for answer in answers.values()):
            if mine and any(
                answer
                and bare(mine[-1].function) != bare(answer[-1].function)
                and comparison.same_name(mine[-1].function, answer[-1].function)
                for answer in answers.values()
            ):
                outcome.folded += 1
                continue
            name = kind(mine, first) if agreed else "unlike both, which differ: " + kind(mine, first)
            outcome.kinds[name] += 1
            if outcome.kinds[name] <= 2:
                lines = [f"{address:#x}  clew: {show(mine)}", *(f"{each}: {show(answers[each])}" for each in answers)]
                outcome.examples[name] = (
                    outcome.examples.get(name, "") + "\n".join(f"       {line}" for line in lines) + "\n"
                )
    return outcome


def check(
    path: Path,
    reference: Path | None = None,
    judges: Sequence[str] = BOTH,
    step: int = 1,
    inlined: bool = True,
    addresses: Sequence[int] = (),
    folded: bool = False,
) -> None:
    """Fails where :func:`compare` finds differences, or nothing to compare."""
    outcome = compare(path, reference, judges, step, addresses)
    assert not outcome.kinds, f"of {outcome.asked} addresses:\n{outcome}"
    assert folded or not outcome.folded, f"{outcome.folded} addresses of code of several functions"
    assert outcome.known > outcome.asked / 4, "the judges know too little"
    assert outcome.inlined or not inlined, "nothing was inlined"
