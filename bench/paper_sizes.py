"""What clew makes of the files of a recording, and how large that is beside .eh_frame: table 2 of the paper."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from clew.errors import Error
from clew.image import Image
from clew.image.elf import PF_W, PT_LOAD
from clew.read.frames import unwind_tables
from clew.table import merge
from clew.write.packed import packed
from paper_export import Exported, Forms, Object

BACKENDS = {"c": "c", "asm": "assembler", "packed": "packed"}
"""What ``clew compile --backend`` calls them, and what :class:`paper_export.Forms` does."""

PAPER = {"c": "paper_c", "asm": "paper_assembler"}
"""The same with the paper's context: rip, rsp, rbp and rbx."""


@cache
def has_backend(backend: str) -> bool:
    """Whether this clew compiles in this way."""
    command = [sys.executable, "-m", "clew", "compile", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return not done.returncode and backend in done.stdout


def make_forms(exported: Exported, folder: Path) -> None:
    """Compiles every object in every way that there is, once for all recordings."""
    for each in exported.objects:
        made = {}
        file = str(each.path).lstrip("/").replace("/", "-")
        for backend, name in BACKENDS.items():
            out = folder / f"forms-{backend}" / file
            out.parent.mkdir(exist_ok=True)
            if out.exists() or (pack(each.path, out) if backend == "packed" else compile_with(backend, each.path, out)):
                made[name] = out
        for backend, name in PAPER.items():
            out = folder / f"forms-{backend}-paper" / file
            out.parent.mkdir(exist_ok=True)
            if out.exists() or compile_with(backend, each.path, out, abi="paper"):
                made[name] = out
        each.forms = Forms(**made)


def pack(path: Path, out: Path) -> bool:
    """Writes a file's packed table; says whether it has one."""
    with Image.open(path) as image:
        try:
            out.write_bytes(packed(merge(unwind_tables(image)), image))
        except Error as error:
            print(f"  {path}: {error}", file=sys.stderr)
    return out.exists()


def compile_with(backend: str, path: Path, out: Path, abi: str = "full") -> bool:
    """Lets ``clew compile`` make an unwinder for samples, which loads memory through a parameter; says whether it did."""
    if not has_backend(backend):
        return False
    options = ["--backend", backend, "--abi", abi, "--deref", "-o", str(out)]
    command = [sys.executable, "-m", "clew", "compile", *options, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not out.exists():
        print(f"  {path}: clew compile --backend {backend}: {done.stderr.strip()[:200]}", file=sys.stderr)
    return out.exists()


@dataclass(frozen=True)
class Size:
    """Sizes of an object in bytes.

    Attributes:
        file: of the whole file.
        eh_frame: of ``.eh_frame`` and ``.eh_frame_hdr``.
        forms: by backend, of what is loaded of each form and cannot be written to, for that is shared by all processes.
    """

    file: int
    eh_frame: int
    forms: dict[str, int]

    def __add__(self, other: Size) -> Size:
        both = set(self.forms) & set(other.forms)
        return Size(
            self.file + other.file,
            self.eh_frame + other.eh_frame,
            {name: self.forms[name] + other.forms[name] for name in BACKENDS if name in both},
        )


def size_of(each: Object) -> Size:
    """The sizes of an object and its forms."""
    forms = {}
    for backend, name in BACKENDS.items():
        path = getattr(each.forms, name)
        if path is not None:
            forms[backend] = loaded_size(path)
    return Size(each.path.stat().st_size, each.eh_frame + each.eh_frame_hdr, forms)


def loaded_size(path: Path) -> int:
    """The bytes of a file that are loaded and cannot be written to; all of one that is no ELF file, as a packed table."""
    try:
        with Image.open(path) as image:
            segments = image.segments
            return sum(each.file_size for each in segments if each.type == PT_LOAD and not each.flags & PF_W)
    except Error:
        return path.stat().st_size


def as_json(each: Object) -> dict[str, Any]:
    """Sizes for the file of figures."""
    size = size_of(each)
    return {"file": str(each.path), "size": size.file, "eh_frame": size.eh_frame, "forms": size.forms}


def table(programs: dict[str, list[Object]]) -> list[tuple[str, ...]]:
    """Rows of table 2: every object once, then every program with all its objects."""
    sizes = {str(each.path): size_of(each) for objects in programs.values() for each in objects}
    rows: list[tuple[str, ...]] = [("", "file", ".eh_frame", *(f"{b}  factor" for b in BACKENDS))]
    rows += [row(Path(path).name, sizes[path]) for path in sorted(sizes)]
    for name, objects in programs.items():
        total = sum((sizes[str(each.path)] for each in objects), Size(0, 0, dict.fromkeys(BACKENDS, 0)))
        rows.append(row(f"{name} + libraries", total))
    return rows


def row(name: str, size: Size) -> tuple[str, ...]:
    """One row, with the factor by which each form is larger than what it was made of."""
    cells = [
        f"{size.forms[backend]:,}  {size.forms[backend] / max(1, size.eh_frame):6.2f}" if backend in size.forms else "-"
        for backend in BACKENDS
    ]
    return name, f"{size.file:,}", f"{size.eh_frame:,}", *cells
