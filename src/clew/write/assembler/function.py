"""The function: its entry, the look-up, and the bodies; as bytes and as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from clew.errors import UsageError
from clew.write.assembler.bodies import BodyWriter
from clew.write.assembler.code import Code
from clew.write.assembler.convention import Convention
from clew.write.assembler.expression import LOAD, ExpressionWriter
from clew.write.assembler.frames import HELPERS, REMEMBER, RESTORE, def_cfa, same_value, saved
from clew.write.assembler.labels import RETURN_UNREADABLE, ROOM, SAVED, depth_of, failed, failed_with
from clew.write.assembler.look_up import LookUp
from clew.write.assembler.operands import (
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    RSP,
    At,
)
from clew.write.assembler.pages import pages_of
from clew.write.compiled.abi import INFORMATION, Information, Outcome
from clew.write.compiled.planning import NO_ROW, Plan

_ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class Assembled:
    """A function that is done but for where it lies.

    Attributes:
        symbol: its name.
        code: its instructions, from its first on.
        data: its tables.
        places: where in the data its labels are.
        information: what the object says of itself.
        shift, target_size: a target is the distance of its body from the first, shifted to the right by so many bits, and has
            so many bytes.
        targets: of each row, the label of its body; the first is that of what is before the first row.
    """

    symbol: str
    code: Code
    data: bytes
    places: dict[str, int]
    information: Information
    shift: int
    target_size: int
    targets: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes of code and tables."""
        return len(self.code.data) + len(self.data)

    def text(self) -> Iterator[str]:
        """The source, line by line, for GNU's assembler: it makes the same function of it."""
        yield ".intel_syntax noprefix"
        yield ".text"
        yield f".globl {self.symbol}"
        yield f".type {self.symbol}, @function"
        yield "\t.cfi_startproc"
        yield from self.code.text
        yield "\t.cfi_endproc"
        yield f".size {self.symbol}, .-{self.symbol}"
        yield ".section .rodata"
        yield ".balign 16"
        ends = sorted({*self.places.values(), len(self.data)})
        names: dict[int, list[str]] = {}
        for name, place in self.places.items():
            names.setdefault(place, []).append(name)
        for place, end in zip(ends, [*ends[1:], len(self.data)], strict=True):
            for name in names.get(place, ()):
                if name == INFORMATION:
                    yield f".globl {name}"
                    yield f".type {name}, @object"
                yield f"{name}:"
            if "targets" in names.get(place, ()):
                yield from self._targets()
                continue
            for at in range(place, end, 24):
                yield "\t.byte " + ",".join(map(str, self.data[at : min(at + 24, end)]))
        yield '.section .note.GNU-stack,"",@progbits'

    def _targets(self) -> Iterator[str]:
        unit = ".long" if self.target_size == 4 else ".short"
        for name in self.targets:
            yield f"\t{unit} ({name}-bodies)>>{self.shift}" if self.shift else f"\t{unit} {name}-bodies"


def assemble(plan: Plan, information: Information, *, deref: bool = False) -> Assembled:
    """The function of a plan.

    Args:
        plan: what is compiled, for x86-64.
        information: what the object says of itself.
        deref: load memory through a parameter, for other address spaces than the function's own.

    Raises:
        UsageError: the plan is for another machine.
    """
    if plan.abi.machine.name != "x86-64":
        raise UsageError(
            f"--backend asm writes code of x86-64, and the file is of {plan.abi.machine.name}",
            hint="--backend c compiles it",
        )
    tables = pages_of(plan)
    convention = Convention(plan.abi, deref)
    bodies = Code(depth_of("") if deref and convention.paper else 8)
    places = _write_bodies(bodies, convention, plan)
    shift, size = _target(len(bodies.data))
    targets = np.array(places)[np.append(0, plan.body)]
    data = bytearray()
    marks: dict[str, int] = {}

    def add(name: str, part: bytes) -> None:
        data.extend(bytes(-len(data) % 16))
        marks[name] = len(data)
        data.extend(part)

    add(INFORMATION, information.pack())
    add("lows", tables.lows.tobytes())
    add("targets", (targets >> shift).astype("<u2" if size == 2 else "<u4").tobytes())
    add("pages", tables.pages.astype("<u4").tobytes())
    for number, segment in enumerate(tables.segments):
        marks[f"pages_{number}"] = marks["pages"] + segment.place
    code = Code()
    look_up = LookUp(code, tables, marks["targets"] - marks["lows"], shift, size)
    code.label(plan.abi.symbol)
    if convention.paper:
        _enter(code, convention)
    look_up.write()
    code.align(_ALIGNMENT)
    code.extend(bodies)
    labels = tuple(f"body_{number}" for number in np.append(0, plan.body).tolist())
    return Assembled(plan.abi.symbol, code, bytes(data), marks, information, shift, size, labels)


def _target(size: int) -> tuple[int, int]:
    """How a target says where a body is: by how many bits it is shifted to the right, and the bytes that it has."""
    if size < 1 << 16:
        return 0, 2
    return (4, 2) if size < 1 << 20 else (0, 4)


def _enter(code: Code, convention: Convention) -> None:
    """The entry with the paper's interface: what all bodies share. rsi keeps the address."""
    above = 8
    if convention.deref:
        for register in SAVED[""]:
            code.push(register)
            code.undo(saved(register, code.depth or 0))
        code.immediate("sub", RSP, ROOM[""])
        code.move(convention.frame, RDI)
        code.move(convention.function, RDX)
        above = depth_of("")
    # The context comes by value on the stack and goes back through the pointer in rdi: the body works on the copy.
    for place in range(0, 40, 8):
        code.load(RAX, At(RSP, above + place))
        code.store(At(convention.frame, place), RAX)


def _write_bodies(code: Code, convention: Convention, plan: Plan) -> list[int]:
    """The bodies, and what they share; where each begins."""
    writer = BodyWriter(code, convention)
    code.label("bodies")
    places: list[int] = []
    for number, (body, (text, rows)) in enumerate(zip(plan.bodies, plan.rules, strict=True)):
        code.align(_ALIGNMENT)
        code.remark(ascii(text)[1:-1][:400] + f" -- {rows:,} rows" if body is not NO_ROW else "no row")
        places.append(len(code.data))
        code.label(f"body_{number}")
        writer.write(body)
    code.align(_ALIGNMENT)
    if convention.own_frames:
        for kind in ("_short", "_long"):
            _endings(writer, kind)
    # Last, as it is where the bodies begin.
    _endings(writer, "")
    code.label(HELPERS)
    code.text[-1:] = ["\t.cfi_endproc", code.text[-1], "\t.cfi_startproc"]
    expressions = ExpressionWriter(code, convention)
    if writer.expressions:
        for (expression, with_cfa), name in writer.expressions.items():
            expressions.write(name, expression, with_cfa)
        expressions.write_failures()
    if convention.deref:
        _write_load(code, convention)
    return places


def _endings(writer: BodyWriter, kind: str) -> None:
    """The ends of bodies with frames of a kind, well or not."""
    code, convention = writer.code, writer.convention
    writer.kind = kind
    if kind:
        code.undo(REMEMBER + def_cfa(RSP, depth_of(kind)))
        for number, register in enumerate(SAVED[kind]):
            code.undo(saved(register, 16 + 8 * number))
        code.depth = depth_of(kind)
    if kind or convention.paper:
        for signal in (False, True):
            writer.finish(signal)
            writer.leave()
    if kind == "_short":
        code.label(RETURN_UNREADABLE)
        code.load(RAX, At(RSP))
        code.store(convention.slot(writer.abi.pc), RAX)
        code.jump(failed_with(Outcome.UNREADABLE, kind))
    for outcome in Outcome:
        if outcome < 0:
            code.label(failed_with(outcome, kind))
            code.constant(RDX, outcome)
            code.jump(failed(kind))
    code.label(failed(kind))
    if convention.paper:
        code.store_byte(convention.flags, 0x80)
        code.move(RAX, convention.frame)
    else:
        code.move32(RAX, RDX)
    writer.leave()
    if kind:
        code.undo(RESTORE)
        code.depth = 8


def _write_load(code: Code, convention: Convention) -> None:
    """Loads the word at rsi into rcx, wherever the stack pointer is; ``e`` where it cannot."""
    code.label(LOAD)
    code.undo(def_cfa(RSP, 8) + same_value(convention.stack))
    code.depth = None
    code.move(RAX, RSP)
    code.undo(def_cfa(RAX, 8))
    code.immediate("sub", RSP, 16)
    code.immediate("and", RSP, -16)
    code.store(At(RSP, 8), RAX)
    # DW_OP_breg7 8, DW_OP_deref, DW_OP_plus_uconst 8: the stack pointer before, which is on the stack.
    code.undo(b"\x0f\x05\x77\x08\x06\x23\x08")
    if convention.paper:
        code.move(RDI, RSI)
        code.call_to(convention.function)
        code.move(RCX, RAX)
    else:
        code.move(RDI, convention.argument)
        code.move(RDX, RSP)
        code.call_to(convention.function)
        code.load(RCX, At(RSP))
    code.load(RSP, At(RSP, 8))
    code.undo(def_cfa(RSP, 8))
    if not convention.paper:
        code.test_al()
    code.ret()
