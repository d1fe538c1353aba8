"""Writes the samples of a recording for the replay, whose programs/replay/load.c reads them."""

from __future__ import annotations

import shutil
import struct
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from clew.image import Image
from clew.image.elf import PF_W, PF_X, PT_LOAD
from clew.table.rule import Undefined
from clew.target import open_perf_data
from clew.target.model import Module
from clew.target.perfdata import Batch
from clew.target.perfdata.registers import register_plan

REGISTERS = 17
ABI_64 = 2


def word(*values: int) -> bytes:
    """Words of eight bytes."""
    return struct.pack(f"<{len(values)}Q", *(value & (1 << 64) - 1 for value in values))


def counted(data: bytes) -> bytes:
    """A size, and the bytes, filled up to whole words."""
    return word(len(data)) + data + bytes(-len(data) % 8)


def text(path: Path | None) -> bytes:
    """A path with the zero that ends it; nothing but that where there is none."""
    return counted(str(path or "").encode() + b"\0")


@dataclass
class Forms:
    """What clew made of an object: paths, where there are any."""

    c: Path | None = None
    assembler: Path | None = None
    packed: Path | None = None
    paper_c: Path | None = None
    paper_assembler: Path | None = None


@dataclass
class Object:
    """A file that was mapped.

    Attributes:
        path: where its bytes are.
        words: the file as the replay reads it, but for the forms.
        eh_frame, eh_frame_hdr: sizes of these sections.
        forms: what clew made of it.
    """

    path: Path
    words: bytes
    eh_frame: int
    eh_frame_hdr: int
    forms: Forms = field(default_factory=Forms)


@dataclass
class Exported:
    """A recording, taken apart.

    Attributes:
        out: the file that :meth:`write` makes.
        objects: the files that its processes had mapped.
        missing: those that could not be had.
        spaces, samples: how many there are.
    """

    out: Path
    objects: list[Object]
    missing: set[str]
    spaces: int
    samples: int

    def write(self) -> None:
        """Writes the file for the replay."""
        with open(self.out, "wb") as file:
            file.write(b"clewplay" + word(len(self.objects), self.spaces, self.samples))
            for each in self.objects:
                file.write(each.words + b"".join(text(path) for path in vars(each.forms).values()))
            for part in (".spaces", ".samples"):
                with open(self.out.with_suffix(part), "rb") as source:
                    shutil.copyfileobj(source, file)


class Exporter:
    """Collects the objects and spaces of a recording.

    Args:
        folder: where to put files that are none, as the vdso.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.objects: dict[int, tuple[int, Object]] = {}
        self.spaces: dict[tuple[tuple[int, int, int, int], ...], int] = {}
        self.missing: set[str] = set()

    def space(self, modules: list[Module]) -> int:
        """The number of a process's modules; processes that have the same ones in the same places are one space."""
        found: dict[tuple[int, int], tuple[int, int, int, int]] = {}
        for module in modules:
            image = module.image
            if image is None:
                self.missing.add(module.name)
                continue
            start, end = span(image)
            found[id(image), module.bias] = (start + module.bias, end + module.bias, module.bias, self.number(module))
        key = tuple(sorted(found.values()))
        return self.spaces.setdefault(key, len(self.spaces))

    def number(self, module: Module) -> int:
        """The number of a module's file."""
        image = module.image
        assert image is not None
        if id(image) not in self.objects:
            path = Path(module.name)
            if image.load_bias is not None:
                path = self.folder / "vdso.so"
                path.write_bytes(image.source.slice(0, image.source.size))
            self.objects[id(image)] = len(self.objects), described(path, image, outermost(module))
        return self.objects[id(image)][0]

    def listed(self) -> list[Object]:
        """The objects, by number."""
        return [each for _, each in sorted(self.objects.values(), key=lambda pair: pair[0])]

    def write_spaces(self, out: Path) -> None:
        """Writes the spaces, for :meth:`Exported.write`."""
        with open(out.with_suffix(".spaces"), "wb") as file:
            for key in self.spaces:
                file.write(word(len(key), *(value for module in key for value in module)))


def span(image: Image) -> tuple[int, int]:
    """The addresses that a file loads something at, in pages."""
    loaded = [segment for segment in image.segments if segment.type == PT_LOAD]
    return min(each.address for each in loaded) & -4096, (max(each.end for each in loaded) + 4095) & -4096


def outermost(module: Module) -> list[tuple[int, int]]:
    """Where a module's table says that the return address is undefined."""
    table = module.table
    if table is None:
        return []
    numbers = [number for number, rule in enumerate(table.rules) if isinstance(rule[rule.return_address], Undefined)]
    rows = np.flatnonzero(np.isin(table.rule, numbers))
    return [(int(table.start[row]), int(table.start[row + 1])) for row in rows.tolist() if row + 1 < len(table.start)]


def described(path: Path, image: Image, undefined: list[tuple[int, int]]) -> Object:
    """A file, with what the replay needs of it."""
    loaded = [segment for segment in image.segments if segment.type == PT_LOAD]
    code = [segment for segment in loaded if segment.flags & PF_X]
    constant = [segment for segment in loaded if not segment.flags & PF_W and segment.file_size]
    out = text(path) + word(*span(image))
    out += word(min(segment.address for segment in code), max(segment.end for segment in code))
    frames, header = image.eh_frame(), image.eh_frame_hdr()
    for section in (frames, header):
        out += word(0, 0) if section is None else word(section[0], section[0] + len(section[1]))
    out += word(len(constant))
    for segment in constant:
        out += word(segment.address, segment.file_size, segment.offset)
    out += word(len(undefined), *(address for ends in undefined for address in ends))
    return Object(path, out, len(frames[1]) if frames else 0, len(header[1]) if header else 0)


def export(recording: Path, out: Path, most: int | None = None) -> Exported:
    """Exports the samples of a recording that have registers of a 64-bit program, ``most`` of them at most.

    :meth:`Exported.write` then makes a file of it: what clew makes of the objects is known only when these are.
    """
    exporter = Exporter(out.parent)
    count = 0
    with open_perf_data(recording) as data, open(out.with_suffix(".samples"), "wb") as samples:
        spaces: dict[int, int] = {}
        for batch in data.batches():
            for index in np.flatnonzero(batch.abi == ABI_64).tolist():
                if count == most:
                    break
                state = int(batch.state[index])
                if state not in spaces:
                    spaces[state] = exporter.space(list(data.state(state).target.modules))
                samples.write(word(spaces[state]) + sample_words(batch, index))
                count += 1
    exporter.write_spaces(out)
    return Exported(out, exporter.listed(), exporter.missing, len(exporter.spaces), count)


def sample_words(batch: Batch, index: int) -> bytes:
    """Registers and stack of a sample."""
    data = batch.data
    plan = register_plan(data.machine, data.events[batch.event[index]].sample_regs_user, ABI_64)
    values = plan.words.unpack_from(batch.buffer, int(batch.registers_offset[index]))
    registers = dict(zip(plan.numbers, values, strict=True))
    start = int(batch.stack_offset[index])
    stack = bytes(batch.buffer[start : start + int(batch.stack_size[index])])
    return word(*(registers.get(number, 0) for number in range(REGISTERS)), int(batch.sp[index])) + counted(stack)
