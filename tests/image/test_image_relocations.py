"""Relocations, computed by hand: in readelf's flavour, where sections start at 0, and at the addresses laid out."""

from __future__ import annotations

import random

import pytest

from clew.image import Image, Section, elf
from clew.image.relocation_types import kinds
from clew.testing.elf import ElfBuilder


def section(builder: ElfBuilder, name: str = ".eh_frame") -> Section:
    found = Image.from_bytes(builder.build()).section(name)
    assert found is not None
    return found


def problems(of: Section) -> list[str]:
    return [str(problem) for problem in of._owner.problems]


def made(
    data: bytes,
    *,
    machine: int = elf.EM_X86_64,
    bits: int = 64,
    byte_order: elf.ByteOrder = "little",
    flags: int = 0,
    os_abi: int = 0,
) -> ElfBuilder:
    """Two code sections and .eh_frame. Laid out, .text is at 0, .text.b at 0x20, and .eh_frame at 0x30.

    The symbols: ``f`` is 4 bytes into .text, ``g`` is 8 bytes into .text.b.
    """
    builder = ElfBuilder(machine=machine, bits=bits, byte_order=byte_order, flags=flags, os_abi=os_abi, type=elf.ET_REL)
    builder.section(".text", bytes(0x18), executable=True, alignment=16)
    builder.section(".text.b", bytes(0x10), executable=True, alignment=32)
    builder.section(".eh_frame", data, flags=elf.SHF_ALLOC, alignment=8)
    builder.symbol("f", 4, section=".text", type=elf.STT_FUNC)
    builder.symbol("g", 8, section=".text.b", type=elf.STT_FUNC)
    builder.symbol("u", 0, section=elf.SHN_UNDEF)
    builder.symbol("absolute", 0x1000)
    builder.symbol("tls", 0, section=".text", type=elf.STT_TLS)
    builder.symbol("ifunc", 1, section=".text.b", type=elf.STT_GNU_IFUNC)
    return builder


def numbers(data: memoryview, size: int, byte_order: elf.ByteOrder = "little") -> list[int]:
    return [int.from_bytes(data[start : start + size], byte_order, signed=True) for start in range(0, len(data), size)]


@pytest.mark.parametrize("byte_order", ["little", "big"])
def test_x86_64(byte_order: elf.ByteOrder) -> None:
    builder = made(b"\xff" * 40, byte_order=byte_order)
    builder.relocation(".rela.eh_frame", 0, 1, "g", 0x10)  # R_X86_64_64: S + A
    builder.relocation(".rela.eh_frame", 8, 24, "g", -3)  # R_X86_64_PC64: S + A - P
    builder.relocation(".rela.eh_frame", 16, 1, "absolute", 1)
    builder.relocation(".rela.eh_frame", 24, 1, 0, 5)  # The symbol 0 has the value 0.
    builder.relocation(".rela.eh_frame", 32, 1, "u", 7)
    found = section(builder)
    assert numbers(found.data, 8, byte_order) == [8 + 0x10, 8 - 3 - 8, 0x1001, 5, 7]
    assert numbers(found.data_at_layout, 8, byte_order) == [0x28 + 0x10, 0x28 - 3 - 0x38, 0x1001, 5, 7]
    assert found.expanded == b"\xff" * 40 == found.raw
    assert found.data is found.data
    assert problems(found) == []


def test_words_of_32_bits_wrap() -> None:
    builder = made(b"\xff" * 8)
    builder.relocation(".rela.eh_frame", 0, 2, "f", -0x20)  # R_X86_64_PC32
    builder.relocation(".rela.eh_frame", 4, 10, "f", 0xFFFFFFFF)  # R_X86_64_32
    found = section(builder)
    assert numbers(found.data, 4) == [4 - 0x20, 3]
    assert numbers(found.data_at_layout, 4) == [4 - 0x20 - 0x30, 3]


def test_without_addends_the_field_holds_them() -> None:
    data = (100).to_bytes(4, "little") + (200).to_bytes(4, "little")
    builder = made(data, machine=elf.EM_386, bits=32)
    builder.relocation(".rel.eh_frame", 0, 1, "g")  # R_386_32
    builder.relocation(".rel.eh_frame", 4, 2, "g")  # R_386_PC32
    found = section(builder)
    assert numbers(found.data, 4) == [108, 208 - 4]
    assert numbers(found.data_at_layout, 4) == [100 + 0x28, 200 + 0x28 - 0x34]


def test_risc_v_differences() -> None:
    # f and g are in different sections, whose distance is known only when they are laid out.
    builder = made(bytes(4) + b"\x10\0\0\0" + b"\xc1\0\0\0", machine=elf.EM_RISCV)
    builder.relocation(".rela.eh_frame", 0, 57, "g", 0)  # R_RISCV_32_PCREL
    builder.relocation(".rela.eh_frame", 4, 35, "g", 3)  # R_RISCV_ADD32
    builder.relocation(".rela.eh_frame", 4, 39, "f", 0)  # R_RISCV_SUB32
    builder.relocation(".rela.eh_frame", 8, 53, "g", 0)  # R_RISCV_SET6
    builder.relocation(".rela.eh_frame", 8, 52, "f", 0)  # R_RISCV_SUB6
    found = section(builder)
    # The 6-bit field is in the low bits of DW_CFA_advance_loc, whose high bits stay.
    assert numbers(found.data, 4) == [8, 0x10 + 8 + 3 - 4, 0xC0 | 8 - 4]
    assert numbers(found.data_at_layout, 4) == [0x28 - 0x30, 0x10 + 0x28 + 3 - 4, 0xC0 | 0x28 - 4]
    assert problems(found) == []


def test_the_order_in_the_file_counts() -> None:
    builder = made(bytes(4), machine=elf.EM_RISCV)
    builder.relocation(".rela.eh_frame", 0, 39, "f", 0)  # R_RISCV_SUB32, then overwritten
    builder.relocation(".rela.eh_frame", 0, 1, "g", 0)  # R_RISCV_32
    builder.relocation(".rela.eh_frame", 2, 34, "g", 0)  # R_RISCV_ADD16 in its upper half
    assert numbers(section(builder).data, 4) == [8 | 8 << 16]


def test_uleb128_keeps_its_length() -> None:
    # 0x80 0x80 0x00 is a zero in three bytes.
    builder = made(b"\x80\x80\0\x7f" + b"\x85\0", machine=elf.EM_RISCV)
    builder.relocation(".rela.eh_frame", 0, 60, "g", 0x200)  # R_RISCV_SET_ULEB128
    builder.relocation(".rela.eh_frame", 0, 61, "f", 0)  # R_RISCV_SUB_ULEB128
    found = section(builder)
    # 0x28 + 0x200 - 4 = 0x224 = 4 * 0x80 + 0x24
    assert found.data_at_layout == b"\xa4\x84\0\x7f\x85\0"
    assert found.data == found.raw  # readelf 2.40 does not know them
    assert problems(found) == [
        ".eh_frame: 0x0: relocations of type 60 are not applied (1)",
        ".eh_frame: 0x0: relocations of type 61 are not applied (1)",
    ]


def test_loongarch_adds_to_uleb128() -> None:
    builder = made(b"\x85\0" + b"\x80\x80", machine=elf.EM_LOONGARCH)
    builder.relocation(".rela.eh_frame", 0, 107, "g", 0)  # R_LARCH_ADD_ULEB128
    builder.relocation(".rela.eh_frame", 0, 108, "f", 1)  # R_LARCH_SUB_ULEB128
    builder.relocation(".rela.eh_frame", 2, 107, "g", 0)  # of a number that does not end
    found = section(builder)
    assert found.data_at_layout[:2] == bytes([0x80 | 5 + 0x28 - 4 - 1, 0])
    assert "damaged ULEB128" in problems(found)[0]


def test_arm_exception_index() -> None:
    # R_ARM_PREL31 keeps bit 31, which readelf's dump does not relocate.
    builder = made((0x80000000).to_bytes(4, "little") + (1).to_bytes(4, "little"), machine=elf.EM_ARM, bits=32)
    builder.relocation(".rel.eh_frame", 0, 42, "f")
    builder.relocation(".rel.eh_frame", 4, 42, "g")
    found = section(builder)
    assert numbers(found.data_at_layout, 4) == [(4 - 0x30) & 0x7FFFFFFF | -(1 << 31), (1 + 0x28 - 0x34) & 0x7FFFFFFF]
    assert found.data == found.raw


def test_symbols_without_an_address_are_left_alone() -> None:
    builder = made(bytes(24))
    builder.relocation(".rela.eh_frame", 0, 1, "tls", 5)
    builder.relocation(".rela.eh_frame", 8, 1, "ifunc", 5)
    builder.relocation(".rela.eh_frame", 16, 1, 1000, 5)
    found = section(builder)
    assert numbers(found.data, 8) == [0, 0, 0]
    assert numbers(found.data_at_layout, 8) == [0, 0x20 + 1 + 5, 0]
    assert "to symbols without an address are not applied (3)" in problems(found)[0]


def test_places_outside_the_section() -> None:
    builder = made(bytes(8))
    for offset in (1, 8, 2**64 - 4):
        builder.relocation(".rela.eh_frame", offset, 1, "f")
    builder.relocation(".rela.eh_frame", 0, 10, "f", 1)
    found = section(builder)
    assert numbers(found.data, 4) == [5, 0]
    assert problems(found) == [".eh_frame: 0x1: relocations outside the section are not applied (3)"]


def test_a_section_smaller_than_a_field() -> None:
    builder = made(b"\1")
    builder.relocation(".rela.eh_frame", 0, 1, "f")
    assert section(builder).data == b"\1"


def test_too_many_relocations_of_the_same_bytes() -> None:
    builder = made(bytes(8), machine=elf.EM_RISCV)
    for _ in range(100):
        builder.relocation(".rela.eh_frame", 0, 35, 0, 1)
    found = section(builder)
    assert numbers(found.data, 8) == [64]
    assert problems(found) == [".eh_frame: 0x0: more than 64 relocations of the same bytes are not applied (36)"]


def test_relocations_without_a_symbol_table() -> None:
    builder = ElfBuilder(type=elf.ET_REL)
    builder.section(".eh_frame", bytes(8), flags=elf.SHF_ALLOC)
    builder.section(".rela.eh_frame", bytes(24), type=elf.SHT_RELA, link=".eh_frame", info=".eh_frame")
    found = section(builder)
    assert found.data == bytes(8)
    assert "refer to no symbol table" in problems(found)[0]


def test_only_object_files_are_relocated() -> None:
    builder = ElfBuilder(type=elf.ET_EXEC)
    builder.section(".text", bytes(8), address=0x1000, executable=True)
    builder.symbol("f", 0x1000, section=".text")
    builder.relocation(".rela.text", 0, 1, "f")
    found = section(builder, ".text")
    assert found.data == bytes(8) == found.data_at_layout


def test_compressed_sections_are_relocated_too() -> None:
    builder = made(bytes(8))
    builder.section(".debug_frame", bytes(100), compress="zlib")
    builder.relocation(".rela.debug_frame", 92, 1, "f", 1)
    assert section(builder, ".debug_frame").data == bytes(92) + (5).to_bytes(8, "little")


@pytest.mark.parametrize("byte_order", ["little", "big"])
def test_mips_64_has_three_types_and_the_first_counts(byte_order: elf.ByteOrder) -> None:
    builder = made(bytes(8), machine=elf.EM_MIPS, byte_order=byte_order)
    builder.relocation(".rela.eh_frame", 0, 18 | 24 << 8, "g", 1)  # R_MIPS_64, then R_MIPS_SUB
    assert numbers(section(builder).data, 8, byte_order) == [9]


def test_sh_ignores_its_addends_and_pa_risc_counts_from_further_on() -> None:
    builder = made((7).to_bytes(4, "big"), machine=elf.EM_SH, bits=32, byte_order="big")
    builder.relocation(".rela.eh_frame", 0, 1, "g", 1000)  # R_SH_DIR32
    assert numbers(section(builder).data, 4, "big") == [15]
    builder = made((7).to_bytes(4, "big"), machine=elf.EM_PARISC, bits=32, byte_order="big")
    builder.relocation(".rela.eh_frame", 0, 9, "g", 20)  # R_PARISC_PCREL32
    assert numbers(section(builder).data, 4, "big") == [20]


def test_differences_of_msp430_and_mn10300() -> None:
    builder = made(bytes(8), machine=elf.EM_MSP430, bits=32, flags=45, os_abi=elf.ELFOSABI_STANDALONE)
    builder.relocation(".rela.eh_frame", 0, 21, "f")  # R_MSP430X_SYM_DIFF
    builder.relocation(".rela.eh_frame", 0, 1, "g", 100)
    builder.relocation(".rela.eh_frame", 4, 2, "g", 100)  # R_MSP430_ABS16, with no difference pending
    found = section(builder)
    assert numbers(found.data, 4) == [104, 108]
    assert numbers(found.data_at_layout, 4) == [100 + 0x28 - 4, 100 + 0x28]

    builder = made(bytes(8), machine=elf.EM_MN10300, bits=32)
    builder.relocation(".rela.eh_frame", 0, 33, "f")  # R_MN10300_SYM_DIFF
    builder.relocation(".rela.eh_frame", 0, 34, "f")  # R_MN10300_ALIGN does nothing
    builder.relocation(".rela.eh_frame", 0, 2, "g", 100)
    assert numbers(section(builder).data, 4) == [104, 0]


def test_the_stack_of_rl78() -> None:
    builder = made(b"\xff" * 8, machine=elf.EM_RL78, bits=32)
    builder.relocation(".rela.eh_frame", 0, 0x80, "g", 2)  # R_RL78_SYM
    builder.relocation(".rela.eh_frame", 0, 0x80, "f", 0)
    builder.relocation(".rela.eh_frame", 0, 0x83)  # R_RL78_OPsub
    builder.relocation(".rela.eh_frame", 0, 0x43)  # R_RL78_ABS16
    builder.relocation(".rela.eh_frame", 4, 0x41)  # R_RL78_ABS32, of nothing
    assert section(builder).data == b"\x06\0\xff\xff\0\0\0\0"


def test_many_at_once_are_the_same_as_one_after_the_other() -> None:
    """Random RISC-V relocations of random places against a loop that follows the ABI's formulas."""
    chance = random.Random(1)
    known = {number: kind for number, kind in kinds(elf.EM_RISCV, further=False).items() if kind}
    before = chance.randbytes(400)
    builder = made(before, machine=elf.EM_RISCV)
    expected = bytearray(before)
    for _ in range(300):
        number, kind = chance.choice(list(known.items()))
        offset, addend, (name, value) = (
            chance.randrange(392),
            chance.randrange(-9, 9),
            chance.choice([("f", 4), ("g", 8)]),
        )
        builder.relocation(".rela.eh_frame", offset, number, name, addend)
        field = int.from_bytes(expected[offset : offset + kind.size], "little")
        mask = (1 << kind.bits) - 1
        result = {
            "absolute": value + addend,
            "relative": value + addend - offset,
            "add": field + value + addend,
            "subtract": field - value + addend,  # as readelf has it
        }[kind.operation]
        expected[offset : offset + kind.size] = (result & mask | field & ~mask).to_bytes(kind.size, "little")
    assert section(builder).data == expected
