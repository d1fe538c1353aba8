"""Measures a look-up and the step behind it, at random addresses of libc: clew's packed table and compiled unwinders beside
a sorted array of rows, and beside the if/else tree of the paper.

    python bench/inprocess_lookup.py [--file FILE] [--rounds N] [--forms DIR] [--json OUT]

First the steps are a chain: none can begin before the one before has ended, as in a stack. Then they stand apart, as when many
samples are resolved. Processor time, medians; the engines take turns.

"The paper's if/else tree", with --paper-tree, is made as the paper makes it: of all rows that the file has, one function,
gcc -O2. That takes many minutes, once: it is kept in peers/target. "clew's tree in the paper's form" is what `clew compile
--backend c --abi paper` makes: of the normalised rows, with passes of gcc left out that find nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

import inputs
from clew.image import Image
from clew.read.frames import unwind_tables
from clew.table import AtCfa, RegisterPlus, Rule, Table, merge
from clew.write.c import source
from clew.write.compiled import Information, abi_of, plan
from clew.write.compiled.planning import body_of
from clew.write.packed import packed
from contenders import Unavailable
from paper_build import NATIVE, PEERS, Plugin, build, compiled
from paper_sizes import has_backend

RBX, RBP, RSP, RIP = 3, 6, 7, 16
ADDRESSES = 1 << 18
MODES = {
    f"{mode}{way}": f"{does}, {how}"
    for way, how in (("", "a chain"), ("-apart", "apart"))
    for mode, does in (
        ("random", "random addresses"),
        ("some", "2000 addresses in random order"),
        ("few", "64 addresses over and over"),
    )
}
ROWS, TREE = "rows of 16 bytes, branchless search", "clew's tree in the paper's form"

ENGINES = (
    Plugin("rows", ["lookup/engine_rows.c"]),
    Plugin("clew packed table", ["lookup/engine_packed.c"], needs=NATIVE / "step.h"),
    Plugin("clew compiled", ["lookup/engine_compiled.c"]),
)

# What `clew compile` is asked for, by what the program calls it.
FORMS = {
    "tree": ["--backend", "c", "--abi", "paper"],
    "c": ["--backend", "c"],
    "asm": ["--backend", "asm"],
}

ROW = np.dtype(
    [("start", "<u8"), ("cfa", "u1"), ("saves_rbp", "u1"), ("rbp_offset", "<i2"), ("cfa_offset", "<i4")], align=False
)


def simple(rule: Rule) -> tuple[int, int, int, int] | None:
    """A rule in a row of 16 bytes; None for one that it cannot say: those addresses are not looked up."""
    cfa, back, pointer = rule.cfa, rule[RIP], rule[RBP]
    if not isinstance(cfa, RegisterPlus) or cfa.register not in (RBX, RBP, RSP) or abs(cfa.offset) > 1 << 20:
        return None
    if back != AtCfa(-8) or rule.signal_frame:
        return None
    if pointer is None:
        return cfa.register, 0, 0, cfa.offset
    return (cfa.register, 1, pointer.offset, cfa.offset) if isinstance(pointer, AtCfa) else None


def rows(table: Table) -> tuple[bytes, list[int]]:
    """All rows, and random addresses: each row is as likely as any other, as in the paper's own comparison."""
    said = [simple(rule) if rule.information else None for rule in table.rules]
    out = np.zeros(len(table.start), ROW)
    out["start"] = table.start
    numbers = np.array([each or (0, 0, 0, 0) for each in said])[table.rule]
    for column, name in enumerate(("cfa", "saves_rbp", "rbp_offset", "cfa_offset")):
        out[name] = numbers[:, column]
    usable = np.flatnonzero(numbers[:-1, 0]).tolist()
    source = random.Random(5)
    starts = table.start.tolist()
    chosen = source.choices(usable, k=ADDRESSES)
    return out.tobytes(), [source.randrange(starts[row], starts[row + 1]) for row in chosen]


@dataclass
class Race:
    """Nanoseconds a step, of each round, by mode and engine; addresses with other results; why others took no part."""

    rounds: dict[str, dict[str, list[float]]] = field(default_factory=lambda: {mode: {} for mode in MODES})
    different: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def take(self, output: str) -> None:
        """Adds what programs/lookup/lookup.c printed."""
        for line in output.splitlines():
            kind, name, *fields = line.split("\t")
            if kind == "check":
                self.different[name] = int(fields[0])
            elif kind == "without":
                self.reasons[name] = fields[0]
            else:
                self.rounds[kind][name] = [float(each) for each in fields]

    def ratio(self, mode: str, name: str, reference: str) -> str:
        """The median of the rounds' ratios, as text."""
        ours, theirs = self.rounds[mode].get(name), self.rounds[mode].get(reference)
        if not ours or not theirs:
            return "-"
        return f"{statistics.median(our / their for our, their in zip(ours, theirs, strict=True)):.3f}"


def paper_tree(path: str) -> Path | None:
    """The paper's unwinder of a file, kept between runs; None where it cannot be made."""
    with Image.open(path) as image:
        table = merge(unwind_tables(image))
        number = image.build_id.hex() if image.build_id else "none"
        machine = table.machine.elf_machines[0]
    out = PEERS / "target" / "paper-tree" / f"{number}.so"
    if out.exists():
        return out
    abi = abi_of(table.machine, "paper")
    made = plan(table, abi)
    bodies = {body: turn for turn, body in enumerate(made.bodies)}
    texts = list(made.rules)
    of_rule = np.zeros(len(table.rules), np.uint32)
    for rule in np.unique(table.rule).tolist():
        body = body_of(table.rules[rule], abi)
        of_rule[rule] = bodies.setdefault(body, len(bodies))
        texts += [("", 0)] * (len(bodies) - len(texts))
    # A leaf for each row, whether or not it differs from the one before.
    whole = replace(made, start=table.start, body=of_rule[table.rule], bodies=tuple(bodies), rules=tuple(texts))
    about = Information.of(abi, machine, False, whole.base, whole.end, None)
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_suffix(".part")
    command = ["gcc", "-O2", "-fPIC", "-shared", "-x", "c", "-o", str(part), "-"]
    text = "\n".join(source(whole, about, name=path)) + "\n"
    if subprocess.run(command, input=text.encode(), capture_output=True, check=False).returncode:
        return None
    part.replace(out)
    return out


def forms(path: str, folder: Path, wanted: Collection[str]) -> Iterator[str]:
    """The names of files that are made of one: packed, trees, C and assembler; empty where they are not, or are not wanted."""
    out = folder / "packed"
    if not out.exists():
        with Image.open(path) as image:
            out.write_bytes(packed(merge(unwind_tables(image)), image))
    yield str(out)
    tree = paper_tree(path) if "paper" in wanted else None
    for name, options in FORMS.items():
        if name == "c":
            yield str(tree or "")
        out = folder / f"{name}.so"
        if name in wanted and not out.exists() and has_backend(options[1]):
            command = [sys.executable, "-m", "clew", "compile", *options, "-o", str(out), path]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"  clew compile {' '.join(options)}: {done.stderr.strip()[:200]}", file=sys.stderr)
        yield str(out) if out.exists() else ""


def race(
    path: str,
    rounds: int,
    folder: Path,
    made: Path,
    engines: Sequence[Plugin] = ENGINES,
    wanted: Collection[str] = tuple(FORMS),
) -> Race:
    """Looks addresses of a file up, in all modes.

    Args:
        folder: for what is built.
        made: for what clew compiles, which is taken if it is there.
        wanted: what it compiles: keys of :data:`FORMS`; and ``paper``, for the paper's own tree.

    Raises:
        Unavailable: the program cannot be built.
    """
    program = compiled(folder / "lookup", ["lookup/lookup.c"])
    built = build(engines, folder)
    with Image.open(path) as image:
        table = merge(unwind_tables(image)).normalise()
        data, addresses = rows(table)
    count = np.array([len(table.start)], "<u8").tobytes()
    input = folder / "input"
    input.write_bytes(count + data + np.array([len(addresses), *addresses], "<u8").tobytes())
    command = [str(program), str(input), str(rounds), *forms(path, made, wanted), *map(str, built.paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3600)
    if done.returncode:
        raise Unavailable(f"the look-ups ended with {done.returncode}: {done.stderr.strip()[:200]}")
    outcome = Race(reasons=dict(built.reasons))
    outcome.take(done.stdout)
    return outcome


def show(race: Race) -> None:
    """Prints the modes as tables."""
    for name, count in race.different.items():
        if count:
            print(f"DIFFERENT: {name} at {count:,} addresses")
    for mode, does in MODES.items():
        table = [("", "ns/step", "minimum", "/ rows", "/ tree")]
        for name, mine in race.rounds[mode].items():
            ratios = race.ratio(mode, name, ROWS), race.ratio(mode, name, TREE)
            table.append((name, f"{statistics.median(mine):.1f}", f"{min(mine):.1f}", *ratios))
        print(f"\n{does}")
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for row in table:
            cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
            print("  " + "  ".join([row[0].ljust(widths[0]), *cells]))
    for name, reason in race.reasons.items():
        print(f"Without {name}: {reason}")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", default=inputs.libc(), help="the file; this process's libc")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--forms", type=Path, help="a directory with what clew compiles, kept between runs")
    parser.add_argument(
        "--paper-tree", action="store_true", help="also the paper's own, which takes many minutes to compile"
    )
    parser.add_argument("--json", type=Path, help="also write all figures to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = options.forms or Path(folder)
        made.mkdir(parents=True, exist_ok=True)
        try:
            wanted = [*FORMS, "paper"] if options.paper_tree else list(FORMS)
            outcome = race(options.file, options.rounds, Path(folder), made, wanted=wanted)
        except Unavailable as reason:
            sys.exit(f"Without the program that looks up: {reason}")
    print(f"A look-up and a step, {options.file}; processor time, median of {options.rounds}")
    show(outcome)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        figures = {"different": outcome.different, "without": outcome.reasons, "ns_a_step": outcome.rounds}
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
