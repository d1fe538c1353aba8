from __future__ import annotations

import ctypes
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.errors import NotFoundError, Problem
from clew.memory import (
    MAXIMUM_READ,
    BytesMemory,
    Mapping,
    Memory,
    ProcessMemory,
    parse_mappings,
    process_mappings,
)

NOBODY = 0x7FFF_FFFF  # larger than any pid_max


@given(st.binary(max_size=40), st.integers(-50, 50), st.integers(-60, 100), st.integers(-5, 60))
def test_bytes_memory_agrees_with_a_byte_by_byte_model(data: bytes, base: int, address: int, size: int) -> None:
    memory: Memory = BytesMemory(data, base)
    model = {base + index: byte for index, byte in enumerate(data)}
    wanted = [model.get(address + index) for index in range(size)]
    if size < 0 or None in wanted:
        assert memory.read(address, size) is None
    else:
        assert memory.read(address, size) == bytes(byte for byte in wanted if byte is not None)


def test_process_memory_reads_this_process() -> None:
    buffer = ctypes.create_string_buffer(b"the thread of Ariadne", 32)
    with ProcessMemory(os.getpid()) as memory:
        assert memory.read(ctypes.addressof(buffer), 21) == b"the thread of Ariadne"
        assert memory.read(ctypes.addressof(buffer), 0) == b""
    assert memory.read(ctypes.addressof(buffer), 21) is None  # closed
    memory.close()


@pytest.mark.parametrize("address", [0, -1, -8, (1 << 63) - 1, 1 << 63, (1 << 64) - 8, 1 << 80])
def test_process_memory_answers_none_where_nothing_is(address: int) -> None:
    with ProcessMemory(os.getpid()) as memory:
        assert memory.read(address, 8) is None


def test_process_memory_does_not_return_a_part() -> None:
    mapping = next(m for m in process_mappings(os.getpid()) if m.path == "[stack]")
    with ProcessMemory(os.getpid()) as memory:
        assert memory.read(mapping.end - 8, 8) is not None
        assert memory.read(mapping.end - 8, 16) is None
        assert memory.read(mapping.end - 8, MAXIMUM_READ + 1) is None
        assert memory.read(mapping.end - 8, -1) is None


def test_no_such_process() -> None:
    with pytest.raises(NotFoundError, match="no process"):
        ProcessMemory(NOBODY)
    with pytest.raises(NotFoundError, match="no process"):
        process_mappings(NOBODY)


def test_process_mappings_hold_this_code() -> None:
    mappings = process_mappings(os.getpid())
    assert mappings == sorted(mappings, key=lambda m: m.start)
    address = ctypes.cast(ctypes.pythonapi.Py_IncRef, ctypes.c_void_p).value
    assert address is not None
    assert [m.executable for m in mappings if address in m] == [True]


def test_parse_mappings() -> None:
    text = (
        b"55d0c8e00000-55d0c8e21000 r-xp 00002000 fd:01 1311    /usr/bin/a b (deleted)\n"
        b"7ffd1c000000-7ffd1c021000 rw-p 00000000 00:00 0 \n"
        b"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n"
    )
    problems: list[Problem] = []
    assert parse_mappings(text, problems) == [
        Mapping(0x55D0C8E00000, 0x55D0C8E21000, 0x2000, "r-xp", "/usr/bin/a b (deleted)"),
        Mapping(0x7FFD1C000000, 0x7FFD1C021000, 0, "rw-p", ""),
        Mapping(0xFFFFFFFFFF600000, 0xFFFFFFFFFF601000, 0, "--xp", "[vsyscall]"),
    ]
    assert problems == []


def test_parse_mappings_tells_what_it_leaves_out() -> None:
    problems: list[Problem] = []
    text = b"10-20 r--p 0 0:0 0\nnonsense\n20-20 r--p 0 0:0 0\n30-40 r--p 0 0:0 0"
    assert [m.start for m in parse_mappings(text, problems)] == [0x10, 0x30]
    assert [problem.offset for problem in problems] == [19, 28]


@given(st.binary(max_size=200))
def test_parse_mappings_never_raises(data: bytes) -> None:
    problems: list[Problem] = []
    parse_mappings(data, problems)
