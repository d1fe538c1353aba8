"""Modules whose files are nowhere, and are read out of the target's memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.arch import machine_named
from clew.errors import Error, Problem
from clew.image import Image
from clew.image.elf import PT_LOAD
from clew.memory import BytesMemory
from clew.target import module_files
from clew.target.model import Module
from clew.target.module_files import ModuleFiles
from clew.testing import ElfBuilder
from clew.testing.arm_exidx import EM_ARM, SHT_ARM_EXIDX, ExidxBuilder
from clew.testing.core import CoreBuilder

BASE = 0x40000000


def library() -> bytes:
    """A library for Arm whose one segment has code and the index of its unwinding entries."""
    builder = ExidxBuilder()
    builder.compact(0x1000, "a8")
    elf = ElfBuilder(machine=EM_ARM, bits=32)
    elf.section(".text", bytes(32), address=0x1000, executable=True)
    elf.section(".ARM.exidx", builder.index, type=SHT_ARM_EXIDX, address=builder.address)
    elf.segment(PT_LOAD, [".text", ".ARM.exidx"], flags=5)
    elf.segment(SHT_ARM_EXIDX, [".ARM.exidx"])
    return elf.build()


def test_a_library_with_nothing_but_an_index_of_arm() -> None:
    data = library()
    files = ModuleFiles(machine_named("arm"), print)
    # As the segment is loaded: from its page on.
    memory = bytearray(0x10000)
    memory[: len(data)] = data
    for segment in Image.from_bytes(data).segments:
        if segment.type == PT_LOAD:
            memory[segment.address : segment.address + segment.file_size] = segment.data
    image = files.open("/gone.so", None, loaded=(BytesMemory(memory, BASE), BASE))
    module = Module("/gone.so", BASE, BASE + 0x10000, BASE, open_image=lambda: image)
    assert module.table is not None
    row = module.table.lookup(0x1004)
    assert row is not None
    assert row.rule.text(module.table.machine) == "cfa = sp+8  r4 = *(cfa-8)  lr = *(cfa-4)"


def test_not_everything_is_read_that_a_core_claims_to_have_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    data = library()
    memory = BytesMemory(data.ljust(0x10000, b"\0"), BASE)
    monkeypatch.setattr(module_files, "_MAXIMUM_LOADED_TOGETHER", 3 * len(data))
    files = ModuleFiles(machine_named("arm"), print)
    outcomes = []
    for _ in range(20):
        try:
            outcomes.append(files.open("/gone.so", None, loaded=(memory, BASE)).source.size)
        except Error:
            outcomes.append(0)
    assert sum(outcomes) <= 3 * len(data)
    assert outcomes[-1] == 0


def test_a_core_that_cannot_be_a_target_is_let_go(tmp_path: Path) -> None:
    from clew.target import open_core

    path = tmp_path / "it.so"
    path.write_bytes(library())
    with pytest.raises(Error, match="not a core"):
        open_core(path)
    core = CoreBuilder("x86-64")
    core.thread(1, {"rip": 0x1000})
    with core.write(tmp_path / "core") as target:
        assert target.threads[0].pc == 0x1000


def test_a_file_is_opened_once_however_many_modules_are_of_it(tmp_path: Path) -> None:
    path = tmp_path / "it.so"
    path.write_bytes(library())
    with Image.open(path) as image:
        [segment] = [each for each in image.segments if each.type == PT_LOAD]
    core = CoreBuilder("arm")
    core.thread(1, {"pc": 0x1000})
    for number in range(50):
        # The headers are not in memory, and offsets do not rise: each may be a loading of its own.
        start = BASE + number * 0x20000
        core.file(str(path), start, start + 0x1000, segment.offset & -0x1000)
    core.file(str(tmp_path / "other.so"), BASE - 0x1000, BASE)
    with core.write(tmp_path / "core") as target:
        modules = [module for module in target.modules if module.name == str(path)]
        assert len(modules) == 50
        assert len({module.image for module in modules}) == 1
        assert modules[0].table is not None
        assert len({id(module.table) for module in modules}) == 1
        assert len({module.bias for module in modules}) == 50


def test_a_file_that_one_module_has_is_not_closed_because_it_is_not_anothers(tmp_path: Path) -> None:
    path = tmp_path / "it.so"
    path.write_bytes(library())
    problems: list[Problem] = []
    files = ModuleFiles(machine_named("arm"), problems.append)
    image = files.open(str(path), None)
    with pytest.raises(Error):
        files.open(str(path), None, check=lambda image: "is another one")
    assert bytes(image.source.slice(0, 4)) == b"\x7fELF"
    assert files.open(str(path), None) is image
    assert [str(problem) for problem in problems] == [f"{path} is another one; it is not used"]
