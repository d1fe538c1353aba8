"""The names of a file in Breakpad's world, beside the bytes that they are of."""

from __future__ import annotations

import pytest

from clew.image import Image, elf
from clew.image.breakpad_id import NO_ID, architecture, code_id, debug_id, identifier, module_name
from clew.testing import ElfBuilder


def test_a_build_id() -> None:
    build_id = bytes.fromhex("93ac61ec5a8eb1396f9fbd350e3169a558528a40")
    builder = ElfBuilder()
    builder.build_id(build_id)
    found = identifier(Image.from_bytes(builder.build()))
    assert found == build_id
    # 93ac61ec 5a8e b139 as little-endian numbers, the next eight bytes as they are, and the age.
    assert debug_id(found) == "EC61AC93" + "8E5A" + "39B1" + "6F9FBD350E3169A5" + "0"
    assert code_id(found) == "93AC61EC5A8EB1396F9FBD350E3169A558528A40"


def test_a_short_build_id_is_padded() -> None:
    # Breakpad's dump_syms on a file linked with --build-id=0x1234567890.
    assert debug_id(bytes.fromhex("1234567890")) == "785634120090000000000000000000000"
    assert debug_id(b"\x01") == "00000001" + "0" * 25


def test_without_anything() -> None:
    image = Image.from_bytes(ElfBuilder().build())
    assert identifier(image) is None
    assert debug_id(None) == NO_ID
    assert code_id(None) is None


@pytest.mark.parametrize("size", [1, 15, 16, 17, 100, 4095, 4096, 4097, 5000])
def test_the_hash_of_the_code(size: int) -> None:
    builder = ElfBuilder()
    code = bytes((7 * index + 3) & 0xFF for index in range(size))
    builder.section(".text", code, address=0x1000, executable=True)
    builder.section(".after", b"\xa5" * 40, alignment=1)
    image = Image.from_bytes(builder.build())
    section = image.section(".text")
    assert section is not None
    data = builder.build()
    # Every block that begins in the first page of the section, whole, whatever stands behind.
    expected = bytearray(16)
    for block in range(0, min(size, 4096), 16):
        for index in range(16):
            at = section.offset + block + index
            expected[index] ^= data[at] if at < len(data) else 0
    assert identifier(image) == bytes(expected)


def test_code_that_is_not_in_the_file() -> None:
    builder = ElfBuilder()
    builder.section(".text", bytes(64), address=0x1000, executable=True, type=elf.SHT_NOBITS)
    assert identifier(Image.from_bytes(builder.build())) is None


def test_machines() -> None:
    names = {
        62: "x86_64",
        3: "x86",
        40: "arm",
        183: "arm64",
        8: "mips",
        20: "ppc",
        21: "ppc64",
        22: "s390",
        243: "riscv",
    }
    for machine, name in {**names, 2: "sparc", 43: "sparcv9", 9999: "unknown"}.items():
        assert architecture(Image.from_bytes(ElfBuilder(machine=machine).build())) == name


def test_the_name_of_the_file() -> None:
    assert module_name(Image.from_bytes(ElfBuilder().build(), "/usr/lib/libdemo.so.1.2")) == "libdemo.so.1.2"


def test_the_name_of_a_shared_object() -> None:
    strings = b"\0libdemo.so.1\0"
    builder = ElfBuilder(type=elf.ET_DYN)
    builder.section(".dynstr", strings, address=0x10200, type=elf.SHT_STRTAB)
    tags = ((elf.DT_SONAME, 1), (elf.DT_STRTAB, 0x10200), (elf.DT_NULL, 0))
    dynamic = b"".join(number.to_bytes(8, "little") for tag in tags for number in tag)
    builder.section(".dynamic", dynamic, address=0x10300, type=elf.SHT_DYNAMIC)
    builder.segment(elf.PT_LOAD, [".dynstr", ".dynamic"])
    builder.segment(elf.PT_DYNAMIC, [".dynamic"])
    assert module_name(Image.from_bytes(builder.build(), "/usr/lib/libdemo.so.1.2")) == "libdemo.so.1"
