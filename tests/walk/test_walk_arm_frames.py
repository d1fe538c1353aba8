"""Interrupted frames of 32-bit Arm: in prologues and epilogues the entry of ``.ARM.exidx`` is not true, and the code is."""

from __future__ import annotations

from struct import pack

import pytest
from walking import Pieces, words

from clew.arch import machine_named
from clew.image import Image
from clew.memory import Memory
from clew.target import Module, Modules, Target, Thread
from clew.testing.arm_exidx import ExidxBuilder
from clew.walk import End, FastWalker, Stack, Trust, Walker
from clew.walk.arm_code import Effect, Kind, arm, thumb

ARM = machine_named("arm")
CODE = 0x1000
STACK = 0x7F000
CALLER = CODE + 0x104

# push {r4, lr}; sub sp, #8; movs r0, #1; bl .; add sp, #8; pop {r4, pc}
THUMB = bytes.fromhex("10b5 82b0 0120 fff7fcff 02b0 10bd")
# push {r4, lr}; sub sp, sp, #8; mov r0, #1; bl .; add sp, sp, #8; pop {r4, pc}
A32 = bytes.fromhex("10402de9 08d04de2 0100a0e3 fcffffeb 08d08de2 1080bde8")
# A caller: push {r4, lr}; bl; then the return address.
BL = bytes.fromhex("fff7feff")


def walk(code: bytes, pc: int, memory: Memory, registers: dict[int, int], entry: str | None = "01a8") -> list[Stack]:
    builder = ExidxBuilder()
    if entry is None:
        builder.cantunwind(CODE)
    else:
        builder.compact(CODE, entry)
    builder.cantunwind(CODE + 0x80)
    text = code.ljust(0x100, b"\0") + BL + bytes(0x40)
    image = Image.from_bytes(builder.file(code=(CODE, text)))
    module = Module("lib.so", CODE, CODE + 0x1000, 0, None, lambda: image)
    thread = Thread(1, registers, pc)
    it = Target("core", ARM, [thread], memory, Modules([module]))
    return [Walker(it).walk(thread), FastWalker(it).walk(thread)]


# The offset of the pc, how far the stack pointer is from where it was, and whether r4 and lr are still in registers.
PLACES = [
    (THUMB, 0, 0, True),
    (THUMB, 2, 8, False),
    (THUMB, 4, 16, False),
    (THUMB, 6, 16, False),
    (THUMB, 10, 16, False),
    (THUMB, 12, 8, False),
    (A32, 0, 0, True),
    (A32, 4, 8, False),
    (A32, 8, 16, False),
    (A32, 12, 16, False),
    (A32, 16, 16, False),
    (A32, 20, 8, False),
]


@pytest.mark.parametrize(("code", "offset", "below", "intact"), PLACES)
def test_every_instruction_of_a_function(code: bytes, offset: int, below: int, intact: bool) -> None:
    sp = STACK - below
    memory = Pieces({STACK - 0x40: bytes(0x38) + words("arm", 44, CALLER | 1) + bytes(0x20)})
    # After the push, lr is anything.
    registers = {13: sp, 4: 44 if intact else 4, 14: CALLER | 1 if intact else CODE + 0x11, 11: 5}
    for stack in walk(code, CODE + offset, memory, registers):
        first, second = stack.frames[:2]
        assert (second.pc.address, second.registers[13], second.registers[4]) == (CALLER, STACK, 44)
        assert second.registers[11] == 5
        assert first.cfa == STACK
        proven = second.trust is Trust.LINK_REGISTER
        assert proven or below == 16
        # The caller has no entry, and r11 tells nothing in such a library.
        assert stack.end is End.NO_RULE


@pytest.mark.parametrize("entry", ["b0", None])
@pytest.mark.parametrize(
    "code",
    [
        "0120 7047",  # movs r0, #1; bx lr
        "0028 08bf 7047 0120 7047",  # cmp r0, #0; it eq; bxeq lr; movs r0, #1; bx lr
    ],
)
def test_leafs(code: str, entry: str | None) -> None:
    data = bytes.fromhex(code)
    # The pc is where no A32 instruction can be, so that it is known what these are.
    for stack in walk(b"\0\xbf" + data, CODE + 2, Pieces({}), {13: STACK, 14: CALLER | 1, 7: 7}, entry):
        second = stack.frames[1]
        assert (second.pc.address, second.registers[13], second.registers[7]) == (CALLER, STACK, 7)


def test_a_stale_link_register_is_no_caller() -> None:
    """Behind a call, in a function of which nothing is known."""
    code = bytes.fromhex("00bf 00bf fff7feff fff7feff 7047")
    for stack in walk(code, CODE + 8, Pieces({}), {13: STACK, 14: CALLER | 1}, None):
        assert len(stack.frames) == 1
        assert stack.end is End.NO_RULE


def word(text: str) -> int:
    return int.from_bytes(bytes.fromhex(text), "little")


# As GNU as writes them; the words of objdump.
A32_EFFECTS = [
    ("04e02de5", "push {lr}", Effect(moved=-4, saved=((14, -4),))),
    ("04f09de4", "pop {pc}", Effect(Kind.RETURN, moved=4, loaded=((15, 0),))),
    ("f0472de9", "push {r4-r10, lr}", Effect(moved=-32, saved=(*((n, 4 * n - 48) for n in range(4, 11)), (14, -4)))),
    ("1eff2fe1", "bx lr", Effect(Kind.RETURN)),
    ("1eff2f01", "bxeq lr", Effect()),
    ("0ef0a0e1", "mov pc, lr", Effect(Kind.RETURN)),
    ("13ff2fe1", "bx r3", Effect(Kind.UNKNOWN)),
    ("33ff2fe1", "blx r3", Effect(Kind.CALL)),
    ("feffffeb", "bl .", Effect(Kind.CALL)),
    ("fefffffa", "blx .", Effect(Kind.CALL)),
    ("feffffea", "b .", Effect(Kind.JUMP, target=0x1000)),
    ("feffff0a", "beq .", Effect()),
    ("01dc4de2", "sub sp, sp, #256", Effect(moved=-256)),
    ("08d04d02", "subeq sp, sp, #8", Effect(Kind.UNKNOWN)),
    ("0db0a0e1", "mov fp, sp", Effect(made=(11, 0))),
    ("04b08de2", "add fp, sp, #4", Effect(made=(11, 4))),
    ("04d04be2", "sub sp, fp, #4", Effect(taken=(11, -4))),
    ("0bd0a0e1", "mov sp, fp", Effect(taken=(11, 0))),
    ("108b2ded", "vpush {d8-d15}", Effect(moved=-64, saved=tuple((264 + n, 8 * n - 64) for n in range(8)))),
    ("048bbdec", "vpop {d8-d9}", Effect(moved=16, loaded=((264, 0), (265, 8)))),
    ("028a2ded", "vpush {s16-s17}", Effect(moved=-8)),
    ("f0416de1", "strd r4, [sp, #-16]!", Effect(moved=-16, saved=((4, -16), (5, -12)))),
    ("d040cde1", "ldrd r4, [sp]", Effect(loaded=((4, 0), (5, 4)))),
    ("08408de5", "str r4, [sp, #8]", Effect(saved=((4, 8),))),
    ("08409de5", "ldr r4, [sp, #8]", Effect(loaded=((4, 8),))),
    ("00f093e5", "ldr pc, [r3]", Effect(Kind.UNKNOWN)),
    ("10fabce5", "ldr pc, [ip, #2576]!", Effect(Kind.RETURN)),
    ("03f08fe0", "add pc, pc, r3", Effect(Kind.UNKNOWN)),
    ("03d08de0", "add sp, sp, r3", Effect(Kind.UNKNOWN)),
    ("0300a0e1", "mov r0, r3", Effect(changed=(0, None))),
    ("013081e2", "add r3, r1, #1", Effect(changed=(3, None))),
    ("08b08be2", "add fp, fp, #8", Effect(changed=(11, 8))),
    ("030050e1", "cmp r0, r3", Effect()),
    ("910203e0", "mul r3, r1, r2", Effect(changed=(3, None))),
    ("000000ef", "svc 0", Effect(Kind.SYSTEM)),
    ("00a89de8", "ldm sp, {fp, sp, pc}", Effect(Kind.UNKNOWN)),
    ("f000f0e7", "udf #0", Effect(Kind.UNKNOWN)),
]

T32_EFFECTS = [
    ("08b5", "push {r3, lr}", Effect(size=2, moved=-8, saved=((3, -8), (14, -4)))),
    ("08bd", "pop {r3, pc}", Effect(Kind.RETURN, 2, moved=8, loaded=((3, 0), (15, 4)))),
    ("2de9f047", "push {r4-r10, lr}", Effect(moved=-32, saved=(*((n, 4 * n - 48) for n in range(4, 11)), (14, -4)))),
    ("bde8f087", "pop {r4-r10, pc}", Effect(Kind.RETURN, moved=32, loaded=(*((n, 4 * n - 16) for n in range(4, 11)), (15, 28)))),
    ("4df804ed", "push {lr}", Effect(moved=-4, saved=((14, -4),))),
    ("5df804fb", "pop {pc}", Effect(Kind.RETURN, moved=4, loaded=((15, 0),))),
    ("82b0", "sub sp, #8", Effect(size=2, moved=-8)),
    ("02b0", "add sp, #8", Effect(size=2, moved=8)),
    ("adf5807d", "sub sp, sp, #256", Effect(moved=-256)),
    ("adf2045d", "subw sp, sp, #1284", Effect(moved=-1284)),
    ("0df5805d", "add sp, sp, #4096", Effect(moved=4096)),
    ("00af", "add r7, sp, #0", Effect(size=2, made=(7, 0))),
    ("6f46", "mov r7, sp", Effect(size=2, made=(7, 0))),
    ("bd46", "mov sp, r7", Effect(size=2, taken=(7, 0))),
    ("0837", "adds r7, #8", Effect(size=2, changed=(7, 8))),
    ("07f10807", "add.w r7, r7, #8", Effect(changed=(7, 8))),
    ("2ded048b", "vpush {d8-d9}", Effect(moved=-16, saved=((264, -16), (265, -8)))),
    ("bdec048b", "vpop {d8-d9}", Effect(moved=16, loaded=((264, 0), (265, 8)))),
    ("6de90445", "strd r4, r5, [sp, #-16]!", Effect(moved=-16, saved=((4, -16), (5, -12)))),
    ("fde80445", "ldrd r4, r5, [sp], #16", Effect(moved=16, loaded=((4, 0), (5, 4)))),
    ("cde90245", "strd r4, r5, [sp, #8]", Effect(saved=((4, 8), (5, 12)))),
    ("0294", "str r4, [sp, #8]", Effect(size=2, saved=((4, 8),))),
    ("ddf80840", "ldr.w r4, [sp, #8]", Effect(loaded=((4, 8),))),
    ("7047", "bx lr", Effect(Kind.RETURN, 2)),
    ("1847", "bx r3", Effect(Kind.UNKNOWN, 2)),
    ("9847", "blx r3", Effect(Kind.CALL, 2)),
    ("fff7feff", "bl .", Effect(Kind.CALL)),
    ("fff7feef", "blx .", Effect(Kind.CALL)),
    ("fee7", "b.n .", Effect(Kind.JUMP, 2, 0x1000)),
    ("fff7febf", "b.w .", Effect(Kind.JUMP, target=0x1000)),
    ("3ff4feaf", "beq.w .", Effect()),
    ("fed0", "beq.n .", Effect(size=2)),
    ("08bf", "it eq", Effect(size=2, then=1)),
    ("01bf", "itttt eq", Effect(size=2, then=4)),
    ("00bf", "nop", Effect(size=2)),
    ("ffde", "udf #255", Effect(Kind.UNKNOWN, 2)),
    ("00df", "svc 0", Effect(Kind.SYSTEM, 2)),
    ("dfe800f0", "tbb [pc, r0]", Effect(Kind.UNKNOWN)),
    ("b0f5807f", "cmp.w r0, #256", Effect()),
    ("53f804fb", "ldr.w pc, [r3], #4", Effect(Kind.UNKNOWN)),
    ("9d44", "add sp, r3", Effect(Kind.UNKNOWN, 2)),
    ("0120", "movs r0, #1", Effect(size=2, changed=(0, None))),
]  # fmt: skip


@pytest.mark.parametrize(("code", "text", "effect"), A32_EFFECTS, ids=[each[1] for each in A32_EFFECTS])
def test_a32(code: str, text: str, effect: Effect) -> None:
    assert arm(word(code), 0x1000) == effect


@pytest.mark.parametrize(("code", "text", "effect"), T32_EFFECTS, ids=[each[1] for each in T32_EFFECTS])
def test_t32(code: str, text: str, effect: Effect) -> None:
    data = bytes.fromhex(code).ljust(4, b"\0")
    assert thumb(int.from_bytes(data[:2], "little"), int.from_bytes(data[2:], "little"), 0x1000) == effect


def test_every_word_is_decoded() -> None:
    for high in range(0, 1 << 16, 7):
        for low in (0, 0x0F0F, 0xFFFF, 0x8D0D):
            assert arm(high << 16 | low, 0x1000).size == 4
            assert thumb(high, low, 0x1000).size in (2, 4)
    assert pack("<H", 0x4770) == bytes.fromhex("7047")
