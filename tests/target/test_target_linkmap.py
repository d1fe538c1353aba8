from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.arch import Machine, machine_named
from clew.errors import Problem
from clew.memory import BytesMemory
from clew.target.linkmap import MAXIMUM_ENTRIES, LinkMapEntry, debug_address, read_link_map, read_string

BASE = 0x7000


class Words:
    """Memory of words, by address."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.data = bytearray(0x4000)

    def put(self, address: int, *words: int) -> None:
        code = "Q" if self.machine.bits == 64 else "I"
        data = pack((">" if self.machine.byte_order == "big" else "<") + code * len(words), *words)
        self.data[address - BASE : address - BASE + len(data)] = data

    def text(self, address: int, text: bytes) -> None:
        self.data[address - BASE : address - BASE + len(text) + 1] = text + b"\0"

    @property
    def memory(self) -> BytesMemory:
        return BytesMemory(bytes(self.data), BASE)


@pytest.mark.parametrize("name", ["x86-64", "arm", "s390x"])
def test_list(name: str) -> None:
    machine = machine_named(name)
    words = Words(machine)
    words.put(0x7100, 5, 1, 21, 0x7200, 0, 0)
    # A version 1 in an int, wherever the machine has its first four bytes.
    words.put(0x7200, 1 << 32 if name == "s390x" else 1, 0x7300, 0, 0, 0)
    words.put(0x7300, 0x5000, 0x7500, 0x6000, 0x7340, 0)
    words.put(0x7340, 0x9000, 0x7510, 0x9900, 0x7380, 0x7300)
    words.put(0x7380, 0xA000, 0x10, 0xA900, 0x73C0, 0x7340)
    words.put(0x73C0, (1 << machine.bits) - 0x1000, 0x7520, 0x8000, 0, 0x7380)
    words.text(0x7510, b"/lib/libc.so.6")
    words.text(0x7520, b"/lib/b.so")
    problems: list[Problem] = []
    assert debug_address(words.memory, machine, 0x7100) == 0x7200
    assert list(read_link_map(words.memory, machine, 0x7200, problems.append)) == [
        LinkMapEntry(0x5000, 0x6000, ""),
        LinkMapEntry(0x9000, 0x9900, "/lib/libc.so.6"),
        # Its name cannot be read: that is not the end.
        LinkMapEntry(0xA000, 0xA900, None),
        # It lies below where it was linked for.
        LinkMapEntry(-0x1000, 0x8000, "/lib/b.so"),
    ]
    assert problems == []


def test_further_namespaces() -> None:
    machine = machine_named("x86-64")
    words = Words(machine)
    words.put(0x7200, 2, 0x7300, 0, 0, 0, 0x7600)
    words.put(0x7300, 0x5000, 0x7500, 0x6000, 0, 0)
    words.put(0x7600, 2, 0x7700, 0, 0, 0, 0x7200)
    words.put(0x7700, 0x8000, 0x7500, 0x9000, 0, 0)
    problems: list[Problem] = []
    assert [each.bias for each in read_link_map(words.memory, machine, 0x7200, problems.append)] == [0x5000, 0x8000]
    assert "circles" in problems[0].message


def test_damaged_lists() -> None:
    machine = machine_named("x86-64")
    words = Words(machine)
    words.put(0x7200, 1, 0x7300, 0, 0, 0)
    words.put(0x7300, 1, 0x7500, 2, 0x7340, 0)
    words.put(0x7340, 3, 0x7500, 4, 0x7300, 0)
    problems: list[Problem] = []
    assert len(list(read_link_map(words.memory, machine, 0x7200, problems.append))) == 2
    assert "circles" in problems.pop().message
    words.put(0x7340, 3, 0x7500, 4, 0x10, 0)
    assert len(list(read_link_map(words.memory, machine, 0x7200, problems.append))) == 2
    assert "cannot be read at 0x10" in problems.pop().message
    assert list(read_link_map(words.memory, machine, 0x10, problems.append)) == []
    assert "cannot be read" in problems.pop().message
    assert debug_address(words.memory, machine, 0x10) is None


def test_a_list_without_end() -> None:
    class Endless:
        """Every word is one more than its own address, so everything points on."""

        def read(self, address: int, size: int) -> bytes | None:
            return b"".join((address + 40).to_bytes(8, "little") for _ in range(0, size, 8))[:size]

    machine = machine_named("x86-64")
    problems: list[Problem] = []
    assert len(list(read_link_map(Endless(), machine, 0x1000, problems.append))) == MAXIMUM_ENTRIES
    assert "too long" in problems[0].message
    assert debug_address(Endless(), machine, 0x1000) is None


def test_strings() -> None:
    memory = BytesMemory(b"a" * 300 + b"\0" + b"b" * 10, 0x1000)
    assert read_string(memory, 0x1000) is None  # what follows within 256 bytes is not there
    memory = BytesMemory(b"a" * 300 + b"\0" + bytes(1000), 0x1000)
    assert read_string(memory, 0x1000) == "a" * 300
    assert read_string(memory, 0x1000, 256) is None
    assert read_string(memory, 0x112C) == ""
    assert read_string(memory, 0x10) is None


@settings(max_examples=200)
@given(st.binary(max_size=600), st.integers(BASE, BASE + 600), st.sampled_from(["x86-64", "i386", "s390x"]))
def test_anything(data: bytes, address: int, name: str) -> None:
    machine = machine_named(name)
    memory = BytesMemory(data, BASE)
    problems: list[Problem] = []
    debug_address(memory, machine, address)
    for entry in read_link_map(memory, machine, address, problems.append):
        assert entry.name is None or "\0" not in entry.name
