"""What every command promises: exit codes, JSON, errors that say what to do next."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clew.cli import main
from clew.image.elf import STT_FUNC
from clew.testing import Cfa, CfiBuilder, ElfBuilder


def _elf(offset: int = 16, *, broken: bool = False) -> bytes:
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(instructions=[Cfa.def_cfa(7, 8), Cfa.offset(16, 1)])
    # push %rbp; …
    cfi.fde(cie, start=0x1000, size=0x10, instructions=[Cfa.advance(1), Cfa.def_cfa_offset(offset), Cfa.offset(6, 2)])
    if broken:
        cfi.fde(cie, start=0x1010, size=0x10, instructions=[Cfa.restore_state])
    cfi.terminator()
    elf = ElfBuilder()
    elf.section(".text", bytes(0x20), address=0x1000)
    elf.section(".eh_frame", cfi.build(), address=0x2000)
    elf.symbol("twice", 0x1000, size=0x10, section=".text", type=STT_FUNC)
    return elf.build()


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "twice.so"
    path.write_bytes(_elf())
    return str(path)


def test_table_prints_equations(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", file]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:2] == ["twice", "0x1000..0x1010"]
    assert [line.split() for line in lines[1:4]] == [
        ["address", "cfa", "rbp", "rip"],
        ["0x1000", "rsp+8", "·", "*(cfa-8)"],
        ["0x1001", "rsp+16", "*(cfa-16)", "*(cfa-8)"],
    ]


@pytest.mark.parametrize("place", ["twice+1", "0x1001", "twice"])
def test_explain_names_the_instruction(file: str, place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--json", file, place]) == 0
    found = json.loads(capsys.readouterr().out)
    first = place == "twice"
    assert found["rule"]["cfa"] == ("rsp+8" if first else "rsp+16")
    assert found["row"] == ({"start": "0x1000", "end": "0x1001"} if first else {"start": "0x1001", "end": "0x1010"})
    assert found["set_by"]["cfa offset"]["instruction"] == (
        "DW_CFA_def_cfa rsp 8" if first else "DW_CFA_def_cfa_offset 16"
    )


def test_diff_keeps_its_contract(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.so"
    other.write_bytes(_elf(24))
    assert main(["diff", "--json", file, file]) == 0
    assert json.loads(capsys.readouterr().out) == {"same": True, "rows": 2, "differences": []}
    assert main(["diff", "--json", file, str(other)]) == 1
    assert json.loads(capsys.readouterr().out)["differences"] == [
        {"start": "0x1001", "end": "0x1010", "register": "cfa", "a": "rsp+16", "b": "rsp+24"}
    ]


def test_stats_of_a_directory(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", "--json", str(Path(file).parent)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["files"], found["fdes"], found["rows"]) == (1, 1, 2)
    assert found["all_columns"] == {"offset": 3}


def test_what_is_left_out_is_told_and_the_rest_stands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "broken.so"
    path.write_bytes(_elf(broken=True))
    assert main(["table", str(path)]) == 1
    printed = capsys.readouterr()
    assert "rsp+16" in printed.out
    assert "DW_CFA_restore_state without a remembered state" in printed.err
    assert ".eh_frame" in printed.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["table", "{dir}/missing"], 3, "missing"),
        (["table", "{dir}"], 3, "director"),
        (["table", "{dir}/empty"], 3, "empty"),
        (["table", "{dir}/text"], 3, "ELF"),
        (["table", "{file}", "--function", "twise"], 3, "did you mean twice"),
        (["explain", "{file}", "0x9000"], 3, "0x1000..0x1010"),
        (["explain", "{file}", "twice+x"], 3, "twice+x"),
        (["table", "{file}", "--raw"], 2, "--format readelf"),
        (["stats", "{dir}/missing"], 3, "missing"),
    ],
)
def test_errors_name_the_thing_and_the_next_step(
    arguments: list[str], code: int, message: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(file).parent
    (folder / "empty").write_bytes(b"")
    (folder / "text").write_text("hello, this is no ELF file at all, but long enough to look like one" * 2)
    values = [argument.format(file=file, dir=folder) for argument in arguments]
    assert main(values) == code
    printed = capsys.readouterr()
    assert message in printed.err
    assert "Traceback" not in printed.err


def test_wrong_usage_is_two(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tabel"]) == 2
    assert "usage: clew" in capsys.readouterr().err
