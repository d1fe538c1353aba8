"""Go: from the thread's stack back to the goroutine's, calls that a signal's handler made, and what its functions keep."""

from __future__ import annotations

import pytest
from walking import Pieces, pcs, trusts, without_reads, words

from clew.arch import machine_named
from clew.image import Image
from clew.target import Module, Modules, Target, Thread
from clew.testing import Cfa, CfiBuilder, ElfBuilder
from clew.walk import End, FastWalker, Interrupted, Stack, Walker

BASE = 0x400000
G0, GOROUTINE = 0x7F0000, 0x7E0000
"""The thread's stack is above the goroutine's, and near."""

SWITCH, PANIC, LEAF, MAIN, EXIT, WORK, MORE, C, CLOCK = (0x1000 + 0x40 * index for index in range(9))
NAMES = {
    "runtime.systemstack.abi0": SWITCH,
    "runtime.sigpanic": PANIC,
    "main.leaf": LEAF,
    "main.main": MAIN,
    "runtime.goexit.abi0": EXIT,
    "main.work": WORK,
    "runtime.morestack.abi0": MORE,
    "c_function": C,
    "runtime.nanotime1.abi0": CLOCK,
}
CALL = bytes.fromhex("e800000000")
RECORDED = bytes.fromhex("554889e5")  # push %rbp; mov %rsp,%rbp
BACK = 0x20
"""Where in each function the call returns to."""


def body(prologue: bytes) -> bytes:
    return (prologue.ljust(BACK - len(CALL), b"\x90") + CALL).ljust(0x40, b"\x90")


def program(*, tables: bool = True, names: bool = True, switch: bytes = RECORDED) -> Image:
    """Functions with frames of 32 bytes, but for the leaf and the switch; the C function alone has its table in .eh_frame."""
    text = {start: body(RECORDED) for start in NAMES.values()}
    text[SWITCH] = body(switch)
    # runtime.goexit: nop; call; nop. A goroutine's first function returns behind the first.
    text[EXIT] = b"\x90" + CALL + b"\x90" * 58
    text[LEAF] = b"\x90" * 0x40
    elf = ElfBuilder(machine=62)
    elf.section(".text", b"".join(text[start] for start in sorted(text)), address=0x1000, flags=6)
    elf.section(".gopclntab", bytes(16), address=0x3000, flags=2)
    if names:
        for name, start in NAMES.items():
            elf.symbol(name, section=".text", value=start, size=0x40)
    if tables:
        go = CfiBuilder("debug_frame")
        cie = go.cie(data_alignment=-4, return_address=16, instructions=[Cfa.def_cfa(7, 8), Cfa.offset(16, 2)])
        for start in NAMES.values():
            if start != C:
                frame = {LEAF: 8, EXIT: 8, SWITCH: 16, MORE: 8}.get(start, 32)
                go.fde(cie, start=start, size=0x40, instructions=[Cfa.def_cfa_offset(frame)])
        elf.section(".debug_frame", go.build())
        c = CfiBuilder("eh_frame", address=0x4000)
        cie = c.cie(data_alignment=-8, return_address=16, instructions=[Cfa.def_cfa(7, 8), Cfa.offset(16, 1)])
        c.fde(cie, start=C, size=0x40, instructions=[Cfa.def_cfa_offset(32)])
        elf.section(".eh_frame", c.build(), address=0x4000, flags=2)
    elf.segment(1, [".text"], flags=5)
    return Image.from_bytes(elf.build())


def stack_of(image: Image, stacks: dict[int, bytes], pc: int, **registers: int) -> Stack:
    """The walk, by the general walker and the fast one."""
    machine = machine_named("x86-64")
    data = image.bytes_at(0x1000, 0x240)
    assert data is not None
    module = Module("/bin/go", BASE, BASE + 0x5000, BASE, open_image=lambda: image)
    target = Target("core", machine, [], Pieces({BASE + 0x1000: bytes(data), **stacks}), Modules([module]))
    numbers = {machine.register_number(name): value for name, value in registers.items()}
    thread = Thread(1, {number: value for number, value in numbers.items() if number is not None}, BASE + pc)
    stack = Walker(target).walk(thread)
    assert without_reads(FastWalker(target).walk(thread)) == without_reads(stack)
    return stack


def on_two_stacks(lead: int = MAIN + BACK) -> dict[int, bytes]:
    """work, on the thread's stack, was called by systemstack; its record is on the goroutine's, and leads to main."""
    return {
        G0: words("x86-64", 1, GOROUTINE, BASE + SWITCH + BACK, 0, 0xBAD, 0),
        # systemstack's record; main's frame: two words, its record; goexit.
        GOROUTINE: words("x86-64", GOROUTINE + 0x20, BASE + lead, 0, 0, 0, BASE + EXIT + 1, 0, 0),
    }


def test_the_record_of_systemstack_is_on_the_goroutines_stack() -> None:
    stack = stack_of(program(), on_two_stacks(), WORK + 0x30, rsp=G0 - 8, rbp=G0 + 8, rbx=3, r12=12)
    assert pcs(stack) == [BASE + pc for pc in (WORK + 0x30, SWITCH + BACK, MAIN + BACK, EXIT + 1)]
    assert (trusts(stack), stack.end) == (["context", "cfi", "frame_pointer", "cfi"], End.ENTRY)
    # Go's functions keep the frame pointer and nothing else.
    known = [{number: frame.registers[number] for number in sorted(frame.registers)} for frame in stack.frames[1:]]
    assert known[0] == {6: GOROUTINE, 7: G0 + 0x18, 16: BASE + SWITCH + BACK}
    assert known[1] == {6: GOROUTINE + 0x20, 7: GOROUTINE + 0x10, 16: BASE + MAIN + BACK}
    assert known[2] == {6: 0, 7: GOROUTINE + 0x30, 16: BASE + EXIT + 1}


def test_in_its_prologue_systemstack_is_a_function_like_any_other() -> None:
    image = program()
    stacks = {GOROUTINE: words("x86-64", GOROUTINE + 0x20, BASE + MAIN + BACK, 0, 0, 0, BASE + EXIT + 1)}
    stack = stack_of(image, stacks, SWITCH + 1, rsp=GOROUTINE, rbp=GOROUTINE + 0x20)
    assert pcs(stack)[1:] == [BASE + MAIN + BACK, BASE + EXIT + 1]


@pytest.mark.parametrize(
    ("switch", "lead", "end"), [(b"\x90" * 4, MAIN + BACK, End.NO_RULE), (RECORDED, MAIN + 1, End.BAD_RULE)]
)
def test_without_a_record_there_is_a_reason(switch: bytes, lead: int, end: End) -> None:
    """Before Go 1.21, systemstack made no record; and one that is damaged leads to no call."""
    stack = stack_of(program(switch=switch), on_two_stacks(lead), WORK + 0x30, rsp=G0 - 8, rbp=G0 + 8)
    assert (pcs(stack)[1:], stack.end) == ([BASE + SWITCH + BACK], end)


def test_a_clock_is_read_on_the_threads_stack() -> None:
    """runtime.nanotime1 moves the stack pointer, and its rows go on from the one that it had."""
    stacks = on_two_stacks()
    stacks[G0] = words("x86-64", 1, GOROUTINE, BASE + CLOCK + BACK, 0, 0xBAD, 0, 0xBAD)
    stack = stack_of(program(), stacks, WORK + 0x30, rsp=G0 - 8, rbp=G0 + 8)
    assert pcs(stack)[1:] == [BASE + pc for pc in (CLOCK + BACK, MAIN + BACK, EXIT + 1)]
    assert stack.end is End.ENTRY


def test_only_the_runtime_knows_which_goroutine_grows() -> None:
    stacks = {G0: words("x86-64", 1, 0, BASE + MORE + BACK, 0, 0)}
    stack = stack_of(program(), stacks, WORK + 0x30, rsp=G0 - 8, rbp=G0 + 8)
    assert (pcs(stack)[1:], stack.end) == ([BASE + MORE + BACK], End.NO_RULE)
    assert "runtime.morestack" in stack.detail


@pytest.mark.parametrize("tables", [True, False])
def test_what_a_fault_interrupted_is_looked_up_as_it_is(tables: bool) -> None:
    """At the first instruction of a leaf: the byte before is another function's, with another frame. Its handler put the
    address where a call would have."""
    stacks = {G0: words("x86-64", 0, 0, G0 + 0x38, BASE + LEAF, BASE + MAIN + BACK, 0, 0, 0, BASE + EXIT + 1)}
    # Without tables, the record of main tells only what called main.
    image = program(tables=tables)
    stack = stack_of(image, stacks, PANIC + 0x30, rsp=G0, rbp=G0 + 0x10) if tables else None
    if stack is None:
        # sigpanic has called the work, whose record leads to it.
        stacks[G0 - 0x20] = words("x86-64", G0 + 0x10, BASE + PANIC + BACK, 0, 0)
        stack = stack_of(image, stacks, WORK + 0x30, rsp=G0 - 0x20, rbp=G0 - 0x20)
        assert stack.frames[2].pc == Interrupted(BASE + LEAF)
        return
    assert stack.frames[1].pc == Interrupted(BASE + LEAF)
    assert pcs(stack)[2:] == [BASE + MAIN + BACK, BASE + EXIT + 1]


def test_a_function_of_c_in_the_same_file_keeps_what_c_keeps() -> None:
    stacks = {G0: words("x86-64", 1, 2, 3, BASE + MAIN + BACK, 0, 0, 0, BASE + EXIT + 1)}
    stack = stack_of(program(), stacks, C + 0x30, rsp=G0, rbp=6, rbx=3, r12=12, rax=1)
    assert dict(stack.frames[1].registers) == {3: 3, 6: 6, 7: G0 + 0x20, 12: 12, 16: BASE + MAIN + BACK}


def test_without_names_and_tables_the_chain_goes_on_on_the_other_stack() -> None:
    """A goroutine's first record has a zero, and leads behind the nop of goexit."""
    far = {address + (0x40000000 if address == G0 else 0): data for address, data in on_two_stacks().items()}
    top = G0 + 0x40000000
    stack = stack_of(program(tables=False, names=False), far, WORK + 0x30, rsp=top - 8, rbp=top + 8)
    assert pcs(stack) == [BASE + pc for pc in (WORK + 0x30, SWITCH + BACK, MAIN + BACK, EXIT + 1)]
    assert (trusts(stack)[1:], stack.end) == (["frame_pointer"] * 3, End.ENTRY)
