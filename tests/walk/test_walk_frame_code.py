"""When neither the link register nor the frame pointer is the caller's: a stack is then short, and not one that never was."""

from __future__ import annotations

import pytest
from walking import STACK, pcs, target, walk, words

from clew.arch import machine_named
from clew.image import Image
from clew.target import Module
from clew.testing import ElfBuilder
from clew.walk import End, Stack

BIAS = 0x40000
F, G = BIAS + 0x100, BIAS + 0x200
"""Two functions; each has room for 0x100 bytes."""

BL = {"aarch64": "00000094", "riscv64": "ef000000"}
NAMES = {"aarch64": ("sp", "x29", "x30"), "riscv64": ("sp", "s0", "ra"), "x86-64": ("rsp", "rbp", "rbx")}


def stopped(machine: str, f: str, g: str, pc: int, values: tuple[int, int, int], at: dict[int, int]) -> Stack:
    """A thread at pc, with values of its stack pointer, frame pointer and link register; no function has a row."""
    known = machine_named(machine)
    elf = ElfBuilder(machine=known.elf_machines[0], bits=known.bits, byte_order=known.byte_order)
    text = bytearray(0x200)
    for offset, code in ((0, f), (0x100, g)):
        body = bytes.fromhex(code)
        text[offset : offset + len(body)] = body
    elf.section(".text", bytes(text), address=0x100, flags=6)
    elf.symbol("f", section=".text", value=0x100, size=len(bytes.fromhex(f)))
    elf.symbol("g", section=".text", value=0x200, size=len(bytes.fromhex(g)))
    elf.segment(1, [".text"], flags=5)
    image = Image.from_bytes(elf.build())
    module = Module("/bin/it", BIAS, BIAS + 0x1000, BIAS, open_image=lambda: image)
    data = bytearray(0x200)
    for address, value in at.items():
        word = words(machine, value)
        data[address - STACK : address - STACK + len(word)] = word
    it = target(machine, {BIAS + 0x100: bytes(text), STACK: bytes(data)}, [], modules=[module])
    return walk(it, pc, dict(zip(NAMES[machine], values, strict=True)))


# str x30, [sp, #-16]!; bl f; nop; bl …; ldr x30, [sp], #16; ret: neither sets x29 up.
PLAIN = "fe0f1ff8 {} 1f2003d5 {} fe0741f8 c0035fd6"
# stp x29, x30, [sp, #-16]!; mov x29, sp; bl …; ldp x29, x30, [sp], #16; ret.
FRAMED = "fd7bbfa9 fd030091 00000094 fd7bc1a8 c0035fd6"


def bl(place: int, to: int) -> str:
    return (0x94000000 | (to - place) // 4 & 0x3FFFFFF).to_bytes(4, "little").hex()


def test_a_link_register_that_a_call_of_the_function_itself_has_left() -> None:
    """Behind the call of g, x30 is the place it returned to: to follow it would find f called by f."""
    f = PLAIN.format(bl(F + 4, G), bl(F + 12, G))
    stack = stopped("aarch64", f, "c0035fd6", F + 12, (STACK, 0, F + 8), {})
    assert (pcs(stack), stack.end) == ([F + 12], End.NO_RULE)
    # If it has called itself, that may be how it came to be here.
    f = PLAIN.format(bl(F + 4, F), bl(F + 12, F))
    stack = stopped("aarch64", f, "c0035fd6", F, (STACK, 0, F + 8), {})
    assert pcs(stack) == [F, F + 8]


@pytest.mark.parametrize(("g", "frames"), [(FRAMED, [F + 8, G + 12]), ("1f2003d5" * 3 + "c0035fd6", [F + 8, G + 12])])
def test_a_record_is_its_functions_own_or_it_is_not_followed(g: str, frames: list[int]) -> None:
    """f has a record, whose return address is in g. If g sets none up, its x29 is that of a frame farther out."""
    at = {STACK: STACK + 0x40, STACK + 8: G + 12, STACK + 0x40: 0, STACK + 0x48: F + 12}
    g = g if "00000094" in g else g[:16] + "00000094" + g[24:]
    stack = stopped("aarch64", FRAMED, g, F + 8, (STACK, STACK, 0), at)
    if "fd030091" in g:
        assert (pcs(stack), stack.end) == ([F + 8, G + 12, F + 12], End.ENTRY)
    else:
        assert (pcs(stack), stack.end) == (frames, End.NO_RULE)
        assert "does not set x29 up" in stack.detail


@pytest.mark.parametrize(
    ("machine", "code", "end"),
    [
        ("aarch64", "1d0080d2 1e0080d2 3e000094 c0035fd6", End.ENTRY),  # mov x29, #0; mov x30, #0; bl
        ("aarch64", "fe0f1ff8 1f2003d5 3e000094 c0035fd6", End.NO_RULE),  # str x30, [sp, #-16]!; nop; bl
        ("riscv64", "0144 0100 01000100 ef00800f 8280", End.ENTRY),  # li s0, 0; nop; nop; jal
        ("riscv64", "4111 06e4 01000100 ef00800f 8280", End.NO_RULE),  # addi sp, sp, -16; sd ra, 8(sp); nop; jal
        ("x86-64", "31ed" + "90" * 18, End.ENTRY),  # xor %ebp,%ebp
        ("x86-64", "4883ec08" + "90" * 16, End.NO_RULE),  # sub $8,%rsp
    ],
)
def test_a_frame_pointer_of_zero_is_the_end_where_the_function_has_cleared_it(
    machine: str, code: str, end: End
) -> None:
    """Code without frame pointers may have a zero in it for any reason."""
    stack = stopped(machine, code, "00", F + 12, (STACK, 0, F + 12), {})
    assert (pcs(stack), stack.end) == ([F + 12], end)
