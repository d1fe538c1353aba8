"""Programs for live tests, compiled when first asked for."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_processes import Start

SOURCES = Path(__file__).parent / "programs"


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Compiles a program of ``programs`` once."""
    folder = tmp_path_factory.mktemp("programs")

    def compile(name: str) -> Path:
        if shutil.which("gcc") is None:
            pytest.skip("gcc is not installed")
        built = folder / name
        if not built.exists():
            command = ["gcc", "-O1", "-g", "-pthread", "-Wl,--build-id", "-o", built, SOURCES / f"{name}.c"]
            subprocess.run(command, check=True)
        return built

    return compile


@pytest.fixture
def start(compiled: Callable[[str], Path]) -> Iterator[Start]:
    """Starts a program of ``programs``, and waits for its first line, which becomes ``process.args[-1]``."""
    running: list[subprocess.Popen[str]] = []

    def start(name: str, *arguments: str, program: Path | None = None) -> subprocess.Popen[str]:
        command = [str(program or compiled(name)), *arguments]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        running.append(process)
        assert process.stdout is not None
        process.args = [*command, process.stdout.readline()]
        return process

    yield start
    for process in running:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
