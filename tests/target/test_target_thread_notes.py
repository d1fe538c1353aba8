"""What is read of a thread beside its general registers, the same for cores and for live processes."""

from __future__ import annotations

from struct import pack

import pytest

from clew.arch import machine_named
from clew.memory import Mapping
from clew.target import process
from clew.target.stopped import ThreadWords
from clew.target.thread_notes import KINDS, ThreadNotes


class Held:
    """Threads that were stopped, as :class:`clew.target.stopped.StoppedProcess` has them."""

    def __init__(self, words: ThreadWords) -> None:
        self.threads = [words]
        self.unstopped: dict[int, str] = {}


def test_a_live_thread_of_s390x_has_its_floating_point_registers() -> None:
    machine = machine_named("s390x")
    words = pack(">18Q16IQ", 0, 0x2000, *range(16), *range(16), 0)
    more = {2: pack(">II16Q", 7, 0, *(0x100 + index for index in range(16))), 0x307: pack(">I", 4)}
    held = Held(ThreadWords(1, words, more))
    [thread], mask = process._threads(1, machine, held, False, print)  # type: ignore[arg-type]
    assert [thread.registers[machine.register_number(f"f{index}") or 0] for index in range(16)] == [
        0x100 + index for index in range(16)
    ]
    assert (thread.registers[15], thread.pc, thread.interrupted_call, mask) == (15, 0x2000, True, None)


def test_a_live_thread_of_aarch64_has_the_length_of_its_vectors() -> None:
    machine = machine_named("aarch64")
    # struct user_sve_header: size, largest size, the length of a vector in bytes, the largest, flags.
    more = {0x405: pack("<IIHHHH", 16, 16, 32, 32, 0, 0), 0x406: pack("<QQ", 1, 2), 0x404: pack("<i", -1)}
    held = Held(ThreadWords(1, pack("<34Q", *range(34)), more))
    [thread], mask = process._threads(1, machine, held, False, print)  # type: ignore[arg-type]
    assert (thread.registers[46], thread.interrupted_call, mask) == (4, False, 2)


@pytest.mark.parametrize("name", sorted(KINDS))
def test_notes_that_are_cut_say_nothing(name: str) -> None:
    notes = ThreadNotes()
    for kind in (*KINDS[name], 1, 12345):
        for size in (0, 3):
            notes.read(machine_named(name), kind, b"\xff" * size)
    assert notes == ThreadNotes()


def test_notes_of_other_machines_say_nothing() -> None:
    notes = ThreadNotes()
    for kinds in KINDS.values():
        for kind in kinds:
            notes.read(machine_named("x86-64"), kind, b"\1" * 200)
    assert notes == ThreadNotes()


def test_a_stack_pointer_that_is_not_known_has_no_limits() -> None:
    from clew.target.model import Thread
    from clew.target.parts import stack_limits

    machine = machine_named("x86-64")
    mappings = [Mapping(0x1000, 0x2000, 0, "rw-p", "")]
    threads = [Thread(1, {}, 0), Thread(2, {7: 0x1FFF}, 0), Thread(3, {7: 0x2000}, 0)]
    assert stack_limits(threads, machine, mappings) == {2: (0x1000, 0x2000)}
