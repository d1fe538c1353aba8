"""The compiler: C source to a shared object."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import tempfile
from collections.abc import Iterable

from clew.arch import Machine
from clew.errors import DependencyError, Error, UsageError

#: What GCC spends the most time on in a function of tens of thousands of comparisons, with nothing to be found there. Without it
#: and with -O1, libc takes a third of the time that it takes with -O2; the code is a little smaller and does the same work, for
#: every value is used once.
QUICK = (
    "-fno-tree-vrp",
    "-fno-tree-dominator-opts",
    "-fno-thread-jumps",
    "-fno-tree-fre",
    "-fno-tree-ccp",
    "-fno-tree-pta",
    "-fno-tree-loop-optimize",
    "-fno-forward-propagate",
    "-fno-cprop-registers",
    "-fno-if-conversion",
    "-fno-if-conversion2",
    "-fno-guess-branch-probability",
    "-fno-ipa-pure-const",
)

FLAGS = ("-O1", "-foptimize-sibling-calls", *QUICK, "-fPIC", "-shared", "-x", "c", "-")


def build(lines: Iterable[str], machine: Machine) -> bytes:
    """The shared object that the C compiler makes of a source: the one that ``$CC`` names, else ``cc`` or, for another machine
    than this one, the cross compiler by the name that distributions give it, such as ``aarch64-linux-gnu-gcc``.

    Raises:
        DependencyError: there is no compiler.
        Error: it fails, or makes code for another machine.
    """
    try:
        command = shlex.split(os.environ.get("CC", ""))
    except ValueError as error:
        raise UsageError(f"CC cannot be read as a command: {error}") from None
    triple = machine.name.replace("-", "_")
    command = command or ["cc" if triple == platform.machine() else f"{triple}-linux-gnu-gcc"]
    hint = "--backend asm needs no compiler" if machine.name == "x86-64" else "name one with CC="
    with tempfile.TemporaryDirectory(prefix="clew-") as folder:
        out = os.path.join(folder, "unwinder.so")
        text = "\n".join(lines).encode("ascii") + b"\n"
        try:
            done = subprocess.run(
                [*command, *FLAGS, "-o", out], input=text, capture_output=True, check=False, cwd=folder
            )
        except FileNotFoundError:
            raise DependencyError(f"there is no C compiler {command[0]!r}", hint=hint) from None
        except OSError as error:
            raise Error(f"the C compiler cannot be run: {error.strerror}", file=command[0], hint=hint) from None
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            first = next((line for line in said if "error" in line), said[0] if said else "it said nothing")
            raise Error(f"the C compiler {command[0]} failed: {first[:300]}", hint=hint)
        try:
            with open(out, "rb") as stream:
                data = stream.read()
        except OSError as error:
            raise Error(f"the C compiler {command[0]} made no file: {error.strerror}", hint=hint) from None
    made = int.from_bytes(data[18:20], "little")
    if data[:4] != b"\x7fELF" or made not in machine.elf_machines:
        raise Error(
            f"the C compiler {command[0]} does not make code for {machine.name}",
            hint=f"name one that does: CC={triple}-linux-gnu-gcc",
        )
    return data
