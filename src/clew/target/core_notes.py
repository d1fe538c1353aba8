"""What the notes of an ELF core say: threads and their registers, the process, its files, its auxiliary vector.

Linux writes them in ``fs/binfmt_elf.c``; the structures are those of ``linux/elfcore.h`` and ``linux/elf.h``. The notes
that follow a thread's ``NT_PRSTATUS``, up to the next, are that thread's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from os import fsdecode
from struct import Struct
from typing import Final

from clew.arch import Machine
from clew.errors import Problem
from clew.image import Image, Note
from clew.target.register_layouts import LAYOUTS, Registers, read_registers
from clew.target.thread_notes import ThreadNotes

NT_PRSTATUS: Final = 1
NT_PRPSINFO: Final = 3
NT_AUXV: Final = 6
NT_FILE: Final = 0x46494C45
NT_SIGINFO: Final = 0x53494749

AT_PHDR: Final = 3
AT_PHNUM: Final = 5
AT_PAGESZ: Final = 6
AT_BASE: Final = 7
AT_ENTRY: Final = 9
AT_EXECFN: Final = 31
AT_SYSINFO_EHDR: Final = 33

MAXIMUM_FILES = 1 << 18
"""How many mapped files of a core are read: four times as many mappings as a process has unless told otherwise."""


@dataclass
class CoreThread:
    """A thread of a core.

    Attributes:
        id: its number.
        signal: the signal that it has, 0 for none.
        registers: its registers.
        more: what the notes behind it say.
    """

    id: int
    signal: int
    registers: Registers
    more: ThreadNotes = field(default_factory=ThreadNotes)


@dataclass(frozen=True, slots=True)
class MappedFile:
    """One entry of ``NT_FILE``: addresses from ``start`` to ``end`` hold the file's bytes from ``offset`` on."""

    start: int
    end: int
    offset: int
    path: str


@dataclass
class CoreNotes:
    """Everything that the notes say.

    Attributes:
        threads: in the core's order; the first is the one that was dumped for.
        process_id, name, arguments: of the process, from ``NT_PRPSINFO``.
        signal: the number of the signal that ended it, and its ``si_code``.
        auxv: the auxiliary vector: the first value of each type.
        files: what was mapped, in the note's order; None where there is no such note.
        code_mask: the bits of a code pointer that are its authentication code; None where no note says so.
    """

    threads: list[CoreThread] = field(default_factory=list)
    process_id: int | None = None
    name: str | None = None
    arguments: str | None = None
    signal: tuple[int, int] | None = None
    auxv: dict[int, int] = field(default_factory=dict)
    files: list[MappedFile] | None = None
    code_mask: int | None = None


class _Reader:
    def __init__(self, image: Image, machine: Machine, report: Callable[[Problem], None]) -> None:
        self.machine = machine
        self.layout = LAYOUTS.get(machine.name)
        self.report = report
        self.prefix = image.header.layout.prefix
        self.word = "Q" if image.elf_class == 64 else "I"
        self.notes = CoreNotes()
        self._readers: dict[int, Callable[[bytes], None]] = {
            NT_PRSTATUS: self._status,
            NT_PRPSINFO: self._process,
            NT_AUXV: self._auxv,
            NT_FILE: self._files,
            NT_SIGINFO: self._signal,
        }

    def read(self, note: Note) -> None:
        if note.name == b"CORE":
            reader = self._readers.get(note.type)
            if reader is not None:
                reader(note.description)
                return
        if note.name in (b"CORE", b"LINUX") and self.notes.threads:
            more = self.notes.threads[-1].more
            more.read(self.machine, note.type, note.description)
            if more.code_mask is not None:
                self.notes.code_mask = more.code_mask

    def _status(self, data: bytes) -> None:
        layout = self.layout
        if layout is None:
            return
        registers = read_registers(self.machine, data[layout.offset :])
        if registers is None:
            self.report(Problem(f"a thread's status of {len(data)} bytes is too small for its registers"))
            return
        (signal,) = Struct(self.prefix + "H").unpack_from(data, 12)
        (thread,) = Struct(self.prefix + "i").unpack_from(data, layout.thread_offset)
        self.notes.threads.append(CoreThread(thread, signal, registers))

    def _process(self, data: bytes) -> None:
        # The ids of user and group have 16 bits on the older machines of 32 bits, so the size tells where the rest is.
        places = {136: (24, 40), 124: (12, 28), 128: (16, 32)}.get(len(data))
        if places is None:
            self.report(Problem(f"the process information has an unknown size, {len(data)} bytes"))
            return
        number, name = places
        (self.notes.process_id,) = Struct(self.prefix + "i").unpack_from(data, number)
        self.notes.name = fsdecode(data[name : name + 16].split(b"\0", 1)[0]) or None
        self.notes.arguments = fsdecode(data[name + 16 : name + 96].split(b"\0", 1)[0]).rstrip() or None

    def _auxv(self, data: bytes) -> None:
        record = Struct(self.prefix + 2 * self.word)
        for kind, value in record.iter_unpack(data[: len(data) - len(data) % record.size]):
            if kind == 0:
                break
            self.notes.auxv.setdefault(kind, value)

    def _signal(self, data: bytes) -> None:
        # si_signo, si_errno, si_code; but for MIPS, where the last two are the other way round.
        if self.notes.signal is None and len(data) >= 12:
            number, _, code = Struct(self.prefix + "iii").unpack_from(data)
            self.notes.signal = number, code

    def _files(self, data: bytes) -> None:
        if self.notes.files is not None:
            self.report(Problem("a second list of mapped files is left out"))
            return
        head, record = Struct(self.prefix + 2 * self.word), Struct(self.prefix + 3 * self.word)
        self.notes.files = []
        if len(data) < head.size:
            self.report(Problem("the list of mapped files is cut short"))
            return
        count, page_size = head.unpack_from(data)
        there = min(count, (len(data) - head.size) // record.size, MAXIMUM_FILES)
        ends = head.size + there * record.size
        names = data[ends:].split(b"\0", there)[:there]
        if there < count or len(names) < there:
            self.report(Problem(f"the list of mapped files has {min(there, len(names))} of its {count} entries"))
        for index, name in enumerate(names):
            start, end, page = record.unpack_from(data, head.size + index * record.size)
            if start < end:
                self.notes.files.append(MappedFile(start, end, page * page_size, fsdecode(name)))


def read_core_notes(image: Image, machine: Machine, report: Callable[[Problem], None]) -> CoreNotes:
    """What the notes of a core say. Notes that are cut or of the wrong size are left out and reported."""
    reader = _Reader(image, machine, report)
    for note in image.notes():
        reader.read(note)
    notes = reader.notes
    if reader.layout is None:
        report(Problem(f"the registers of a core of {machine.name} cannot be read"))
    elif not notes.threads:
        report(Problem("the core has no thread"))
    if notes.files is not None:
        notes.files.sort(key=lambda each: each.start)
        if any(before.end > after.start for before, after in pairwise(notes.files)):
            report(Problem("mapped files overlap", lost=False))
    return notes
