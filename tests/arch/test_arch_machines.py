from __future__ import annotations

import pickle
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.arch import (
    ALL,
    NO_REGISTER,
    ByteOrder,
    Default,
    Dialect,
    Machine,
    machine_for,
    machine_named,
    vendor_instruction,
)
from clew.errors import UsageError


def names(machine: Machine, numbers: frozenset[int]) -> set[str]:
    return {machine.register_name(number) for number in numbers}


@pytest.mark.parametrize("machine", ALL, ids=lambda machine: machine.name)
def test_every_register_name_reads_back(machine: Machine) -> None:
    for number in [*range(1300), *range(4090, 8200), 1 << 40]:
        assert machine.register_number(machine.register_name(number)) == number


@pytest.mark.parametrize("machine", ALL, ids=lambda machine: machine.name)
def test_a_machine_is_consistent(machine: Machine) -> None:
    special = (machine.frame_pointer, machine.program_counter, machine.link_register)
    for number in (machine.stack_pointer, machine.return_address, *(n for n in special if n is not None)):
        assert number in machine.names
    assert len(set(machine.names.values())) == len(machine.names)
    assert machine.stack_pointer not in machine.callee_saved
    if machine.link_register is not None:
        assert machine.link_register in machine.callee_saved
    assert machine.frame_pointer in machine.callee_saved
    assert machine.address_size * 8 == machine.bits in (32, 64)
    assert max(machine.readelf, default=-1) < max(machine.readelf_names, 1)


def test_machines_have_different_names_and_synonyms() -> None:
    everything = [name for machine in ALL for name in (machine.name, *machine.synonyms)]
    assert len(everything) == len(set(everything))


# What the psABI of each machine says that a function preserves or may not touch, with the link register.
@pytest.mark.parametrize(
    ("machine", "saved"),
    [
        ("x86-64", "rbx rbp r12 r13 r14 r15"),
        ("i386", "ebx ebp esi edi"),
        (
            "aarch64",
            "x18 x19 x20 x21 x22 x23 x24 x25 x26 x27 x28 x29 x30 vg v8 v9 v10 v11 v12 v13 v14 v15",
        ),
        ("s390x", "r6 r7 r8 r9 r10 r11 r12 r13 r14 f8 f9 f10 f11 f12 f13 f14 f15"),
        ("s390", "r6 r7 r8 r9 r10 r11 r12 r13 r14 f4 f6"),
        (
            "riscv64",
            "zero ra gp tp s0 s1 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 fs0 fs1 fs2 fs3 fs4 fs5 fs6 fs7 fs8 fs9 fs10 fs11",
        ),
        (
            "loongarch64",
            "zero ra tp r21 fp s0 s1 s2 s3 s4 s5 s6 s7 s8 fs0 fs1 fs2 fs3 fs4 fs5 fs6 fs7",
        ),
        ("mips64", "zero s0 s1 s2 s3 s4 s5 s6 s7 gp fp ra f24 f25 f26 f27 f28 f29 f30 f31"),
        ("mips", "zero s0 s1 s2 s3 s4 s5 s6 s7 fp ra f20 f21 f22 f23 f24 f25 f26 f27 f28 f29 f30 f31"),
        ("sparc64", "g0 g5 g6 g7 o7 l0 l1 l2 l3 l4 l5 l6 l7 i0 i1 i2 i3 i4 i5 fp i7"),
    ],
)
def test_callee_saved_registers(machine: str, saved: str) -> None:
    assert names(machine_named(machine), machine_named(machine).callee_saved) == set(saved.split())


@pytest.mark.parametrize(
    ("machine", "default"),
    [(machine, Default.CFA) for machine in ("x86-64", "i386", "aarch64", "arm", "riscv64", "powerpc64", "mips")]
    + [(machine, Default.SAME_VALUE) for machine in ("s390x", "s390", "sparc64")],
)
def test_the_stack_pointer_of_the_caller(machine: str, default: Default) -> None:
    assert machine_named(machine).default(machine_named(machine).stack_pointer) is default


def test_defaults_of_other_registers() -> None:
    machine = machine_named("aarch64")
    assert machine.default(19) is Default.SAME_VALUE
    assert machine.default(30) is Default.SAME_VALUE  # a leaf without a frame names no rule for it
    assert machine.default(0) is Default.UNKNOWN
    assert machine_named("x86-64").default(16) is Default.UNKNOWN


@pytest.mark.parametrize(
    ("e_machine", "bits", "order", "name"),
    [
        (62, 64, "little", "x86-64"),
        (62, 32, "little", "x32"),
        (180, 64, "little", "x86-64"),
        (3, 32, "little", "i386"),
        (6, 32, "little", "iamcu"),
        (183, 64, "little", "aarch64"),
        (183, 64, "big", "aarch64"),
        (183, 32, "little", "aarch64-ilp32"),
        (40, 32, "big", "arm"),
        (243, 64, "little", "riscv64"),
        (243, 32, "little", "riscv32"),
        (21, 64, "big", "powerpc64"),
        (20, 32, "big", "powerpc"),
        (22, 64, "big", "s390x"),
        (22, 32, "big", "s390"),
        (8, 32, "little", "mips"),
        (8, 64, "big", "mips64"),
        (258, 64, "little", "loongarch64"),
        (43, 64, "big", "sparc64"),
        (18, 32, "big", "sparc"),
        (5, 32, "big", "m88k"),
    ],
)
def test_the_machine_of_an_elf_header(e_machine: int, bits: int, order: ByteOrder, name: str) -> None:
    machine = machine_for(e_machine, bits, order)
    assert (machine.name, machine.bits, machine.byte_order) == (name, bits, order)


def test_a_class_that_the_machine_does_not_have() -> None:
    machine = machine_for(3, 64, "little")
    assert (machine.name, machine.address_size, machine.register_name(4)) == ("i386", 8, "esp")
    assert machine != machine_named("i386")


@given(st.integers(0, 0xFFFF), st.sampled_from([32, 64]), st.sampled_from(get_args(ByteOrder)))
def test_any_header_gives_a_machine(e_machine: int, bits: int, order: ByteOrder) -> None:
    machine = machine_for(e_machine, bits, order)
    assert machine == machine_for(e_machine, bits, order)
    assert pickle.loads(pickle.dumps(machine)) == machine
    assert machine.default(1) in Default


def test_an_unknown_machine_knows_nothing() -> None:
    machine = machine_for(0xFEED, 64, "big")
    assert machine.name == "machine 0xfeed"
    assert (machine.register_name(7), machine.register_number("r7")) == ("r7", 7)
    assert {machine.default(number) for number in (*range(200), NO_REGISTER)} == {Default.UNKNOWN}
    assert (machine.readelf_name(0), machine.readelf_names, machine.cfa_dialect) == (None, 0, Dialect.GENERIC)


def test_machine_named() -> None:
    assert machine_named("AMD64") == machine_for(62, 64, "little")
    assert machine_named("powerpc64", "big") == machine_for(21, 64, "big")
    with pytest.raises(UsageError, match="no machine is called 'vax'") as caught:
        machine_named("vax")
    assert "aarch64" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("machine", "name", "number"),
    [
        ("x86-64", "rsp", 7),
        ("x86-64", "r7", None),  # 7 has a name, and it is not this
        ("x86-64", "r57", 57),
        ("x86-64", "r057", None),
        ("x86-64", "eax", None),
        ("aarch64", "fp", 29),
        ("aarch64", "x29", 29),
        ("aarch64", "x31", None),
        ("arm", "r13", 13),
        ("riscv64", "x8", 8),
        ("riscv64", "mepc", 4096 + 0x341),
        ("s390x", "r15", 15),
        ("x86-64", "r" + "9" * 5000, None),
    ],
)
def test_register_numbers(machine: str, name: str, number: int | None) -> None:
    assert machine_named(machine).register_number(name) == number


def test_readelf_names_that_differ_from_the_fields_own() -> None:
    aarch64, s390x, arm = (machine_named(name) for name in ("aarch64", "s390x", "arm"))
    assert (aarch64.register_name(33), aarch64.readelf_name(33)) == ("elr_mode", "elr")
    assert (aarch64.register_name(34), aarch64.readelf_name(34)) == ("ra_sign_state", None)
    assert (s390x.register_name(15), s390x.readelf_name(15)) == ("r15", None)
    assert (arm.register_name(13), arm.readelf_name(13)) == ("sp", None)


@pytest.mark.parametrize(
    ("machine", "value", "target"),
    [
        ("x86-64", 0x401007, 0x401007),
        ("arm", 0x10001, 0x10000),
        ("s390", 0x8001_0000, 0x1_0000),
        ("s390x", 0x8001_0000, 0x8001_0000),
        ("sparc64", 0x10000, 0x10008),
        ("sparc", 0xFFFF_FFFC, 4),
        ("mips", 0x400101, 0x400100),
    ],
)
def test_where_a_call_returns_to(machine: str, value: int, target: int) -> None:
    assert machine_named(machine).return_target(value) == target


def test_vendor_instructions() -> None:
    table = {
        (dialect, opcode): name
        for dialect in Dialect
        for opcode in range(0x40)
        if (name := vendor_instruction(dialect, opcode))
    }
    assert table == {
        (Dialect.AARCH64, 0x2B): "DW_CFA_AARCH64_set_ra_state",
        (Dialect.AARCH64, 0x2C): "DW_CFA_AARCH64_negate_ra_state_with_pc",
        (Dialect.AARCH64, 0x2D): "DW_CFA_AARCH64_negate_ra_state",
        (Dialect.SPARC, 0x2D): "DW_CFA_GNU_window_save",
        (Dialect.MIPS, 0x1D): "DW_CFA_MIPS_advance_loc8",
    }
    assert machine_named("mips64").cfa_dialect is Dialect.MIPS
    assert machine_named("sparc").cfa_dialect is Dialect.SPARC
    assert machine_named("aarch64").cfa_dialect is Dialect.AARCH64


def test_the_module_of_each_machine_is_known_by_its_elf_numbers() -> None:
    """They are loaded one by one; what is loaded for a number must have every machine with it."""
    from clew.arch import _MODULE_OF, _of_module

    for machine in ALL:
        for number in machine.elf_machines:
            assert machine in _of_module(_MODULE_OF[number])
