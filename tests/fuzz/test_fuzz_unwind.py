"""The C of packed tables and of the in-process library under libFuzzer, for as long as CLEW_FUZZ_SECONDS says."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from packed_fuzz_seeds import fill

import clew

_HERE = Path(__file__).parent
_NATIVE = Path(clew.__file__).parent / "native"
_PARTS = ("cfi", "program", "rule", "expression", "layout", "build", "rows", "pack", "reach")

TARGETS = {
    "packed": [_HERE / "packed_fuzz.c"],
    "cfi": [_HERE / "unwind_cfi_fuzz.c", *(_NATIVE / "unwind" / f"{part}.c" for part in _PARTS)],
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.slow
def test_libfuzzer(target: str, tmp_path: Path) -> None:
    clang = next((name for name in ("clang", "clang-14") if shutil.which(name)), None)
    if clang is None:
        pytest.skip("clang is not installed")
    sanitized = ("-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=undefined")
    command = [clang, "-g", "-O1", "-D_GNU_SOURCE", *sanitized, "-I", _NATIVE, "-I", _NATIVE / "unwind"]
    compiled = subprocess.run(
        [*command, *TARGETS[target], "-o", tmp_path / "target"], capture_output=True, text=True, check=False
    )
    if "libclang_rt.fuzzer" in compiled.stderr:
        pytest.skip(f"{clang} has no libFuzzer")
    assert (compiled.returncode, compiled.stderr) == (0, "")
    fill(tmp_path / "seeds", 20)
    (tmp_path / "corpus").mkdir()
    seconds = int(float(os.environ.get("CLEW_FUZZ_SECONDS", "2"))) or 1
    limits = (f"-max_total_time={seconds}", "-rss_limit_mb=2000", "-timeout=20", f"-artifact_prefix={tmp_path}/")
    run = subprocess.run(
        [tmp_path / "target", *limits, "-max_len=16384", tmp_path / "corpus", tmp_path / "seeds" / target],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=seconds + 120,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    assert "Done " in run.stderr
