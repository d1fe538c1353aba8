from __future__ import annotations

from pathlib import Path
from struct import pack, unpack_from

import pytest

from clew.arch import machine_named
from clew.errors import Error, FormatError, NotFoundError
from clew.image.elf import PF_R, PF_W, PF_X
from clew.target import open_core, open_target
from clew.testing import ElfBuilder
from clew.testing.core import CoreBuilder

CODE = b"\x55\x48\x89\xe5" + bytes(60)
DATA = b"data" + bytes(28)


def program(build_id: bytes | None = b"\x11" * 20, *, code: bytes = CODE) -> bytes:
    """Headers and notes in the first page, code in the second, data in the third."""
    elf = ElfBuilder(entry=0x1000)
    head = ".note.gnu.build-id" if build_id is not None else ".head"
    if build_id is not None:
        elf.build_id(build_id, address=0x200)
    else:
        elf.section(head, bytes(32), address=0x200)
    elf.section(".text", code, address=0x1000, executable=True)
    elf.section(".data", DATA, address=0x2000, flags=3)
    elf.segment(1, [head], flags=PF_R)
    elf.segment(4 if build_id is not None else 0, [head])
    elf.segment(1, [".text"], flags=PF_R | PF_X)
    elf.segment(1, [".data"], flags=PF_R | PF_W)
    return flat(elf.build())


def flat(data: bytes) -> bytes:
    """The first segment as linkers make it: from the file's first byte on."""
    offset, address, _, size = unpack_from("<4Q", data, 64 + 8)
    return data[:72] + pack("<5Q", 0, address - offset, 0, size + offset, size + offset) + data[112:]


BASE = 0x5555_0000_0000


def core_of(file: bytes, path: str, *, whole: bool = False) -> CoreBuilder:
    core = CoreBuilder("x86-64")
    core.thread(7, {"rip": BASE + 0x1001, "rsp": 0x7FFF_0000_0100, "orig_rax": (1 << 64) - 1}, signal=11)
    core.process(7, "prog", "prog --flag")
    core.thread(8, {"rip": BASE + 0x1002, "rsp": 0x7FFE_0000_0100, "orig_rax": 202, "r15": 99})
    core.load(file, BASE, path=path, whole=whole)
    core.memory(0x7FFE_0000_0000, bytes(0x1000))
    core.memory(0x7FFF_0000_0000, bytes(0x2000))
    core.auxv({9: BASE + 0x1000})
    return core


def test_everything(tmp_path: Path) -> None:
    file = tmp_path / "prog"
    file.write_bytes(program())
    with core_of(program(), str(file)).write(tmp_path / "core") as target:
        assert target.problems == []
        assert (target.kind, target.machine.name, target.code_mask) == ("core", "x86-64", 0)
        assert (target.process_id, target.command, target.signal) == (7, "prog --flag", 11)
        first, second = target.threads
        assert (first.id, first.pc, first.name, first.interrupted_call) == (7, BASE + 0x1001, "prog", False)
        assert (second.id, second.name, second.interrupted_call) == (8, None, True)
        assert (second.registers[15], second.registers[7], second.registers[16]) == (99, 0x7FFE_0000_0100, second.pc)
        assert target.stack_limits == {
            7: (0x7FFF_0000_0000, 0x7FFF_0000_2000),
            8: (0x7FFE_0000_0000, 0x7FFE_0000_1000),
        }
        [module] = target.modules
        assert (module.name, module.start, module.end, module.bias) == (str(file), BASE, BASE + 0x3000, BASE)
        assert module.build_id == b"\x11" * 20
        assert target.modules.at(first.pc) is module
        # The code is not in the core, the data is.
        assert target.memory.read(BASE + 0x1000, 4) == CODE[:4]
        assert target.memory.read(BASE + 0x2000, 4) == b"data"
        assert target.memory.read(BASE + 0x3000, 1) is None
    assert target.memory.read(BASE + 0x2000, 4) is None
    target.close()


def test_a_file_does_not_stand_in_for_what_may_have_changed(tmp_path: Path) -> None:
    file = tmp_path / "prog"
    file.write_bytes(program())
    core = CoreBuilder()
    core.thread(1, {"rip": BASE + 0x1000})
    core.auxv({9: BASE + 0x1000})
    core.load(program(), BASE, path=str(file))
    core._segments = [each if each[0] != BASE + 0x2000 else (each[0], each[1], b"", each[3]) for each in core._segments]
    with core.write(tmp_path / "core") as target:
        assert target.memory.read(BASE + 0x1000, 4) == CODE[:4]
        assert target.memory.read(BASE + 0x2000, 4) is None


def test_a_file_of_another_build_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "prog"
    file.write_bytes(program(b"\x22" * 20, code=b"\x90" * 64))
    with core_of(program(), str(file)).write(tmp_path / "core") as target:
        [module] = target.modules
        assert module.image is None
        assert isinstance(module.trouble, NotFoundError)
        assert str(file) in str(module.trouble.hint)
        [problem] = target.problems
        assert "22" * 20 in problem.message
        assert "11" * 20 in problem.message
        assert target.memory.read(BASE + 0x1000, 4) is None


def test_a_file_of_another_build_is_used_when_it_is_named(tmp_path: Path) -> None:
    file = tmp_path / "other"
    file.write_bytes(program(b"\x22" * 20))
    with core_of(program(), "/nowhere/prog").write(tmp_path / "core", exe=file) as target:
        assert target.modules[0].image is not None
        assert "used nevertheless" in target.problems[0].message


def test_the_right_file_among_several(tmp_path: Path) -> None:
    wrong, right = tmp_path / "root/usr/prog", tmp_path / "debug/prog"
    for file, build_id in ((wrong, b"\x22" * 20), (right, b"\x11" * 20)):
        file.parent.mkdir(parents=True)
        file.write_bytes(program(build_id))
    core = core_of(program(), "/usr/prog")
    with core.write(tmp_path / "core", sysroot=tmp_path / "root", debug_dirs=[tmp_path / "debug"]) as target:
        image = target.modules[0].image
        assert image is not None
        assert image.name == str(right)
        assert target.problems == []


def test_a_file_by_build_id(tmp_path: Path) -> None:
    file = tmp_path / ".build-id/11" / ("11" * 19)
    file.parent.mkdir(parents=True)
    file.write_bytes(program())
    with core_of(program(), "/usr/prog (deleted)").write(tmp_path / "core", debug_dirs=[tmp_path]) as target:
        assert target.modules[0].image is not None


def test_a_removed_file_without_build_id_is_not_guessed(tmp_path: Path) -> None:
    file = tmp_path / "prog"
    file.write_bytes(program(None))
    with core_of(program(None), f"{file} (deleted)").write(tmp_path / "core") as target:
        assert target.modules.at(BASE + 0x1000) is not None
        assert target.modules[0].image is None


@pytest.mark.parametrize("machine", ["aarch64", "i386"])
def test_a_file_for_another_machine_is_refused(tmp_path: Path, machine: str) -> None:
    file = tmp_path / "prog"
    file.write_bytes(ElfBuilder(machine=machine_named(machine).elf_machines[0]).build())
    with core_of(program(), str(file)).write(tmp_path / "core") as target:
        assert target.modules[0].image is None


@pytest.mark.parametrize(
    "path", ["/proc/kcore", "/dev/zero", "/proc/self/mem", "//proc/./self/mem", "/sys/kernel/btf/x"]
)
def test_names_that_are_no_files_are_not_opened(tmp_path: Path, path: str) -> None:
    with core_of(program(), path).write(tmp_path / "core") as target:
        for module in target.modules:
            assert module.image is None
            assert "tried" not in str(module.trouble.hint if module.trouble else "")


def test_authentication_mask(tmp_path: Path) -> None:
    core = CoreBuilder("aarch64")
    core.thread(1, {"pc": 0x1000, "sp": 0x2000, "x30": 5})
    core.memory(0x2000, bytes(8))
    with core.write(tmp_path / "core") as target:
        # 48 bits of address; bit 55 tells which half.
        assert target.code_mask == 0x007F_0000_0000_0000
    core.memory(0xF_0000_0000_0000, bytes(8))
    with core.write(tmp_path / "core") as target:
        assert target.code_mask == 0x0070_0000_0000_0000
    core.note(b"LINUX", 0x406, pack("<QQ", 0xFF00_0000_0000_0000, 0x007F_FF80_0000_0000))
    core.note(b"LINUX", 0x404, pack("<i", 98))
    core.note(b"LINUX", 0x405, pack("<IIHHHH", 16, 16, 32, 32, 0, 0))
    with core.write(tmp_path / "core") as target:
        assert target.code_mask == 0x007F_FF80_0000_0000
        [thread] = target.threads
        assert thread.interrupted_call
        assert thread.registers[46] == 4  # vectors of 32 bytes
        assert (thread.registers[30], thread.registers[31]) == (5, 0x2000)


@pytest.mark.parametrize("name", ["i386", "arm", "powerpc64", "s390x", "riscv64", "powerpc", "x32", "loongarch64"])
def test_other_machines(tmp_path: Path, name: str) -> None:
    core = CoreBuilder(name)
    machine = core.machine
    core.thread(3, {machine.register_name(machine.stack_pointer): 0x8010})
    core.process(3, "name", "a b")
    core.memory(0x8000, b"\x01\x02" + bytes(0xFFE))
    with core.write(tmp_path / "core") as target:
        assert target.machine == machine
        assert target.problems == []
        assert target.threads[0].registers[machine.stack_pointer] == 0x8010
        assert target.stack_limits == {3: (0x8000, 0x9000)}
        assert (target.process_id, target.command) == (3, "a b")
        assert target.memory.read(0x8000, 3) == b"\x01\x02\x00"


def test_memory_across_segments(tmp_path: Path) -> None:
    core = CoreBuilder()
    core.memory(0x1000, b"a" * 0x1000)
    core.memory(0x2000, b"b" * 0x1000)
    core.memory(0x3000, b"", size=0x1000)
    core.memory(0x4000, b"c" * 0x1000)
    with core.write(tmp_path / "core") as target:
        read = target.memory.read
        assert read(0x1FFE, 4) == b"aabb"
        assert read(0x2FFE, 4) is None
        assert read(0x3FFE, 4) is None
        assert (read(0x3FFE, 0), read(0x3FFE, -1), read(-8, 8), read(1 << 64, 8)) == (b"", None, None, None)
        assert read(0x1000, 1 << 40) is None
        assert [problem.message for problem in target.problems] == ["the core has no thread"]


def test_overlapping_and_absurd_segments(tmp_path: Path) -> None:
    core = CoreBuilder()
    core.thread(1, {})
    core.memory(0x1000, b"a" * 0x1000, size=1 << 63)
    core.memory(0x1800, b"b" * 0x1000)
    core.memory(0x1900, b"c" * 0x100)
    core.memory((1 << 64) - 8, b"d" * 16)
    with core.write(tmp_path / "core") as target:
        assert target.memory.read(0x1000, 0x1800) == b"a" * 0x1000 + b"b" * 0x800
        assert target.memory.read((1 << 64) - 8, 8) == b"d" * 8
        assert target.memory.read((1 << 64) - 8, 9) is None
        messages = " ".join(problem.message for problem in target.problems)
        assert "2 segments overlap" in messages
        assert "beyond the address space" in messages


def test_without_file_list_or_headers_the_program_leads_to_the_modules(tmp_path: Path) -> None:
    file = tmp_path / "prog"
    file.write_bytes(program())
    core = CoreBuilder()
    core.thread(1, {"rip": BASE + 0x1000})
    core.load(program(), BASE, first_page=False)
    core.auxv({9: BASE + 0x1000, 5: 4})
    with core.write(tmp_path / "core", exe=file) as target:
        [module] = target.modules
        assert (module.start, module.end, module.bias) == (BASE, BASE + 0x3000, BASE)
        assert module.image is not None
        assert target.memory.read(BASE + 0x1000, 4) == CODE[:4]
    with core.write(tmp_path / "core") as target:
        assert len(target.modules) == 0
        assert "--exe" in target.problems[0].message
    core.auxv({5: 12})
    with core.write(tmp_path / "core", exe=file) as target:
        assert "does not fit" in target.problems[0].message


def test_not_a_core(tmp_path: Path) -> None:
    for data, word in ((program(), "not a core"), (b"MDMP" + bytes(60), "minidump"), (b"text", "not an ELF file")):
        (tmp_path / "file").write_bytes(data)
        with pytest.raises(FormatError, match=word):
            open_core(tmp_path / "file")
    with pytest.raises(NotFoundError):
        open_target(tmp_path / "nothing")


def test_every_cut_is_an_error_or_told(tmp_path: Path) -> None:
    file = tmp_path / "prog"
    file.write_bytes(program())
    data = core_of(program(), str(file)).build()
    path = tmp_path / "core"
    for size in [*range(0, 0x800, 37), *range(0x800, len(data) - 1, 991), len(data) - 1]:
        path.write_bytes(data[:size])
        try:
            target = open_core(path)
        except Error:
            assert size < 0x200
            continue
        with target:
            assert target.problems, size
            for thread in target.threads:
                target.modules.at(thread.pc)
                target.memory.read(thread.registers[7], 8)
