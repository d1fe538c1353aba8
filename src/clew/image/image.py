"""A binary file as it concerns whoever unwinds: sections, segments, symbols, notes, and bytes by address."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from clew.errors import Problem
from clew.image import elf, frames, layout, tables
from clew.image import source as sources
from clew.image.dynamic import dynamic_address, read_dynamic
from clew.image.elf import ByteOrder, Header
from clew.image.notes import Note, build_id, read_notes
from clew.image.section import Section, relocation_sections
from clew.image.segment import Segment
from clew.image.source import Source

if TYPE_CHECKING:
    from clew.image.symbols import SymbolTable
    from clew.memory import Memory

MAXIMUM_PROBLEMS = 1000
"""How many problems an image remembers; a damaged table could otherwise yield one for each of its entries."""

SymbolSource = Literal["symtab", "dynsym"]


class Image:
    """An ELF file: 32 or 64 bits, either byte order, any machine.

    Opening one reads the header and nothing else; every part is read when it is asked for, and kept. Parts that are
    damaged or missing are left out and told in :attr:`problems`.

    Use it as a context manager, or call :meth:`close`.

    Attributes:
        name: the file's name, or what the caller called the bytes.
        header: the ELF header.
        source: the file's bytes.
        problems: what was found wrong so far. It grows as parts are read.
        load_bias: for an image read from memory, how far it is from where it was linked: an address in memory minus the
            address in the file. None for a file.
    """

    def __init__(self, source: Source, *, load_bias: int | None = None) -> None:
        self.source = source
        self.name = source.name
        self.problems: list[Problem] = []
        self.header: Header = tables.read_header(source)
        self.load_bias = load_bias
        self._sections: tuple[Section, ...] | None = None
        self._segments: tuple[Segment, ...] | None = None
        self._names: memoryview | None = None
        self._dynamic: dict[int, int] | None = None
        self._symbols: dict[int, SymbolTable] = {}
        self._addresses: dict[int, int] | None = None
        self._seen: set[Problem] = set()

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Image:
        """The image in a file, which is mapped, not read.

        The mapping follows the file: do not cut a file short while its image is in use.

        Raises:
            NotFoundError: there is no such file.
            FormatError: it is not an ELF file.
            Error: it may not be read.
        """
        return cls(sources.from_file(path))

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview | mmap.mmap, name: str = "<bytes>") -> Image:
        """The image in bytes, which are not copied. Raises FormatError when they are not an ELF file."""
        return cls(sources.from_bytes(data, name))

    @classmethod
    def from_memory(cls, memory: Memory, base: int, name: str, size_limit: int = 1 << 24) -> Image:
        """The image that is loaded at the address ``base`` of ``memory``, such as the kernel's vdso.

        Its bytes are those of the loaded segments, as they are now: a program may have written to them. The section
        headers are there where they were loaded too, as in the vdso. Addresses are the file's own; add
        :attr:`load_bias` to get those in memory.

        Args:
            size_limit: how many bytes of the file at most to read. What is beyond becomes a problem.

        Raises:
            FormatError: there is no ELF header at ``base``, or it cannot be read.
        """
        from clew.image.loaded import read_loaded

        problems: list[Problem] = []
        source, bias, has_sections = read_loaded(memory, base, name, size_limit, problems.append)
        image = cls(source, load_bias=bias)
        if not has_sections:
            # That they are not loaded is no fault of the file.
            image.header.section_offset = image.header.section_count = image.header.names_index = 0
        for problem in problems:
            image.report(problem)
        return image

    def close(self) -> None:
        """Let go of the file. Bytes that were handed out stay valid."""
        self.source.close()

    def forget(self) -> None:
        """Let go of contents that were expanded or relocated; they are made again when they are asked for."""
        for section in self._sections or ():
            section.forget()
        self.source.release()

    def __enter__(self) -> Image:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Image({self.name!r}, ELF{self.elf_class}, {self.byte_order}, machine {self.e_machine})"

    def report(self, problem: Problem) -> None:
        """Remember a problem, once."""
        if len(self.problems) < MAXIMUM_PROBLEMS and problem not in self._seen:
            self._seen.add(problem)
            self.problems.append(problem)

    # What kind of file it is

    @property
    def elf_class(self) -> int:
        """32 or 64."""
        return self.header.layout.bits

    @property
    def byte_order(self) -> ByteOrder:
        """``little`` or ``big``."""
        return self.header.layout.byte_order

    @property
    def address_size(self) -> int:
        """Bytes in an address: 4 or 8."""
        return self.header.layout.bits // 8

    @property
    def type(self) -> int:
        """``e_type``: ET_REL, ET_EXEC, ET_DYN or ET_CORE, or another."""
        return self.header.type

    @property
    def e_machine(self) -> int:
        """``e_machine``, for example 62 for x86-64."""
        return self.header.machine

    @property
    def entry(self) -> int:
        """The address where the program starts; 0 for none."""
        return self.header.entry

    @property
    def flags(self) -> int:
        """``e_flags``, whose meaning is the machine's."""
        return self.header.flags

    # Its parts

    @property
    def sections(self) -> tuple[Section, ...]:
        """The sections, in the order of the section header table. The first is the empty section 0."""
        if self._sections is None:
            fields = tables.read_sections(self.source, self.header, self.report)
            self._sections = tuple(Section(self, index, each) for index, each in enumerate(fields))
            for section in self._sections:
                if section.has_data and section.size and len(section.raw) < section.size:
                    message = f"the file holds {len(section.raw)} of the section's {section.size} bytes"
                    self.report(Problem(message, section=section.name or f"[{section.index}]"))
        return self._sections

    @property
    def section_names(self) -> memoryview:
        """The string table that holds the names of sections; empty where there is none."""
        if self._names is None:
            index = tables.names_index(self.source, self.header)
            sections = self.sections
            offset, size = (sections[index].offset, sections[index].size) if 0 < index < len(sections) else (0, 0)
            if sections and not size:
                self.report(Problem("the sections have no names", offset=self.header.section_offset))
            self._names = self.source.slice(offset, size)
        return self._names

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments, in the order of the program header table."""
        if self._segments is None:
            fields = tables.read_segments(self.source, self.header, self.report)
            self._segments = tuple(Segment(self.source, self.elf_class, each) for each in fields)
        return self._segments

    def section(self, name: str) -> Section | None:
        """The first section of this name, or None. For ``.debug_X`` also ``.zdebug_X``, its old compressed form."""
        wanted = name.encode("utf-8", "surrogatepass")
        for section in self.sections:
            if section.is_named(wanted):
                return section
        return self.section(".z" + name[1:]) if name.startswith(".debug_") else None

    def symbols(self, which: SymbolSource | None = None) -> SymbolTable:
        """The symbols: of ``.symtab`` where there is one, else of ``.dynsym``; or of the one that ``which`` names.

        A file without section headers still has its dynamic symbols. Where there are none, the table is empty.
        """
        from clew.image.symbols import dynamic_symbols, no_symbols

        if which is None:
            table = self.symbols("symtab")
            return table if len(table) else self.symbols("dynsym")
        kind = elf.SHT_SYMTAB if which == "symtab" else elf.SHT_DYNSYM
        for section in self.sections:
            if section.type == kind:
                return self.symbols_of(section)
        if -kind not in self._symbols:
            self._symbols[-kind] = dynamic_symbols(self) if which == "dynsym" else no_symbols(self)
        return self._symbols[-kind]

    def symbols_of(self, section: Section) -> SymbolTable:
        """The symbols in a section, which should be of type ``SHT_SYMTAB`` or ``SHT_DYNSYM``."""
        from clew.image.symbols import read_section

        if section.index not in self._symbols:
            self._symbols[section.index] = read_section(self, section)
        return self._symbols[section.index]

    def notes(self) -> Iterator[Note]:
        """The notes, of the note sections or, where there are none, of the note segments."""
        return read_notes(self)

    @property
    def build_id(self) -> bytes | None:
        """The build id that the linker gave this file and its debug file, or None."""
        return build_id(self)

    @property
    def dynamic(self) -> dict[int, int]:
        """What the dynamic section says: the first value of each ``d_tag``. Empty for a static file."""
        if self._dynamic is None:
            self._dynamic = read_dynamic(self)
        return self._dynamic

    @cached_property
    def relocation_sections(self) -> dict[int, Section]:
        """For each section that has relocations, by its index, the first section that holds them."""
        return relocation_sections(self.sections)

    # Its addresses

    def section_addresses(self) -> dict[int, int]:
        """The address of every section, by index.

        In an object file every section starts at 0. There, addresses are laid out: the sections that are part of the
        program (``SHF_ALLOC``) follow one another in the file's order, those with machine code first, from 0 on, each
        at the next multiple of its alignment. All others stay at 0. In any other file it is ``sh_addr``.
        """
        if self._addresses is None:
            if self.type == elf.ET_REL:
                self._addresses = layout.lay_out(self.sections, self.elf_class, self.report)
            else:
                self._addresses = {section.index: section.address for section in self.sections}
        return self._addresses

    @cached_property
    def loaded_ranges(self) -> list[tuple[int, int, int]]:
        """What the file loads from its own bytes: ``(address, end, file offset)``, by address, without overlaps.

        In an object file the third is the index of the section.
        """
        return layout.object_ranges(self) if self.type == elf.ET_REL else layout.loaded_ranges(self)

    def bytes_at(self, address: int, size: int) -> memoryview | None:
        """The ``size`` bytes that the file loads at ``address``, or None where it does not hold all of them.

        In an object file these are addresses of :meth:`section_addresses`; machine code is then as the assembler wrote
        it, other sections are relocated. What starts as zero without being in the file (``.bss``) is None.
        """
        return layout.bytes_at(self, address, size)

    def code_ranges(self) -> list[tuple[int, int]]:
        """Where machine code is: ``(start, end)`` of every executable segment, or section where there are no segments.

        In an object file these are addresses of :meth:`section_addresses`. Sorted; none is empty.
        """
        return layout.code_ranges(self)

    def eh_frame_hdr(self) -> tuple[int, memoryview] | None:
        """Address and bytes of ``.eh_frame_hdr``, found by its segment, else by its section, or None."""
        return frames.find_eh_frame_hdr(self)

    def eh_frame(self) -> tuple[int, memoryview] | None:
        """Address and bytes of ``.eh_frame``, found by its section, else through ``.eh_frame_hdr``, or None.

        Without section headers nothing says where it ends; the bytes then go on to the end of the segment, and the
        entry of length zero ends them. In an object file this is the section's :attr:`~Section.data`, at 0.
        """
        return frames.find_eh_frame(self)

    def got_address(self) -> int | None:
        """The address of the global offset table, the base of ``DW_EH_PE_datarel``, or None."""
        address = dynamic_address(self, elf.DT_PLTGOT)
        if address is not None:
            return address
        section = self.section(".got.plt") or self.section(".got")
        return section.address if section is not None else None

    def text_address(self) -> int | None:
        """The address of ``.text``, the base of ``DW_EH_PE_textrel``, or None."""
        section = self.section(".text")
        return section.address if section is not None else None


def open_image(path: str | os.PathLike[str]) -> Image:
    """The image in a file, whatever its format: of those that exist, clew reads ELF. See :meth:`Image.open`."""
    return Image.open(path)
