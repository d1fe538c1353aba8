"""ELF files made in memory, for tests: of any machine, class and byte order, and as odd as a test needs them.

>>> from clew.image import Image
>>> from clew.testing.elf import ElfBuilder
>>> elf = ElfBuilder()
>>> _ = elf.section(".text", b"\\x90\\xc3", address=0x1000, executable=True)
>>> elf.symbol("main", 0x1000, size=2, section=".text", type=2)
>>> elf.build_id(b"\\xfe\\xed")
>>> image = Image.from_bytes(elf.build())
>>> image.section(".text").address == 0x1000
True
>>> image.symbols().at(0x1001)
(1, 1)
>>> image.build_id.hex()
'feed'
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack

from clew.errors import UsageError
from clew.image import elf
from clew.image.elf import LAYOUTS, ByteOrder
from clew.testing.elf_parts import (
    Compression,
    Relocation,
    Section,
    Segment,
    Symbol,
    compressed,
    index,
    padded,
    relocation_record,
    segment_record,
    string_table,
    symbol_record,
)

PAGE = 0x1000


class ElfBuilder:
    """An ELF file in the making: add to it what it shall have, then :meth:`build` it.

    Sections are in the order in which they were added; the symbol tables, relocations, and tables of strings follow. An
    executable or shared file gets one PT_LOAD segment for each section with an address in memory, unless a segment of
    that type was added by hand.

    Args:
        machine: ``e_machine``; 62, x86-64, unless told.
        bits: 32 or 64.
        byte_order: ``little`` or ``big``.
        type: ``e_type``; a shared file unless told.
        entry, flags: ``e_entry`` and ``e_flags``.
        os_abi: the OS ABI byte of ``e_ident``.
        section_headers: whether the file has any; without, it is like one that ``sstrip`` made.
        large_numbers: write the numbers of sections, of segments, and of the section of names the way that a file does
            in which they do not fit into the header, and every symbol's section through ``SHT_SYMTAB_SHNDX``.
    """

    def __init__(
        self,
        *,
        machine: int = elf.EM_X86_64,
        bits: int = 64,
        byte_order: ByteOrder = "little",
        type: int = elf.ET_DYN,
        entry: int = 0,
        flags: int = 0,
        os_abi: int = 0,
        section_headers: bool = True,
        large_numbers: bool = False,
    ) -> None:
        self.layout = LAYOUTS[bits, byte_order]
        self.machine = machine
        self.type = type
        self.entry = entry
        self.flags = flags
        self.os_abi = os_abi
        self.section_headers = section_headers
        self.large_numbers = large_numbers
        self._sections: list[Section] = []
        self._symbols: dict[bool, list[Symbol]] = {False: [], True: []}
        self._segments: list[Segment] = []
        self._relocations: dict[str, list[Relocation]] = {}

    def section(
        self,
        name: str,
        data: bytes = b"",
        *,
        type: int | None = None,
        address: int | None = None,
        flags: int = 0,
        executable: bool = False,
        size: int | None = None,
        alignment: int = 1,
        entry_size: int = 0,
        link: str | int = 0,
        info: str | int = 0,
        compress: Compression | None = None,
    ) -> int:
        """Add a section, and return its index.

        Args:
            type: ``SHT_PROGBITS`` unless told; ``SHT_NOBITS`` where there is a size but no data.
            address: giving one makes the section part of the program (``SHF_ALLOC``).
            executable: whether it is machine code, which is part of the program too.
            size: ``sh_size`` where it is not that of the data.
            link, info: a number, or the name of a section.
            compress: ``zlib`` and ``zstd`` for ``SHF_COMPRESSED``, ``zdebug`` for ``.zdebug_`` contents.
        """
        if type is None:
            type = elf.SHT_NOBITS if size and not data else elf.SHT_PROGBITS
        if executable:
            flags |= elf.SHF_ALLOC | elf.SHF_EXECINSTR
        if address is not None:
            flags |= elf.SHF_ALLOC
        if compress is not None:
            data = compressed(self.layout, data, compress, alignment)
            flags |= elf.SHF_COMPRESSED if compress != "zdebug" else 0
        size = len(data) if size is None else size
        self._sections.append(Section(name, data, type, flags, address or 0, size, alignment, entry_size, link, info))
        return len(self._sections)

    def symbol(
        self,
        name: str,
        value: int = 0,
        *,
        size: int = 0,
        section: str | int = elf.SHN_ABS,
        type: int = elf.STT_NOTYPE,
        binding: int = elf.STB_GLOBAL,
        other: int = 0,
        dynamic: bool = False,
    ) -> None:
        """Add a symbol to ``.symtab`` or ``.dynsym``. In an object file its value counts from its section's start."""
        self._symbols[dynamic].append(Symbol(name, value, size, section, type, binding, other))

    def relocation(self, section: str, offset: int, type: int, symbol: str | int = 0, addend: int = 0) -> None:
        """Add a relocation to a section such as ``.rela.text`` or ``.rel.text``, which is made for it.

        Args:
            type: its number, or on 64-bit MIPS up to three of them, one a byte, the first lowest.
            symbol: the name of a symbol in ``.symtab``, or an index there.
            addend: for ``.rela``; with ``.rel`` it is in the section's data.
        """
        self._relocations.setdefault(section, []).append(Relocation(offset, type, symbol, addend))

    def segment(self, type: int, sections: Sequence[str] = (), *, flags: int = elf.PF_R, alignment: int = PAGE) -> None:
        """Add a segment from the first of these sections to the last. They must follow one another in the file.

        Of two that are loaded, their distance in the file is made the same as that of their addresses.
        """
        self._segments.append(Segment(type, flags, tuple(sections), alignment))

    def note(
        self,
        name: bytes,
        type: int,
        description: bytes,
        *,
        section: str = ".note",
        address: int | None = None,
        alignment: int = 4,
    ) -> None:
        """Add a note, to the end of the section of that name where there is one already."""
        record = pack(self.layout.prefix + "III", len(name) + 1, len(description), type)
        record = padded(record + name + b"\0", alignment)
        record = padded(record + description, alignment)
        for existing in self._sections:
            if existing.name == section:
                existing.data += record
                existing.size = len(existing.data)
                return
        self.section(section, record, type=elf.SHT_NOTE, address=address, alignment=alignment)

    def build_id(self, description: bytes, *, address: int | None = None) -> None:
        """Add a build id."""
        self.note(b"GNU", elf.NT_GNU_BUILD_ID, description, section=".note.gnu.build-id", address=address)

    def build(self) -> bytes:
        """The file. The builder can be added to afterwards, and built again."""
        sections = [Section("", b"", elf.SHT_NULL, 0, 0, 0, 0, 0, 0, 0), *self._sections]
        names = [section.name for section in sections]
        sections += self._symbol_sections(names)
        names = [section.name for section in sections]
        sections += self._relocation_sections(names)
        sections.append(Section(".shstrtab", b"", elf.SHT_STRTAB, 0, 0, 0, 1, 0, 0, 0))
        names = [section.name for section in sections]
        strings, name_offsets = string_table(names)
        sections[-1].data, sections[-1].size = strings, len(strings)

        segments = self._all_segments()
        layout = self.layout
        start = layout.header.size + len(segments) * layout.segment.size
        body = self._place(sections, start)
        section_offset = start + len(body) + -(start + len(body)) % 8 if self.section_headers else 0
        count, names_index = (len(sections), len(sections) - 1) if self.section_headers else (0, 0)
        segment_count = len(segments)
        if self.large_numbers and count:
            sections[0].size, sections[0].link, sections[0].info = count, names_index, segment_count
            count, names_index = 0, elf.SHN_XINDEX
            segment_count = elf.PN_XNUM if segment_count else 0
        ident = elf.MAGIC + bytes([layout.bits // 32, 1 if layout.byte_order == "little" else 2, 1, self.os_abi])
        header = layout.header.pack(
            self.type,
            self.machine,
            1,
            self.entry,
            layout.header.size if segments else 0,
            section_offset,
            self.flags,
            layout.header.size,
            layout.segment.size,
            segment_count,
            layout.section.size,
            count,
            names_index,
        )
        data = ident.ljust(16, b"\0") + header[16:]
        for segment in segments:
            data += segment_record(layout, segment, [sections[index(name, names)] for name in segment.sections])
        data += body
        if self.section_headers:
            data = data.ljust(section_offset, b"\0")
            data += b"".join(
                layout.section.pack(
                    name_offsets[each.name],
                    each.type,
                    each.flags,
                    each.address,
                    each.offset,
                    each.size,
                    index(each.link, names),
                    index(each.info, names),
                    each.alignment,
                    each.entry_size,
                )
                for each in sections
            )
        return data

    def _symbol_sections(self, names: list[str]) -> list[Section]:
        result = []
        size = self.layout.symbol_size
        for dynamic, table, strings in ((True, ".dynsym", ".dynstr"), (False, ".symtab", ".strtab")):
            symbols = self._ordered_symbols(dynamic)
            if len(symbols) == 1:
                continue
            text, offsets = string_table([symbol.name for symbol in symbols])
            indices = [index(symbol.section, names) for symbol in symbols]
            # Special indices such as SHN_ABS stay in the symbol itself.
            escaped = [self.large_numbers and not dynamic and 0 < each < elf.SHN_LORESERVE for each in indices]
            data = b"".join(
                symbol_record(self.layout, symbol, offsets[symbol.name], elf.SHN_XINDEX if escape else section)
                for symbol, section, escape in zip(symbols, indices, escaped, strict=True)
            )
            local = sum(symbol.binding == elf.STB_LOCAL for symbol in symbols)
            kind = elf.SHT_DYNSYM if dynamic else elf.SHT_SYMTAB
            result.append(Section(table, data, kind, 0, 0, len(data), 8, size, strings, local))
            result.append(Section(strings, text, elf.SHT_STRTAB, 0, 0, len(text), 1, 0, 0, 0))
            if self.large_numbers and not dynamic:
                wide = [section if escape else 0 for section, escape in zip(indices, escaped, strict=True)]
                data = pack(f"{self.layout.prefix}{len(wide)}I", *wide)
                result.append(Section(".symtab_shndx", data, elf.SHT_SYMTAB_SHNDX, 0, 0, len(data), 4, 4, table, 0))
        return result

    def _ordered_symbols(self, dynamic: bool) -> list[Symbol]:
        """The symbols with the empty one before them; the gABI wants the local ones first."""
        empty = Symbol("", 0, 0, 0, 0, elf.STB_LOCAL, 0)
        return sorted([empty, *self._symbols[dynamic]], key=lambda symbol: symbol.binding != elf.STB_LOCAL)

    def _relocation_sections(self, names: list[str]) -> list[Section]:
        symbols = [symbol.name for symbol in self._ordered_symbols(False)]
        result = []
        for name, entries in self._relocations.items():
            addends = name.startswith(".rela")
            target = name[5 if addends else 4 :]
            if target not in names:
                raise UsageError(f"the relocations {name} are of no section", hint=f"add a section {target} first")
            data = b"".join(
                relocation_record(self.layout, self.machine, entry, _number(entry.symbol, symbols), addends)
                for entry in entries
            )
            kind = elf.SHT_RELA if addends else elf.SHT_REL
            word = self.layout.bits // 8
            link = ".symtab" if ".symtab" in names else 0
            size = word * (3 if addends else 2)
            result.append(Section(name, data, kind, elf.SHF_INFO_LINK, 0, len(data), word, size, link, target))
        return result

    def _all_segments(self) -> list[Segment]:
        segments = list(self._segments)
        if self.type not in (elf.ET_EXEC, elf.ET_DYN) or any(each.type == elf.PT_LOAD for each in segments):
            return segments
        for section in self._sections:
            if section.flags & elf.SHF_ALLOC and not section.flags & elf.SHF_TLS:
                flags = elf.PF_R
                flags |= elf.PF_X if section.flags & elf.SHF_EXECINSTR else 0
                flags |= elf.PF_W if section.flags & elf.SHF_WRITE else 0
                segments.append(Segment(elf.PT_LOAD, flags, (section.name,), PAGE))
        return segments

    def _place(self, sections: list[Section], start: int) -> bytes:
        """Give each section its offset; the bytes from ``start`` on."""
        body = b""
        together = {name: group.sections for group in self._segments for name in group.sections if group.type == 1}
        by_name = {section.name: section for section in sections}
        for section in sections[1:]:
            here = start + len(body)
            first = by_name[together[section.name][0]] if section.name in together else section
            if first is not section:
                # Within a segment, distances in the file are those of the addresses.
                offset = first.offset + section.address - first.address
                if offset < here and section.type != elf.SHT_NOBITS:
                    raise UsageError(f"section {section.name} cannot be placed in its segment", section=section.name)
            elif section.flags & elf.SHF_ALLOC and self.type != elf.ET_REL:
                offset = here + (section.address - here) % PAGE
            else:
                offset = here + -here % max(section.alignment, 1)
            section.offset = offset
            if section.type != elf.SHT_NOBITS:
                body = body.ljust(offset - start, b"\0") + section.data
        return body


def _number(symbol: str | int, symbols: list[str]) -> int:
    if isinstance(symbol, str) and symbol not in symbols:
        raise UsageError(f"there is no symbol {symbol}", hint=f"add a symbol {symbol} first")
    return symbols.index(symbol) if isinstance(symbol, str) else symbol
