"""Stops in places where the return address is still where the call left it: leafs, prologues, epilogues, stubs.

Each function stands here as its assembly and its bytes; it is stopped at every instruction, and its caller must be found at
each, with the caller's registers where they can be known.
"""

from __future__ import annotations

import pytest
from walking import CODE, STACK, pcs, target, trusts, walk, words

from clew.image import Image
from clew.table import RegisterPlus, Rule, Undefined
from clew.target import Module
from clew.testing import ElfBuilder
from clew.walk import End, Stack

RETURN = CODE + 0x800
"""Where the function was called from, behind the call."""

TOP = STACK + 0x80
"""The stack pointer before the call."""

OUTER = STACK + 0xC0
"""The frame record of the caller, which another function called."""


def text(function: str, call: str) -> bytearray:
    data = bytearray(0x1000)
    body = bytes.fromhex(function)
    data[: len(body)] = body
    before = bytes.fromhex(call)
    data[0x800 - len(before) : 0x800] = before
    data[0x900 - len(before) : 0x900] = before
    return data


def stopped(machine: str, code: bytes, pc: int, registers: dict[str, int], words_at: dict[int, int]) -> Stack:
    """The stack of a thread at an offset in the function; its caller's caller, at 0x900, is the outermost."""
    data = bytearray(0x100)
    for address, value in {**words_at, OUTER: 0, OUTER + 8: CODE + 0x900}.items():
        word = words(machine, value)
        data[address - STACK : address - STACK + len(word)] = word
    it = target(machine, {CODE: bytes(code), STACK: bytes(data)}, [])
    return walk(it, CODE + pc, registers)


# x86-64: endbr64; push %rbp; mov %rsp,%rbp; sub $16,%rsp; leave; ret.
X86 = text("f30f1efa 55 4889e5 4883ec10 c9 c3", "e800000000")


@pytest.mark.parametrize(
    ("pc", "rsp", "rbp"),
    [
        (0, TOP - 8, OUTER),
        (4, TOP - 8, OUTER),
        (5, TOP - 16, OUTER),
        (8, TOP - 16, TOP - 16),
        (12, TOP - 32, TOP - 16),
        (13, TOP - 8, OUTER),
    ],
)
def test_x86_64_at_every_instruction(pc: int, rsp: int, rbp: int) -> None:
    stack = stopped("x86-64", X86, pc, {"rsp": rsp, "rbp": rbp, "rbx": 1}, {TOP - 8: RETURN, TOP - 16: OUTER})
    assert (pcs(stack), stack.end) == ([CODE + pc, RETURN, CODE + 0x900], End.ENTRY)
    caller = stack.frames[1].registers
    assert (caller[7], caller[6]) == (TOP, OUTER)
    assert trusts(stack)[1] == ("frame_pointer" if pc in (8, 12) else "link_register")


@pytest.mark.parametrize(
    ("code", "pc", "pushed"),
    [
        ("ff2500000000", 0, 0),  # jmp *(%rip)
        ("f30f1efaf2ff2500000000", 0, 0),  # endbr64; bnd jmp *(%rip)
        ("6803000000e900000000", 0, 0),  # push $3; jmp PLT0
        ("6803000000e900000000", 5, 1),
        ("f3c3", 0, 0),
        ("c20800", 0, 0),
    ],
)
def test_stubs_and_other_returns_of_x86_64(code: str, pc: int, pushed: int) -> None:
    stack = stopped(
        "x86-64", text(code, "e800000000"), pc, {"rsp": TOP - 8 - 8 * pushed, "rbp": OUTER}, {TOP - 8: RETURN}
    )
    assert (pcs(stack), stack.end) == ([CODE + pc, RETURN, CODE + 0x900], End.ENTRY)


def test_i386_prologue() -> None:
    # push %ebp; mov %esp,%ebp
    code = text("5589e5 90", "e800000000")
    data = words("i386", OUTER, RETURN)
    it = target("i386", {CODE: bytes(code), STACK: data, OUTER: words("i386", 0, CODE + 0x900)}, [])
    for pc, esp in ((0, STACK + 4), (1, STACK)):
        stack = walk(it, CODE + pc, {"esp": esp, "ebp": OUTER})
        assert (pcs(stack), stack.end) == ([CODE + pc, RETURN, CODE + 0x900], End.ENTRY)


# gcc's frame, with instructions between those of the prologue as scheduling puts them there.
AARCH64 = text(
    "3f2303d5"  #  0 paciasp
    "fd7bbea9"  #  4 stp x29, x30, [sp, #-32]!
    "e20300aa"  #  8 mov x2, x0
    "fd030091"  #  c mov x29, sp
    "f30b00f9"  # 10 str x19, [sp, #16]
    "ff010094"  # 14 bl
    "f30b40f9"  # 18 ldr x19, [sp, #16]
    "fd7bc2a8"  # 1c ldp x29, x30, [sp], #32
    "bf2303d5"  # 20 autiasp
    "c0035fd6",  # 24 ret
    "00000094",
)
SIGNED = RETURN | 0x000B_0000_0000_0000


@pytest.mark.parametrize(
    ("pc", "sp", "x29", "x30", "trust", "caller_sp"),
    [
        (0x0, TOP, OUTER, RETURN, "link_register", TOP),
        (0x4, TOP, OUTER, SIGNED, "link_register", TOP),
        (0x8, TOP - 32, OUTER, SIGNED, "link_register", None),
        (0xC, TOP - 32, OUTER, SIGNED, "link_register", None),
        (0x10, TOP - 32, TOP - 32, SIGNED, "frame_pointer", None),
        (0x14, TOP - 32, TOP - 32, SIGNED, "frame_pointer", None),
        (0x18, TOP - 32, TOP - 32, CODE + 0x18, "synthesised", TOP),
        (0x1C, TOP - 32, TOP - 32, CODE + 0x18, "synthesised", TOP),
        (0x20, TOP, OUTER, SIGNED, "link_register", TOP),
        (0x24, TOP, OUTER, RETURN, "link_register", TOP),
    ],
)
def test_aarch64_at_every_instruction(pc: int, sp: int, x29: int, x30: int, trust: str, caller_sp: int | None) -> None:
    registers = {"sp": sp, "x29": x29, "x30": x30}
    stack = stopped("aarch64", AARCH64, pc, registers, {TOP - 32: OUTER, TOP - 24: SIGNED})
    assert (pcs(stack), stack.end) == ([CODE + pc, RETURN, CODE + 0x900], End.ENTRY)
    caller = stack.frames[1]
    assert (caller.trust.value, caller.registers.get(31), caller.registers[29]) == (trust, caller_sp, OUTER)


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("add x0, x0, x1; cbz x0, …; b over; udf; ret", "0000018b c0000034 02000014 00000000 c0035fd6"),
        ("str x19, [sp, #-16]! is behind; ldr x19, [sp], #16; ret", "f30741f8 c0035fd6"),
        ("add sp, sp, #48; ret", "ffc30091 c0035fd6"),
        ("ldp d8, d9, [sp], #16; retab", "e827c16c ff0f5fd6"),
        ("tail call: b to a function that makes a frame", "02000014 00000000 fd7bbea9"),
        ("PLT: br x17", "1f2003d5 20021fd6"),
        ("str x30, [x18], #8", "5e8600f8"),
        ("str x30, [sp, #-16]!", "fe0f1ff8"),
        ("bti c; stp x20, x30, [sp, #-32]!", "5f2403d5 f47bbea9"),
        ("loop that falls through: b.eq back; ret", "00000054 c0035fd6"),
    ],
)
def test_aarch64_leafs_and_prologues(what: str, code: str) -> None:
    stack = stopped("aarch64", text(code, "00000094"), 0, {"sp": TOP, "x29": OUTER, "x30": RETURN, "x19": 1}, {})
    assert (pcs(stack), stack.end) == ([CODE, RETURN, CODE + 0x900], End.ENTRY), what
    assert trusts(stack)[1] == "link_register"


@pytest.mark.parametrize(
    ("code", "moved"),
    [("f30741f8 c0035fd6", 16), ("ffc30091 c0035fd6", 48), ("e827c16c ff0f5fd6", 16), ("c0035fd6", 0)],
)
def test_aarch64_epilogues_move_the_stack_pointer(code: str, moved: int) -> None:
    stack = stopped(
        "aarch64", text(code, "00000094"), 0, {"sp": TOP, "x29": OUTER, "x30": RETURN, "x19": 1, "x20": 2}, {TOP: 77}
    )
    caller = stack.frames[1].registers
    assert caller[31] == TOP + moved
    # What is loaded again was saved, where it is loaded from; the rest is untouched.
    assert (caller.get(19), caller[20]) == (77 if code.startswith("f30741f8") else 1, 2)


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("bl", "ff010094"),
        ("blr x1", "20003fd6"),
        ("ldp x29, x30, [sp], #32", "fd7bc2a8"),
        ("ldr x30, [sp], #16", "fe0741f8"),
        ("mov x30, x9", "fe0309aa"),
        ("br x3, as of a switch", "60001fd6"),
        ("udf", "00000000"),
        ("brk", "200020d4"),
        ("a loop without end", "00000014"),
    ],
)
def test_aarch64_where_the_link_register_is_stale(what: str, code: str) -> None:
    """The link register has an address in this function; following it would repeat the frame, as eu-stack does."""
    registers = {"sp": TOP - 32, "x29": TOP - 32, "x30": CODE + 0x10}
    function = text(code, "00000094")
    function[0x0C:0x10] = bytes.fromhex("00000094")
    stack = stopped("aarch64", function, 0, registers, {TOP - 32: OUTER, TOP - 24: RETURN})
    assert (pcs(stack), stack.end) == ([CODE, RETURN, CODE + 0x900], End.ENTRY), what
    assert trusts(stack)[1] == "frame_pointer"


RISCV = text(
    "0111"  #     0 addi sp, sp, -32
    "06ec"  #     2 sd ra, 24(sp)
    "22e8"  #     4 sd s0, 16(sp)
    "0010"  #     6 addi s0, sp, 32
    "ef000000"  # 8 jal ra
    "e260"  #     c ld ra, 24(sp)
    "4264"  #     e ld s0, 16(sp)
    "0561"  #    10 addi sp, sp, 32
    "8280",  #   12 ret
    "ef000000",
)


@pytest.mark.parametrize(
    ("pc", "sp", "s0", "ra", "trust"),
    [
        (0x0, TOP, OUTER + 16, RETURN, "link_register"),
        (0x2, TOP - 32, OUTER + 16, RETURN, "link_register"),
        (0x4, TOP - 32, OUTER + 16, RETURN, "link_register"),
        (0x6, TOP - 32, OUTER + 16, RETURN, "link_register"),
        (0x8, TOP - 32, TOP, RETURN, "frame_pointer"),
        (0xC, TOP - 32, TOP, CODE + 12, "synthesised"),
        (0x10, TOP - 32, OUTER + 16, RETURN, "link_register"),
        (0x12, TOP, OUTER + 16, RETURN, "link_register"),
    ],
)
def test_riscv_at_every_instruction(pc: int, sp: int, s0: int, ra: int, trust: str) -> None:
    registers = {"sp": sp, "s0": s0, "ra": ra}
    stack = stopped("riscv64", RISCV, pc, registers, {TOP - 16: OUTER + 16, TOP - 8: RETURN})
    assert (pcs(stack), stack.end) == ([CODE + pc, RETURN, CODE + 0x900], End.ENTRY)
    caller = stack.frames[1]
    assert caller.trust.value == trust
    known = None if pc in (2, 4, 6, 0) else TOP
    assert caller.registers.get(2) in ((TOP,) if trust == "frame_pointer" else (known, TOP))
    assert caller.registers[8] == OUTER + 16


POWER = text(
    "a602087c"  #  0 mflr r0
    "100001f8"  #  4 std r0, 16(r1)
    "e1ff21f8"  #  8 stdu r1, -32(r1)
    "fd070048"  #  c bl
    "20002138"  # 10 addi r1, r1, 32
    "100001e8"  # 14 ld r0, 16(r1)
    "a603087c"  # 18 mtlr r0
    "2000804e",  # 1c blr
    "01000048",
)


@pytest.mark.parametrize(
    ("pc", "r1", "lr", "trust"),
    [
        (0x0, TOP, RETURN, "link_register"),
        (0x4, TOP, RETURN, "link_register"),
        (0x8, TOP, RETURN, "link_register"),
        (0xC, TOP - 32, RETURN, "frame_pointer"),
        (0x10, TOP - 32, CODE + 16, "synthesised"),
        (0x14, TOP, CODE + 16, "synthesised"),
        (0x1C, TOP, RETURN, "link_register"),
    ],
)
def test_power_at_most_instructions(pc: int, r1: int, lr: int, trust: str) -> None:
    last = Rule(RegisterPlus(1, 0), ((65, Undefined()),), 65)
    data = bytearray(0x100)
    for address, value in {TOP - 32: TOP, TOP: OUTER, TOP + 16: RETURN}.items():
        data[address - STACK : address - STACK + 8] = words("powerpc64", value)
    it = target("powerpc64", {CODE: bytes(POWER), STACK: bytes(data)}, [(RETURN - 4, RETURN + 4, last)])
    stack = walk(it, CODE + pc, {"r1": r1, "lr": lr})
    assert (pcs(stack), stack.end, trusts(stack)[1]) == ([CODE + pc, RETURN], End.ENTRY, trust)
    assert stack.frames[1].registers[1] == TOP


@pytest.mark.parametrize(
    ("machine", "call", "registers", "top"),
    [
        ("x86-64", "e800000000", {"rsp": TOP - 8, "rbp": OUTER, "rbx": 3}, {TOP - 8: RETURN}),
        ("aarch64", "20003fd6", {"sp": TOP, "x29": OUTER, "x30": RETURN, "x19": 3}, {}),
        ("riscv64", "0295", {"sp": TOP, "s0": OUTER + 16, "ra": RETURN, "s1": 3}, {}),
    ],
)
def test_a_call_through_a_bad_pointer(machine: str, call: str, registers: dict[str, int], top: dict[int, int]) -> None:
    """Nothing can be read at the pc: no instruction has run since the call, and everything is as the caller left it."""
    stack = stopped(machine, text("00", call), 0x10 - CODE, registers, top)
    assert (pcs(stack), stack.end) == ([0x10, RETURN, CODE + 0x900], End.ENTRY)
    assert trusts(stack)[1] == "link_register"
    assert 3 in stack.frames[1].registers.values()
    # Without a call before it, the word is no return address.
    assert len(stopped(machine, text("00", "00" * 5), 0x10 - CODE, registers, top).frames) == 1


def test_s390x_falls_back_on_the_link_register() -> None:
    last = Rule(RegisterPlus(15, 160), ((14, Undefined()),), 14)
    it = target("s390x", {CODE: bytes(text("a7390001", "c0e500000000"))}, [(RETURN - 4, RETURN + 4, last)])
    stack = walk(it, CODE, {"r15": STACK, "r14": RETURN})
    assert (pcs(stack), stack.end, trusts(stack)[1]) == ([CODE, RETURN], End.ENTRY, "link_register")


def test_a_leaf_without_a_frame_on_x86_64_is_told_by_the_call_to_it() -> None:
    """gcc -O1 -fno-omit-frame-pointer leaves leafs without a frame: rbp is the caller's, whose caller it would lead to."""
    elf = ElfBuilder(machine=62)
    elf.section(".text", bytes(0x100), address=0x100, flags=6)
    elf.symbol("leaf", section=".text", value=0x110, size=0x20)
    elf.segment(1, [".text"], flags=5)
    image = Image.from_bytes(elf.build())
    module = Module("/bin/it", 0x40000, 0x50000, 0x40000, open_image=lambda: image)
    code = bytearray(0x100)
    code[0x10:0x1A] = bytes.fromhex("8d047f 8b1500000000 c3")  # leaf: lea (%rdi,%rdi,2),%eax; mov v,%edx; ret
    code[0x50:0x55] = bytes.fromhex("e8bbffffff")  # call leaf
    code[0x60:0x65] = bytes.fromhex("e800000000")  # call another
    values = [0x40155, 0, 0, 0, 0, 0x40165]  # the record of the leaf's caller is at STACK + 32
    for top, found in ((0x40155, [0x40113, 0x40155, 0x40165]), (0x40165, [0x40113, 0x40165])):
        pieces = {0x40100: bytes(code), STACK: words("x86-64", top, *values[1:])}
        stack = walk(target("x86-64", pieces, [], modules=[module]), 0x40113, {"rsp": STACK, "rbp": STACK + 32})
        assert (pcs(stack), stack.end) == (found, End.ENTRY)
