"""Recordings of many processes and many files."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clew.cli import stack_samples
from clew.cli.stack_samples import Folded, Place
from clew.image import Image
from clew.image.elf import STT_FUNC
from clew.testing import Cfa, CfiBuilder, ElfBuilder
from clew.testing.perfdata import PerfDataBuilder
from clew.walk.model import End, Trust

Answer = Callable[..., tuple[int, str, str]]

BASE, STACK = 0x7F0000000000, 0x7FFF0000

LIMITED = """\
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (40, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
from clew.cli import main
sys.exit(main(sys.argv[1:]))
"""


def outermost(path: Path) -> tuple[int, int]:
    """Writes a library whose only function, at 0x1000, is an outermost frame; where its code is linked and in the file."""
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(instructions=[Cfa.def_cfa(7, 8), Cfa.undefined(16)])
    cfi.fde(cie, start=0x1000, size=0x20, instructions=[])
    cfi.terminator()
    elf = ElfBuilder()
    elf.section(".text", bytes(0x100), address=0x1000, executable=True)
    elf.section(".eh_frame", cfi.build(), address=0x2000)
    elf.symbol("outermost", 0x1000, size=0x20, section=".text", type=STT_FUNC)
    path.write_bytes(elf.build())
    with Image.open(path) as image:
        [segment] = [each for each in image.segments if each.type == 1 and each.flags & 1]
        return segment.address, segment.offset


def recording() -> PerfDataBuilder:
    data = PerfDataBuilder("x86-64")
    data.event(registers=("rsp", "rip"), stack=True)
    return data


def test_more_files_than_may_be_open(tmp_path: Path) -> None:
    data = recording()
    for number in range(60):
        file = tmp_path / f"{number}.so"
        address, offset = outermost(file)
        at = BASE + number * 0x100000
        data.mapped2(7, str(file), at + address, 0x1000, offset)
        data.sample(pid=7, registers={"rip": at + 0x1004, "rsp": STACK}, stack=bytes(16))
    path = tmp_path / "perf.data"
    path.write_bytes(data.build())
    command = [sys.executable, "-c", LIMITED, "stack", "--json", str(path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout)["summary"]["ends"] == {"entry": 60}, done.stderr


def test_processes_that_nothing_is_known_of_are_not_taken_for_others(tmp_path: Path, answer: Answer) -> None:
    file = tmp_path / "it.so"
    address, offset = outermost(file)
    data = recording()
    # As many as are read at once, and more: their numbers are all that there is to know.
    for number in range(5000):
        data.sample(pid=100 + number, registers={"rip": 0x100, "rsp": STACK}, stack=bytes(16))
    for pid in range(7, 57):
        data.mapped2(pid, str(file), BASE + address, 0x1000, offset)
        data.sample(pid=pid, registers={"rip": BASE + 0x1004, "rsp": STACK}, stack=bytes(16))
    path = tmp_path / "perf.data"
    path.write_bytes(data.build())
    assert json.loads(answer("doctor", str(path), "--json")[1])["stacks"] == {"no_module": 5000, "entry": 50}


def test_advice_for_recordings_is_not_that_for_cores(tmp_path: Path, answer: Answer) -> None:
    data = recording()
    data.sample(pid=7, registers={"rip": 0x100, "rsp": STACK}, stack=bytes(16))
    path = tmp_path / "perf.data"
    path.write_bytes(data.build())
    [finding] = json.loads(answer("doctor", str(path), "--json")[1])["findings"]
    assert finding["kind"] == "no_module"
    assert "--exe" not in finding["advice"]


def test_places_of_stacks_that_were_put_aside_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_samples, "_MOST_STACKS", 8)
    folded = Folded()
    folded.count((folded.place(Place("often", "it.so", None, None, Trust.CFI)),), End.ENTRY, 5)
    for address in range(1000):
        often = folded.place(Place("often", "it.so", None, None, Trust.CFI))
        folded.count((folded.place(Place(None, None, address, None, Trust.CFI)), often), End.NO_MODULE, 1)
    assert len(folded.places) < 30
    assert folded.different == 1001
    often = folded.place(Place("often", "it.so", None, None, Trust.CFI))
    folded.count((often,), End.ENTRY, 1)
    [((numbers, end), count)] = folded.counts.most_common(1)
    assert ([folded.places[number].function for number in numbers], end, count) == (["often"], End.ENTRY, 6)


def test_a_file_that_is_nowhere_is_one_module_of_all_processes(tmp_path: Path, answer: Answer) -> None:
    data = recording()
    for pid in range(1, 5):
        data.mapped2(pid, "/gone/it.so", BASE * pid // 4, 0x1000)
        data.sample(pid=pid, registers={"rip": BASE * pid // 4 + 4, "rsp": STACK}, stack=bytes(16))
    path = tmp_path / "perf.data"
    path.write_bytes(data.build())
    found = json.loads(answer("doctor", str(path), "--json")[1])
    assert [(each["module"], each["frames"]) for each in found["modules"]] == [("/gone/it.so", 4)]
    assert [(each["kind"], each["stacks"]) for each in found["findings"]] == [("missing_file", 4)]
