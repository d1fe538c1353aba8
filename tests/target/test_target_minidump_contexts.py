"""Contexts of every processor: registers where the headers of their systems have them."""

from __future__ import annotations

from pathlib import Path
from struct import pack, pack_into

import pytest

from clew.arch import machine_named
from clew.errors import UsageError
from clew.target.minidump.contexts import LAYOUTS, PROCESSORS, machine_of, place_of, read_context
from clew.target.register_layouts import Registers
from clew.testing.minidump import MinidumpBuilder

# winnt.h and minidump_cpu_*.h, counted by hand: flags, then offset, form and DWARF number of some registers; the pc.
HAND = [
    ("i386", 716, (0, "I", 0x10007), [(156, "I", 7), (164, "I", 3), (176, "I", 0), (180, "I", 5), (196, "I", 4)], 184),
    ("x86-64", 1232, (48, "I", 0x10000F), [(120, "Q", 0), (144, "Q", 3), (152, "Q", 7), (160, "Q", 6), (240, "Q", 15)], 248),
    ("arm", 368, (0, "I", 0x40000006), [(4, "I", 0), (48, "I", 11), (56, "I", 13), (60, "I", 14)], 64),
    ("aarch64", 912, (0, "I", 0x400007), [(8, "Q", 0), (240, "Q", 29), (248, "Q", 30), (256, "Q", 31)], 264),
    ("aarch64", 796, (0, "Q", 0x80000006), [(8, "Q", 0), (240, "Q", 29), (248, "Q", 30), (256, "Q", 31)], 264),
    ("mips", 600, (0, "I", 0x40006), [(8, "Q", 0), (240, "Q", 29), (256, "Q", 31), (264, "Q", 64)], 312),
    ("mips64", 600, (0, "I", 0x80006), [(8, "Q", 0), (240, "Q", 29), (256, "Q", 31), (272, "Q", 65)], 312),
    ("powerpc", 1004, (0, "I", 0x20000001), [(12, "I", 0), (16, "I", 1), (136, "I", 31), (148, "I", 65)], 4),
    ("powerpc64", 1160, (0, "Q", 0x1000001), [(24, "Q", 0), (32, "Q", 1), (272, "Q", 31), (296, "Q", 65)], 8),
    ("sparc", 584, (0, "I", 0x10000003), [(8, "Q", 0), (120, "Q", 14), (248, "Q", 30), (256, "Q", 31)], 272),
    ("riscv32", 264, (0, "I", 0x800001), [(8, "I", 1), (12, "I", 2), (36, "I", 8), (128, "I", 31)], 4),
    ("riscv64", 528, (0, "I", 0x8000001), [(16, "Q", 1), (24, "Q", 2), (72, "Q", 8), (256, "Q", 31)], 8),
]  # fmt: skip


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize(
    ("name", "size", "flags", "registers", "pc"), HAND, ids=[f"{each[0]}-{each[1]}" for each in HAND]
)
def test_where_registers_are(
    name: str,
    size: int,
    flags: tuple[int, str, int],
    registers: list[tuple[int, str, int]],
    pc: int,
    order: str,
) -> None:
    machine = machine_named(name, "little" if order == "little" else "big")
    prefix = "<" if order == "little" else ">"
    data = bytearray(size)
    pack_into(prefix + flags[1], data, flags[0], flags[2])
    for number, (offset, form, _) in enumerate(registers):
        pack_into(prefix + form, data, offset, 0x1000 + 2 * number)
    pack_into(prefix + registers[0][1], data, pc, 0xABC0)
    found = read_context(machine, bytes(data))
    assert isinstance(found, Registers)
    assert found.pc == 0xABC0
    for number, (_, _, register) in enumerate(registers):
        assert found.values[register] == 0x1000 + 2 * number
    assert machine.stack_pointer in found.values
    assert found.in_call is False


def test_every_name_is_a_register() -> None:
    for layout in LAYOUTS:
        machine = machine_named(layout.machine)
        names = [name for run in layout.runs for name in run.names]
        assert all(place_of(machine, name) is not None for name in names if name != "pc")
        assert len(set(names)) == len(names)
    for number in PROCESSORS:
        assert machine_of(number, "little") is not None
    assert machine_of(4, "little") is None


def test_parts_that_are_not_there() -> None:
    machine = machine_named("x86-64")
    dump = MinidumpBuilder(machine)
    values = {"rax": 1, "rsp": 2, "rip": 3, "rbp": 4}
    control = read_context(machine, dump.context(values, parts=1))
    assert isinstance(control, Registers)
    assert (control.pc, sorted(control.values)) == (3, [7, 16, 49])
    integer = read_context(machine, dump.context(values, parts=2))
    assert integer == "its flags, 0x100002, say that it holds no program counter"
    # A writer that names no part fills in all.
    unnamed = read_context(machine, dump.context(values, parts=0))
    assert isinstance(unnamed, Registers)
    assert unnamed.values[0] == 1


def test_words_wider_than_registers() -> None:
    """MIPS extends the sign of 32 bits."""
    machine = machine_named("mips")
    found = read_context(machine, MinidumpBuilder(machine).context({"sp": (1 << 64) - 16, "pc": 0xFFFF_FFFF_8000_0001}))
    assert isinstance(found, Registers)
    assert (found.values[29], found.pc) == (0xFFFF_FFF0, 0x8000_0000)


def test_what_is_no_context(tmp_path: Path) -> None:
    machine = machine_named("aarch64")
    context = MinidumpBuilder(machine).context({"pc": 0x1000}, old=True)
    assert read_context(machine, context[:275]) == "its 275 bytes are not registers of aarch64"
    assert read_context(machine, b"") == "there is none"
    assert read_context(machine, bytes(912)) == "its 912 bytes are not registers of aarch64"
    dump = MinidumpBuilder(machine)
    dump.thread(1, context)
    dump.thread(2, bytes(912))
    # Registers at the crash that are not there are those of the thread.
    dump.exception(1, 6, 0, bytes(912))
    dump.exception(9, 6, 0, b"")
    with dump.write(tmp_path / "dump") as target:
        assert [(thread.id, thread.pc) for thread in target.threads] == [(1, 0x1000)]
        texts = " ".join(map(str, target.problems))
        assert "registers at the crash cannot be read" in texts
        assert "registers of thread 2 cannot be read" in texts
        assert "a second exception is left out" in texts
    other = MinidumpBuilder(machine)
    other.exception(9, 6, 0, b"")
    with other.write(tmp_path / "dump") as target:
        assert "the thread that crashed, 9, is not among the threads" in " ".join(map(str, target.problems))
    with pytest.raises(UsageError):
        dump.context({"rax": 1})


def test_the_mask_of_code_pointers(tmp_path: Path) -> None:
    dump = MinidumpBuilder("aarch64")
    dump.module("/bin/prog", 1 << 47, 0x1000)
    with dump.write(tmp_path / "dump") as target:
        assert target.code_mask == 0x7F << 48
    dump.maps(b"%x-%x r-xp 00000000 00:00 1 /bin/prog\n" % (1 << 51, (1 << 51) + 0x1000))
    with dump.write(tmp_path / "dump") as target:
        assert target.code_mask == 0x7 << 52
    assert pack("<Q", target.code_mask)[7] == 0
