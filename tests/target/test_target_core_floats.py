"""Floating-point registers of a core, which matter to a walk on s390x only: a leaf keeps r11 or r15 in one of them."""

from __future__ import annotations

from pathlib import Path
from struct import pack

from clew.arch import machine_named
from clew.testing.core import CoreBuilder


def test_s390x_has_them_by_their_numbers(tmp_path: Path) -> None:
    machine = machine_named("s390x")
    core = CoreBuilder("s390x")
    for thread in (1, 2):
        core.thread(thread, {"r15": 0x1000, "pswa": 0x2000})
        # asm/ptrace.h, s390_fp_regs: control word, padding, f0 to f15.
        core.note(b"CORE", 2, pack(">II16Q", 7, 0, *(thread << 8 | index for index in range(16))))
    with core.write(tmp_path / "core") as target:
        found = [thread.registers for thread in target.threads]
    for thread, registers in enumerate(found, 1):
        assert [registers[machine.register_number(f"f{index}") or 0] for index in range(16)] == [
            thread << 8 | index for index in range(16)
        ]
        assert registers[15] == 0x1000


def test_other_machines_and_notes_that_are_cut_have_none(tmp_path: Path) -> None:
    for name, size in (("s390x", 135), ("aarch64", 528)):
        core = CoreBuilder(name)
        core.note(b"CORE", 2, bytes(136))
        core.thread(1, {})
        core.note(b"CORE", 2, bytes(size))
        with core.write(tmp_path / name) as target:
            known = machine_named(name)
            first = known.register_number("f0" if name == "s390x" else "v0")
            assert first not in target.threads[0].registers
