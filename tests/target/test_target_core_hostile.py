"""Cores that are damaged in any way: an Error, or a target with its problems; never anything else."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from struct import pack

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_target_core import BASE, core_of, program

from clew.errors import Error
from clew.target import open_core
from clew.target.core_notes import NT_AUXV, NT_FILE, NT_PRPSINFO, NT_PRSTATUS, NT_SIGINFO
from clew.testing.core import CoreBuilder


@lru_cache
def example() -> bytes:
    return core_of(program(), "/nowhere/prog").build()


def use(path: Path) -> None:
    try:
        target = open_core(path, debug_dirs=[path.parent / "debug"])
    except Error:
        return
    with target:
        for thread in target.threads:
            module = target.modules.at(thread.pc)
            target.memory.read(thread.pc, 16)
            if module is not None:
                assert module.start <= thread.pc < module.end
                assert module.image is not None or module.trouble is not None
        for module in target.modules:
            assert module.start < module.end
            target.memory.read(module.start, 1 << 13)
        assert len(target.problems) <= 1000


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(
        # Half of the changes hit the headers and notes, where they matter most.
        st.tuples(st.one_of(st.integers(0, 0x600), st.integers(0, 0x6000)), st.binary(min_size=1, max_size=8)),
        max_size=12,
    ),
    st.integers(0, 0x8000),
)
def test_changed_bytes(tmp_path: Path, changes: list[tuple[int, bytes]], size: int) -> None:
    data = bytearray(example())
    for at, change in changes:
        data[at : at + len(change)] = change
    path = tmp_path / "core"
    path.write_bytes(data[:size] if size % 3 == 0 else data)
    use(path)


NUMBERS = st.one_of(
    st.integers(0, (1 << 64) - 1), st.sampled_from([0, 1, BASE, BASE + 0x1000, (1 << 64) - 1, 1 << 63, 0x1000])
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), max_size=6),
    st.lists(st.tuples(st.integers(0, 40), NUMBERS), max_size=6),
    st.lists(
        st.tuples(
            st.sampled_from([NT_PRSTATUS, NT_PRPSINFO, NT_AUXV, NT_FILE, NT_SIGINFO, 0x406]), st.binary(max_size=400)
        ),
        max_size=4,
    ),
    st.integers(0, 1 << 62),
)
def test_absurd_notes(
    tmp_path: Path,
    files: list[tuple[int, int, int]],
    auxv: list[tuple[int, int]],
    notes: list[tuple[int, bytes]],
    count: int,
) -> None:
    core = CoreBuilder()
    records = b"".join(pack("<QQQ", *each) for each in files)
    names = b"".join(b"/f%d\0" % (index % 2) for index in range(len(files)))
    core.note(b"CORE", NT_FILE, pack("<QQ", count if count % 2 else len(files), 0x1000) + records + names)
    core.thread(1, {"rip": BASE, "rsp": 0x1008})
    for kind, data in notes:
        core.note(b"CORE" if kind != 0x406 else b"LINUX", kind, data)
    core.auxv(dict(auxv))
    core.load(program(), BASE)
    path = tmp_path / "core"
    path.write_bytes(core.build())
    use(path)


def test_many_mappings_with_one_name(tmp_path: Path) -> None:
    core = CoreBuilder()
    core.thread(1, {"rip": BASE + 0x1000})
    core.load(program(), BASE)
    for index in range(5000):
        core.file("/f", BASE + index * 0x1000, BASE + (index + 1) * 0x1000, 0)
    with core.write(tmp_path / "core") as target:
        assert len(target.modules) <= 5000
        assert target.modules.at(BASE + 0x1000) is not None


@pytest.mark.parametrize("kind", [NT_PRSTATUS, NT_PRPSINFO, NT_AUXV, NT_FILE, NT_SIGINFO])
def test_notes_too_small(tmp_path: Path, kind: int) -> None:
    core = CoreBuilder()
    core.thread(1, {"rip": 5})
    core.note(b"CORE", kind, b"\1\2\3")
    with core.write(tmp_path / "core") as target:
        assert [thread.pc for thread in target.threads] == [5]
        if kind in (NT_PRSTATUS, NT_PRPSINFO, NT_FILE):
            assert target.problems
