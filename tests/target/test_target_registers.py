"""Layouts of registers against the order that the kernel's headers give, written out here a second time."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from struct import pack

import pytest

from clew.arch import machine_named
from clew.target.register_layouts import LAYOUTS, read_registers

# Each word of elf_gregset_t as the DWARF number of the register in it, or None; words are filled with their index.
X86_64 = [15, 14, 13, 12, 6, 3, 11, 10, 9, 8, 0, 2, 1, 4, 5, None, 16, 51, 49, 7, 52, 58, 59, 53, 50, 54, 55]
I386 = [3, 1, 2, 6, 7, 5, 0, 43, 40, 44, 45, None, 8, 41, 9, 4, 42]
AARCH64 = [*range(31), 31, 32, None]
ARM = [*range(16), None, None]
RISCV = [None, *range(1, 32)]
POWER = [*range(32), None, None, None, 66, 65, 76, 64, *[None] * 9]
LOONGARCH = [*range(32), *[None] * 13]

CASES = [
    ("x86-64", X86_64, 8, 16),
    ("x32", X86_64, 8, 16),
    ("i386", I386, 4, 12),
    ("aarch64", AARCH64, 8, 32),
    ("arm", ARM, 4, 15),
    ("riscv64", RISCV, 8, 0),
    ("riscv32", RISCV, 4, 0),
    ("powerpc64", POWER, 8, 32),
    ("powerpc", POWER, 4, 32),
    ("loongarch64", LOONGARCH, 8, 33),
]


@pytest.mark.parametrize(("name", "words", "width", "pc"), CASES)
def test_order(name: str, words: list[int | None], width: int, pc: int) -> None:
    machine = machine_named(name)
    values = [0x1000 + 2 * index for index in range(len(words))]
    data = b"".join(value.to_bytes(width, machine.byte_order) for value in values)
    registers = read_registers(machine, data)
    assert registers is not None
    assert registers.pc == values[pc]
    assert registers.values == {
        number: value for number, value in zip(words, values, strict=True) if number is not None
    }
    assert read_registers(machine, data[:-1]) is None
    assert registers.values[machine.stack_pointer] > 0


@pytest.mark.parametrize(("name", "code", "mask"), [("s390x", "Q", -1), ("s390", "I", 0x7FFF_FFFF)])
def test_order_of_s390(name: str, code: str, mask: int) -> None:
    machine = machine_named(name)
    assert machine.byte_order == "big"
    status = [0x80000000, 0x8000_2000 if code == "I" else 0x3FF_0000_2000]
    general, access = list(range(100, 116)), list(range(200, 216))
    data = pack(f">2{code}16{code}16I{code}", *status, *general, *access, 7)
    registers = read_registers(machine, data)
    assert registers is not None
    # In 31-bit mode, the highest bit of the address is the mode itself.
    assert registers.pc == status[1] & mask
    expected = {64: status[0], 65: status[1], **dict(enumerate(general)), **dict(enumerate(access, 48))}
    assert registers.values == expected


# sizeof(struct elf_prstatus) and sizeof its pr_reg, as cores of these machines have them.
@pytest.mark.parametrize(
    ("name", "size", "registers"),
    [
        ("x86-64", 336, 216),
        ("x32", 296, 216),
        ("i386", 144, 68),
        ("aarch64", 392, 272),
        ("arm", 148, 72),
        ("riscv64", 376, 256),
        ("powerpc64", 504, 384),
        ("powerpc", 268, 192),
        ("s390x", 336, 216),
        ("loongarch64", 480, 360),
    ],
)
def test_sizes(name: str, size: int, registers: int) -> None:
    layout = LAYOUTS[name]
    assert layout.size == registers
    assert 4 <= size - layout.offset - layout.size < 12


@pytest.mark.parametrize(
    ("name", "word", "width", "inside", "outside"),
    [
        ("x86-64", 15, 8, 35, (1 << 64) - 1),
        ("i386", 11, 4, 240, (1 << 32) - 1),
        ("powerpc64", 40, 8, 0xC01, 0x300),
        ("powerpc64", 40, 8, 0x3001, 0x500),
    ],
)
def test_in_call(name: str, word: int, width: int, inside: int, outside: int) -> None:
    machine = machine_named(name)
    for value, expected in ((inside, True), (outside, False)):
        data = bytearray(LAYOUTS[name].size)
        data[word * width : (word + 1) * width] = value.to_bytes(width, machine.byte_order)
        registers = read_registers(machine, bytes(data))
        assert registers is not None
        assert registers.in_call is expected


def test_machine_without_layout() -> None:
    assert read_registers(machine_named("m88k"), bytes(1000)) is None


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_x86_64_is_what_the_c_library_says(tmp_path: Path) -> None:
    names = ["r15", "rbp", "rax", "rdi", "orig_rax", "rip", "eflags", "rsp", "fs_base", "gs_base", "gs"]
    source = (
        "#include <stdio.h>\n#include <stddef.h>\n#include <sys/user.h>\n#include <sys/procfs.h>\nint main(void) {\n"
    )
    source += "#if defined __x86_64__ && defined __LP64__\n"
    source += "".join(f'printf("%zu ", offsetof(struct user_regs_struct, {name}));\n' for name in names)
    source += 'printf("%zu %zu", offsetof(struct elf_prstatus, pr_reg), offsetof(struct elf_prstatus, pr_pid));\n'
    source += "#endif\nreturn 0; }\n"
    (tmp_path / "a.c").write_text(source)
    subprocess.run(["gcc", "-o", tmp_path / "a", tmp_path / "a.c"], check=True)
    printed = subprocess.run([tmp_path / "a"], check=True, capture_output=True, text=True).stdout.split()
    if not printed:
        pytest.skip("this is not an x86-64 machine")
    layout = LAYOUTS["x86-64"]
    other = {"eflags": "rflags", "fs_base": "fs.base", "gs_base": "gs.base"}
    assert [int(each) for each in printed] == [
        *(8 * layout.words.index(other.get(name, name)) for name in names),
        layout.offset,
        layout.thread_offset,
    ]
