"""Compiles and installs the in-process library. It needs a C compiler and nothing else, not even the rest of clew.

``python compile.py DIRECTORY`` builds the libraries there; ``python compile.py --install PREFIX`` installs them with the header
and the pkg-config file. ``$CC`` names the compiler.
"""

from __future__ import annotations

import argparse
import errno
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

LIBRARY, PRELOAD, PERF = "libclew-unwind.so", "libclew-preload.so", "libclew-perf.so"

FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-g1", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra")
# Nothing is bound on the first call, which may be in a signal handler; and the library's own calls stay inside it.
LINKED = ("-shared", "-Wl,-z,now", "-Wl,-Bsymbolic-functions")

_PERF_PARTS = ("cfi.c", "program.c", "rule.c", "expression.c")


def compiler() -> list[str] | None:
    """The command of the C compiler, from ``$CC`` or by the usual names; None if there is none."""
    named = shlex.split(os.environ.get("CC", ""))
    if named:
        return named if shutil.which(named[0]) else None
    found = next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
    return None if found is None else [found]


def machine_of(command: list[str]) -> str:
    """What the compiler compiles for: ``x86_64``, ``aarch64``, or something that the library is not for."""
    answer = subprocess.run([*command, "-dumpmachine"], capture_output=True, text=True, check=False)
    return answer.stdout.split("-", 1)[0].strip()


def sources(product: str = LIBRARY) -> list[Path]:
    """The files that a library is made of."""
    if product == PERF:
        return [*(HERE / name for name in _PERF_PARTS), *sorted((HERE / "perf").glob("*.c"))]
    own = [*sorted(HERE.glob("*.c")), *sorted(HERE.glob("*.S"))]
    if product == PRELOAD:
        own += [*sorted((HERE / "preload").glob("*.c")), *sorted((HERE / "preload").glob("*.S"))]
    return own


def command(cc: list[str], product: str, out: Path, flags: tuple[str, ...] = ()) -> list[str]:
    """The command that makes one of the libraries; ``flags`` come last among those of the compiler."""
    script = {
        LIBRARY: HERE / "clew-unwind.map",
        PRELOAD: HERE / "preload" / f"{machine_of(cc)}.map",
        PERF: HERE / "perf" / "perf.map",
    }[product]
    # A throw's context is libgcc's to read, so that has to be there.
    libraries = ("-Wl,--no-as-needed", "-lgcc_s") if product == PRELOAD else ()
    linked = (*LINKED, f"-Wl,--version-script={script}", f"-Wl,-soname,{product}")
    return [*cc, *FLAGS, *flags, *linked, *map(str, sources(product)), *libraries, "-o", str(out)]


def build(directory: Path, cc: list[str] | None = None, flags: tuple[str, ...] = ()) -> list[Path]:
    """Builds the libraries in a directory; those that were made.

    Raises:
        RuntimeError: there is no compiler, it is for another machine, or it fails. The text says which, and what it said.
    """
    cc = cc or compiler()
    if cc is None:
        raise RuntimeError("no C compiler: set CC, or install gcc or clang")
    machine = machine_of(cc)
    if machine not in ("x86_64", "aarch64"):
        raise RuntimeError(
            f"the in-process library is for x86-64 and AArch64 Linux, and {cc[0]} compiles for {machine or '?'}"
        )
    directory.mkdir(parents=True, exist_ok=True)
    if not os.access(directory, os.W_OK):
        raise PermissionError(errno.EACCES, "not writable", str(directory))
    made = []
    for product in (LIBRARY, PRELOAD, *((PERF,) if machine == "x86_64" else ())):
        # A program that uses the old one keeps it.
        fresh = directory / f".{product}.{os.getpid()}"
        run = subprocess.run(command(cc, product, fresh, flags), capture_output=True, text=True, check=False)
        if run.returncode:
            fresh.unlink(missing_ok=True)
            raise RuntimeError(f"{cc[0]} could not make {product}:\n{run.stderr[-2000:]}")
        fresh.replace(directory / product)
        made.append(directory / product)
    return made


def install(prefix: Path, destination: Path) -> None:
    """Installs libraries, header and pkg-config file for a prefix, below ``destination`` (``/`` but for packages)."""
    root = destination / prefix.relative_to(prefix.anchor)
    for made in build(root / "lib"):
        print(made)
    (root / "include").mkdir(parents=True, exist_ok=True)
    header = shutil.copy(HERE / "clew-unwind.h", root / "include" / "clew-unwind.h")
    config = root / "lib" / "pkgconfig" / "clew-unwind.pc"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text((HERE / "clew-unwind.pc.in").read_text().replace("@PREFIX@", str(prefix)))
    print(header, config, sep="\n")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Compiles and installs the in-process library.")
    parser.add_argument("directory", nargs="?", type=Path, help="where to build the libraries")
    parser.add_argument("--install", type=Path, metavar="PREFIX", help="install below this prefix")
    parser.add_argument("--destdir", type=Path, default=Path("/"), help="as DESTDIR of make (default: /)")
    arguments = parser.parse_args()
    try:
        if arguments.install:
            install(arguments.install.absolute(), arguments.destdir.absolute())
        elif arguments.directory:
            for made in build(arguments.directory):
                print(made)
        else:
            parser.error("a directory or --install")
    except OSError as error:
        place = f"{error.filename}: {error.strerror}"
        print(f"compile.py: {place}: name a place that can be written, with PREFIX= or DESTDIR=", file=sys.stderr)
        return 1
    except RuntimeError as error:
        print(f"compile.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
