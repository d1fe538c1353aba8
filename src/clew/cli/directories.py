"""Directories that the user names: where debug files are."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from clew.errors import NotFoundError

if TYPE_CHECKING:
    import argparse


def add_debug_dir(parser: argparse.ArgumentParser, purpose: str) -> None:
    """The ``--debug-dir`` option.

    Args:
        purpose: what is looked for there, as its help.
    """
    parser.add_argument("--debug-dir", metavar="DIR", action="append", default=[], help=f"{purpose} (may be repeated)")


def debug_directories(options: argparse.Namespace) -> list[str]:
    """The directories that the user names, without slashes at the end. Raises NotFoundError where one is not there."""
    for directory in options.debug_dir:
        check_directory("--debug-dir", directory)
    return [directory.rstrip("/") or "/" for directory in options.debug_dir]


def check_directory(option: str, directory: str | None) -> None:
    """Raises NotFoundError where what an option names is no directory."""
    if directory is not None and not os.path.isdir(directory):
        raise NotFoundError(f"{option} names no directory", file=directory, hint="check the path")
