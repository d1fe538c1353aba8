"""Leafs, prologues, epilogues and stubs of machines with a link register: each stopped where it is hard to tell.

Functions stand here as assembly and bytes, as compilers and linkers write them. The caller must be found, with the stack
pointer and the registers that can be known.
"""

from __future__ import annotations

import pytest
from walking import STACK, pcs, target, trusts, walk, words

from clew.arch import machine_named
from clew.image import Image
from clew.table import RegisterPlus, Rule, Undefined, table_of
from clew.target import Module
from clew.testing import ElfBuilder
from clew.walk import Stack

BIAS = 0x40000
FUNCTION = BIAS + 0x100
RETURN = BIAS + 0x800
TOP = STACK + 0x80

CALLS = {
    "aarch64": "00000094",
    "riscv64": "ef000000",
    "powerpc64": "48000001",
    "s390x": "c0e500000000",
}
"""Calls that go to themselves: bl, jal, bl, brasl."""

SP = {"aarch64": 31, "riscv64": 2, "powerpc64": 1, "s390x": 15}
LINK = {"aarch64": "x30", "riscv64": "ra", "powerpc64": "lr", "s390x": "r14"}


def stopped(
    machine: str,
    code: str,
    pc: int,
    registers: dict[str, int],
    at: dict[int, int] | None = None,
    *,
    symbol: bool = True,
) -> Stack:
    """The stack of a thread at an offset in a function, whose caller, at RETURN, is the outermost frame.

    Args:
        at: words on the stack.
        symbol: whether the function has one.
    """
    known = machine_named(machine)
    elf = ElfBuilder(machine=known.elf_machines[0], bits=known.bits, byte_order=known.byte_order)
    body = bytes.fromhex(code)
    call = bytes.fromhex(CALLS[machine])
    text = bytearray(0x1000)
    text[0x100 : 0x100 + len(body)] = body
    text[0x800 - len(call) : 0x800] = call
    elf.section(".text", bytes(text[0x100:]), address=0x100, flags=6)
    if symbol:
        elf.symbol("function", section=".text", value=0x100, size=len(body))
    elf.segment(1, [".text"], flags=5)
    image = Image.from_bytes(elf.build())
    module = Module("/bin/it", BIAS, BIAS + 0x10000, BIAS, open_image=lambda: image)
    data = bytearray(0x200)
    for address, value in (at or {}).items():
        word = words(machine, value)
        data[address - STACK : address - STACK + len(word)] = word
    column = known.return_address
    outermost = Rule(RegisterPlus(SP[machine], 0), ((column, Undefined()),), column)
    pieces = {BIAS: bytes(text), STACK: bytes(data)}
    it = target(machine, pieces, [(0, 1, outermost)], modules=[module])
    module.__dict__["_table"] = table_of(known, [(0x800 - 8, 0x800 + 8, outermost)])
    return walk(it, FUNCTION + pc, registers)


def caller(stack: Stack) -> tuple[list[int], str, dict[int, int]]:
    return pcs(stack), trusts(stack)[1], dict(stack.frames[1].registers)


def test_behind_what_the_plts_head_of_aarch64_pushed() -> None:
    # bti c; stp x16, x30, [sp, #-16]!; adrp x16; ldr x17, [x16, #8]; add x16, x16, #8; br x17
    head = "5f2403d5 f07bbfa9 10000090 110640f9 10220091 20021fd6"
    for pc, pushed in ((0, 0), (4, 0), (8, 16), (12, 16), (16, 16), (20, 16)):
        registers = {"sp": TOP - pushed, "x29": 5, "x30": RETURN, "x19": 3}
        frames, trust, found = caller(stopped("aarch64", head, pc, registers, symbol=False))
        assert (frames, trust) == ([FUNCTION + pc, RETURN], "link_register")
        assert (found[31], found[29], found[19]) == (TOP, 5, 3)


STUBS = [
    # std r2, 24(r1); ld r12, 0(r2); mtctr r12; bctr: as big-endian numbers, which this machine's instructions are.
    ("powerpc64", "f8410018 e9820000 7d8903a6 4e800420", (0, 4, 8, 12)),
    # auipc t3, 2; ld t3, 16(t3); jalr t1, t3; nop
    ("riscv64", "172e0000 033e0e01 67030e00 13000000", (0, 4, 8)),
    # The head: ... ld t0, 8(t0); jr t3
    ("riscv64", "13000000 83b28200 67000e00", (0, 4, 8)),
    # larl %r1, ...; lg %r1, 0(%r1); br %r1
    ("s390x", "c01000000010 e31010000004 07f1", (0, 6, 12)),
    # basr %r1, 0; lgf %r1, 12(%r1); jg: what makes the lazy kind of it.
    ("s390x", "0d10 e3101000c014 c0f400000003 07fe", (0, 2, 8)),
]


@pytest.mark.parametrize(("machine", "code", "places"), STUBS)
def test_stubs_of_the_plt(machine: str, code: str, places: tuple[int, ...]) -> None:
    name = {"powerpc64": "r1", "riscv64": "sp", "s390x": "r15"}[machine]
    order = machine_named(machine).byte_order
    if machine == "powerpc64" and order == "little":
        code = "".join(bytes.fromhex(word)[::-1].hex() for word in code.split())
    for pc in places:
        stack = stopped(machine, code, pc, {name: TOP, LINK[machine]: RETURN}, symbol=False)
        frames, trust, found = caller(stack)
        assert (frames, trust, found[SP[machine]]) == ([FUNCTION + pc, RETURN], "link_register", TOP), pc


@pytest.mark.parametrize(
    ("machine", "code", "saved"),
    [
        # ldr w3, [x1], #4; str w3, [x0], #4; subs x2, x2, #4; b.ne -12; ...; br x5, of which nothing is known.
        ("aarch64", "234440b8 034400b8 421000f1 a1ffff54 a0001fd6", "x19"),
        # lw a5, 0(a1); addi a1, a1, 4; sw a5, 0(a0); addi a0, a0, 4; bne; jr a5
        ("riscv64", "83a70500 93854500 2320f500 13054500 e31805fe 67800700", "s1"),
        # lgf %r1, 0(%r3); la %r3, 4(%r3); la %r2, 4(%r2); brctg %r4, back; br %r1
        ("s390x", "e31030000014 41303004 41202004 a747fffc 07f1", "r7"),
    ],
)
def test_in_a_loop_of_a_leaf(machine: str, code: str, saved: str) -> None:
    """From the function's start to the pc, nothing has touched the stack or the link register: all is as the caller left it."""
    known = machine_named(machine)
    sp = known.register_name(SP[machine])
    for pc in (0, 4 if machine != "s390x" else 6):
        stack = stopped(machine, code, pc, {sp: TOP, LINK[machine]: RETURN, saved: 77})
        frames, trust, found = caller(stack)
        assert (frames, trust) == ([FUNCTION + pc, RETURN], "link_register")
        assert (found[SP[machine]], found[known.register_number(saved) or 0]) == (TOP, 77)


S390X = [
    # stmg %r11, %r15, 88(%r15); lay %r15, -176(%r15); …
    ("ebbff0580024 e3f0ff50ff71", 0, TOP, TOP),
    ("eb6ff0300024", 0, TOP, TOP),
    ("e3e0f0700024", 0, TOP, TOP),  # stg %r14, 112(%r15)
    # aghi %r15, 176; br %r14
    ("a7fb00b0 07fe", 0, TOP - 176, TOP),
    # la %r15, 160(%r15); br %r14
    ("41f0f0a0 07fe", 0, TOP - 160, TOP),
    # lay %r15, 176(%r15); j over; br %r14
    ("e3f0f0b00071 a7f40003 0000 07fe", 0, TOP - 176, TOP),
    # lmg %r10, %r13, 80(%r15); br %r14: the frame was not made, or is gone.
    ("ebadf0500004 07fe", 0, TOP, TOP),
]


@pytest.mark.parametrize(("code", "pc", "sp", "top"), S390X)
def test_s390x_prologues_and_epilogues(code: str, pc: int, sp: int, top: int) -> None:
    stack = stopped("s390x", code, pc, {"r15": sp, "r14": RETURN, "r11": 11}, {TOP + 88: 1111}, symbol=False)
    frames, trust, found = caller(stack)
    assert (frames, trust, found[15]) == ([FUNCTION + pc, RETURN], "link_register", top)
    loads_r11 = code.startswith("ebad")
    if loads_r11:
        assert found[11] == 1111


@pytest.mark.parametrize(
    "code",
    [
        "c0e500000010",  # brasl %r14
        "0de1",  # basr %r14, %r1
        "ebbff1080004 07fe",  # lmg %r11, %r15, 264(%r15)
        "e3e0f1200004",  # lg %r14, 288(%r15)
        "b90400e1",  # lgr %r14, %r1
        "07f1",  # br %r1, of a switch
        "0000",
    ],
)
def test_s390x_where_nothing_is_proved(code: str) -> None:
    """Then only the register itself is left, without the stack pointer."""
    stack = stopped("s390x", code, 0, {"r15": TOP, "r14": RETURN}, symbol=False)
    frames, trust, found = caller(stack)
    assert (frames, trust, found.get(15)) == ([FUNCTION, RETURN], "link_register", None)


def test_s390x_may_use_its_link_register_once_it_is_saved() -> None:
    """gcc -mbackchain: stmg %r14, %r15, 112(%r15); lgr %r14, %r15; lay %r15, -200(%r15); stg %r14, 0(%r15); …"""
    code = "ebeff0700024 b90400ef e3f0ff38ff71 e3e0f0000024 07f1"
    saved = {TOP + 112: RETURN}
    for pc, r15, r14 in (
        (0, TOP, RETURN),
        (6, TOP, RETURN),
        (10, TOP, TOP),
        (16, TOP - 200, TOP),
        (22, TOP - 200, TOP),
    ):
        at = saved if pc else {}
        frames, trust, found = caller(stopped("s390x", code, pc, {"r15": r15, "r14": r14}, at))
        assert (frames, found[15]) == ([FUNCTION + pc, RETURN], TOP), pc
        assert trust == ("synthesised" if pc > 6 else "link_register")


def test_powers_frames_at_every_instruction() -> None:
    """gcc -O0: mflr r0; std r0, 16(r1); std r31, -8(r1); stdu r1, -64(r1); mr r31, r1; bl; addi r1, r31, 64; ld r0, 16(r1);
    mtlr r0; ld r31, -8(r1); blr. A row could not need more of the caller than r1, and r31 where it is known."""
    code = "7c0802a6 f8010010 fbe1fff8 f821ffc1 7c3f0b78 48000101 383f0040 e8010010 7c0803a6 ebe1fff8 4e800020"
    if machine_named("powerpc64").byte_order == "little":
        code = "".join(bytes.fromhex(word)[::-1].hex() for word in code.split())
    low, stale = TOP - 64, FUNCTION + 24
    steps = [
        (0, TOP, RETURN, 31, 0, "link_register", 31),
        (4, TOP, RETURN, 31, RETURN, "link_register", None),
        (12, TOP, RETURN, 31, RETURN, "link_register", None),
        (16, low, RETURN, 31, RETURN, "link_register", None),
        (20, low, RETURN, low, RETURN, "link_register", None),
        (24, low, stale, low, 0, "synthesised", 31),
        (28, TOP, stale, low, 0, "synthesised", 31),
        (32, TOP, stale, low, RETURN, "synthesised", 31),
        (36, TOP, RETURN, low, RETURN, "link_register", 31),
        (40, TOP, RETURN, 31, RETURN, "link_register", 31),
    ]
    for pc, r1, lr, r31, r0, how, kept in steps:
        at = {TOP - 8: 31, TOP + 16: RETURN}
        stack = stopped("powerpc64", code, pc, {"r1": r1, "lr": lr, "r31": r31, "r0": r0}, at)
        frames, trust, found = caller(stack)
        assert (frames, trust, found[1], found.get(31)) == ([FUNCTION + pc, RETURN], how, TOP, kept), pc


@pytest.mark.parametrize(
    ("machine", "code"),
    [
        ("aarch64", "ff6320cb e803002a"),  # sub sp, sp, x0; mov w8, w0
        ("aarch64", "1fec7c92 e803002a"),  # and sp, x0, #-16
        ("powerpc64", "7c21496a 60000000"),  # stdux r1, r1, r9; nop
        ("powerpc64", "7c214850 60000000"),  # subf r1, r1, r9
        ("powerpc64", "7c214a14 60000000"),  # add r1, r1, r9
        ("s390x", "b90900f1 b90400e0"),  # sgr %r15, %r1
        ("riscv64", "3301f140 13000000"),  # sub sp, sp, a5
    ],
)
def test_a_stack_pointer_that_moves_by_an_unknown_amount(machine: str, code: str) -> None:
    """alloca: the link register may still be good, but then nothing says where the caller's stack is."""
    if machine_named(machine).name == "powerpc64" and machine_named(machine).byte_order == "little":
        code = "".join(bytes.fromhex(word)[::-1].hex() for word in code.split())
    known = machine_named(machine)
    registers = {known.register_name(SP[machine]): TOP, LINK[machine]: RETURN}
    stack = stopped(machine, code, 4, registers)
    assert SP[machine] not in stack.frames[-1].registers or len(stack.frames) == 1


def test_the_frame_pointer_puts_the_stack_pointer_back() -> None:
    # -O0: addi sp, s0, -32; ld s0, 24(sp); addi sp, sp, 32; ret
    code = "130104fe 03348101 13010102 67800000"
    stack = stopped("riscv64", code, 0, {"sp": TOP - 96, "s0": TOP, "ra": RETURN}, {TOP - 8: 99}, symbol=False)
    frames, _, found = caller(stack)
    assert (frames, found[2], found[8]) == ([FUNCTION, RETURN], TOP, 99)
    # mov sp, x29; ldp x19, x20, [sp, #16]; add sp, sp, #64; ret
    code = "bf030091 f35341a9 ff030191 c0035fd6"
    registers = {"sp": TOP - 128, "x29": TOP - 64, "x30": RETURN, "x19": 1, "x20": 2}
    frames, _, found = caller(stopped("aarch64", code, 0, registers, {TOP - 48: 19, TOP - 40: 20}, symbol=False))
    assert (frames, found[31], found[19], found[20]) == ([FUNCTION, RETURN], TOP, 19, 20)


def test_a_frame_pointer_that_the_prologue_has_used_already_is_not_the_callers() -> None:
    """addi sp, sp, -32; sd s0, 16(sp); auipc s0, 99; sd ra, 24(sp): as gcc schedules it where s0 is a register like any other."""
    code = "130101fe 23388100 17340600 233c1100"
    registers = {"sp": TOP - 32, "s0": 0x68000, "ra": RETURN}
    assert 8 not in caller(stopped("riscv64", code, 12, registers))[2]
    assert caller(stopped("riscv64", code, 8, registers))[2][8] == 0x68000
