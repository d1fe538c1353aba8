"""Compares clew's rows with those that readelf prints, register by register, for every ELF file of a system.

    python bench/parity_rows.py [DIR|FILE …]        (default: the system's bin and lib directories)

For each FDE that readelf shows, each row that it prints is looked up in what clew made of the same FDE, and in the Table
where no other FDE lies upon it. Known and allowed for, since they are readelf's ways and not DWARF's:

* it prints ``u`` both for an undefined register and for one that the row does not name;
* it prints rows of no length (a location set twice), of which only the last one holds, and rows beyond the FDE's end;
* an FDE does not inherit from its CIE that the CFA is an expression;
* a CIE that stands behind its FDE is not run for it;
* a program of nothing but nops prints no row.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace

from clew.arch import Machine
from clew.errors import Error, NotFoundError
from clew.image import Image
from clew.image.elf import ET_REL
from clew.read.dwarf_cfi import CfiSection, Fde
from clew.read.frames import machine_of
from clew.read.stats import elf_files
from clew.table import (
    AtCfa,
    AtExpression,
    CfaExpression,
    CfaPlus,
    InRegister,
    IsExpression,
    RegisterPlus,
    RegisterRule,
    Row,
    Rule,
    SameValue,
    Table,
)

SYSTEM = ("/usr/bin", "/usr/sbin", "/usr/lib", "/usr/libexec")
#: Files that are no reference: readelf itself gives up in them.
POOR = ("unittests__dwarf_phantombytes.elf",)

_SECTION = re.compile(r"^Contents of the (\S+) section:")
_ENTRY = re.compile(
    r"^([0-9a-f]{8,16}) [0-9a-f]+ [0-9a-f]+ (FDE|CIE)(?: cie=\S+ +pc=(?:[0-9a-f]{4}:)?([0-9a-f]+)\.\.([0-9a-f]+))?"
)
_CELL = re.compile(r"\S+(?: \([^)]*\))?")


@dataclass
class Outcome:
    """What one file gave."""

    file: str
    fdes: int = 0
    rows: int = 0
    differences: list[str] = field(default_factory=list)


def cell(rule: RegisterRule | None) -> str:
    """A register's rule as readelf writes it."""
    match rule:
        case AtCfa(offset):
            return f"c{offset:+d}"
        case CfaPlus(offset):
            return f"v{offset:+d}"
        case SameValue():
            return "s"
        case InRegister(register):
            return f"r{register}"
        case AtExpression(_):
            return "exp"
        case IsExpression(_):
            return "vexp"
        case _:
            return "u"


def cfa(rule: Rule, names: Machine) -> str:
    """A CFA as readelf writes it: the offset is a 32-bit number."""
    match rule.cfa:
        case RegisterPlus(register, offset):
            low = offset & 0xFFFFFFFF
            return f"{names.readelf_name(register) or f'r{register}'}{low - (1 << 32) if low >> 31 else low:+d}"
        case CfaExpression(_):
            return "exp"
        case _:
            return f"{names.readelf_name(0) or 'r0'}+0"


def blocks(text: Iterator[str]) -> Iterator[tuple[int, int, int, int, list[str], list[list[str]]]]:
    """readelf's FDEs: the section's turn, offset, start, end, headings, rows."""
    section, current, headings, rows = -1, None, [], []
    for line in text:
        if found := _ENTRY.match(line):
            if current:
                yield (section, *current, headings, rows)
            current, headings, rows = None, [], []
            if found[2] == "FDE":
                current = (int(found[1], 16), int(found[3], 16), int(found[4], 16))
        elif found := _SECTION.match(line):
            if current:
                yield (section, *current, headings, rows)
            current, section = None, section + 1
        elif line.startswith("   LOC"):
            headings = line.split()[2:]
        elif current and headings and line.strip() and line[0] in "0123456789abcdef":
            rows.append(_CELL.findall(line))
    if current:
        yield (section, *current, headings, rows)


def check(path: str) -> Outcome:
    """Compares one file."""
    out = Outcome(path)
    try:
        image = Image.open(path)
    except Error:
        return out
    with image:
        sections = list(_sections(image))
        if not sections:
            return out
        run = subprocess.Popen(
            ["readelf", "-wN", "--debug-dump=frames-interp", path],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C"},
            encoding="latin-1",
        )
        assert run.stdout is not None
        for turn, offset, start, end, headings, rows in blocks(iter(run.stdout)):
            section, fdes, table = sections[turn]
            fde, name = fdes.get(offset), section.name
            if fde is None:
                if rows:
                    out.differences.append(f"{name}+{offset:#x}: readelf has an FDE, clew does not")
                continue
            out.fdes += 1
            mask = (1 << 8 * fde.cie.address_size) - 1
            # A null pointer stays null (LSB 5, 10.5.1); readelf adds what it is relative to, which is right in an object file
            # as it reads it: with every section at 0, a function can be at its own FDE's field.
            null = image.type == ET_REL and fde.start == 0 and start == offset + 8
            shift = -start if null else 0
            if (fde.start - shift & mask, fde.stop - shift & mask) != (start, end):
                out.differences.append(
                    f"{name}+{offset:#x}: range {fde.start:#x}..{fde.stop:#x}, readelf {start:#x}..{end:#x}"
                )
                continue
            alone = len(section.fdes_at(fde.start)) == 1 == len(section.fdes_at(fde.stop - 1))
            try:
                ours = list(fde.rows())
            except Error as error:
                out.differences.append(f"{name}+{offset:#x}: {error}")
                continue
            made = list(table.rows(fde.start, fde.stop)) if alone else ours
            if [(row.start, row.rule) for row in made] != [(row.start, row.rule) for row in ours] and alone:
                out.differences.append(f"{name}+{offset:#x}: the Table and the FDE disagree")
            if fde.cie.offset < fde.offset:
                moved = [replace(row, start=row.start - shift & mask, end=row.end - shift & mask) for row in made]
                out.rows += _compare(out, section, fde, moved, headings, rows)
        run.wait()
    return out


def _sections(image: Image) -> Iterator[tuple[CfiSection, dict[int, Fde], Table]]:
    """The sections that readelf shows, in its order."""
    for section in image.sections:
        if section.name in (".eh_frame", ".debug_frame", ".zdebug_frame") and section.has_data and section.size:
            try:
                # As readelf reads it: in an object file every section is at 0.
                cfi = CfiSection(
                    section.data,
                    name=section.name,
                    address=section.address,
                    machine=machine_of(image),
                    address_size=image.address_size,
                    text_base=image.text_address(),
                    data_base=image.got_address(),
                    code=image.code_ranges() or None,
                )
            except (Error, NotFoundError):
                continue
            yield cfi, {fde.offset: fde for fde in cfi.fdes()}, cfi.table()


def _compare(
    out: Outcome, section: CfiSection, fde: Fde, ours: list[Row], headings: list[str], rows: list[list[str]]
) -> int:
    names = section.machine
    by_start = {row.start: row for row in ours}
    last = {int(cells[0], 16): cells for cells in rows}
    inherits = any(i.opcode == 0x0F for i in fde.cie.instructions())
    registers = [
        fde.cie.return_address
        if heading == "ra"
        else next((n for n in range(names.readelf_names) if names.readelf_name(n) == heading), None)
        for heading in headings
    ]
    registers = [
        int(heading[1:]) if number is None and re.fullmatch(r"r\d+", heading) else number
        for heading, number in zip(headings, registers, strict=True)
    ]
    count = 0
    for start, cells in last.items():
        row = by_start.get(start)
        if row is None:
            if ours and ours[0].start <= start <= ours[-1].start:
                out.differences.append(f"{section.name}+{fde.offset:#x}: clew has no row at {start:#x}")
            continue
        count += 1
        theirs = [re.sub(r" \(.*\)", "", text) for text in cells[1:]]
        mine = [cfa(row.rule, names), *(cell(row.rule[number]) if number is not None else "?" for number in registers)]
        if inherits and mine[0] == "exp":
            mine[0] = theirs[0]
        if mine != theirs:
            out.differences.append(f"{section.name}+{fde.offset:#x} at {start:#x}: clew {mine}, readelf {theirs}")
    if rows and set(by_start) - set(last):
        out.differences.append(
            f"{section.name}+{fde.offset:#x}: readelf has no row at {min(set(by_start) - set(last)):#x}"
        )
    return count


def main() -> int:
    """Compares all files and prints what differs."""
    files = [file for file in elf_files(sys.argv[1:] or SYSTEM) if not file.endswith(POOR)]
    files.sort(key=lambda file: -os.path.getsize(file))
    total = Outcome("")
    seen = differing = 0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for task in as_completed([pool.submit(check, file) for file in files]):
            one = task.result()
            seen += one.fdes > 0
            total.fdes += one.fdes
            total.rows += one.rows
            if one.differences:
                differing += 1
                print(f"{one.file}: {len(one.differences)} differences")
                for line in one.differences[:5]:
                    print(f"  {line}")
    print(
        f"{len(files):,} ELF files, {seen:,} with frames: {total.fdes:,} FDEs, {total.rows:,} rows compared, "
        f"{differing} files differ"
    )
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
