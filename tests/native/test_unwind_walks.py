"""Walks of the in-process library: glibc's backtrace() and the programs' own checks are the judges."""

from __future__ import annotations

from pathlib import Path

import pytest
import unwind_programs as programs


@pytest.mark.parametrize("name", ["agree", "signals", "threads", "hostile", "wild_call"])
def test_program(name: str) -> None:
    assert programs.run([programs.program(name)]) == "ok\n"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("agree", ()), ("signals", ()), ("threads", ("4", "2", "no forks")), ("hostile", ("500", "no coroutines"))],
)
@pytest.mark.slow
def test_program_sanitized(name: str, arguments: tuple[str, ...]) -> None:
    assert programs.run([programs.program(name, programs.SANITIZED), *arguments]) == "ok\n"


@pytest.mark.slow
def test_frame_pointers_all_over() -> None:
    assert programs.run([programs.program("agree", ("-fno-omit-frame-pointer",))]) == "ok\n"


@pytest.mark.slow
def test_clang() -> None:
    assert programs.run([programs.program("agree", cc="clang-14")]) == "ok\n"


@pytest.mark.parametrize("name", ["agree", "signals", "hostile", "wild_call"])
@pytest.mark.slow
def test_aarch64(name: str) -> None:
    assert programs.emulated(name) == "ok\n"


def _plugins() -> list[Path]:
    return [
        programs.plugin(32),
        programs.plugin(200),
        programs.plugin(320, "-Wl,--build-id=none"),
        programs.plugin(1000),
    ]


def test_libraries_come_and_go() -> None:
    assert programs.run([programs.program("modules"), "2", "20", *_plugins()]) == "ok\n"


@pytest.mark.slow
def test_libraries_come_and_go_under_64_threads() -> None:
    assert programs.run([programs.program("modules"), "64", "200", *_plugins()]) == "ok\n"
    assert programs.run([programs.program("modules", programs.SANITIZED), "8", "40", *_plugins()]) == "ok\n"


@pytest.mark.slow
def test_64_threads_with_a_timer() -> None:
    assert programs.run([programs.program("threads"), "64", "10"]) == "ok\n"
    assert programs.run([programs.program("signals"), "2000"]) == "ok\n"
