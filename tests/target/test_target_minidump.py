from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest
from test_target_core import CODE, program

from clew.errors import FormatError, NotFoundError, UsageError
from clew.image import Image
from clew.target import open_minidump, open_target
from clew.target.minidump import MinidumpFile, StreamType
from clew.target.minidump.records import (
    CodeView,
    read_exception,
    read_memory,
    read_modules,
    read_regions,
    read_system_info,
    read_threads,
)
from clew.testing.minidump import WINDOWS, MinidumpBuilder

BASE = 0x5555_0000_0000
STACK = 0x7FFF_0000_0100
ID = b"\x11" * 20


def dump_of(path: str, *, build_id: bytes | None = ID) -> MinidumpBuilder:
    dump = MinidumpBuilder("x86-64")
    # The thread that crashed has called the handler that writes the dump.
    dump.thread(7, {"rip": BASE + 0x1999, "rsp": STACK - 0x80}, name="main", stack=(STACK, b"stack" + bytes(11)))
    dump.thread(8, {"rip": BASE + 0x1002, "rsp": 0x7FFE_0000_0100, "r15": 99})
    dump.exception(7, 11, 0xDEAD, {"rip": BASE + 0x1001, "rsp": STACK, "rbx": 5})
    dump.module(path, BASE, 0x3000, build_id=build_id)
    dump.memory(BASE + 0x2000, b"changed!")
    dump.process(7)
    return dump


def test_everything(tmp_path: Path) -> None:
    file = tmp_path / "prog"
    file.write_bytes(program())
    dump_of(str(file)).write(tmp_path / "dump").close()
    with open_target(tmp_path / "dump") as target:
        assert target.problems == []
        assert (target.kind, target.machine.name, target.code_mask) == ("minidump", "x86-64", 0)
        assert (target.process_id, target.command, target.signal, target.crashed) == (7, str(file), 11, 7)
        first, second = target.threads
        assert (first.id, first.pc, first.name, first.registers[7]) == (7, BASE + 0x1001, "main", STACK)
        assert (second.id, second.name, second.pc, second.registers[15]) == (8, None, BASE + 0x1002, 99)
        [module] = target.modules
        assert (module.name, module.start, module.end, module.bias) == (str(file), BASE, BASE + 0x3000, BASE)
        assert module.build_id == ID
        assert module.image is not None
        # The stack and what was changed are in the dump, the code is not.
        assert target.memory.read(STACK, 5) == b"stack"
        assert target.memory.read(BASE + 0x1000, 4) == CODE[:4]
        assert target.memory.read(BASE + 0x2000, 8) == b"changed!"
        assert target.memory.read(BASE + 0x2008, 1) is None
        assert target.stack_limits == {}
    assert target.memory.read(STACK, 5) is None


def test_big_endian_and_padded_lists(tmp_path: Path) -> None:
    dump = MinidumpBuilder("powerpc")
    dump.thread(1, {"pc": 0x1000, "r1": 0x2000, "lr": 0x3000, "r31": 31}, name="Θησεύς", stack=(0x2000, b"abcd"))
    dump.module("/bin/théâtre", 0x1000, 0x100, build_id=b"\x01\x02\x03\x04\x05\x06\x07\x08")
    dump.memory(0x9000, b"wide", wide=True)
    for padded in (False, True):
        data = dump.build(padded=padded)
        assert data[:4] == b"PMDM"
        (tmp_path / "dump").write_bytes(data)
        with open_target(tmp_path / "dump") as target:
            assert target.problems == []
            [thread] = target.threads
            assert (thread.name, thread.pc, thread.registers[65], thread.registers[31]) == (
                "Θησεύς",
                0x1000,
                0x3000,
                31,
            )
            assert target.modules[0].name == "/bin/théâtre"
            assert target.modules[0].build_id == bytes(range(1, 9))
            assert (target.memory.read(0x2000, 4), target.memory.read(0x9000, 4)) == (b"abcd", b"wide")
    file = MinidumpFile.from_bytes(dump.build(), lambda problem: None)
    [module] = read_modules(file)
    assert module.code_view is not None
    assert module.code_view.debug_id("big") == "010203040506070800000000000000000"


def test_records() -> None:
    dump = dump_of("/bin/prog")
    guid = bytes.fromhex("e532985a 7228 c141 838ed98914e9b7ff")
    dump.module("C:\\app.dll", 0x1000, 0x1000, guid=guid, age=26, debug_file="app.pdb")
    dump.memory(0x100, b"one", wide=True)
    dump.memory(0x200, b"two!", wide=True)
    dump.region(0x5000, 0x1000)
    dump.region(0x6000, 0x1000, allocation=0x5000)
    dump.region(0x7000, 0x1000, state=0x10000)
    file = MinidumpFile.from_bytes(dump.build(), lambda problem: pytest.fail(str(problem)))
    system, exception = read_system_info(file), read_exception(file)
    assert system is not None
    assert exception is not None
    assert (system.processor, system.platform, system.version, system.processors) == (9, 0x8201, (5, 10, 0), 1)
    assert system.service_pack == "Linux 5.10.0"
    assert (exception.thread_id, exception.code, exception.address) == (7, 11, 0xDEAD)
    assert (exception.signal(0x8201), exception.signal(2)) == (11, None)
    threads = read_threads(file)
    assert [(thread.id, thread.stack_start, thread.stack.size) for thread in threads] == [(7, STACK, 16), (8, 0, 0)]
    modules = read_modules(file)
    assert [module.name for module in modules] == ["/bin/prog", "C:\\app.dll"]
    view = modules[1].code_view
    assert view == CodeView("pdb70", guid, 26, "app.pdb")
    # The GUID's first three parts are numbers.
    assert view.debug_id() == "5A9832E5287241C1838ED98914E9B7FF1a"
    assert view.build_id is None
    assert [bytes(file.whole[each.rva : each.rva + each.size]) for each in read_memory(file)] == [
        b"changed!",
        b"one",
        b"two!",
    ]
    assert [(each.start, each.size, each.allocation_start) for each in read_regions(file)] == [
        (0x5000, 0x1000, 0x5000),
        (0x6000, 0x1000, 0x5000),
    ]
    assert CodeView("pdb20", pack("<I", 0x12345678), 1).debug_id() == "123456781"
    assert CodeView("unknown", b"").debug_id() is None


def test_stack_limits_of_linux_and_of_windows(tmp_path: Path) -> None:
    dump = dump_of("/nowhere")
    dump.maps(b"7fff00000000-7fff00002000 rw-p 00000000 00:00 0  [stack]\nnonsense\n")
    with dump.write(tmp_path / "dump") as target:
        assert target.stack_limits == {7: (0x7FFF_0000_0000, 0x7FFF_0000_2000)}
        assert [str(problem) for problem in target.problems if "maps" in str(problem)] != []
    windows = MinidumpBuilder("i386", platform=WINDOWS)
    windows.thread(1, {"eip": 0x1000, "esp": 0x7800})
    windows.exception(1, 0xC0000005, 0, b"")
    # The reserved part, the guard page, and what is in use are one allocation.
    for start, state in ((0x5000, 0x2000), (0x6000, 0x1000), (0x7000, 0x1000)):
        windows.region(start, 0x1000, allocation=0x5000, state=state)
    windows.region(0x8000, 0x1000)
    with windows.write(tmp_path / "dump") as target:
        assert target.stack_limits == {1: (0x5000, 0x8000)}
        assert (target.signal, target.crashed) == (None, 1)


def test_a_program_at_a_fixed_address(tmp_path: Path) -> None:
    file = tmp_path / "prog"
    file.write_bytes(program())
    dump = MinidumpBuilder()
    dump.module(str(file), 0, 0x3000, build_id=ID)
    dump.module("/lib/gone.so", BASE, 0x3000, build_id=ID)
    with dump.write(tmp_path / "dump") as target:
        assert [module.bias for module in target.modules] == [0, BASE]
        assert target.modules[1].image is None
        assert "its file was not found" in str(target.modules[1].trouble)
        assert [str(problem) for problem in target.problems] == ["the minidump has no thread"]


def test_a_mapping_tells_where_a_module_begins(tmp_path: Path) -> None:
    """What is lowest need not be the file's beginning."""
    file = tmp_path / "prog"
    file.write_bytes(program())
    [code] = [each for each in Image.from_bytes(program()).segments if each.flags & 1]
    page = code.offset - code.offset % 0x1000
    dump = MinidumpBuilder()
    dump.module(str(file), BASE + page, 0x1000, build_id=ID)
    dump.maps(f"{BASE + page:x}-{BASE + page + 0x1000:x} r-xp {page:08x} 00:00 1 {file}\n".encode())
    with dump.write(tmp_path / "dump") as target:
        [module] = target.modules
        assert module.image is not None
        assert module.bias == BASE + code.offset - code.address


@pytest.mark.parametrize(
    ("record", "trouble"),
    [
        ({"build_id": b"\x22" * 20}, "has build id"),
        ({"guid": b"\x22" * 16}, "has the identity 1111"),
        ({"guid": b"\x11" * 16}, None),
        ({"guid": bytes(16)}, None),
        ({}, None),
    ],
)
def test_another_file_is_not_used(tmp_path: Path, record: dict[str, bytes], trouble: str | None) -> None:
    file = tmp_path / "prog"
    file.write_bytes(program())
    dump = MinidumpBuilder()
    dump.module(str(file), BASE, 0x3000, **record)  # type: ignore[arg-type]
    with dump.write(tmp_path / "dump") as target:
        assert (target.modules[0].image is None) == (trouble is not None)
        assert trouble is None or any(trouble in str(problem) for problem in target.problems)
        # What an older record holds may be another thing than a build id.
        assert target.modules[0].build_id == record.get("build_id")
    with dump.write(tmp_path / "dump", exe=file) as target:
        assert target.modules[0].image is not None


def test_the_identity_of_a_file_without_a_build_id(tmp_path: Path) -> None:
    """Breakpad combines the code, 16 bytes at a time: here only the first four are not zero."""
    file = tmp_path / "prog"
    file.write_bytes(program(None))
    for guid, fits in ((CODE[:4] + bytes(12), True), (b"\x01" * 16, False)):
        dump = MinidumpBuilder()
        dump.module(str(file), BASE, 0x3000, guid=guid)
        with dump.write(tmp_path / "dump") as target:
            assert (target.modules[0].image is not None) == fits


def test_headers_in_the_dump(tmp_path: Path) -> None:
    dump = MinidumpBuilder()
    dump.module("linux-gate.so", BASE, 0x3000)
    dump.memory(BASE, program().ljust(0x1000, b"\0")[:0x1000])
    with dump.write(tmp_path / "dump") as target:
        assert (target.modules[0].bias, target.modules[0].build_id) == (BASE, ID)


def test_what_is_no_minidump(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    with pytest.raises(NotFoundError):
        open_target(path)
    path.write_bytes(b"MDMP")
    with pytest.raises(FormatError, match="cut short: it has 4 bytes"):
        open_target(path)
    path.write_bytes(b"ELF?" * 20)
    with pytest.raises(FormatError, match="no minidump"):
        open_minidump(path)
    data = bytearray(MinidumpBuilder().build())
    data[4] = 0
    path.write_bytes(data)
    with pytest.raises(FormatError, match="version is 0xa700, not 0xa793"):
        open_minidump(path)
    path.write_bytes(MinidumpBuilder().build(system=False))
    with pytest.raises(FormatError, match="does not say which processor"):
        open_minidump(path)
    path.write_bytes(MinidumpBuilder(processor=4).build())
    with pytest.raises(FormatError, match="not known: 0x4"):
        open_minidump(path)
    path.write_bytes(b"MDMP" + pack("<IIIIIQ", 0xA793, 3, 0x1000, 0, 0, 0))
    with pytest.raises(FormatError, match="directory of streams is not in the file"):
        open_minidump(path)
    with pytest.raises(UsageError):
        MinidumpBuilder("s390x")


def test_streams_that_nobody_knows() -> None:
    dump = MinidumpBuilder()
    dump.stream(0, b"")
    dump.stream(0x1234, b"xyz")
    dump.stream(0x1234, b"again")
    problems: list[str] = []
    file = MinidumpFile.from_bytes(dump.build(), lambda problem: problems.append(str(problem)))
    assert [stream.type for stream in file.streams] == [StreamType.SYSTEM_INFO, 0x1234, 0x1234]
    found = file.stream_data(0x1234)
    assert found is not None
    assert bytes(found) == b"xyz"
    assert file.stream_data(0x9999) is None
    assert problems == ["a second stream 0x1234 is left out"]
    file.close()
