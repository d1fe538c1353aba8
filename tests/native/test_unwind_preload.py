"""The preload shims: programs that know nothing of clew behave as without them, and get the same stacks."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import unwind_programs as programs
from unwind_programs import PROGRAMS, libraries, made, run

_RUST = """
#[inline(never)] fn fall(depth: u32) { if depth == 0 { panic!("fallen") } fall(depth - 1); println!("{}", depth); }
fn main() { println!("{}", std::panic::catch_unwind(|| fall(3)).is_err()); fall(2); }
"""


def test_throw_cancel_and_callbacks(tmp_path: Path) -> None:
    if not shutil.which("g++"):
        pytest.skip("g++ is not installed")
    made(["g++", "-O2", PROGRAMS / "throw.cc", "-o", tmp_path / "throw", "-pthread"])
    expected = run([tmp_path / "throw"])
    assert "odd" not in expected
    assert expected.count("fallen") == 3
    assert run([tmp_path / "throw"], LD_PRELOAD=str(libraries() / "libclew-preload.so")) == expected


def test_the_shim_is_what_answers(tmp_path: Path) -> None:
    (tmp_path / "who.c").write_text(
        "#include <dlfcn.h>\n#include <execinfo.h>\n#include <stdio.h>\n#include <unwind.h>\n"
        "int main(void) { Dl_info info; void *each[] = {(void *)backtrace, (void *)_Unwind_Backtrace, (void *)_Unwind_GetIP,"
        "(void *)_Unwind_GetIPInfo, (void *)_Unwind_GetCFA, (void *)dlclose, (void *)dlopen};"
        "for (int i = 0; i < 7; i++) { dladdr(each[i], &info); puts(info.dli_fname); } return 0; }"
    )
    made([*programs.compiler(), "-D_GNU_SOURCE", tmp_path / "who.c", "-o", tmp_path / "who", "-lgcc_s"])
    shim = str(libraries() / "libclew-preload.so")
    assert run([tmp_path / "who"], LD_PRELOAD=shim) == (shim + "\n") * 7


@pytest.mark.slow
def test_rust_panic(tmp_path: Path) -> None:
    if not shutil.which("rustc"):
        pytest.skip("rustc is not installed")
    (tmp_path / "panic.rs").write_text(_RUST)
    subprocess.run(["rustc", "-O", tmp_path / "panic.rs", "-o", tmp_path / "panic"], check=True, capture_output=True)
    said = []
    for shim in ("", str(libraries() / "libclew-preload.so")):
        ended = subprocess.run(
            [tmp_path / "panic"],
            capture_output=True,
            text=True,
            env={"RUST_BACKTRACE": "1", "LD_PRELOAD": shim},
            check=False,
        )
        assert ended.returncode == 101
        assert ended.stdout == "true\n"
        said.append(re.sub(r"'main' \(\d+\)", "'main'", ended.stderr))
    assert "panic::fall" in said[0]
    assert said[0] == said[1]


def test_python_under_the_shim() -> None:
    shim = str(libraries() / "libclew-preload.so")
    code = "import json, sqlite3, ctypes, threading; print(len(json.dumps([1])))"
    assert run([shutil.which("python3") or "python3", "-c", code], LD_PRELOAD=shim) == "3\n"


_DEEP = """
#include <stdint.h>
#include <time.h>
volatile uint64_t sink;
__attribute__((noinline)) static void work(void) { for (int i = 0; i < 20000; i++) sink = sink * 3 + 1; }
__attribute__((noipa)) int deep(int n) { if (!n) { work(); return 1; } int r = deep(n - 1) + 1; sink++; return r; }
int main(void) { while (clock() < CLOCKS_PER_SEC / 3) deep(20); return 0; }
"""


@pytest.mark.slow
def test_perf_gets_the_same_stacks(tmp_path: Path) -> None:
    perf = shutil.which("perf")
    needs = subprocess.run(["ldd", perf], capture_output=True, text=True, check=False).stdout if perf else ""
    if not perf or "libunwind-x86_64.so" not in needs:
        pytest.skip("there is no perf that is linked with libunwind")
    (tmp_path / "deep.c").write_text(_DEEP)
    made([*programs.compiler(), "-O2", "-fomit-frame-pointer", tmp_path / "deep.c", "-o", tmp_path / "deep"])
    data = tmp_path / "perf.data"
    record = [
        perf,
        "record",
        "-q",
        "-e",
        "cpu-clock:u",
        "--call-graph",
        "dwarf",
        "-F",
        "199",
        "-o",
        data,
        tmp_path / "deep",
    ]
    if subprocess.run(record, capture_output=True, check=False).returncode:
        pytest.skip("perf may not record here")
    said = []
    for shim in ("", str(libraries() / "libclew-perf.so")):
        ended = run([perf, "script", "--no-inline", "-i", data], LD_PRELOAD=shim)
        # libunwind goes one step too far where a return address is 0.
        said.append([line for line in ended.splitlines() if "ffffffffffffffff" not in line])
    assert sum("deep+" in line for line in said[0]) > 100
    assert said[1] == said[0]
