"""What the coverage-guided fuzz targets have in common."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from types import FunctionType

from clew.errors import Error

Reader = Callable[[bytes], None]


def main(read: Reader, seeds: Callable[[Random, int], list[bytes]], rooms: tuple[str, ...]) -> int:
    """Fuzzes ``read`` from well-formed inputs on, watching the branches of the modules of these rooms.

    Exit code 77 with a sentence where atheris is not installed. libFuzzer ends the process itself.
    """
    try:
        import atheris
    except ImportError:
        print("atheris is not installed: python -m pip install atheris; or use run_fuzz.py", file=sys.stderr)
        return 77
    arguments = sys.argv[1:]
    if "--runs" in arguments:
        at = arguments.index("--runs")
        arguments[at : at + 2] = [f"-runs={arguments[at + 1]}"]
    # Modules that would else be imported, without instruments, while it runs.
    for blob in seeds(Random(0), 20):
        _ignoring_errors(read, blob)
    for function in _functions(rooms):
        atheris.instrument_func(function)
    with tempfile.TemporaryDirectory() as folder:
        for number, blob in enumerate(seeds(Random(1), 200)):
            Path(folder, f"seed-{number}").write_bytes(blob)
        atheris.Setup([sys.argv[0], *arguments, folder], lambda blob: _ignoring_errors(read, blob))
        atheris.Fuzz()
    return 0


def _ignoring_errors(read: Reader, blob: bytes) -> None:
    with contextlib.suppress(Error):
        read(blob)


def _functions(rooms: tuple[str, ...]) -> Iterator[FunctionType]:
    """The Python functions of these rooms' modules; what is compiled has none."""
    for name, module in list(sys.modules.items()):
        if not name.startswith(rooms):
            continue
        for thing in list(vars(module).values()):
            things = [thing, *vars(thing).values()] if isinstance(thing, type) else [thing]
            for part in things:
                part = getattr(part, "__func__", part)
                part = getattr(part, "fget", part)
                if isinstance(part, FunctionType) and part.__module__ == name:
                    yield part
