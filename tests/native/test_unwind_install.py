"""Installing the in-process library, and building against what was installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import unwind_programs as programs

from clew.native.unwind import compile as unwind

pytestmark = pytest.mark.slow

_PROGRAM = """
#include <clew-unwind.h>
#include <stdio.h>
int main(void) {
    void *pcs[8];
    if (clew_init()) return 1;
    int count = clew_backtrace(pcs, 8);
    printf("%d %s\\n", count > 2, clew_end_text(clew_backtrace_end()));
    return 0;
}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    programs.compiler()
    prefix = tmp_path_factory.mktemp("prefix")
    command = [sys.executable, "-I", str(unwind.HERE / "compile.py"), "--install", str(prefix)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert "libclew-unwind.so" in said.stdout
    return prefix


@pytest.mark.parametrize("language", ["c", "c++"])
def test_program_builds_against_it(installed: Path, tmp_path: Path, language: str) -> None:
    if not shutil.which("pkg-config"):
        pytest.skip("pkg-config is not installed")
    flags = programs.run(
        ["pkg-config", "--cflags", "--libs", "clew-unwind"], PKG_CONFIG_PATH=str(installed / "lib" / "pkgconfig")
    ).split()
    (tmp_path / "program.c").write_text(_PROGRAM)
    command = [
        *programs.compiler(),
        "-x",
        language,
        "-Wall",
        "-Wextra",
        "-Werror",
        tmp_path / "program.c",
        "-x",
        "none",
    ]
    programs.made([*command, *flags, "-o", tmp_path / "program"])
    answer = programs.run([tmp_path / "program"], LD_LIBRARY_PATH=str(installed / "lib"))
    assert answer == "1 the outermost frame\n"


def test_nothing_else_is_exported(installed: Path) -> None:
    if not shutil.which("nm"):
        pytest.skip("nm is not installed")
    names = programs.run(
        ["nm", "-D", "--defined-only", "--format=just-symbols", installed / "lib" / "libclew-unwind.so"]
    )
    assert all(name.startswith(("clew_", "CLEW_UNWIND_1")) for name in names.split())
    declared = (installed / "include" / "clew-unwind.h").read_text()
    assert all(name.split("@")[0] + "(" in declared for name in names.split() if name.startswith("clew_"))


def test_a_destination_for_packages(tmp_path: Path) -> None:
    programs.compiler()
    command = [sys.executable, "-I", unwind.HERE / "compile.py", "--install", "/usr", "--destdir", tmp_path]
    programs.run(command)
    assert "prefix=/usr\n" in (tmp_path / "usr/lib/pkgconfig/clew-unwind.pc").read_text()


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(RuntimeError, match="no C compiler"):
        unwind.build(tmp_path)
