"""Runs a test's file with the uncompiled core, for comparing what it says with what the compiled one does."""

from __future__ import annotations

import os
import subprocess
import sys


def said_uncompiled(file: str) -> str:
    """What a test's file prints when it is run as a program without the compiled core."""
    pure = subprocess.run(
        [sys.executable, file],
        env={**os.environ, "CLEW_PURE": "1", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert pure.returncode == 0, pure.stderr
    return pure.stdout
