"""A live process, written to a minidump: the dump's stacks are the process's."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
from live_processes import Start

from clew.memory import process_mappings
from clew.target import open_process, open_target
from clew.target.minidump.contexts import PROCESSORS
from clew.testing.minidump import MinidumpBuilder
from clew.walk import Walker

pytestmark = pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="no context for this machine")


def test_the_walk_is_that_of_the_process(start: Start, tmp_path: Path) -> None:
    process = start("threads")
    with open_process(process.pid) as live:
        assert live.machine.name in PROCESSORS.values()
        dump = MinidumpBuilder(live.machine)
        expected = {}
        walker = Walker(live)
        for thread in live.threads:
            values = {live.machine.register_name(number): value for number, value in thread.registers.items()}
            context = dump.context({**{n: v for n, v in values.items() if _general(n)}, "pc": thread.pc})
            pointer = thread.registers[live.machine.stack_pointer]
            end = live.stack_limits[thread.id][1]
            size = min(end - pointer, 1 << 16)
            dump.thread(thread.id, context, name=thread.name, stack=(pointer, live.memory.read(pointer, size) or b""))
            expected[thread.id] = walker.walk(thread)
        for module in live.modules:
            dump.module(module.name, module.start, module.end - module.start, build_id=module.build_id)
            if module.name == "[vdso]":
                dump.memory(module.start, live.memory.read(module.start, module.end - module.start) or b"")
        dump.maps(Path(f"/proc/{process.pid}/maps").read_bytes())
        assert process_mappings(process.pid)
        dump.process(process.pid)
    (tmp_path / "dump").write_bytes(dump.build())
    with open_target(tmp_path / "dump") as target:
        assert [problem for problem in target.problems if problem.lost] == []
        assert target.process_id == process.pid
        walker = Walker(target)
        assert {thread.id for thread in target.threads} == expected.keys()
        for thread in target.threads:
            stack, other = walker.walk(thread), expected[thread.id]
            assert [(frame.pc, frame.trust) for frame in stack.frames] == [
                (frame.pc, frame.trust) for frame in other.frames
            ]
            assert stack.end is other.end
            assert len(stack.frames) >= 2
            for frame, theirs in zip(stack.frames, other.frames, strict=True):
                assert frame.cfa == theirs.cfa
                assert (frame.module is None) == (theirs.module is None)
                if frame.module is not None and theirs.module is not None:
                    assert (frame.module.name, frame.module.bias) == (theirs.module.name, theirs.module.bias)


def _general(name: str) -> bool:
    return (name[0] in "rx" and name not in ("rip", "rflags")) or name == "sp"
