"""Symbols as columns of numbers (gABI chapter 4, "Symbol Table"): a million of them cost no Python object each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from clew.errors import Error, Problem
from clew.image import elf
from clew.image.section import string_at, text

if TYPE_CHECKING:
    from clew.image.image import Image
    from clew.image.section import Section

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
Indices = npt.NDArray[np.int64]

CHUNK = 4096
"""How many symbols are looked at together when an enclosing one is searched."""


class SymbolTable:
    """The symbols of one table.

    Attributes:
        value, size: uint64[n]; ``st_value`` and ``st_size``.
        info, other: uint8[n]; ``st_info`` and ``st_other``.
        shndx: uint32[n]; ``st_shndx``. An escaped index (``SHN_XINDEX``) is resolved; the special values
            ``SHN_ABS``, ``SHN_COMMON`` and so on have 0xffff0000 added, so that they cannot be taken for a section.
        name_offset: uint32[n]; ``st_name``.
        address: uint64[n]; where the symbol is: its value, without the bit that marks Thumb code on ARM, and in an
            object file with its section's :attr:`~clew.image.Section.layout_address` added. On 64-bit PowerPC with the
            first version of the ABI, the address of a function is that of its descriptor in ``.opd``, not of its code.
    """

    def __init__(
        self,
        columns: npt.NDArray[np.void],
        strings: memoryview,
        shndx: U32,
        *,
        machine: int = 0,
        section_addresses: U64 | None = None,
    ) -> None:
        self.value: U64 = columns["value"].astype(np.uint64)
        self.size: U64 = columns["size"].astype(np.uint64)
        self.info: U8 = columns["info"].copy()
        self.other: U8 = columns["other"].copy()
        self.name_offset: U32 = columns["name"].astype(np.uint32)
        self.shndx = shndx
        self._strings = strings
        self._machine = machine
        self._section_addresses = section_addresses

    def __len__(self) -> int:
        return len(self.value)

    def __repr__(self) -> str:
        return f"SymbolTable({len(self)} symbols)"

    @cached_property
    def type(self) -> U8:
        """uint8[n]; the type of each symbol, ``STT_FUNC`` and so on."""
        return self.info & np.uint8(0xF)

    @cached_property
    def binding(self) -> U8:
        """uint8[n]; the binding of each symbol, ``STB_GLOBAL`` and so on."""
        return self.info >> np.uint8(4)

    @cached_property
    def is_code(self) -> npt.NDArray[np.bool_]:
        """bool[n]; whether the symbol's type is that of a function."""
        is_code: npt.NDArray[np.bool_] = (self.type == elf.STT_FUNC) | (self.type == elf.STT_GNU_IFUNC)
        if self._machine == elf.EM_ARM:
            is_code |= self.type == elf.STT_ARM_TFUNC
        return is_code

    @cached_property
    def address(self) -> U64:
        """uint64[n]; see the class."""
        address = self.value
        if self._machine == elf.EM_ARM:
            # ELF for the Arm Architecture, "Symbol Values": bit 0 of a function's value says that it is Thumb code.
            address = np.where(self.is_code, address & ~np.uint64(1), address)
        if self._section_addresses is not None:
            inside = self.shndx < len(self._section_addresses)
            address = address + np.where(inside, self._section_addresses[np.where(inside, self.shndx, 0)], 0)
        return address

    def name_bytes(self, index: int) -> bytes:
        """The name of a symbol as it stands in the file; empty where there is none."""
        return string_at(self._strings, int(self.name_offset[index]))

    def name(self, index: int) -> str:
        """The name of a symbol. Bytes that are not UTF-8 show as ``\\xNN``."""
        return text(self.name_bytes(index))

    def has_prefix(self, *prefixes: bytes) -> bool:
        """Whether a string of the table's begins with one of these, which is quickly known of the strings as a whole."""
        strings = bytes(self._strings)
        return any(b"\0" + prefix in strings for prefix in prefixes)

    def names(self, indices: Iterable[int]) -> list[str]:
        """The names of several symbols."""
        return [self.name(index) for index in indices]

    def functions(self) -> Indices:
        """Indices of the defined functions, in the table's order."""
        return np.flatnonzero(self.is_code & (self.shndx != elf.SHN_UNDEF))

    def find(self, name: str | bytes) -> list[int]:
        """Indices of the symbols of exactly this name. The strings are searched once; no symbol becomes an object."""
        wanted = name.encode("utf-8", "surrogatepass") if isinstance(name, str) else name
        if b"\0" in wanted or not len(self):
            return []
        # Linkers let one name be the end of another, so the byte before a match may be anything.
        offsets = [match.start() for match in re.finditer(re.escape(wanted) + b"\0", self._strings)]
        return [int(index) for index in np.flatnonzero(np.isin(self.name_offset, offsets))]

    def at(self, address: int) -> tuple[int, int] | None:
        """The symbol that contains an address, as its index and the offset in it, or None.

        Of several, the one that starts last; of those that start together, functions come before other symbols, sized
        ones before unsized, global before weak before local, small before large. A symbol without a size reaches to
        where the next one starts, but never to where a sized one ended before. Symbols of sections, files, thread-local
        storage, and those that only mark code and data (``$x``, ``$d``) contain nothing.
        """
        order, starts, ends, reach = self._sorted
        last = int(np.searchsorted(starts, np.uint64(address % (1 << 64)), "right"))
        if address < 0 or not last or address >= int(reach[last - 1]):
            return None
        while last > 0:
            first = max(0, last - CHUNK)
            # None of the symbols up to here contains the address when even the farthest end is before it.
            if int(reach[last - 1]) <= address:
                break
            hits = np.flatnonzero(ends[first:last] > np.uint64(address))
            if len(hits):
                found = first + int(hits[-1])
                return int(order[found]), address - int(starts[found])
            last = first
        return None

    def lookup(self, addresses: npt.NDArray[np.uint64]) -> tuple[Indices, U64]:
        """For many addresses what :meth:`at` says for one: int64 indices, −1 for none, and uint64 offsets, 0 there."""
        order, starts, ends, reach = self._sorted
        addresses = np.asarray(addresses, np.uint64)
        found = np.full(len(addresses), -1, np.int64)
        offsets = np.zeros(len(addresses), np.uint64)
        last = np.searchsorted(starts, addresses, "right") - 1
        inside = np.flatnonzero(last >= 0)
        hits = inside[ends[last[inside]] > addresses[inside]]
        found[hits] = order[last[hits]]
        offsets[hits] = addresses[hits] - starts[last[hits]]
        # What remains is behind the symbol that starts last, but perhaps in one around that.
        for index in inside[(found[inside] < 0) & (reach[last[inside]] > addresses[inside])].tolist():
            symbol = self.at(int(addresses[index]))
            if symbol is not None:
                found[index], offsets[index] = symbol
        return found, offsets

    @cached_property
    def _sorted(self) -> tuple[Indices, U64, U64, U64]:
        """The symbols that can contain an address, by start, the preferred one of several last.

        Their indices, starts, ends, and for each the farthest end up to it.
        """
        wanted = (self.shndx != elf.SHN_UNDEF) & (self.shndx != elf.SHN_ABS + 0xFFFF0000)
        for kind in (elf.STT_SECTION, elf.STT_FILE, elf.STT_TLS):
            wanted &= self.type != kind
        wanted &= ~self._is_mapping_symbol & (self.name_offset != 0)
        indices = np.flatnonzero(wanted)
        start, size = self.address[indices], self.size[indices]
        rank = self._rank[indices]
        order = np.lexsort((-indices, ~size, rank, size != 0, start))
        indices, start, size = indices[order], start[order], size[order]
        end = start + size
        end[end < start] = np.uint64(2**64 - 1)
        # A symbol without a size ends where the next one starts, and does not begin anew behind a sized one.
        later = np.searchsorted(start, start, "right")
        following = np.append(start, np.uint64(2**64 - 1))[later]
        end = np.where(size == 0, following, end)
        return indices, start, end, np.maximum.accumulate(end) if len(end) else end

    @cached_property
    def _rank(self) -> npt.NDArray[np.int8]:
        binding = np.zeros(16, np.int8)
        binding[[elf.STB_GLOBAL, elf.STB_GNU_UNIQUE]], binding[elf.STB_WEAK] = 2, 1
        return (self.is_code * np.int8(4) + binding[self.binding]).astype(np.int8)

    @cached_property
    def _is_mapping_symbol(self) -> npt.NDArray[np.bool_]:
        """bool[n]; local untyped symbols whose name begins with ``$`` (the ARM, AArch64 and RISC-V ELF ABIs)."""
        marks = np.zeros(len(self), bool)
        if self._machine in (elf.EM_ARM, elf.EM_AARCH64, elf.EM_RISCV):
            strings = np.frombuffer(self._strings, np.uint8)
            named = np.flatnonzero(
                (self.name_offset < len(strings)) & (self.type == elf.STT_NOTYPE) & (self.binding == elf.STB_LOCAL)
            )
            marks[named] = strings[self.name_offset[named]] == ord("$")
        return marks


def symbol_dtype(layout: elf.Layout) -> np.dtype[np.void]:
    """One entry of a symbol table as numpy reads it from the file."""
    p = layout.prefix
    if layout.bits == 64:
        fields = [("name", "u4"), ("info", "u1"), ("other", "u1"), ("section", "u2"), ("value", "u8"), ("size", "u8")]
    else:
        fields = [("name", "u4"), ("value", "u4"), ("size", "u4"), ("info", "u1"), ("other", "u1"), ("section", "u2")]
    return np.dtype([(name, p + kind) for name, kind in fields])


def dynamic_symbols(image: Image) -> SymbolTable:
    """The dynamic symbols of a file without section headers."""
    from clew.image.dynamic import symbol_tables

    return _table(image, None, *symbol_tables(image))


def no_symbols(image: Image) -> SymbolTable:
    """An empty table."""
    return _table(image, None, memoryview(b""), memoryview(b""))


def read_section(image: Image, section: Section) -> SymbolTable:
    """The symbols of a section, with the names in the string table that it links to."""
    strings = memoryview(b"")
    if section.link < len(image.sections) and image.sections[section.link].type == elf.SHT_STRTAB:
        strings = _contents(image, image.sections[section.link])
    else:
        image.report(Problem("the symbols have no names: there is no string table", section=section.name))
    expected = image.header.layout.symbol_size
    if section.entry_size != expected:
        message = f"an entry is said to have {section.entry_size} bytes, but symbols have {expected}"
        image.report(Problem(message, section=section.name, lost=False))
    return _table(image, section, _contents(image, section), strings)


def _contents(image: Image, section: Section) -> memoryview:
    try:
        return section.expanded
    except Error as error:
        image.report(Problem(error.message, section=section.name))
        return memoryview(b"")


def _table(image: Image, section: Section | None, data: memoryview, strings: memoryview) -> SymbolTable:
    dtype = symbol_dtype(image.header.layout)
    columns = np.frombuffer(data[: len(data) // dtype.itemsize * dtype.itemsize], dtype)
    indices: U32 = columns["section"].astype(np.uint32)
    escaped = np.flatnonzero(indices == elf.SHN_XINDEX)
    indices[indices >= elf.SHN_LORESERVE] += np.uint32(0xFFFF0000)
    if len(escaped) and section is not None:
        wide = _wide_indices(image, section)
        there = escaped[escaped < len(wide)]
        indices[there] = wide[there]
        if len(there) < len(escaped):
            image.report(Problem("some symbols' section indices are missing", section=section.name))
    addresses = None
    if image.type == elf.ET_REL:
        # The addresses are by index, one for every section.
        addresses = np.fromiter(image.section_addresses().values(), np.uint64, len(image.sections))
    return SymbolTable(columns, strings, indices, machine=image.e_machine, section_addresses=addresses)


def _wide_indices(image: Image, symbols: Section) -> U32:
    for section in image.sections:
        if section.type == elf.SHT_SYMTAB_SHNDX and section.link == symbols.index:
            data = _contents(image, section)
            return np.frombuffer(data[: len(data) & ~3], image.header.layout.prefix + "u4").astype(np.uint32)
    return np.zeros(0, np.uint32)
