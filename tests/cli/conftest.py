"""A small library for the commands to look at."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.cli import main
from clew.image.elf import SHN_UNDEF, STB_GLOBAL, STB_LOCAL, STT_FUNC
from clew.testing import Cfa, CfiBuilder, ElfBuilder

RBP, RSP, RIP = 6, 7, 16


def tables() -> CfiBuilder:
    """``enter`` (push %rbp; mov %rsp,%rbp) and other functions; nothing for 0x1060..0x1070."""
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(instructions=[Cfa.def_cfa(RSP, 8), Cfa.offset(RIP, 1)])
    enter = [
        Cfa.advance(1),
        Cfa.def_cfa_offset(16),
        Cfa.offset(RBP, 2),
        Cfa.advance(3),
        Cfa.def_cfa_register(RBP),
    ]
    cfi.fde(cie, start=0x1000, size=0x20, instructions=enter)
    for start in range(0x1020, 0x1060, 0x10):
        cfi.fde(cie, start=start, size=0x10, instructions=[Cfa.advance(1), Cfa.def_cfa_offset(start - 0x1000)])
    cfi.fde(cie, start=0x1070, size=0x10, instructions=[])
    cfi.terminator()
    return cfi


@pytest.fixture
def library(tmp_path: Path) -> str:
    """The path of a library with ``.eh_frame``: see :func:`tables`."""
    elf = ElfBuilder()
    elf.section(".text", bytes(0x100), address=0x1000, executable=True)
    elf.section(".eh_frame", tables().build(), address=0x2000)
    for name, address, binding in (
        ("enter", 0x1000, STB_GLOBAL),
        ("init", 0x1020, STB_LOCAL),
        ("init", 0x1030, STB_LOCAL),
        ("operator+", 0x1040, STB_GLOBAL),
        ("add", 0x1050, STB_GLOBAL),
        ("bare", 0x1060, STB_GLOBAL),
        ("b\x1b[2Jell", 0x1070, STB_GLOBAL),
    ):
        size = 0x20 if name == "enter" else 0x10
        elf.symbol(name, address, size=size, section=".text", type=STT_FUNC, binding=binding)
    elf.symbol("imported", section=SHN_UNDEF, type=STT_FUNC)
    path = tmp_path / "library.so"
    path.write_bytes(elf.build())
    return str(path)


@pytest.fixture
def answer(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs a command: its exit code, and what it prints on standard output and standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return code, printed.out, printed.err

    return run


@pytest.fixture
def document(answer: Callable[..., tuple[int, str, str]]) -> Callable[..., Any]:
    """Runs a command with ``--json``, which must say that all is fine: the document that it prints."""

    def run(*arguments: str) -> Any:
        code, out, error = answer(*arguments, "--json")
        assert (code, error) == (0, "")
        return json.loads(out)

    return run
