"""The function: its entry, the look-up, and the bodies; as bytes and as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from clew.errors import UsageError
from clew.write.assembler.bodies import DONE, DONE_SIGNAL, FAILED, BodyWriter, failed_with
from clew.write.assembler.code import Code
from clew.write.assembler.convention import Convention
from clew.write.assembler.expression import LOAD, ExpressionWriter
from clew.write.assembler.frames import HELPERS, REMEMBER, RESTORE, def_cfa, same_value, saved
from clew.write.assembler.operands import (
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    RSP,
    At,
    fits32,
)
from clew.write.assembler.pages import Pages, Segment, pages_of
from clew.write.compiled.abi import INFORMATION, Information, Outcome
from clew.write.compiled.planning import NO_ROW, Plan

_ALIGNMENT = 16
_PRESERVED = (RBX, RBP, R12, R13, R14, R15)


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
    bodies = Code(8 + (24 + 8 * len(_PRESERVED) if deref else 0))
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
    code.label(plan.abi.symbol)
    _enter(code, convention)
    _look_up(code, tables, marks["targets"] - marks["lows"], shift, size)
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
    """The entry: parameters go where the bodies have them. rsi keeps the address."""
    if convention.deref:
        for register in _PRESERVED:
            code.push(register)
            code.undo(saved(register, code.depth or 0))
        # One word for what the parameter loads, and the stack at a multiple of 16.
        code.immediate("sub", RSP, 24)
        code.move(convention.frame, RDI)
        code.move(convention.function, RDX)
        if not convention.paper:
            code.move(convention.argument, RCX)
    if convention.paper:
        # The context comes by value on the stack and goes back through the pointer in rdi: the body works on the copy.
        above = 8 + (24 + 8 * len(_PRESERVED) if convention.deref else 0)
        for place in range(0, 40, 8):
            code.load(RAX, At(RSP, above + place))
            code.store(At(convention.frame, place), RAX)
    if convention.bias:
        code.immediate("add", convention.frame, convention.bias)


def _look_up(code: Code, tables: Pages, targets: int, shift: int, size: int) -> None:
    """From the address in rsi to its body.

    Args:
        targets: how far the targets are behind the lows.
        shift, size: what a target is.
    """
    if not tables.segments:
        code.jump("body_0")
        return
    segments = tables.segments

    def search(low: int, high: int) -> None:
        if high - low == 1:
            _segment(code, segments[low], low, high == len(segments) and low == 0)
            return
        middle = (low + high) // 2
        code.constant(RAX, segments[middle].start)
        code.arithmetic("cmp", RSI, RAX)
        code.jump_if("ae", f"from_{middle}")
        search(low, middle)
        code.label(f"from_{middle}")
        search(middle, high)

    # Below a single segment there is no row, as behind it: one comparison finds both.
    if segments[0].start and (len(segments) > 1 or segments[0].after):
        code.constant(RAX, segments[0].start)
        code.arithmetic("cmp", RSI, RAX)
        code.jump_if("b", "body_0")
    search(0, len(segments))
    code.label("in_page")
    code.remark("rax: from the start of the segment; rdx: its pages")
    code.move32(RCX, RAX)
    code.shift("shr", RCX, 8, wide=False)
    code.load32(R8, At(RDX, 0, RCX, 4))
    code.load32(RCX, At(RDX, 4, RCX, 4))
    code.arithmetic32("sub", RCX, R8)
    code.address_of(R9, "lows")
    code.remark("the low byte of the address, sixteen times")
    code.raw(b"\x66\x0f\x6e\xc0", "movd xmm0, eax")
    code.raw(b"\x66\x0f\x60\xc0", "punpcklbw xmm0, xmm0")
    code.raw(b"\xf2\x0f\x70\xc0\x00", "pshuflw xmm0, xmm0, 0")
    code.raw(b"\x66\x0f\x70\xc0\x00", "pshufd xmm0, xmm0, 0")
    code.immediate("cmp", RCX, 16, wide=False)
    code.jump_if("a", "long_page")
    code.remark("one bit for each row that begins at or before it, and for all that are not the page's")
    code.raw(b"\xf3\x43\x0f\x6f\x0c\x01", "movdqu xmm1, [r9+r8]")
    _compare(code)
    code.unary("not", RAX, wide=False)
    code.raw(b"\x0f\xab\xc8", "bts eax, ecx")
    code.raw(b"\x0f\xbc\xc0", "bsf eax, eax")
    code.label("found")
    code.arithmetic32("add", RAX, R8)
    target = At(R9, targets, RAX, size)
    if size == 2:
        code.load_small(RAX, target, 2)
    else:
        code.load32(RAX, target)
    if shift:
        code.shift("shl", RAX, shift, wide=False)
    code.address_of(RCX, "bodies")
    code.arithmetic("add", RAX, RCX)
    code.jump_to(RAX)
    code.label("long_page")
    code.address(R10, At(R9, 0, R8))
    code.constant(R11, 0)
    code.label("sixteen_more")
    code.raw(b"\xf3\x43\x0f\x6f\x0c\x1a", "movdqu xmm1, [r10+r11]")
    _compare(code)
    code.immediate("cmp", RAX, 0xFFFF, wide=False)
    code.hop_if("ne", "not_all")
    code.immediate("add", R11, 16, wide=False)
    code.arithmetic32("cmp", R11, RCX)
    code.hop_if("b", "sixteen_more")
    code.label("not_all")
    code.unary("not", RAX, wide=False)
    code.raw(b"\x0f\xbc\xc0", "bsf eax, eax")
    code.arithmetic32("add", RAX, R11)
    code.remark("rows of the next page do not count")
    code.arithmetic("cmp", RAX, RCX)
    code.move_if("a", RAX, RCX)
    code.jump("found")


def _compare(code: Code) -> None:
    """One bit in eax for each of the sixteen bytes in xmm1 that is not above the one in xmm0."""
    code.raw(b"\x66\x0f\xde\xc8", "pmaxub xmm1, xmm0")
    code.raw(b"\x66\x0f\x74\xc8", "pcmpeqb xmm1, xmm0")
    code.raw(b"\x66\x0f\xd7\xc1", "pmovmskb eax, xmm1")


def _segment(code: Code, segment: Segment, number: int, last: bool) -> None:
    """From an address at or behind a segment's start to the search in its page."""
    if fits32(-segment.start):
        code.address(RAX, At(RSI, -segment.start))
    else:
        code.constant(RAX, -segment.start)
        code.arithmetic("add", RAX, RSI)
    code.immediate("cmp", RAX, segment.end - segment.start)
    code.jump_if("ae", f"body_{segment.after}")
    code.address_of(RDX, f"pages_{number}")
    if not last:
        code.jump("in_page")


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
    if convention.deref or convention.paper:
        for label, signal in ((DONE, False), (DONE_SIGNAL, True)):
            code.label(label)
            writer.finish(signal)
            _leave(code, convention)
    for outcome in Outcome:
        if outcome < 0:
            code.label(failed_with(outcome))
            code.constant(RDX, outcome)
            code.jump(FAILED)
    code.label(FAILED)
    if convention.paper:
        code.store_byte(convention.flags, 0x80)
        code.move(RAX, convention.frame)
    else:
        code.move32(RAX, RDX)
    _leave(code, convention, last=True)
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


def _leave(code: Code, convention: Convention, last: bool = False) -> None:
    """Leaves the function; where more of it follows, that has its frame still."""
    if not convention.deref:
        code.ret()
        return
    depth = code.depth
    if not last:
        code.undo(REMEMBER)
    code.immediate("add", RSP, 24)
    for register in reversed(_PRESERVED):
        # Its copy on the stack stays true: signals leave the red zone alone.
        code.pop(register)
    code.ret()
    if not last:
        code.undo(RESTORE)
        code.depth = depth


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
