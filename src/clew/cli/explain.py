"""``clew explain``: the rule at an address, and where it comes from."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from clew.arch import Default
from clew.cli.output import add_json, add_section, palette, print_json, report
from clew.cli.target import Target, find_place, module_at, open_target, parse_address
from clew.errors import Error, UsageError

if TYPE_CHECKING:
    from clew.read.dwarf_cfi import Explanation, Origin

NAME = "explain"
HELP = "the rule in force at an address, and which instruction set each part of it"
DESCRIPTION = """\
Shows how to get from an address back to the caller: the rule in force there as equations, the FDE
and the CIE it comes from, and the call frame instruction that set each part.

  clew explain /bin/ls 0x4fa0            an address of the file
  clew explain libc.so.6 qsort+0x10      a function, and how far into it
  clew explain --pid 1234 0x7f…          an address in a running process
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help="an ELF file; with --pid, a loaded module, and optional"
    )
    parser.add_argument("place", metavar="ADDRESS|FUNCTION+OFFSET", help="where")
    parser.add_argument(
        "--pid", type=int, metavar="PID", help="look in this running process; addresses are then its own"
    )
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
    except Error as error:
        error.file = error.file or target.name
        raise
    if options.json:
        print_json(_json(target, found))
    else:
        _print(target, found)
    return report(target.name, found.row.rule.invalid_problems())


def _find(options: argparse.Namespace) -> tuple[Target, int]:
    if options.file is not None:
        target = open_target(options.file, options.pid)
        return target, find_place(target, options.place)
    if options.pid is None:
        raise UsageError("no file is given", hint="clew explain FILE ADDRESS, or clew explain --pid PID ADDRESS")
    address = parse_address(options.place)
    if address is None:
        raise UsageError(
            f"{options.place!r} is no address", hint="with --pid, name the module to look up a function in"
        )
    target = module_at(options.pid, address)
    return target, address - target.bias


def _place_name(target: Target, address: int) -> str:
    found = target.image.symbols().at(address)
    if found is None:
        return f"{address:#x}"
    index, offset = found
    return f"{target.image.symbols().name(index)}{f'+{offset:#x}' if offset else ''}"


def _print(target: Target, found: Explanation) -> None:
    colours = palette()
    machine, fde, row = found.section.machine, found.fde, found.row
    cie = fde.cie
    runtime = f", {found.address + target.bias:#x} in the process" if target.bias else ""
    print(f"{colours.bold(_place_name(target, found.address))}  {found.address:#x}{runtime}  in {target.name}")
    print()
    equations = list(row.rule.equations(machine))
    width = max((len(left) for left, _ in equations), default=0)
    for left, right in equations:
        print(f"  {left.ljust(width)} = {colours.cyan(right)}")
    for remark in row.rule.remarks():
        print(f"  {colours.yellow(remark)}")
    if row.args_size:
        print(f"  {row.args_size} bytes of arguments on the stack")
    kept = [
        machine.register_name(number)
        for number in sorted(machine.callee_saved)
        if number in machine.names and row.rule[number] is None and machine.default(number) is Default.SAME_VALUE
    ]
    if row.rule.information:
        stack = machine.register_name(machine.stack_pointer)
        if row.rule[machine.stack_pointer] is None and machine.default(machine.stack_pointer) is Default.CFA:
            print(colours.dim(f"  {stack.ljust(width)} = cfa, by the ABI"))
        if kept:
            print(colours.dim(f"  the same as here, by the ABI: {' '.join(kept)}"))
    print()
    place = f"{found.section.name}+"
    print(f"  row  {row.start:#x}..{row.end:#x}")
    print(
        f"  FDE  {place}{fde.offset:#x}  {fde.start:#x}..{fde.stop:#x}" + (f"  lsda {fde.lsda:#x}" if fde.lsda else "")
    )
    print(
        f'  CIE  {place}{cie.offset:#x}  version {cie.version}, augmentation "{cie.augmentation}", moves ×'
        f"{cie.code_alignment}, offsets ×{cie.data_alignment}, return address in {machine.register_name(cie.return_address)}"
    )
    for other in found.hidden:
        print(
            colours.yellow(
                f"  hidden: FDE {place}{other.offset:#x}  {other.start:#x}..{other.stop:#x} lies around it too"
            )
        )
    print()
    print("  set by")
    names = {part: machine.register_name(part) if isinstance(part, int) else part for part in found.origins}
    width = max((len(name) for name in names.values()), default=0)
    for part, origin in sorted(found.origins.items(), key=lambda item: (isinstance(item[0], int), item[0])):
        print(f"    {names[part].ljust(width)}  {_origin(origin, found)}")


def _origin(origin: Origin, found: Explanation) -> str:
    machine = found.section.machine
    where = "in the CIE" if origin.location is None else f"from {origin.location:#x} on"
    text = f"{found.section.name}+{origin.instruction.offset:#x}  {origin.instruction.text(machine)}  ({where})"
    if origin.via is not None:
        text += f", brought back by {origin.via.text(machine)} at +{origin.via.offset:#x}"
    return text


def _json(target: Target, found: Explanation) -> dict[str, Any]:
    machine, fde, cie = found.section.machine, found.fde, found.fde.cie

    def origin(value: Origin) -> dict[str, Any]:
        out: dict[str, Any] = {
            "offset": f"{value.instruction.offset:#x}",
            "instruction": value.instruction.text(machine),
        }
        if value.location is not None:
            out["from"] = f"{value.location:#x}"
        if value.via is not None:
            out["via"] = {"offset": f"{value.via.offset:#x}", "instruction": value.via.text(machine)}
        return out

    symbol = target.image.symbols().at(found.address)
    out: dict[str, Any] = {"file": target.name, "machine": machine.name, "address": f"{found.address:#x}"}
    if target.bias:
        out["runtime_address"] = f"{found.address + target.bias:#x}"
    if symbol is not None:
        out["function"] = target.image.symbols().name(symbol[0])
        out["function_offset"] = f"{symbol[1]:#x}"
    out["rule"] = found.row.rule.to_json(machine)
    out["row"] = {"start": f"{found.row.start:#x}", "end": f"{found.row.end:#x}"}
    out["fde"] = {"section": found.section.name, "offset": f"{fde.offset:#x}"}
    out["fde"] |= {"start": f"{fde.start:#x}", "end": f"{fde.stop:#x}"}
    out["cie"] = {"offset": f"{cie.offset:#x}", "version": cie.version, "augmentation": cie.augmentation}
    out["cie"] |= {"code_alignment": cie.code_alignment, "data_alignment": cie.data_alignment}
    out["set_by"] = {
        machine.register_name(part) if isinstance(part, int) else part: origin(value)
        for part, value in found.origins.items()
    }
    if found.hidden:
        out["hidden"] = [f"{other.offset:#x}" for other in found.hidden]
    return out
