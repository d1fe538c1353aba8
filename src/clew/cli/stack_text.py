"""Stacks as text: a line a frame, as eu-stack prints them, with how each was found and why the stack ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from clew.cli.output import Palette, counted, printable
from clew.walk.model import End, Trust

if TYPE_CHECKING:
    from clew.arch import Machine
    from clew.cli.stack_names import FrameName, FrameNames, InlinedCall
    from clew.cli.walking import Walked
    from clew.target import Target
    from clew.walk import Frame

PLAIN = (Trust.CONTEXT, Trust.CFI)
_WIDEST = 56
_LONGEST_COMMAND = 400
_INDENT = "      "
_KINDS = {"sample": "recording"}
# What signals are called by number is the same on all machines but these (signal(7)).
_OWN_SIGNALS = ("mips", "sparc")


@dataclass(frozen=True, slots=True)
class Style:
    """What is shown of each frame.

    Attributes:
        colours: how.
        why: the rule by which it was left, and what was read for that.
        registers: what is known of its registers.
    """

    colours: Palette
    why: bool = False
    registers: bool = False


def heading(target: Target, file: str, colours: Palette) -> str:
    """What the target is, in a line."""
    what = (
        f"process {target.process_id}" if target.kind == "process" else f"{_KINDS.get(target.kind, target.kind)} {file}"
    )
    parts = []
    if target.kind != "process" and target.process_id is not None:
        parts.append(f"process {target.process_id}")
    if target.command:
        command = printable(target.command)
        parts.append(command if len(command) <= _LONGEST_COMMAND else command[:_LONGEST_COMMAND] + "…")
    if target.signal:
        parts.append(colours.red(signal_name(target.signal, target.machine)))
    return f"{colours.bold(printable(what))}  {colours.dim(target.machine.name)}  {', '.join(parts)}".rstrip()


def signal_name(number: int, machine: Machine) -> str:
    """A signal by name and number."""
    if not machine.name.startswith(_OWN_SIGNALS):
        try:
            return f"{signal.Signals(number).name} ({number})"
        except ValueError:
            pass
    return f"signal {number}"


def stack_lines(walked: Walked, names: FrameNames, style: Style) -> Iterator[str]:
    """The lines of one thread."""
    colours, machine = style.colours, names.target.machine
    thread, stack = walked.thread, walked.stack
    title = f"TID {thread.id}" + (f' "{printable(thread.name)}"' if thread.name else "")
    yield f"{colours.bold(title)}:"
    named = [names.of_frame(stack.frames, index, in_call=thread.interrupted_call) for index in range(len(stack.frames))]
    rows = frame_rows(stack.frames, named, machine)
    for index, lines in enumerate(aligned(rows, colours)):
        yield from lines
        frame = stack.frames[index]
        if style.registers:
            yield from _registers(frame, machine, colours)
        if style.why:
            above = stack.frames[index + 1] if index + 1 < len(stack.frames) else None
            yield from _reasons(frame, above, machine, colours)
    yield end_line(stack.end, stack.detail, colours)


def end_line(end: End, detail: str, colours: Palette) -> str:
    """Why a stack ends."""
    if end is End.ENTRY:
        return f"end: {colours.green(end.value)}"
    return f"end: {colours.red(end.value)}" + (f", {printable(detail)}" if detail else "")


def frame_rows(frames: Sequence[Frame], named: Sequence[FrameName], machine: Machine) -> list[Row]:
    """One row a frame: its pc, functions, module, and how it was found where that was not by a table."""
    return [
        Row(
            (
                *map(inlined_row, name.inlined),
                FunctionRow(function_text(name), name.function is not None, place_text(name)),
            ),
            module_text(name),
            None if frame.trust in PLAIN else frame.trust,
            hexadecimal(frame.pc.address, machine),
        )
        for frame, name in zip(frames, named, strict=True)
    ]


class FunctionRow(NamedTuple):
    """One function of a frame, in words.

    Attributes:
        text: what it is called.
        known: whether that is a name.
        place: where in the source the frame is; empty where that is not known.
    """

    text: str
    known: bool
    place: str = ""


class Row(NamedTuple):
    """One frame, in words.

    Attributes:
        functions: what it is in: functions that were inlined, the innermost first, and the one that they are part of.
        module: what that is in.
        trust: how it was found, where that is to be said.
        pc: its pc, where it has one.
    """

    functions: tuple[FunctionRow, ...]
    module: str
    trust: Trust | None
    pc: str = ""


def aligned(rows: Sequence[Row], colours: Palette) -> Iterator[list[str]]:
    """The lines of each frame, a function each, columns one under the other. The first one has the number and the pc."""
    digits = max(2, len(str(len(rows) - 1)))
    functions = [function for row in rows for function in row.functions]
    width = min(max((len(function.text) for function in functions), default=0), _WIDEST)
    module = max((len(row.module) for row in rows), default=0)
    place = max((len(row.functions[0].place) for row in rows if row.trust is not None), default=0)
    for index, row in enumerate(rows):
        lines = []
        for number, function in enumerate(row.functions):
            pc = f"{colours.cyan(row.pc)} " if row.pc else ""
            start = " " * (2 + digits + (len(row.pc) + 1 if row.pc else 0)) if number else f"#{index:<{digits}} {pc}"
            cells = [
                (function.text, colours.bold if function.known else str, width),
                (row.module, colours.dim, module),
                (function.place, str, place),
            ]
            if row.trust is not None and not number:
                cells.append((f"[{row.trust.value}]", colours.yellow, 0))
            lines.append(start + _cells(cells))
        yield lines


def _cells(cells: Sequence[tuple[str, Callable[[str], str], int]]) -> str:
    """Texts side by side, each in its colour and as wide as its column, up to the last that is not empty."""
    while cells and not cells[-1][0]:
        cells = cells[:-1]
    parts = [
        (colour(text) if text else "") + " " * (0 if last else width - len(text))
        for last, (text, colour, width) in zip([*[False] * (len(cells) - 1), True], cells, strict=True)
        if width or text
    ]
    return "  ".join(parts)


def function_text(name: FrameName) -> str:
    """The function and how far into it."""
    if name.function is not None:
        text = f"{printable(name.function)}+{name.offset:#x}"
    else:
        text = "(no symbol)" if name.module is not None else "(no module)"
    return f"{text} (signal frame)" if name.signal else text


def inlined_row(call: InlinedCall) -> FunctionRow:
    """A function that was inlined."""
    function = "(no name)" if call.function is None else printable(call.function)
    return FunctionRow(f"{function} (inlined)", call.function is not None, source_text(call.file, call.line))


def place_text(name: FrameName) -> str:
    """Where in the source of its function a frame is."""
    return source_text(name.file, name.line)


def source_text(file: str | None, line: int) -> str:
    """A place in the source: of the file's path the last part, as of modules."""
    if file is None:
        return ""
    short = printable(os.path.basename(file) or file)
    return f"at {short}:{line}" if line else f"at {short}"


def module_text(name: FrameName) -> str:
    """The module; and where in it, where no function says that."""
    if name.module is None:
        return ""
    short = printable(os.path.basename(name.module) or name.module)
    return short if name.function is not None or name.address is None else f"{short}+{name.address:#x}"


def hexadecimal(value: int, machine: Machine) -> str:
    """A number in as many digits as an address has."""
    return f"{value:#0{2 + machine.bits // 4}x}"


def unknown_registers(frame: Frame, machine: Machine) -> list[str]:
    """Which of the registers that functions preserve are not known in a frame."""
    return [machine.register_name(number) for number in sorted(machine.callee_saved - frame.registers.keys())]


def _registers(frame: Frame, machine: Machine, colours: Palette) -> Iterator[str]:
    known = sorted(frame.registers.items())
    width = max((len(machine.register_name(number)) for number, _ in known), default=0)
    cells = [f"{machine.register_name(number).ljust(width)} {hexadecimal(value, machine)}" for number, value in known]
    for start in range(0, len(cells), 4):
        yield _INDENT + "  ".join(cells[start : start + 4])
    unknown = unknown_registers(frame, machine)
    if unknown:
        yield f"{_INDENT}{colours.yellow('unknown')} {' '.join(unknown)}"


def _reasons(frame: Frame, above: Frame | None, machine: Machine, colours: Palette) -> Iterator[str]:
    """The rule by which a frame was left, the CFA, and the words that were read."""
    if frame.rule is not None:
        yield f"{_INDENT}{colours.cyan(printable(frame.rule.text(machine)))}"
    if above is not None and (frame.rule is None or above.trust is not Trust.CFI):
        yield f"{_INDENT}left by {above.trust.value}"
    words = [("cfa", "", hexadecimal(frame.cfa, machine))] if frame.cfa is not None else []
    words += [
        (
            read.register,
            f"*{hexadecimal(read.address, machine)}",
            "unreadable" if read.value is None else hexadecimal(read.value, machine),
        )
        for read in frame.reads
    ]
    width = max((len(name) for name, _, _ in words), default=0)
    for name, where, value in words:
        yield f"{_INDENT}{name.ljust(width)} = " + (f"{where} = {value}" if where else value)


def left_out(count: int, what: str, colours: Palette) -> str:
    """How many more there are."""
    return colours.dim(f"and {counted(count, f'more {what}')}")
