"""What is particular to a machine: the traps in its defaults, its code pointers and its outermost frame."""

from __future__ import annotations

import pytest
from walking import CODE, STACK, pcs, target, walk, words

from clew.arch import machine_for, machine_named
from clew.image import Image
from clew.read.frames import read_table
from clew.table import AtCfa, Expression, IsExpression, RegisterPlus, Rule, SameValue, Signing, Table, Undefined
from clew.testing import Cfa, CfiBuilder, Cie, ElfBuilder, Op
from clew.walk import End


def built(e_machine: int, cfi: CfiBuilder) -> Table:
    """The table that the reader makes of a section."""
    bits = 64 if cfi.address_size == 8 else 32
    elf = ElfBuilder(machine=e_machine, bits=bits, byte_order=cfi.byte_order)
    elf.section(".debug_frame", cfi.build())
    table = read_table(Image.from_bytes(elf.build()))
    assert table.machine == machine_for(e_machine, bits, cfi.byte_order)
    return table


def test_s390x_keeps_its_stack_pointer() -> None:
    """CFA = r15 + 160, and a leaf leaves r15 alone: with r15' = CFA, the caller's own frame would be passed over."""
    leaf = Rule(RegisterPlus(15, 160), (), 14)
    caller = Rule(RegisterPlus(15, 160 + 160), ((14, AtCfa(-48)), (15, AtCfa(-40))), 14)
    last = Rule(RegisterPlus(15, 160), ((14, Undefined()),), 14)
    rows = [(CODE, CODE + 16, leaf), (CODE + 16, CODE + 32, caller), (CODE + 32, CODE + 48, last)]
    memory = bytes(320 - 48) + words("s390x", CODE + 40, STACK + 160) + bytes(64)
    stack = walk(target("s390x", {STACK: memory}, rows), CODE + 8, {"r15": STACK, "r14": CODE + 24})
    assert (pcs(stack), stack.end) == ([CODE + 8, CODE + 24, CODE + 40], End.ENTRY)
    assert [frame.registers[15] for frame in stack.frames] == [STACK, STACK, STACK + 160]


def test_s390_strips_the_addressing_mode() -> None:
    leaf = Rule(RegisterPlus(15, 96), (), 14)
    rows = [(CODE, CODE + 16, leaf), (CODE + 32, CODE + 48, Rule(RegisterPlus(15, 96), ((14, Undefined()),), 14))]
    stack = walk(target("s390", {}, rows), 0x8000_0000 | CODE, {"r15": STACK, "r14": 0x8000_0000 | (CODE + 40)})
    assert (pcs(stack), stack.end) == ([CODE, CODE + 40], End.ENTRY)


def test_riscv_has_no_offset_in_its_cie() -> None:
    cfi = CfiBuilder("debug_frame")
    cie = cfi.cie(code_alignment=1, data_alignment=-4, return_address=1, instructions=[Cfa.def_cfa_register(2)])
    # addi sp, sp, -16; sd ra, 8(sp)
    cfi.fde(cie, start=CODE, size=16, instructions=[Cfa.advance(4), Cfa.def_cfa_offset(16), Cfa.offset(1, 2)])
    cfi.fde(cie, start=CODE + 32, size=16, instructions=[Cfa.undefined(1)])
    table = built(243, cfi)
    at_entry = walk(target("riscv64", {}, table), CODE, {"sp": STACK, "ra": CODE + 40})
    assert (pcs(at_entry), at_entry.frames[1].registers[2]) == ([CODE, CODE + 40], STACK)
    inside = walk(target("riscv64", {STACK: words("riscv64", 0, CODE + 40)}, table), CODE + 4, {"sp": STACK, "ra": 0})
    assert (pcs(inside), inside.frames[1].registers[2], inside.end) == ([CODE + 4, CODE + 40], STACK + 16, End.ENTRY)


@pytest.mark.parametrize(("back_chain", "end"), [(0, End.ENTRY), (STACK + 64, End.NULL_RETURN_ADDRESS)])
def test_power_ends_with_a_return_address_and_a_back_chain_of_zero(back_chain: int, end: End) -> None:
    # stdu r1, -32(r1), with lr in the caller's frame.
    rule = Rule(RegisterPlus(1, 32), ((65, AtCfa(16)),), 65)
    memory = words("powerpc64", STACK + 32, 0, 0, 0, back_chain, 0, 0)
    assert walk(target("powerpc64", {STACK: memory}, [(CODE, CODE + 8, rule)]), CODE, {"r1": STACK}).end is end


def test_elsewhere_a_return_address_of_zero_is_no_proof_of_anything() -> None:
    rule = Rule(RegisterPlus(31, 16), ((30, AtCfa(-8)),), 30)
    it = target("aarch64", {STACK: bytes(64)}, [(CODE, CODE + 8, rule)])
    assert walk(it, CODE, {"sp": STACK}).end is End.NULL_RETURN_ADDRESS


def test_thumb_functions_have_odd_return_addresses() -> None:
    rows = [
        (CODE, CODE + 16, Rule(RegisterPlus(13, 8), ((11, AtCfa(-8)), (14, AtCfa(-4))), 14)),
        (CODE + 32, CODE + 48, Rule(RegisterPlus(13, 0), ((14, Undefined()),), 14)),
    ]
    # Behind the last instruction of a function: with bit 0 taken for a part of the address, the look-up would be one off.
    it = target("arm", {STACK: words("arm", 8, (CODE + 32) | 1)}, rows)
    assert walk(it, CODE + 1, {"sp": STACK}).end is End.NO_RULE
    it = target("arm", {STACK: words("arm", 8, (CODE + 40) | 1)}, rows)
    stack = walk(it, CODE + 1, {"sp": STACK})
    assert (pcs(stack), stack.end) == ([CODE, CODE + 40], End.ENTRY)


# --- AArch64 -----------------------------------------------------------------------------------------------------------

LAST = Rule(RegisterPlus(31, 0), ((30, Undefined()),), 30)
SIGNED = 0x000B_0000_0000_0000
WITHIN = (CODE + 32, CODE + 48, LAST)


@pytest.mark.parametrize("key_b", [False, True])
@pytest.mark.parametrize("signing", [Signing.SIGNED, Signing.SIGNED_WITH_PC])
def test_signed_return_addresses_are_stripped(signing: Signing, key_b: bool) -> None:
    rule = Rule(RegisterPlus(31, 16), ((29, AtCfa(-16)), (30, AtCfa(-8))), 30, signing=signing, key_b=key_b)
    it = target("aarch64", {STACK: words("aarch64", 0, SIGNED | (CODE + 40))}, [(CODE, CODE + 8, rule), WITHIN])
    stack = walk(it, CODE + 4, {"sp": STACK})
    assert (pcs(stack), stack.end) == ([CODE + 4, CODE + 40], End.ENTRY)
    # The register still is what it is.
    assert stack.frames[1].registers[30] == SIGNED | (CODE + 40)


def test_also_those_in_the_register() -> None:
    """Between paciasp and autiasp of a leaf, x30 itself is signed."""
    rule = Rule(RegisterPlus(31, 0), (), 30, signing=Signing.SIGNED)
    stack = walk(target("aarch64", {}, [(CODE, CODE + 8, rule), WITHIN]), CODE, {"sp": 16, "x30": SIGNED | (CODE + 40)})
    assert (pcs(stack), stack.end) == ([CODE, CODE + 40], End.ENTRY)


def test_where_nothing_is_signed_nothing_is_stripped_unless_the_target_says_so() -> None:
    rows = [(CODE, CODE + 8, Rule(RegisterPlus(31, 0), (), 30)), WITHIN]
    registers = {"sp": 16, "x30": SIGNED | (CODE + 40)}
    plain = walk(target("aarch64", {}, rows), CODE, registers)
    assert (pcs(plain)[1], plain.end) == (SIGNED | (CODE + 40), End.NO_MODULE)
    known = walk(target("aarch64", {}, rows, code_mask=0x007F_0000_0000_0000), CODE, registers)
    assert (pcs(known)[1], known.end) == (CODE + 40, End.ENTRY)


def test_kernel_addresses_have_ones_there() -> None:
    rule = Rule(RegisterPlus(31, 0), (), 30, signing=Signing.SIGNED)
    it = target("aarch64", {}, [(CODE, CODE + 8, rule)], code_mask=0x007F_8000_0000_0000)
    assert pcs(walk(it, CODE, {"sp": 16, "x30": 0xFFAA_8000_1000_0000}))[1] == 0xFFFF_8000_1000_0000


def test_key_b_and_the_signing_state_come_from_the_table() -> None:
    cfi = CfiBuilder("debug_frame")
    cie: Cie = cfi.cie(code_alignment=4, data_alignment=-8, return_address=30, instructions=[Cfa.def_cfa(31, 0)])
    negate = b"\x2d"
    # pacibsp; stp x29, x30, [sp, #-16]!
    cfi.fde(
        cie,
        start=CODE,
        size=16,
        instructions=[
            Cfa.advance(1),
            negate,
            Cfa.advance(1),
            Cfa.def_cfa_offset(16),
            Cfa.offset(29, 2),
            Cfa.offset(30, 1),
        ],
    )
    cfi.fde(cie, start=CODE + 32, size=16, instructions=[Cfa.undefined(30)])
    table = built(183, cfi)
    memory = {STACK: words("aarch64", 0, SIGNED | (CODE + 40))}
    for pc, x30 in ((CODE, CODE + 40), (CODE + 4, SIGNED | (CODE + 40)), (CODE + 8, 0)):
        stack = walk(target("aarch64", memory, table), pc, {"sp": STACK, "x30": x30})
        assert (pcs(stack)[1:], stack.end) == ([CODE + 40], End.ENTRY), hex(pc)


@pytest.mark.parametrize("x18", [None, 0x5000])
def test_the_shadow_call_stack_is_undone_or_unknown(x18: int | None) -> None:
    """``16 12 02 82 78``: x18 = x18 - 8. libgcc crashes where x18 is unknown; here only x18 is unknown in the caller."""
    scs = Expression(Op.breg(18, -8), address_size=8, byte_order="little")
    rule = Rule(RegisterPlus(31, 16), ((18, IsExpression(scs)), (30, AtCfa(-8))), 30)
    it = target("aarch64", {STACK: words("aarch64", 0, CODE + 40)}, [(CODE, CODE + 8, rule), WITHIN])
    stack = walk(it, CODE, {"sp": STACK} if x18 is None else {"sp": STACK, "x18": x18})
    assert stack.end is End.ENTRY
    assert stack.frames[1].registers.get(18) == (None if x18 is None else x18 - 8)


def test_glibcs_resolver_forgets_what_the_plt_has_pushed() -> None:
    """_dl_runtime_resolve, to which the PLT's head comes behind stp x16, x30, [sp, #-16]!: x30 is at cfa + 8."""
    saved = Rule(RegisterPlus(31, 32), ((30, AtCfa(8)),), 30)
    it = target("aarch64", {STACK: bytes(40) + words("aarch64", CODE + 40)}, [(CODE, CODE + 8, saved), WITHIN])
    stack = walk(it, CODE, {"sp": STACK})
    assert (pcs(stack), stack.end) == ([CODE, CODE + 40], End.ENTRY)
    assert (stack.frames[0].cfa, stack.frames[1].registers[31]) == (STACK + 32, STACK + 48)
    # Its last instruction, where the frame has gone and x30 is back.
    gone = Rule(RegisterPlus(31, -16), (), 30)
    stack = walk(target("aarch64", {}, [(CODE, CODE + 8, gone), WITHIN]), CODE, {"sp": STACK, "x30": CODE + 40})
    assert (pcs(stack), stack.frames[1].registers[31]) == ([CODE, CODE + 40], STACK)


def test_a_link_register_is_only_the_innermost_frames() -> None:
    """Above it, "same value" would give the same frame again and again: musl's ``__clone`` under elfutils."""
    never = Rule(RegisterPlus(31, 16), ((30, SameValue()),), 30)
    it = target("aarch64", {STACK: bytes(0x1000)}, [(CODE, CODE + 64, never)])
    stack = walk(it, CODE, {"sp": STACK, "x30": CODE + 8})
    assert (pcs(stack), stack.end) == ([CODE, CODE + 8], End.NO_PROGRESS)


def test_an_unnamed_return_address_is_not_undefined() -> None:
    """No rule for x30 is "same value" (unspecified); ``DW_CFA_undefined`` is the end."""
    rows = [(CODE, CODE + 8, Rule(RegisterPlus(31, 0), (), 30)), WITHIN]
    stack = walk(target("aarch64", {}, rows), CODE, {"sp": STACK, "x30": CODE + 40})
    assert (len(stack.frames), stack.end) == (2, End.ENTRY)
    assert walk(target("aarch64", {}, rows), CODE, {"sp": STACK}).end is End.UNKNOWN_REGISTER


def test_sparc_returns_behind_the_delay_slot() -> None:
    # A leaf: the call's address is in o7; the stack pointer is not the CFA.
    leaf = Rule(RegisterPlus(14, 2047), (), 15)
    last = Rule(RegisterPlus(14, 2047), ((15, Undefined()),), 15)
    stack = walk(
        target("sparc64", {}, [(CODE, CODE + 8, leaf), (CODE + 32, CODE + 48, last)]),
        CODE,
        {"sp": STACK, "o7": CODE + 32},
    )
    assert (pcs(stack), stack.end) == ([CODE, CODE + 40], End.ENTRY)
    assert stack.frames[1].registers[14] == STACK


def test_a_machine_that_clew_does_not_know_ends_with_a_reason() -> None:
    machine = machine_for(0xDEAD, 64, "little")
    rule = Rule(RegisterPlus(3, 8), ((5, AtCfa(-8)),), 5)
    it = target(machine, {STACK: words(machine, CODE + 40)}, [(CODE, CODE + 8, rule)])
    stack = walk(it, CODE, {"r3": STACK})
    assert (pcs(stack), stack.end) == ([CODE, CODE + 40], End.NO_RULE)


def test_a_return_address_in_a_register_of_the_cies_choice() -> None:
    """``call t0, __riscv_save_0`` (libgcc, config/riscv/save-restore.S): the CIE names t0, and no rule mentions it."""
    riscv = machine_named("riscv64")
    t0, sp = riscv.register_number("t0"), riscv.stack_pointer
    assert t0 is not None
    rows = [
        (CODE, CODE + 0x10, Rule(RegisterPlus(sp, 0), (), t0, False)),
        (
            CODE + 0x20,
            CODE + 0x30,
            Rule(RegisterPlus(sp, 16), ((riscv.return_address, Undefined()),), riscv.return_address),
        ),
    ]
    start = {"sp": STACK, "t0": CODE + 0x28, "ra": 0x1234}
    stack = walk(target("riscv64", {STACK: bytes(64)}, rows), CODE + 4, start)
    assert pcs(stack) == [CODE + 4, CODE + 0x28]
    assert stack.end is End.ENTRY
