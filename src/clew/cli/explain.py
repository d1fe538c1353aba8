"""``clew explain``: the rule in force at an address, and where it comes from."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from clew.arch import Default
from clew.cli.output import Palette, add_json, add_section, palette, print_json, printable, report
from clew.cli.place import find_place, not_covered, parse_address, place_name
from clew.cli.target import Target, add_target, module_at, open_target
from clew.errors import Error, NotFoundError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clew.arch import Machine
    from clew.read.dwarf_cfi import Explanation, Fde, Instruction, Origin
    from clew.read.dwarf_cfi.origins import Part
    from clew.table import Rule

DESCRIPTION = """\
Shows how to get from an address back to the caller: the rule in force there as equations, the FDE
and the CIE it comes from, and the call frame instruction that set each part.

  clew explain /bin/ls 0x4fa0            an address of the file
  clew explain libc.so.6 qsort_r+0x10    a function, and how far into it
  clew explain --pid 1234 0x7f…          an address in a running process
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_target(parser, nargs="?")
    parser.add_argument("place", metavar="ADDRESS|FUNCTION+OFFSET", help="where; FILE may be left out with --pid")
    add_section(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    target, address = _find(options)
    from clew.read.dwarf_cfi import explain
    from clew.read.frames import frame_sections

    sections = frame_sections(target.image, options.section)
    try:
        found = explain(sections, address)
    except NotFoundError:
        raise not_covered(target, sections, address) from None
    except Error as error:
        error.file = target.name
        raise
    if options.json:
        print_json(_json(target, found))
    else:
        print("\n".join(_text(target, found, palette())))
    return report(target.name, [*target.image.problems, *found.problems, *found.row.rule.invalid_problems()])


def _find(options: argparse.Namespace) -> tuple[Target, int]:
    """What to look in, and the file's own address to look for."""
    if options.file is not None:
        target = open_target(options.file, options.pid)
        return target, find_place(target, options.place)
    if options.pid is None:
        raise UsageError(
            "a file and a place in it are needed",
            hint="clew explain FILE ADDRESS, or clew explain FILE FUNCTION+OFFSET",
        )
    address = parse_address(options.place)
    if address is None:
        raise UsageError(
            f"{options.place!r} is no address", hint="with --pid, name the module to look up a function in"
        )
    target = module_at(options.pid, address)
    return target, address - target.bias


def _text(target: Target, found: Explanation, colours: Palette) -> Iterator[str]:
    """The lines to print."""
    machine, fde, row = found.section.machine, found.fde, found.row
    name = printable(place_name(target, found.address) or "(no symbol)")
    runtime = f", {found.address + target.bias:#x} in the process" if target.bias else ""
    yield f"{colours.bold(name)}  {found.address:#x}{runtime}  in {printable(target.name)}"
    yield ""
    yield from (f"  {line}" for line in _equations(row.rule, machine, colours))
    if row.args_size:
        yield f"  {row.args_size} bytes of arguments on the stack"
    yield ""
    cie = fde.cie
    yield f"  row  {row.start:#x}..{row.end:#x}"
    yield f"  FDE  {_place(fde)}" + (f"  lsda {fde.lsda:#x}" if fde.lsda else "")
    yield (
        f'  CIE  {cie.section.name}+{cie.offset:#x}  version {cie.version}, augmentation "{printable(cie.augmentation)}", '
        f"moves ×{cie.code_alignment}, offsets ×{cie.data_alignment}, "
        f"return address in {machine.register_name(cie.return_address)}"
    )
    yield from (colours.yellow(f"  hidden: FDE {_place(other)} lies around it too") for other in found.hidden)
    yield ""
    yield "  set by"
    parts = _parts(found)
    width = max((len(part) for part, _ in parts), default=0)
    for part, origin in parts:
        yield f"    {part.ljust(width)}  {_origin(origin, found)}"


def _equations(rule: Rule, machine: Machine, colours: Palette) -> Iterator[str]:
    """The rule, and what the ABI says of registers that it does not name."""
    equations = list(rule.equations(machine))
    width = max((len(left) for left, _ in equations), default=0)
    for left, right in equations:
        yield f"{left.ljust(width)} = {colours.cyan(right)}"
    for remark in rule.remarks():
        yield colours.yellow(remark)
    stack = machine.stack_pointer
    if rule[stack] is None and machine.default(stack) is Default.CFA:
        yield colours.dim(f"{machine.register_name(stack).ljust(width)} = cfa, by the ABI")
    kept = [
        name
        for number, name in sorted(machine.names.items())
        if rule[number] is None and machine.default(number) is Default.SAME_VALUE
    ]
    if kept:
        yield colours.dim(f"the same as here, by the ABI: {' '.join(kept)}")


def _place(fde: Fde) -> str:
    return f"{fde.cie.section.name}+{fde.offset:#x}  {fde.start:#x}..{fde.stop:#x}"


def _parts(found: Explanation) -> list[tuple[str, Origin]]:
    """The parts of the rule by name, the CFA first, then registers by number."""

    def turn(item: tuple[Part, Origin]) -> tuple[bool, Part]:
        return isinstance(item[0], int), item[0]

    name = found.section.machine.register_name
    items = sorted(found.origins.items(), key=turn)
    return [(name(part) if isinstance(part, int) else part, origin) for part, origin in items]


def _origin(origin: Origin, found: Explanation) -> str:
    def step(instruction: Instruction, location: int | None) -> str:
        where = "in the CIE" if location is None else f"from {location:#x} on"
        text = instruction.text(found.section.machine)
        return f"{found.section.name}+{instruction.offset:#x}  {text}  ({where})"

    text = step(origin.instruction, origin.location)
    return text if origin.via is None else f"{text}, brought back by {step(origin.via, origin.via_location)}"


def _json(target: Target, found: Explanation) -> dict[str, Any]:
    machine, fde, cie, row = found.section.machine, found.fde, found.fde.cie, found.row

    def step(instruction: Instruction, location: int | None) -> dict[str, Any]:
        out: dict[str, Any] = {"offset": f"{instruction.offset:#x}", "instruction": instruction.text(machine)}
        return out if location is None else out | {"from": f"{location:#x}"}

    def origin(value: Origin) -> dict[str, Any]:
        out = step(value.instruction, value.location)
        return out if value.via is None else out | {"via": step(value.via, value.via_location)}

    def entry(fde: Fde) -> dict[str, Any]:
        out = {"section": fde.cie.section.name, "offset": f"{fde.offset:#x}"}
        return out | {"start": f"{fde.start:#x}", "end": f"{fde.stop:#x}"}

    out: dict[str, Any] = {"file": target.name, "machine": machine.name, "address": f"{found.address:#x}"}
    if target.bias:
        out["runtime_address"] = f"{found.address + target.bias:#x}"
    symbols = target.image.symbols()
    symbol = symbols.at(found.address)
    if symbol is not None:
        out["function"], out["function_offset"] = symbols.name(symbol[0]), f"{symbol[1]:#x}"
    out["rule"] = row.rule.to_json(machine)
    out["row"] = {"start": f"{row.start:#x}", "end": f"{row.end:#x}"}
    if row.args_size:
        out["row"]["args_size"] = row.args_size
    out["fde"] = entry(fde) | ({"lsda": f"{fde.lsda:#x}"} if fde.lsda else {})
    out["cie"] = {
        "offset": f"{cie.offset:#x}",
        "version": cie.version,
        "augmentation": cie.augmentation,
        "code_alignment": cie.code_alignment,
        "data_alignment": cie.data_alignment,
        "return_address": machine.register_name(cie.return_address),
    }
    out["set_by"] = {part: origin(value) for part, value in _parts(found)}
    if found.hidden:
        out["hidden"] = [entry(other) for other in found.hidden]
    return out
