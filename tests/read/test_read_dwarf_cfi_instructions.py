"""Every call frame instruction of DWARF 2 to 5, GNU, AArch64, SPARC and MIPS: its bytes, and the rule it makes."""

from __future__ import annotations

import pytest

from clew.arch import Dialect, machine_named
from clew.errors import FormatError
from clew.read.dwarf_cfi import CfiSection, instruction_name
from clew.table import Row
from clew.testing import Cfa, CfiBuilder, Instruction, Op

# Where each machine's CIE begins, and the equations of that.
X86 = ([Cfa.def_cfa(7, 8), Cfa.offset(16, 1)], {"cfa": "rsp+8", "rip": "*(cfa-8)"})
ARM = ([Cfa.def_cfa(31, 0)], {"cfa": "sp"})
SPARC = ([Cfa.def_cfa(14, 2047)], {"cfa": "sp+2047"})


def section(
    machine: str, initial: list[Instruction], instructions: list[Instruction], *, code_alignment: int = 1
) -> CfiSection:
    big = machine_named(machine).byte_order == "big"
    cfi = CfiBuilder(byte_order="big" if big else "little", address=0x2000)
    cie = cfi.cie(code_alignment=code_alignment, return_address=16, instructions=initial)
    cfi.fde(cie, start=0x1000, size=0x100000, instructions=instructions, padding=0)
    return CfiSection(cfi.build(), address=0x2000, machine=machine)


def rows(machine: str, initial: list[Instruction], instructions: list[Instruction], **options: int) -> list[Row]:
    made = section(machine, initial, instructions, **options)
    (fde,) = made.fdes()
    assert list(made.table().rows()) == list(fde.rows()), "the layers agree"
    return list(fde.rows())


# What stands in the file, the instruction's text, and what it changes in the equations of the CIE (None: takes away).
RULES: list[tuple[bytes, str, dict[str, str | None]]] = [
    (b"\x86\x02", "DW_CFA_offset rbp -16", {"rbp": "*(cfa-16)"}),
    (b"\x86\xac\x02", "DW_CFA_offset rbp -2400", {"rbp": "*(cfa-2400)"}),
    (b"\xd0", "DW_CFA_restore rip", {}),
    (b"\xc6", "DW_CFA_restore rbp", {}),
    (b"\x00", "DW_CFA_nop", {}),
    (b"\x05\xc8\x01\x02", "DW_CFA_offset_extended r200 -16", {"r200": "*(cfa-16)"}),
    (b"\x06\x10", "DW_CFA_restore_extended rip", {}),
    (b"\x07\x10", "DW_CFA_undefined rip", {"rip": "undefined"}),
    (b"\x08\x03", "DW_CFA_same_value rbx", {"rbx": "rbx"}),
    (b"\x09\x10\x02", "DW_CFA_register rip rcx", {"rip": "rcx"}),
    (b"\x0a", "DW_CFA_remember_state", {}),
    (b"\x0c\x06\x10", "DW_CFA_def_cfa rbp 16", {"cfa": "rbp+16"}),
    (b"\x0d\x06", "DW_CFA_def_cfa_register rbp", {"cfa": "rbp+8"}),
    (b"\x0e\x10", "DW_CFA_def_cfa_offset 16", {"cfa": "rsp+16"}),
    (b"\x0e\x80\x02", "DW_CFA_def_cfa_offset 256", {"cfa": "rsp+256"}),
    (b"\x0e\x00", "DW_CFA_def_cfa_offset 0", {"cfa": "rsp"}),
    (b"\x0f\x03\x77\x08\x06", "DW_CFA_def_cfa_expression (*(rsp + 8))", {"cfa": "*(rsp + 8)"}),
    (b"\x10\x06\x02\x23\x08", "DW_CFA_expression rbp (cfa + 8)", {"rbp": "*(cfa + 8)"}),
    (b"\x11\x10\x7e", "DW_CFA_offset_extended_sf rip 16", {"rip": "*(cfa+16)"}),
    (b"\x12\x06\x7f", "DW_CFA_def_cfa_sf rbp 8", {"cfa": "rbp+8"}),
    (b"\x13\x7e", "DW_CFA_def_cfa_offset_sf 16", {"cfa": "rsp+16"}),
    (b"\x13\x02", "DW_CFA_def_cfa_offset_sf -16", {"cfa": "rsp-16"}),
    (b"\x14\x07\x02", "DW_CFA_val_offset rsp -16", {"rsp": "cfa-16"}),
    (b"\x15\x07\x7e", "DW_CFA_val_offset_sf rsp 16", {"rsp": "cfa+16"}),
    (b"\x16\x06\x02\x23\x08", "DW_CFA_val_expression rbp (cfa + 8)", {"rbp": "cfa + 8"}),
    (b"\x2e\x10", "DW_CFA_GNU_args_size 16", {}),
    (b"\x2f\x06\x02", "DW_CFA_GNU_negative_offset_extended rbp 16", {"rbp": "*(cfa+16)"}),
]


@pytest.mark.parametrize(("code", "text", "change"), RULES, ids=[text.split()[0] for _, text, _ in RULES])
def test_rules(code: bytes, text: str, change: dict[str, str | None]) -> None:
    initial, equations = X86
    made = section("x86-64", initial, [code])
    (fde,) = made.fdes()
    (instruction,) = fde.instructions()
    assert instruction.text(made.machine) == text
    assert (instruction.end - instruction.offset, instruction.opcode) == (len(code), code[0] & 0xC0 or code[0])
    (row,) = rows("x86-64", initial, [code])
    wanted = {key: value for key, value in {**equations, **change}.items() if value is not None}
    assert dict(row.rule.equations(made.machine)) == wanted
    assert row.args_size == (16 if code[0] == 0x2E else 0)


# Bytes, and how far they move with a code alignment factor of 4.
@pytest.mark.parametrize(
    ("code", "machine", "distance"),
    [
        (b"\x40", "x86-64", 0),
        (b"\x41", "x86-64", 4),
        (b"\x7f", "x86-64", 252),
        (b"\x02\xff", "x86-64", 1020),
        (b"\x03\x01\x02", "x86-64", 0x201 * 4),
        (b"\x04\x01\x02\x00\x00", "x86-64", 0x201 * 4),
        (b"\x03\x01\x02", "s390x", 0x102 * 4),
        (b"\x04\x00\x00\x01\x02", "s390x", 0x102 * 4),
        (b"\x1d" + b"\0" * 6 + b"\x01\x02", "mips64", 0x102 * 4),
    ],
)
def test_moves(code: bytes, machine: str, distance: int) -> None:
    initial = [Cfa.def_cfa(7, 8)]
    found = rows(machine, initial, [code, Cfa.def_cfa_offset(32)], code_alignment=4)
    wanted = [0x1000, 0x1000 + distance] if distance else [0x1000]
    assert [row.start for row in found] == wanted
    assert str(found[-1].rule.cfa) == "RegisterPlus(register=7, offset=32)"


@pytest.mark.parametrize("encoding", [0x00, 0x03, 0x0C, 0x1B, 0x1C])
def test_set_loc(encoding: int) -> None:
    """DW_CFA_set_loc has an address in the encoding of the FDE's own."""
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(fde_encoding=encoding, instructions=X86[0])
    cfi.fde(
        cie,
        start=0x1000,
        size=0x100,
        instructions=[Cfa.set_loc(0x1010), Cfa.def_cfa_offset(16), Cfa.set_loc(0x1010), Cfa.set_loc(0x1020)],
    )
    made = CfiSection(cfi.build(), address=0x2000)
    (fde,) = made.fdes()
    assert next(instruction.operands for instruction in fde.instructions()) == (0x1010,)
    wanted = [(0x1000, 0x1010), (0x1010, 0x1020), (0x1020, 0x1100)]
    assert [(row.start, row.end) for row in fde.rows()] == wanted
    assert [(row.start, row.end) for row in made.table().rows()] == wanted


# AArch64 (aadwarf64, 4.4): 0 not signed, 1 signed with SP, 3 signed with SP and pc; the state 2 does not exist.
@pytest.mark.parametrize(
    ("code", "remark"),
    [
        ([Cfa.aarch64_negate_ra_state], "return address signed"),
        ([Cfa.aarch64_negate_ra_state] * 2, None),
        ([Cfa.aarch64_negate_ra_state] * 3, "return address signed"),
        ([Cfa.aarch64_negate_ra_state_with_pc], "return address signed with pc"),
        ([Cfa.aarch64_negate_ra_state_with_pc] * 2, None),
        ([Cfa.aarch64_set_ra_state(1, 0)], "return address signed"),
        ([Cfa.aarch64_set_ra_state(2, -4)], "return address signed with pc"),
        ([Cfa.aarch64_set_ra_state(2, -4), Cfa.aarch64_set_ra_state(0, 0)], None),
        ([Cfa.aarch64_negate_ra_state, Cfa.aarch64_set_ra_state(0, 0)], None),
    ],
)
def test_aarch64_signing(code: list[Instruction], remark: str | None) -> None:
    (row,) = rows("aarch64", ARM[0], code)
    assert list(row.rule.remarks()) == ([] if remark is None else [remark])
    assert dict(row.rule.equations(machine_named("aarch64"))) == ARM[1]


@pytest.mark.parametrize(
    "code",
    [
        [Cfa.aarch64_negate_ra_state, Cfa.aarch64_negate_ra_state_with_pc],
        [Cfa.aarch64_negate_ra_state_with_pc, Cfa.aarch64_negate_ra_state],
    ],
)
def test_aarch64_state_that_does_not_exist(code: list[Instruction]) -> None:
    made = section("aarch64", ARM[0], code)
    assert [problem.message for problem in made.table().problems] == [
        "the return address is signed with the pc and not signed"
    ]


def test_aarch64_instruction_texts() -> None:
    code = [Cfa.aarch64_negate_ra_state, Cfa.aarch64_negate_ra_state_with_pc * 2, Cfa.aarch64_set_ra_state(2, -4)]
    made = section("aarch64", ARM[0], code)
    assert [instruction.text(made.machine) for instruction in made.fde(0).instructions()] == [
        "DW_CFA_AARCH64_negate_ra_state",
        "DW_CFA_AARCH64_negate_ra_state_with_pc",
        "DW_CFA_AARCH64_negate_ra_state_with_pc",
        "DW_CFA_AARCH64_set_ra_state 2 -4",
    ]


def test_sparc_window_save() -> None:
    """%o0-%o7 go on in %i0-%i7; %l0-%l7 and %i0-%i7 are saved from the CFA on, a word each."""
    (row,) = rows("sparc64", SPARC[0], [Cfa.gnu_window_save])
    out = [f"o{n}" if n != 6 else "sp" for n in range(8)]
    into = [f"i{n}" if n != 6 else "fp" for n in range(8)]
    saved = [f"l{n}" for n in range(8)] + into
    wanted = dict(SPARC[1])
    wanted.update(zip(out, into, strict=True))
    wanted.update({name: f"*(cfa{f'+{8 * n}' if n else ''})" for n, name in enumerate(saved)})
    assert dict(row.rule.equations(machine_named("sparc64"))) == wanted


def test_sparc_window_of_32_bits() -> None:
    cfi = CfiBuilder(byte_order="big", address_size=4, address=0x2000)
    cfi.fde(cfi.cie(instructions=[Cfa.def_cfa(30, 0)]), start=0x1000, size=4, instructions=[Cfa.gnu_window_save])
    table = CfiSection(cfi.build(), address=0x2000, machine="sparc").table()
    assert dict(table.rules[1].equations(table.machine))["i7"] == "*(cfa+60)"


VENDORS = {
    0x1D: {Dialect.MIPS: "DW_CFA_MIPS_advance_loc8"},
    0x2B: {Dialect.AARCH64: "DW_CFA_AARCH64_set_ra_state"},
    0x2C: {Dialect.AARCH64: "DW_CFA_AARCH64_negate_ra_state_with_pc"},
    0x2D: {Dialect.AARCH64: "DW_CFA_AARCH64_negate_ra_state", Dialect.SPARC: "DW_CFA_GNU_window_save"},
}
MACHINES = {Dialect.GENERIC: "x86-64", Dialect.AARCH64: "aarch64", Dialect.SPARC: "sparc64", Dialect.MIPS: "mips64"}


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize("opcode", list(range(0x40)))
def test_every_opcode_on_every_machine(dialect: Dialect, opcode: int) -> None:
    """An opcode is known to all layers, or to none: then the function is left out, and the problem names it."""
    name = instruction_name(opcode, dialect)
    if opcode in VENDORS:
        assert name == VENDORS[opcode].get(dialect)
    else:
        assert (name is None) == (opcode > 0x16 and opcode not in (0x2E, 0x2F))
    if name is not None:
        return
    made = section(MACHINES[dialect], [Cfa.def_cfa(7, 8)], [bytes((opcode,)) + bytes(12)])
    wanted = f"the call frame instruction {opcode:#04x} is not defined for"
    with pytest.raises(FormatError, match=wanted):
        list(made.fde(0).instructions())
    with pytest.raises(FormatError, match=wanted):
        list(made.fde(0).rows())
    table = made.table()
    assert [problem.message for problem in table.problems] == [f"{wanted} this machine"]
    assert (len(table), table.lost) == (0, 1)


def test_huge_registers_and_offsets() -> None:
    """The largest that are read; beyond them, see the errors."""
    code = [
        Cfa.same_value(65535),
        Cfa.register(65534, 65535),
        Cfa.offset_extended(100, (1 << 42) - 1),
        Cfa.offset_extended_sf(101, -(1 << 42)),
        Cfa.val_offset(102, (1 << 42) - 1),
        Cfa.def_cfa(65533, (1 << 63) - 1),
    ]
    (row,) = rows("x86-64", X86[0], list(code))
    assert dict(row.rule.equations(machine_named("x86-64"))) == {
        "cfa": f"r65533+{(1 << 63) - 1}",
        "rip": "*(cfa-8)",
        "r100": f"*(cfa-{8 * ((1 << 42) - 1)})",
        "r101": f"*(cfa+{8 << 42})",
        "r102": f"cfa-{8 * ((1 << 42) - 1)}",
        "r65534": "r65535",
        "r65535": "r65535",
    }


def test_padded_numbers() -> None:
    """LEB128 numbers may have more bytes than they need."""
    (row,) = rows("x86-64", X86[0], [b"\x0e\x90\x80\x80\x00", b"\x8c\x82\x80\x00", b"\x13\xfe\xff\x7f"])
    assert dict(row.rule.equations(machine_named("x86-64")))["r12"] == "*(cfa-16)"
    assert str(row.rule.cfa) == "RegisterPlus(register=7, offset=16)"


def test_expressions_that_can_be_read_and_others() -> None:
    """A bad expression spoils its own rule: what that says is unknown, the rest of the row stands."""
    good = Op.breg(7, 8) + Op.breg(16, 0) + Op.lit(15) + Op.and_ + Op.lit(11) + Op.ge + Op.lit(3) + Op.shl + Op.plus
    code = [Cfa.def_cfa_expression(good), Cfa.expression(6, Op.reg(6)), Cfa.val_expression(3, b"\x08")]
    made = section("x86-64", X86[0], list(code))
    table = made.table()
    assert table.problems == ()
    assert dict(table.rules[1].equations(made.machine)) == {
        "cfa": "rsp + 8 + (((rip & 15) >= 11) << 3)",
        "rbx": "invalid expression 08",
        "rbp": "*(invalid expression 56)",
        "rip": "*(cfa-8)",
    }
    assert [problem.message.split(":")[0] for problem in table.invalid_expressions()] == [
        "the expression 08 of a rule cannot be read",
        "the expression 56 of a rule cannot be read",
    ]


def test_an_empty_expression_is_one() -> None:
    (row,) = rows("x86-64", X86[0], [Cfa.val_expression(3, b"")])
    assert "rbx" in dict(row.rule.equations(machine_named("x86-64")))
