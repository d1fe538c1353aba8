"""``clew compile``: what it writes, where, and what it says of it."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from clew.image import Image
from clew.read.frames import read_table
from clew.testing import Cfa, CfiBuilder, ElfBuilder
from clew.write.compiled import find_compiled, read_information

Answer = Callable[..., tuple[int, str, str]]

BUILD_ID = bytes.fromhex("0123456789abcdef")


class Frame(ctypes.Structure):
    """``struct clew_frame``."""

    _fields_ = (("known", ctypes.c_uint64), ("r", ctypes.c_uint64 * 17))


def program(*, build_id: bytes | None = BUILD_ID, broken: bool = False, machine: int = 62) -> bytes:
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(instructions=[Cfa.def_cfa(7, 8), Cfa.offset(16, 1)])
    cfi.fde(cie, start=0x1000, size=0x20, instructions=[Cfa.advance(1), Cfa.def_cfa_offset(16), Cfa.offset(6, 2)])
    if broken:
        cfi.fde(cie, start=0x1020, size=0x10, instructions=[Cfa.restore_state])
    cfi.terminator()
    elf = ElfBuilder(machine=machine)
    elf.section(".text", bytes(0x100), address=0x1000, executable=True)
    elf.section(".eh_frame", cfi.build(), address=0x2000)
    if build_id is not None:
        elf.build_id(build_id)
    return elf.build()


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "lib" / "it.so"
    path.parent.mkdir()
    path.write_bytes(program())
    return str(path)


needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
BACKENDS = pytest.mark.parametrize("backend", ["asm", pytest.param("c", marks=needs_compiler)])


@BACKENDS
def test_an_object_that_unwinds(backend: str, file: str, tmp_path: Path, answer: Answer) -> None:
    """``push %rbp`` at 0x1000, called in this very process."""
    out = str(tmp_path / "it.unwinder.so")
    code, said, error = answer("compile", "--backend", backend, "-o", out, file)
    assert (code, error) == (0, "")
    assert said.startswith(f"{out}: ")
    assert said.endswith("3 leaves, 3 bodies\n")
    information = read_information(out)
    assert information is not None
    assert (information.build_id, information.start, information.end) == (BUILD_ID, 0x1000, 0x1020)
    if os.uname().machine != "x86_64":
        pytest.skip("the object is for x86-64")
    unwind = ctypes.CDLL(out).clew_unwind
    unwind.argtypes = (ctypes.POINTER(Frame), ctypes.c_uint64)
    stack = (ctypes.c_uint64 * 4)(0x1111, 0x2222, 0x3333, 0x4444)
    frame = Frame((1 << 17) - 1)
    frame.r[7] = ctypes.addressof(stack)
    assert unwind(frame, 0x1001) == 0
    # rbp was pushed last, and above it is the return address.
    assert (frame.r[6], frame.r[16], frame.r[7]) == (0x1111, 0x2222, ctypes.addressof(stack) + 16)
    assert frame.known == sum(1 << number for number in (3, 6, 7, 12, 13, 14, 15, 16))
    assert unwind(frame, 0x1000) == 0
    assert (frame.r[6], frame.r[16]) == (0x1111, 0x3333)
    # There is no row.
    assert unwind(frame, 0xFFF) == unwind(frame, 0x1020) == -2


@BACKENDS
def test_a_directory_with_an_index(backend: str, file: str, tmp_path: Path, answer: Answer) -> None:
    out = tmp_path / "out"
    for options in ([], ["--deref"], ["--abi", "paper"], ["--abi", "paper", "--deref"], []):
        code, _, error = answer("compile", "--backend", backend, *options, "--out", str(out), file)
        assert (code, error) == (0, "")
    for abi, deref in (("full", False), ("full", True), ("paper", False), ("paper", True)):
        found = find_compiled(out, BUILD_ID, abi=abi, deref=deref)  # type: ignore[arg-type]
        assert found is not None
        variant = ("-paper" if abi == "paper" else "") + ("-deref" if deref else "")
        assert found.resolve() == Path(f"{out}{tmp_path}/lib/it.so.clew-{backend}{variant}.so").resolve()
    assert len([each for each in out.rglob("*") if each.is_file()]) == 8


def test_beside_the_file(file: str, answer: Answer) -> None:
    assert answer("compile", "--backend", "asm", file)[0] == 0
    assert read_information(file + ".clew-asm.so") is not None


def test_where_nothing_can_be_written(
    file: str, answer: Answer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Root may write everywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    code, out, error = answer("compile", "--backend", "asm", file)
    assert (code, out) == (3, "")
    assert "nothing can be written beside the file" in error
    assert "hint: name a place, with -o OUT or --out DIR" in error
    (tmp_path / "file").touch()
    code, out, error = answer("compile", "--backend", "asm", "-o", str(tmp_path / "file" / "it"), file)
    assert (code, out) == (3, "")
    assert "there is no such directory" in error


def test_json(file: str, tmp_path: Path, answer: Answer) -> None:
    out = str(tmp_path / "it.o")
    code, said, error = answer("compile", "--backend", "asm", "--deref", "--json", "-o", out, file)
    assert (code, error) == (0, "")
    found = json.loads(said)
    size = found.pop("size")
    assert 0 < size < os.path.getsize(out)
    assert found == {
        "file": file,
        "machine": "x86-64",
        "build_id": BUILD_ID.hex(),
        "backend": "asm",
        "abi": "full",
        "deref": True,
        "output": out,
        "eh_frame_size": found["eh_frame_size"],
        "leaves": 3,
        "bodies": 3,
        "problems": [],
    }


@pytest.mark.parametrize("options", [[], ["--switch"], ["--deref"], ["--abi", "paper"]], ids=str)
def test_the_source_goes_to_standard_output(options: list[str], file: str, answer: Answer, tmp_path: Path) -> None:
    code, out, error = answer("compile", "--backend", "c", "--source", *options, file)
    assert (code, error) == (0, "")
    assert "A compiled unwinder: what the unwind table of" in out.splitlines()[1]
    assert ("switch (pc)" in out) == ("--switch" in options)
    assert answer("compile", "--backend", "c", "--source", *options, "-o", str(tmp_path / "it.c"), file)[0] == 0
    assert (tmp_path / "it.c").read_text() == out
    assert [each.name for each in Path(file).parent.iterdir()] == ["it.so"]


def test_the_source_for_an_assembler(file: str, answer: Answer) -> None:
    code, out, error = answer("compile", "--backend", "asm", "--source", file)
    assert (code, error) == (0, "")
    assert "clew_unwind:\n" in out


def test_a_packed_table(file: str, tmp_path: Path, answer: Answer) -> None:
    out = tmp_path / "out"
    code, said, error = answer("compile", "--backend", "packed", "--out", str(out), file)
    assert (code, error) == (0, "")
    assert "bytes" in said
    found = find_compiled(out, BUILD_ID, backends=("packed",))
    assert found is not None
    from clew.read.packed import PackedTable

    packed = PackedTable(memoryview(found.read_bytes()), str(found))
    assert packed.build_id == BUILD_ID


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--backend", "asm", "--switch"], "--switch goes with --backend c"),
        (["--backend", "packed", "--deref"], "--deref does not go with --backend packed"),
        (["--backend", "packed", "--source"], "--source does not go with --backend packed"),
        (["--backend", "packed", "--abi", "paper"], "--abi is for code"),
        (["--backend", "c", "--source", "--out", "d"], "--source goes with -o OUT"),
        (["--backend", "c", "--source", "--json"], "--json and --source both want standard output"),
        (["--backend", "asm", "-o", "x", "--out", "y"], "not allowed with argument"),
        ([], "--backend"),
    ],
)
def test_options_that_do_not_go_together(arguments: list[str], message: str, file: str, answer: Answer) -> None:
    code, out, error = answer("compile", *arguments, file)
    assert (code, out) == (2, "")
    assert message in error


@pytest.mark.parametrize("more", [(), ("--source",)])
def test_the_file_itself_is_kept(more: tuple[str, ...], file: str, answer: Answer) -> None:
    before = Path(file).read_bytes()
    code, _, error = answer("compile", "--backend", "asm", *more, "-o", file, file)
    assert code == 2
    assert "would take the place" in error
    assert Path(file).read_bytes() == before


def test_files_that_cannot_be_compiled(tmp_path: Path, answer: Answer) -> None:
    code, _, error = answer("compile", "--backend", "asm", str(tmp_path / "absent"))
    assert code == 3
    assert "there is no such file" in error
    path = tmp_path / "it"
    path.write_bytes(program(machine=183))
    code, _, error = answer("compile", "--backend", "asm", str(path))
    assert code == 2
    assert "--backend c compiles it" in error
    path.write_bytes(program(machine=3))
    assert answer("compile", "--backend", "c", str(path))[0] in (2, 3)
    assert [each.name for each in tmp_path.iterdir()] == ["it"]


def test_no_compiler(file: str, answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    code, _, error = answer("compile", "--backend", "c", file)
    assert code == 3
    assert "there is no C compiler 'no-such-compiler'" in error
    assert "hint: --backend asm needs no compiler" in error


def test_without_a_build_id(tmp_path: Path, answer: Answer) -> None:
    path = tmp_path / "it"
    path.write_bytes(program(build_id=None))
    code, _, error = answer("compile", "--backend", "asm", "--out", str(tmp_path / "out"), str(path))
    assert (code, error) == (0, "")
    assert not (tmp_path / "out" / ".build-id").exists()
    information = read_information(f"{tmp_path}/out{tmp_path}/it.clew-asm.so")
    assert information is not None
    assert information.build_id == b""


def test_what_is_left_out_is_told(tmp_path: Path, answer: Answer) -> None:
    path = tmp_path / "it"
    path.write_bytes(program(broken=True))
    code, out, error = answer("compile", "--backend", "asm", str(path))
    assert code == 1
    assert "warning" in error
    assert out.startswith(str(path))


def test_the_object_has_a_table_of_its_own(file: str, tmp_path: Path, answer: Answer) -> None:
    out = str(tmp_path / "it.o")
    assert answer("compile", "--backend", "asm", "--deref", "-o", out, file)[0] == 0
    with Image.open(out) as image:
        table = read_table(image)
        assert not table.problems
        symbol = image.symbols("dynsym").find("clew_unwind")[0]
        start = int(image.symbols("dynsym").value[symbol])
    assert table.lookup(start) is not None


def test_a_packed_table_goes_into_the_cache(
    file: str, answer: Answer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from clew.write.packed.cache import find

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code, said, error = answer("compile", "--backend", "packed", file)
    assert (code, error) == (0, "")
    assert said.startswith(f"{tmp_path}/clew/tables/")
    assert find(BUILD_ID) is not None
    # Only clew diff reads one.
    path = said.split(":")[0]
    code, _, error = answer("table", path)
    assert code == 3
    assert "packed table" in error
    assert "clew diff" in error
    assert answer("diff", file, path)[0] == 0


def test_a_place_that_is_not_there(file: str, answer: Answer, tmp_path: Path) -> None:
    missing = tmp_path / "no" / "such" / "o.so"
    code, _, error = answer("compile", "--backend", "asm", "-o", str(missing), file)
    assert code == 3
    assert "there is no such directory" in error
    assert not missing.parent.exists()
    assert answer("compile", "--backend", "asm", "-o", "-", file)[0] == 2


def test_a_part_of_a_file_does_not_go_into_the_cache(
    file: str, tmp_path: Path, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Who finds a table there takes it for all that the file has.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    part = ("compile", "--backend", "packed", "--section", ".eh_frame")
    code, out, error = answer(*part, file)
    assert (code, out) == (2, "")
    assert "the cache" in error
    assert not (tmp_path / "cache").exists()
    assert answer(*part, "-o", str(tmp_path / "part"), file)[0] == 0
