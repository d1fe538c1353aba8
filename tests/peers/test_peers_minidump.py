"""What clew reads of minidumps, against what minidump_stackwalk of Breakpad and of Rust printed of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.errors import Error, Problem
from clew.target import Target, Thread, open_minidump, open_target
from clew.target.minidump import MinidumpFile
from clew.target.minidump.records import read_modules, read_system_info
from clew.walk import Walker

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
DUMPS = CORPUS / "breakpad"
GOLDEN = CORPUS / "breakpad-golden"
RUST = CORPUS / "rust-minidump"

pytestmark = pytest.mark.skipif(not DUMPS.is_dir(), reason=f"the conformance corpus is not at {CORPUS}")

NAMES = sorted(path.stem for path in DUMPS.glob("*.dmp") if not path.stem.startswith("microdump"))
SNAPSHOTS = {
    "test": "json-pretty",
    "linux-mini": "linux_json_pretty",
    "pipeline-inlines-macos-segv": "macos_inlines_json_pretty",
}
REGISTERS = {"efl": "eflags"}


def stacks(text: str) -> Iterator[tuple[int, bool, dict[str, int]]]:
    """Number, whether it crashed, and the registers of the first frame, of each thread that Breakpad printed."""
    for part in re.split(r"^Thread ", text, flags=re.M)[1:]:
        head, _, rest = part.partition("\n")
        number, _, crashed = head.partition(" ")
        first = rest.split("Found by:", 1)[0]
        values = {name: int(value, 16) for name, value in re.findall(r"(\w+) = 0x([0-9a-f]+)", first)}
        yield int(number), crashed == "(crashed)", {REGISTERS.get(name, name): value for name, value in values.items()}


def modules_of(path: Path) -> set[tuple[str, str | None, int, int]]:
    """Name, debug identifier, first and last address of each module."""
    file = MinidumpFile.open(path, lambda problem: None)
    found = set()
    for module in read_modules(file):
        name = re.split(r"[/\\]", module.name)[-1]
        identifier = module.code_view.debug_id(file.byte_order) if module.code_view is not None else None
        found.add((name, identifier, module.base, module.base + module.size - 1))
    file.close()
    return found


def values_of(target: Target, thread: Thread) -> dict[str, int]:
    return {target.machine.register_name(number): value for number, value in thread.registers.items()}


@pytest.mark.parametrize("name", NAMES)
def test_threads_of_breakpad(name: str) -> None:
    text = (GOLDEN / f"{name}.txt").read_text(errors="replace")
    with open_minidump(DUMPS / f"{name}.dmp") as target:
        printed = list(stacks(text))
        assert printed
        for number, crashed, registers in printed:
            thread = target.threads[number]
            assert crashed == (thread.id == target.crashed)
            ours = values_of(target, thread)
            assert {name: ours.get(name) for name in registers} == registers
            assert thread.pc == registers.get("rip", registers.get("eip", thread.pc))


@pytest.mark.parametrize("name", NAMES)
def test_modules_of_breakpad(name: str) -> None:
    theirs = set()
    for line in (GOLDEN / f"{name}.machine.txt").read_text(errors="replace").splitlines():
        fields = line.split("|")
        if fields[0] == "Module":
            theirs.add((fields[1], fields[4] or None, int(fields[5], 16), int(fields[6], 16)))
    assert theirs
    assert modules_of(DUMPS / f"{name}.dmp") == theirs
    with open_target(DUMPS / f"{name}.dmp") as target:
        assert target.kind == "minidump"
        assert {(module.start, module.end - 1) for module in target.modules} == {each[2:] for each in theirs}


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_what_rust_prints(name: str) -> None:
    snapshot = (RUST / "snapshots" / f"test_minidump_stackwalk__{SNAPSHOTS[name]}.snap").read_text()
    theirs: dict[str, Any] = json.loads(snapshot.split("---\n", 2)[2])
    path = RUST / f"{name}.dmp"
    with open_minidump(path) as target:
        assert len(target.threads) == theirs["thread_count"]
        assert [thread.id for thread in target.threads] == [each["thread_id"] for each in theirs["threads"]]
        assert [thread.name for thread in target.threads] == [each["thread_name"] for each in theirs["threads"]]
        crashed = target.threads[theirs["crash_info"]["crashing_thread"]]
        assert crashed.id == target.crashed
        registers = {key: int(each, 16) for key, each in theirs["crashing_thread"]["frames"][0]["registers"].items()}
        ours = values_of(target, crashed)
        assert {key: ours.get(key) for key in registers} == registers
        assert target.process_id == theirs["pid"]
        for thread, each in zip(target.threads, theirs["threads"], strict=True):
            if each["frames"]:
                assert thread.pc == int(each["frames"][0]["offset"], 16)
        identities = [each["code_id"] for each in theirs["modules"]]
        if name.startswith("linux"):
            known = {module.build_id.hex() for module in target.modules if module.build_id is not None}
            assert known == {identity for identity in identities if identity}
    expected = {
        (each["filename"], each["debug_id"], int(each["base_addr"], 16), int(each["end_addr"], 16) - 1)
        for each in theirs["modules"]
    }
    assert {(file, identifier, start, end) for file, identifier, start, end in modules_of(path)} == expected


@pytest.mark.parametrize("name", NAMES)
def test_walks_end_with_a_reason(name: str) -> None:
    """Of a Windows or old Linux system the files are not here: a first frame, and why there is not more."""
    with open_minidump(DUMPS / f"{name}.dmp") as target:
        walker = Walker(target)
        for thread in target.threads:
            stack = walker.walk(thread)
            assert stack.frames[0].pc.address == thread.pc
            assert stack.detail


@pytest.mark.parametrize("name", ["invalid-range", "invalid-record-count"])
def test_malformed_dumps(name: str) -> None:
    with pytest.raises(Error, match="does not say which processor"):
        open_minidump(RUST / f"{name}.dmp")


def test_what_breakpad_says_of_the_system() -> None:
    problems: list[Problem] = []
    file = MinidumpFile.open(DUMPS / "linux_overflow.dmp", problems.append)
    system = read_system_info(file)
    assert system is not None
    assert (system.processor, system.platform, system.processors, system.level) == (9, 0x8201, 1, 6)
    assert system.service_pack is not None
    assert f"0.0.0 {system.service_pack}\n" in (GOLDEN / "linux_overflow.txt").read_text()
