"""Holds clew's frame listings against GNU readelf's, byte for byte, on every ELF file under some directories.

    python bench/parity_readelf.py                      # the system's programs and libraries
    python bench/parity_readelf.py ~/corpus /opt/lib    # others

Both listings are compared: rows (``--debug-dump=frames-interp``) and instructions (``--debug-dump=frames``). Prints
every file that differs with its first differing line, then a summary; exits with 1 when there was a difference. The
reference is readelf of binutils 2.40; another version on the machine may print other things.
"""

from __future__ import annotations

import argparse
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from clew.errors import Error
from clew.image import Image
from clew.write.readelf import frames_text

SYSTEM = ("/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/local")
MODES = (("frames-interp", False), ("frames", True))
#: Text kept to show the line in which a difference is.
CONTEXT = 1 << 12


@dataclass
class Result:
    """What came of one file: bytes that readelf printed, seconds that each took, and differences."""

    path: str
    size: int = 0
    readelf: float = 0.0
    clew: float = 0.0
    differences: list[str] = field(default_factory=list)


def elf_files(roots: Iterable[str]) -> Iterator[str]:
    """ELF files under the roots, each once whatever its names and links; not members of archives."""
    seen: set[tuple[int, int]] = set()
    for root in roots:
        paths: Iterable[str] = (
            (os.path.join(folder, name) for folder, _, names in os.walk(root) for name in sorted(names))
            if os.path.isdir(root)
            else (root,)
        )
        for path in paths:
            real = os.path.realpath(path)
            try:
                status = os.stat(real)
                if not stat.S_ISREG(status.st_mode) or (status.st_dev, status.st_ino) in seen:
                    continue
                seen.add((status.st_dev, status.st_ino))
                with open(real, "rb") as file:
                    if file.read(4) == b"\x7fELF":
                        yield real
            except OSError:
                continue


def clew_text(path: str, raw: bool) -> Iterator[bytes]:
    """Clew's listing; nothing for a file that it cannot read."""
    try:
        with Image.open(path) as image:
            yield from frames_text(image, raw=raw)
    except Error:
        return


def first_difference(wanted: bytes, got: bytes) -> str:
    """The first line that differs."""
    end = next((i for i, (a, b) in enumerate(zip(wanted, got, strict=False)) if a != b), min(len(wanted), len(got)))
    start = wanted.rfind(b"\n", 0, end) + 1
    lines = [text[start:].split(b"\n", 1)[0].decode("ascii", "backslashreplace") for text in (wanted, got)]
    return f"\n    readelf: {lines[0]}\n    clew:    {lines[1]}"


def compare(path: str) -> Result:
    """Both listings of one file."""
    result = Result(path)
    environment = {**os.environ, "LC_ALL": "C"}
    for option, raw in MODES:
        command = ["readelf", "-wN", f"--debug-dump={option}", path]
        before = os.times()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as process:
            assert process.stdout is not None
            tail = b""
            for piece in clew_text(path, raw):
                wanted = process.stdout.read(len(piece))
                result.size += len(wanted)
                if wanted != piece:
                    result.differences.append(f"{path} ({option}){first_difference(tail + wanted, tail + piece)}")
                    process.kill()
                    break
                tail = (tail + piece)[-CONTEXT:]
            else:
                rest = process.stdout.read(CONTEXT)
                if rest:
                    result.differences.append(f"{path} ({option}){first_difference(tail + rest, tail)}")
                    process.kill()
        after = os.times()
        result.clew += after.user + after.system - before.user - before.system
        result.readelf += after.children_user + after.children_system - before.children_user - before.children_system
    return result


def main() -> int:
    """Compares, prints, and tells whether all was the same."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("roots", nargs="*", help="directories or files; by default the system's")
    parser.add_argument("--also", action="append", default=[], help="a directory besides those, such as a corpus")
    parser.add_argument("--jobs", type=int, default=2, help="files at a time")
    parser.add_argument("--limit", type=int, help="stop after so many files")
    arguments = parser.parse_args()
    started = time.monotonic()
    paths = list(elf_files([*(arguments.roots or SYSTEM), *arguments.also]))[: arguments.limit]
    files = size = differences = 0
    clew = readelf = 0.0
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for result in pool.map(compare, paths, chunksize=4):
            files += bool(result.size)
            size += result.size
            clew += result.clew
            readelf += result.readelf
            differences += len(result.differences)
            for difference in result.differences:
                print(difference, flush=True)
    print(
        f"{files} files, {size} bytes compared, {differences} differences "
        f"({len(paths) - files} more ELF files without frames; processor time: readelf {readelf:.1f} s, clew {clew:.1f} s; "
        f"{time.monotonic() - started:.1f} s in all)"
    )
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
