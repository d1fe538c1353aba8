"""``clew stack`` and ``clew doctor`` of recordings, cores and minidumps, which are made here."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clew.image.elf import STT_FUNC
from clew.testing import Cfa, CfiBuilder, ElfBuilder
from clew.testing.core import CoreBuilder
from clew.testing.minidump import MinidumpBuilder
from clew.testing.perfdata import PerfDataBuilder

Answer = Callable[..., tuple[int, str, str]]

BASE = 0x7F0000000000
STACK = 0x7FFF0000


def library() -> bytes:
    """``leaf``, which _ZN1a1bEv calls at 0x102f, which is the outermost frame."""
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(instructions=[Cfa.def_cfa(7, 8), Cfa.offset(16, 1)])
    cfi.fde(cie, start=0x1000, size=0x20, instructions=[])
    cfi.fde(cie, start=0x1020, size=0x20, instructions=[Cfa.undefined(16)])
    cfi.terminator()
    elf = ElfBuilder()
    elf.section(".text", bytes(0x100), address=0x1000, executable=True)
    elf.section(".eh_frame", cfi.build(), address=0x2000)
    elf.symbol("leaf", 0x1000, size=0x20, section=".text", type=STT_FUNC)
    elf.symbol("_ZN1a1bEv", 0x1020, size=0x20, section=".text", type=STT_FUNC)
    return elf.build()


CALLER = (BASE + 0x1030).to_bytes(8, "little")


@pytest.fixture
def recording(tmp_path: Path) -> str:
    """Six samples of two threads: three whole stacks, one cut, one nowhere, one outside of programs; nine lost."""
    file = tmp_path / "it.so"
    file.write_bytes(library())
    from clew.image import Image

    with Image.open(file) as image:
        [segment] = [each for each in image.segments if each.type == 1 and each.flags & 1]
    data = PerfDataBuilder("x86-64")
    data.command("perf", "record", "work")
    data.event(registers=("rsp", "rip"), stack=True)
    data.named(7, "work")
    data.mapped2(7, str(file), BASE + segment.address, 0x1000, segment.offset)
    for place, tid in ((0x1004, 7), (0x1008, 8), (0x1004, 7)):
        data.sample(pid=7, tid=tid, registers={"rip": BASE + place, "rsp": STACK}, stack=CALLER + bytes(8))
    data.sample(pid=7, registers={"rip": BASE + 0x1010, "rsp": STACK}, stack=bytes(0))
    data.sample(pid=7, registers={"rip": 0x100, "rsp": STACK}, stack=bytes(16))
    data.sample(pid=0, misc=1, ip=0xFFFFFFFF81000000)
    data.lost(9)
    path = tmp_path / "perf.data"
    path.write_bytes(data.build())
    return str(path)


def test_equal_stacks_are_counted(recording: str, answer: Answer) -> None:
    code, out, error = answer("stack", recording)
    assert (code, error) == (1, "")
    blocks = out.split("\n\n")
    assert blocks[0] == f"recording {recording}  x86-64  perf record work"
    # Samples at two places of one function are one stack.
    assert blocks[1] == "3  60.00 %\n#0  leaf    it.so\n#1  a::b()  it.so\nend: entry"
    assert blocks[2] == "1  20.00 %\n#0  leaf  it.so\nend: stack_copy_end"
    assert blocks[3] == "1  20.00 %\n#0  (no module)  0x100\nend: no_module"
    assert [line.split()[:3] for line in blocks[4].splitlines()] == [
        ["samples", "6"],
        ["complete", "60.00", "%"],
        ["outside", "1", "not"],
        ["lost", "9", "as"],
        ["entry", "3", "60.00"],
        ["stack_copy_end", "1", "20.00"],
        ["no_module", "1", "20.00"],
    ]


def test_a_limit_says_how_many_more_there_are(recording: str, answer: Answer) -> None:
    _, out, _ = answer("stack", recording, "--limit", "1")
    assert "\n\nand 2 more different stacks\n\n" in out
    assert out.count("end: ") == 1


def test_the_json_contract_of_recordings(recording: str, answer: Answer) -> None:
    code, out, error = answer("stack", recording, "--json", "--raw-names")
    assert (code, error) == (1, "")
    found = json.loads(out)
    assert found["target"] == {"kind": "sample", "machine": "x86-64", "file": recording, "command": "perf record work"}
    assert found["summary"] == {
        "samples": 6,
        "complete": 3,
        "lost": 9,
        "outside": 1,
        "ends": {"entry": 3, "stack_copy_end": 1, "no_module": 1},
        "different_stacks": 3,
    }
    stack = found["stacks"][0]
    assert (stack["count"], stack["end"]) == (3, "entry")
    assert [(frame["function"], frame["trust"]) for frame in stack["frames"]] == [
        ("leaf", "context"),
        ("_ZN1a1bEv", "cfi"),
    ]
    assert found["stacks"][2]["frames"] == [{"trust": "context", "inlined": False, "pc": "0x100"}]


def test_without_names_addresses_tell_stacks_apart(recording: str, answer: Answer) -> None:
    found = json.loads(answer("stack", recording, "--json", "--no-names")[1])
    assert [stack["count"] for stack in found["stacks"]] == [2, 1, 1, 1]
    assert [frame["module_offset"] for frame in found["stacks"][0]["frames"]] == ["0x1004", "0x1030"]


def test_threads_of_a_recording(recording: str, answer: Answer) -> None:
    code, out, _ = answer("stack", recording, "--thread", "8", "--json")
    assert (code, json.loads(out)["summary"]["samples"]) == (0, 1)
    code, out, error = answer("stack", recording, "--thread", "9")
    assert (code, out) == (3, "")
    assert "no sample of thread 9" in error


def test_what_recordings_do_not_have(recording: str, answer: Answer) -> None:
    for option in ("--why", "--registers"):
        code, out, error = answer("stack", recording, option)
        assert (code, out) == (2, "")
        assert "--why and --registers are for processes" in error


@pytest.mark.parametrize("name", ["stack", "doctor"])
def test_a_recording_that_is_cut(name: str, recording: str, answer: Answer) -> None:
    data = Path(recording).read_bytes()
    for size in (8, 20, 100, len(data) // 2, len(data) - 1):
        Path(recording).write_bytes(data[:size])
        code, _, error = answer(name, recording)
        assert code in (1, 3)
        assert error


def test_the_doctor_of_a_recording(recording: str, answer: Answer) -> None:
    code, out, error = answer("doctor", recording, "--json")
    assert (code, error) == (1, "")
    found = json.loads(out)
    assert found["target"] == {"kind": "sample", "machine": "x86-64", "file": recording, "command": "perf record work"}
    assert found["stacks"] == {"entry": 3, "stack_copy_end": 1, "no_module": 1}
    assert [(each["kind"], each["stacks"], each["threads"]) for each in found["findings"]] == [
        ("stack_copy_end", 1, [7]),
        ("no_module", 1, [7]),
    ]
    assert "--call-graph dwarf" in found["findings"][0]["advice"]
    [module] = found["modules"]
    assert (module["frames"], module["table"]["fdes"]) == (7, 2)
    plain, out, _ = answer("doctor", recording)
    assert plain == 1
    assert out.startswith(f"recording {recording}  x86-64  perf record work\n\n5 stacks\n")


def test_a_recording_of_perf_itself(tmp_path: Path, answer: Answer) -> None:
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed")
    path = tmp_path / "perf.data"
    work = "sorted(str(i) for i in range(200000))"
    command = ["perf", "record", "-q", "-F", "199", "--call-graph", "dwarf,32768", "-o", path]
    done = subprocess.run([*command, sys.executable, "-c", work], check=False, capture_output=True, timeout=120)
    if done.returncode or not path.exists():
        pytest.skip("perf cannot record here")
    found = json.loads(answer("stack", str(path), "--json")[1])
    ends = found["summary"]["ends"]
    if not ends:
        pytest.skip("perf took no sample of the program")
    assert sum(ends.values()) + found["summary"]["outside"] == found["summary"]["samples"]
    assert ends.get("entry", 0) + ends.get("stack_copy_end", 0) >= 0.9 * sum(ends.values())


def test_a_minidump(tmp_path: Path, answer: Answer) -> None:
    path = tmp_path / "it.dmp"
    dump = MinidumpBuilder("x86-64")
    dump.thread(42, {"rip": 0x1004, "rsp": STACK}, name="main", stack=(STACK, bytes(64)))
    dump.write(path).close()
    code, out, _ = answer("stack", str(path))
    assert code == 1
    assert out.startswith(f"minidump {path}  x86-64")
    assert re.search(r'\nTID 42 "main":\n#0  0x0000000000001004 \(no module\)\nend: no_module, ', out)
    code, out, _ = answer("doctor", str(path), "--json")
    assert code == 1
    assert json.loads(out)["findings"][0]["kind"] == "no_module"


def test_the_signal_and_the_command_of_a_core(tmp_path: Path, answer: Answer) -> None:
    path = tmp_path / "it.core"
    core = CoreBuilder("x86-64")
    core.thread(42, {"rip": 0x1004, "rsp": STACK}, signal=11)
    core.process(42, "it", "it --now\x1b[2J")
    core.memory(STACK, bytes(64))
    core.write(path).close()
    code, out, _ = answer("stack", str(path))
    assert code == 1
    # Control characters of a file are not for the terminal.
    assert out.splitlines()[0] == f"core {path}  x86-64  process 42, it --now\\x1b[2J, SIGSEGV (11)"
    found = json.loads(answer("stack", str(path), "--json")[1])
    assert (found["target"]["signal"], found["target"]["process_id"]) == (11, 42)
    assert found["target"]["command"].startswith("it --now")
    # The program jumped to where nothing is.
    finding = json.loads(answer("doctor", str(path), "--json")[1])["findings"][0]
    assert (finding["kind"], finding["address"]) == ("no_module", "0x1004")
    assert "--exe" in finding["advice"]


def test_a_core_without_threads(tmp_path: Path, answer: Answer) -> None:
    path = tmp_path / "it.core"
    core = CoreBuilder("x86-64")
    core.process(42, "it")
    core.write(path).close()
    for name in ("stack", "doctor"):
        code, out, error = answer(name, str(path))
        assert (code, out) == (3, "")
        assert f"{path}: no thread of it is known" in error


def test_a_recording_without_stacks_says_so(tmp_path: Path, answer: Answer) -> None:
    data = PerfDataBuilder("x86-64")
    data.event("cycles", type=1 << 0 | 1 << 1 | 1 << 2)
    data.named(10, "it")
    data.sample(pid=10, time=5, ip=BASE)
    path = tmp_path / "perf.data"
    path.write_bytes(data.build())
    for name in ("stack", "doctor"):
        code, _, error = answer(name, str(path))
        assert code == 1
        assert "perf record --call-graph dwarf" in error
