"""Signal trampolines without a row, told by their bytes.

Layouts are checked against numbers that were seen in cores (AArch64: x0 at sp + 312, sp + 560, pc + 568) and against the C
library's structures as the ABI documents give them, which the tests spell out.
"""

from __future__ import annotations

import pytest
from walking import CODE, STACK, pcs, target, trusts, walk, words

from clew.arch import machine_named
from clew.image import Image
from clew.table import AtCfa, RegisterPlus, Rule, SameValue, Undefined
from clew.testing import ElfBuilder
from clew.walk import End, Interrupted, ReturnAddress

TRAMPOLINE = 0x55000
HANDLER = CODE + 4
INTERRUPTED = CODE + 0x20


def last(machine: str) -> Rule:
    """The rule of what was interrupted: the outermost frame."""
    known = machine_named(machine)
    return Rule(RegisterPlus(known.stack_pointer, 0), ((known.return_address, Undefined()),), known.return_address)


def frame(size: int, machine: str, at: dict[int, int], byte_size: int = 0) -> bytes:
    """A signal frame of zeroes with words at these offsets."""
    data = bytearray(size)
    for offset, value in at.items():
        word = words(machine, value)
        data[offset : offset + len(word)] = word
    return bytes(data)


CASES = [
    # mov $15, %rax; syscall. uc_flags, uc_link, uc_stack: gregs at 40, of which r8 is number 0, rbx 11, rsp 15, rip 16.
    ("x86-64", "48c7c00f0000000f05", 0, {40: 8, 40 + 8 * 11: 0xB, 40 + 8 * 15: 0xE000, 40 + 8 * 16: INTERRUPTED},
     {"r8": 8, "rbx": 0xB, "rsp": 0xE000}),
    # mov $173, %eax; int $0x80. Signal number, &siginfo, &ucontext (here at 0x40); gregs at 20: ebx 8, esp 7, eip 14.
    ("i386", "b8ad000000cd80", 0,
     {8: STACK + 0x40, 0x40 + 20 + 4 * 8: 0xB, 0x40 + 20 + 4 * 7: 0xE000, 0x40 + 20 + 4 * 14: INTERRUPTED},
     {"ebx": 0xB, "esp": 0xE000}),
    # pop %eax; mov $119, %eax; int $0x80. Signal number, sigcontext.
    ("i386", "58b877000000cd80", 0, {4 + 4 * 8: 0xB, 4 + 4 * 7: 0xE000, 4 + 4 * 14: INTERRUPTED},
     {"ebx": 0xB, "esp": 0xE000}),
    ("i386", "58b877000000cd80", 1, {4 * 8: 0xB, 4 * 7: 0xE000, 4 * 14: INTERRUPTED}, {"ebx": 0xB, "esp": 0xE000}),
    # mov x8, #139; svc #0.
    ("aarch64", "681180d2010000d4", 0, {312: 0xA0, 312 + 8 * 19: 0x19, 560: 0xE000, 568: INTERRUPTED},
     {"x0": 0xA0, "x19": 0x19, "sp": 0xE000}),
    ("aarch64", "681180d2010000d4", 4, {312: 0xA0, 560: 0xE000, 568: INTERRUPTED}, {"x0": 0xA0, "sp": 0xE000}),
    # mov r7, #173; swi. siginfo 128, ucontext: 20 + 12, then r0 to r15.
    ("arm", "ad70a0e3000000ef", 0, {160: 0xA0, 160 + 52: 0xE000, 160 + 60: INTERRUPTED}, {"r0": 0xA0, "sp": 0xE000}),
    ("arm", "ad70a0e3ad0090ef", 0, {160: 0xA0, 160 + 52: 0xE000, 160 + 60: INTERRUPTED}, {"r0": 0xA0, "sp": 0xE000}),
    ("arm", "7770a0e3770090ef", 0, {32: 0xA0, 32 + 52: 0xE000, 32 + 60: INTERRUPTED}, {"r0": 0xA0, "sp": 0xE000}),
    ("arm", "772700df", 0, {32: 0xA0, 32 + 52: 0xE000, 32 + 60: INTERRUPTED}, {"r0": 0xA0, "sp": 0xE000}),
    ("arm", "ad2700df", 2, {160: 0xA0, 160 + 52: 0xE000, 160 + 60: INTERRUPTED}, {"r0": 0xA0, "sp": 0xE000}),
    # li a7, 139; ecall. siginfo 128, mcontext at 176 of the ucontext: pc, x1 to x31.
    ("riscv64", "9308b00873000000", 0, {304: INTERRUPTED, 312: 0x1A, 320: 0xE000, 304 + 8 * 8: 0x50},
     {"ra": 0x1A, "sp": 0xE000, "s0": 0x50}),
    # addi r1, r1, 128; li r0, 172; sc. gp_regs at 232 of the ucontext: r14, nip 32, lr 36.
    ("powerpc64", "80002138ac00003802000044", 0,
     {128 + 232 + 8: 0xE000, 128 + 232 + 8 * 14: 0x14, 128 + 232 + 8 * 32: INTERRUPTED, 128 + 232 + 8 * 36: 0x1A},
     {"r1": 0xE000, "r14": 0x14, "lr": 0x1A}),
    ("powerpc64", "80002138ac00003802000044", 4, {232 + 8: 0xE000, 232 + 8 * 32: INTERRUPTED}, {"r1": 0xE000}),
    # qemu's: li r0, 172; sc, with 144 bytes below the ucontext.
    ("powerpc64", "ac00003802000044", 0, {144 + 232 + 8: 0xE000, 144 + 232 + 8 * 32: INTERRUPTED}, {"r1": 0xE000}),
    # svc 173. Register save area 160, 8, siginfo 128, ucontext: 40, psw mask and address, r0 to r15.
    ("s390x", "0aad", 0, {336 + 8: INTERRUPTED, 336 + 16 + 8 * 6: 6, 336 + 16 + 8 * 15: 0xE000}, {"r6": 6, "r15": 0xE000}),
    # The floating-point registers behind 16 access registers of 4 bytes, the control word and padding: f0, f2 and f15.
    ("s390x", "0aad", 0, {336 + 8: INTERRUPTED, 336 + 216: 0xF0, 336 + 232: 0xF2, 336 + 336: 0xFF},
     {"f0": 0xF0, "f2": 0xF2, "f15": 0xFF}),
    # svc 119. Register save area, signal mask, pointer to the registers.
    ("s390x", "0a77", 0, {168: STACK + 0x100, 0x108: INTERRUPTED, 0x110 + 8 * 15: 0xE000}, {"r15": 0xE000}),
]  # fmt: skip


@pytest.mark.parametrize(("machine", "code", "inside", "saved", "expected"), CASES)
def test_every_register_comes_from_the_kernels_frame(
    machine: str, code: str, inside: int, saved: dict[int, int], expected: dict[str, int]
) -> None:
    known = machine_named(machine)
    it = target(
        machine,
        {TRAMPOLINE: bytes.fromhex(code), STACK: frame(0x800, machine, saved)},
        [(INTERRUPTED, INTERRUPTED + 16, last(machine))],
    )
    stack = walk(it, TRAMPOLINE + inside, {known.register_name(known.stack_pointer): STACK})
    assert (trusts(stack), stack.end) == (["context", "signal"], End.ENTRY)
    assert stack.frames[1].pc == Interrupted(INTERRUPTED)
    found = stack.frames[1].registers
    assert {name: found[known.register_number(name) or 0] for name in expected} == expected


def test_a_handler_returns_to_it() -> None:
    """The byte before the trampoline belongs to another function, whose rule must not be used."""
    known = machine_named("aarch64")
    x30 = known.return_address
    handler = Rule(RegisterPlus(31, 16), ((29, AtCfa(-16)), (30, AtCfa(-8))), x30)
    rows = [
        (HANDLER, HANDLER + 8, handler),
        (CODE + 0x80, CODE + 0x90, Rule(RegisterPlus(31, 32), ((30, AtCfa(-8)),), x30)),
        (INTERRUPTED, INTERRUPTED + 16, last("aarch64")),
    ]
    code = {CODE + 0x90: bytes.fromhex("681180d2010000d4")}
    saved = words("aarch64", 0, CODE + 0x90) + frame(0x800, "aarch64", {560: 0xE000, 568: INTERRUPTED})
    stack = walk(target("aarch64", {**code, STACK: saved}, rows), HANDLER + 4, {"sp": STACK, "x29": 0})
    assert (pcs(stack), trusts(stack)) == ([HANDLER + 4, CODE + 0x90, INTERRUPTED], ["context", "cfi", "signal"])
    assert (stack.frames[1].pc, stack.end) == (ReturnAddress(CODE + 0x90), End.ENTRY)


def test_a_signal_frames_rule_that_knows_no_stack_pointer_is_not_used() -> None:
    """Linux 5.7's vdso for AArch64: cfa = x29, x29 = *(cfa), x30 = *(cfa+8): the link register in the place of the pc."""
    old = Rule(RegisterPlus(29, 0), ((29, AtCfa(0)), (30, AtCfa(8))), 30, signal_frame=True)
    code = {CODE + 0x90: bytes.fromhex("681180d2010000d4")}
    rows = [(CODE + 0x8C, CODE + 0x98, old), (INTERRUPTED, INTERRUPTED + 16, last("aarch64"))]
    saved = frame(0x800, "aarch64", {560: 0xE000, 568: INTERRUPTED, 0x400: 0, 0x408: CODE + 0x44})
    stack = walk(target("aarch64", {**code, STACK: saved}, rows), CODE + 0x90, {"sp": STACK, "x29": STACK + 0x400})
    assert (pcs(stack)[1], trusts(stack)[1]) == (INTERRUPTED, "signal")


@pytest.mark.parametrize("machine", ["x86-64", "aarch64"])
def test_go_ends_the_stack_in_its_handler_but_the_kernels_frame_goes_on(machine: str) -> None:
    """runtime.sigtramp's return address is undefined; the one that it was given is where the call, or Go's prologue, put it."""
    known = machine_named(machine)
    sp = known.stack_pointer
    top = Rule(RegisterPlus(sp, 32), ((known.return_address, Undefined()),), known.return_address)
    rows = [(HANDLER, HANDLER + 8, top), (INTERRUPTED, INTERRUPTED + 16, last(machine))]
    code = {"x86-64": "48c7c00f0000000f05", "aarch64": "681180d2010000d4"}[machine]
    pc, place = (40 + 128, 24) if machine == "x86-64" else (568, 0)
    saved = frame(0x800, machine, {place: TRAMPOLINE, 32 + pc: INTERRUPTED})
    it = target(machine, {TRAMPOLINE: bytes.fromhex(code), STACK: saved}, rows)
    stack = walk(it, HANDLER, {known.register_name(sp): STACK})
    assert (pcs(stack), stack.end) == ([HANDLER], End.ENTRY)
    it = target(machine, {TRAMPOLINE: bytes.fromhex(code), STACK: saved}, rows)
    builder = ElfBuilder(machine=known.elf_machines[0])
    builder.section(".gopclntab", b"\0")
    it.modules[0].open_image = lambda: Image.from_bytes(builder.build())
    stack = walk(it, HANDLER, {known.register_name(sp): STACK})
    assert (pcs(stack), stack.end) == ([HANDLER, TRAMPOLINE, INTERRUPTED], End.ENTRY)
    assert trusts(stack) == ["context", "signal", "signal"]


def test_the_signal_stack_may_be_above_or_below() -> None:
    for where in (STACK, STACK + 0x10000):
        it = target(
            "aarch64",
            {
                TRAMPOLINE: bytes.fromhex("681180d2010000d4"),
                where: frame(0x800, "aarch64", {560: STACK + 0x8000, 568: INTERRUPTED}),
            },
            [(INTERRUPTED, INTERRUPTED + 16, last("aarch64"))],
            limits=(STACK + 0x7000, STACK + 0x9000),
        )
        assert walk(it, TRAMPOLINE, {"sp": where}).end is End.ENTRY


@pytest.mark.parametrize(("copies", "end"), [(1, End.ENTRY), (2, End.UNKNOWN_REGISTER), (0, End.UNKNOWN_REGISTER)])
def test_a_chain_of_records_leads_across_a_signal_on_aarch64(copies: int, end: End) -> None:
    """The handler's record gives x29 but no sp. x29 points above the kernel's frame, to a copy of x29 and x30 as they were."""
    place = 0x200
    saved = {0: STACK + 0x800, 8: TRAMPOLINE}
    values = (STACK + 0xA00, CODE + 0x44)
    registers = {place + 312 + 8 * 29: values[0], place + 312 + 8 * 30: values[1]}
    another = {place + 0x400: values[0], place + 0x408: values[1]}
    found = {**saved, **(registers if copies else {}), **(another if copies > 1 else {})}
    found |= {place + 560: 0xE000, place + 568: INTERRUPTED, 0x800: values[0], 0x808: values[1]}
    memory = {
        TRAMPOLINE: bytes.fromhex("681180d2010000d4"),
        STACK: frame(0xC00, "aarch64", found),
    }
    it = target("aarch64", memory, [(INTERRUPTED, INTERRUPTED + 16, last("aarch64"))])
    stack = walk(it, HANDLER, {"x29": STACK, "sp": STACK})
    assert stack.end is end
    assert pcs(stack)[:2] == [HANDLER, TRAMPOLINE]
    if copies == 1:
        assert (pcs(stack)[2], stack.frames[2].registers[31], stack.frames[2].registers[29]) == (
            INTERRUPTED,
            0xE000,
            values[0],
        )


@pytest.mark.parametrize(("registers", "end"), [({}, End.UNKNOWN_REGISTER), ({"sp": 0x10}, End.UNREADABLE_MEMORY)])
def test_a_signal_frame_that_is_not_there(registers: dict[str, int], end: End) -> None:
    it = target("aarch64", {TRAMPOLINE: bytes.fromhex("681180d2010000d4")}, [])
    assert walk(it, TRAMPOLINE, registers).end is end
    old = target("s390x", {TRAMPOLINE: bytes.fromhex("0a77")}, [])
    assert walk(old, TRAMPOLINE, {"r15": STACK}).end is End.UNREADABLE_MEMORY


def test_same_value_of_the_link_register_is_valid_right_above_a_signal_frame() -> None:
    leaf = Rule(RegisterPlus(31, 0), ((30, SameValue()),), 30)
    rows = [(INTERRUPTED, INTERRUPTED + 16, leaf), (CODE + 0x40, CODE + 0x50, last("aarch64"))]
    saved = frame(0x800, "aarch64", {312 + 8 * 30: CODE + 0x48, 560: 0xE000, 568: INTERRUPTED})
    it = target("aarch64", {TRAMPOLINE: bytes.fromhex("681180d2010000d4"), STACK: saved}, rows)
    stack = walk(it, TRAMPOLINE, {"sp": STACK})
    assert (pcs(stack), stack.end) == ([TRAMPOLINE, INTERRUPTED, CODE + 0x48], End.ENTRY)
