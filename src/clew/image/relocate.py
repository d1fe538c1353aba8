"""Relocations applied to the sections of an object file (gABI chapter 4, "Relocation").

Two flavours. Without addresses, the result is what readelf (binutils 2.40) sees when it dumps a section: the sections
all start at 0, only the types that it knows are applied, and its peculiarities are kept. With addresses, sections are
where those say, and more types are applied, by the book.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from clew.errors import Problem
from clew.image import elf
from clew.image.differences import apply_differences, msp430x
from clew.image.relocation_types import ULEB128, Kind, adds_field, kinds

if TYPE_CHECKING:
    from clew.image.image import Image
    from clew.image.section import Section
    from clew.image.symbols import SymbolTable

U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]
Indices = npt.NDArray[np.int64]

MAXIMUM_ROUNDS = 64
"""How many relocations may change the same byte, one after the other. Honest files need two."""


MAXIMUM_NAMED = 20
"""How many types that are not applied become a problem of their own."""


class Entries:
    """The relocations of one section, as columns.

    Attributes:
        offset: uint64[n]; where the field begins in the section.
        type: uint32[n].
        symbol: int64[n]; index in the symbol table.
        addend: uint64[n], two's complement; 0 where the file keeps it in the field.
        has_addend: whether the file keeps it here (RELA) rather than in the field (REL).
    """

    def __init__(self, image: Image, section: Section) -> None:
        layout = image.header.layout
        self.has_addend = section.type == elf.SHT_RELA
        fields = ["offset", "info", "addend"] if self.has_addend else ["offset", "info"]
        dtype = np.dtype([(name, f"{layout.prefix}u{layout.bits // 8}") for name in fields])
        data = section.raw
        columns = np.frombuffer(data[: len(data) // dtype.itemsize * dtype.itemsize], dtype)
        self.offset: U64 = columns["offset"].astype(np.uint64)
        info: U64 = columns["info"].astype(np.uint64)
        if layout.bits == 32:
            kind, symbol = info & np.uint64(0xFF), info >> np.uint64(8)
        elif image.e_machine == elf.EM_MIPS and layout.byte_order == "little":
            # MIPS64 has a 32-bit symbol and four bytes, the last of them the type, whatever the byte order.
            kind, symbol = info >> np.uint64(56), info & np.uint64(0xFFFFFFFF)
        else:
            # MIPS64 stores further types, and SPARC V9 data, above the lowest byte.
            narrow = image.e_machine in (elf.EM_MIPS, elf.EM_SPARCV9)
            kind, symbol = info & np.uint64(0xFF if narrow else 0xFFFFFFFF), info >> np.uint64(32)
        self.type = kind.astype(np.uint32)
        self.symbol: Indices = symbol.astype(np.int64)
        self.addend: U64 = np.zeros(len(columns), np.uint64)
        if self.has_addend:
            addend = columns["addend"]
            signed = addend.view(f"{layout.prefix}i{layout.bits // 8}").astype(np.int64)
            self.addend = signed.view(np.uint64)
        # SH has addends here, but does not use them.
        if image.e_machine == elf.EM_SH:
            self.has_addend, self.addend = False, np.zeros(len(columns), np.uint64)

    def __len__(self) -> int:
        return len(self.offset)


def relocated(image: Image, section: Section, addresses: dict[int, int] | None) -> memoryview:
    """The section's contents with its relocations applied; see :attr:`Section.data` and :attr:`Section.data_at_layout`.

    Args:
        addresses: where each section is, by index; None for readelf's flavour.
    """
    expanded = section.expanded
    holder = image.relocation_sections.get(section.index)
    if holder is None or not len(expanded):
        return expanded
    table = image.sections[holder.link]
    if table.type not in (elf.SHT_SYMTAB, elf.SHT_DYNSYM):
        image.report(Problem("its relocations refer to no symbol table, and are not applied", section=section.name))
        return expanded
    entries = Entries(image, holder)
    data = np.frombuffer(bytearray(expanded), np.uint8)
    _Run(image, section, data, entries, image.symbols_of(table), addresses).apply()
    return memoryview(data.data).toreadonly()


class _Run:
    """One section's relocations on their way into its bytes."""

    def __init__(
        self,
        image: Image,
        section: Section,
        data: U8,
        entries: Entries,
        symbols: SymbolTable,
        addresses: dict[int, int] | None,
    ) -> None:
        self.image = image
        self.section = section
        self.data = data
        self.entries = entries
        self.by_the_book = addresses is not None
        self.place = entries.offset
        values = symbols.value
        if addresses is not None:
            self.place = entries.offset + np.uint64(addresses[section.index])
            table = np.fromiter(addresses.values(), np.uint64, len(addresses))
            inside = symbols.shndx < len(table)
            values = values + np.where(inside, table[np.where(inside, symbols.shndx, 0)], np.uint64(0))
        there = entries.symbol < len(values)
        self.symbol_value: U64 = np.zeros(len(entries), np.uint64)
        self.symbol_value[there] = values[entries.symbol[there]]
        self.there = there
        self.usable = there & self._refers_to_place(symbols, there)

    def _refers_to_place(self, symbols: SymbolTable, there: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Whether the symbol is of a type that has an address; readelf leaves relocations to others alone."""
        allowed = np.zeros(16, bool)
        allowed[[elf.STT_NOTYPE, elf.STT_OBJECT, elf.STT_FUNC, elf.STT_SECTION, elf.STT_COMMON]] = True
        if self.by_the_book:
            allowed[[elf.STT_GNU_IFUNC, elf.STT_ARM_TFUNC]] = True
        result = np.zeros(len(there), bool)
        result[there] = allowed[symbols.type[self.entries.symbol[there]]] | (self.entries.symbol[there] == 0)
        return result

    def apply(self) -> None:
        """Change :attr:`data`."""
        image, entries = self.image, self.entries
        known = kinds(image.e_machine, further=self.by_the_book, msp430x=msp430x(image.header))
        assigned = apply_differences(
            image.header, entries.type, entries.addend, self.symbol_value, self.there, self._uleb128_bits
        )
        # Whoever stores a difference need not have a symbol of its own with an address.
        self.usable[assigned.taken] = self.there[assigned.taken]
        groups: list[tuple[Kind, int, Indices]] = []
        waiting = np.ones(len(entries), bool)
        waiting[assigned.taken] = False
        for number, kind in known.items():
            members = np.flatnonzero(waiting & (entries.type == number))
            waiting[members] = False
            if kind is not None and len(members):
                groups.append((kind, number, members))
        unknown = entries.type[waiting]
        for number in np.unique(unknown)[:MAXIMUM_NAMED].tolist():
            members = np.flatnonzero(waiting & (entries.type == number))
            self._lost(members, f"relocations of type {number} are not applied")
        groups.extend((kind, -1, members) for kind, members in assigned.groups)
        self._apply_groups([(kind, number, self._valid(kind, members)) for kind, number, members in groups])

    def _lost(self, members: Indices, message: str) -> None:
        if len(members):
            offset = int(self.entries.offset[members[0]])
            self.image.report(Problem(f"{message} ({len(members)})", section=self.section.name, offset=offset))

    def _valid(self, kind: Kind, members: Indices) -> Indices:
        """Those that change bytes of the section and refer to a symbol."""
        size = max(kind.size, 1)
        limit = len(self.data) - size
        inside = (self.entries.offset[members] <= np.uint64(limit)) if limit >= 0 else np.zeros(len(members), bool)
        self._lost(members[~inside], "relocations outside the section are not applied")
        members = members[inside]
        usable = self.usable[members]
        self._lost(members[~usable], "relocations to symbols without an address are not applied")
        return members[usable]

    def _apply_groups(self, groups: list[tuple[Kind, int, Indices]]) -> None:
        fixed = [group for group in groups if group[0].bits != ULEB128]
        for members, kind, number in self._rounds(fixed):
            self._change(kind, number, members)
        variable = [(int(index), kind) for kind, _, members in groups if kind.bits == ULEB128 for index in members]
        for index, kind in sorted(variable):
            self._change_uleb128(index, kind)

    def _rounds(self, groups: list[tuple[Kind, int, Indices]]) -> list[tuple[Indices, Kind, int]]:
        """The relocations in an order in which those to the same bytes follow one another as in the file."""
        if not groups:
            return []
        everyone = np.concatenate([members for _, _, members in groups])
        size = np.concatenate([np.full(len(members), kind.size) for kind, _, members in groups]).astype(np.uint64)
        turn = self._turns(everyone, size)
        result = []
        for count in range(int(turn.max(initial=0)) + 1):
            start = 0
            for kind, number, members in groups:
                chosen = members[turn[start : start + len(members)] == count]
                start += len(members)
                if len(chosen):
                    result.append((chosen, kind, number))
        return result

    def _turns(self, everyone: Indices, size: U64) -> Indices:
        """In which round each relocation is applied: 0, but for those whose bytes another one changes before."""
        offset = self.entries.offset[everyone]
        turn = np.zeros(len(everyone), np.int64)
        order = np.argsort(offset, kind="stable")
        # A field overlaps the next one, or one further on, exactly when the farthest end so far is beyond its start.
        ends = np.maximum.accumulate((offset + size)[order]) if len(order) else offset
        overlaps = np.zeros(len(order) + 1, bool)
        overlaps[1:-1] = offset[order][1:] < ends[:-1]
        entangled = order[overlaps[:-1] | overlaps[1:]]
        entangled = entangled[np.argsort(everyone[entangled])]
        next_turn: dict[int, int] = {}
        lost: list[int] = []
        for position in entangled.tolist():
            first = int(offset[position])
            field = range(first, first + int(size[position]))
            mine = max(next_turn.get(byte, 0) for byte in field)
            if mine >= MAXIMUM_ROUNDS:
                lost.append(position)
                mine = -1
            else:
                next_turn.update(dict.fromkeys(field, mine + 1))
            turn[position] = mine
        self._lost(everyone[lost], f"more than {MAXIMUM_ROUNDS} relocations of the same bytes are not applied")
        return turn

    def _change(self, kind: Kind, number: int, members: Indices) -> None:
        """Apply relocations of one kind whose fields do not overlap."""
        machine = self.image.e_machine
        size, little = kind.size, self.image.byte_order == "little"
        where = self.entries.offset[members].astype(np.int64)[:, None] + np.arange(size)
        field = np.zeros((len(members), 8), np.uint8)
        field[:, :size] = self.data[where] if little else self.data[where][:, ::-1]
        before: U64 = field.view("<u8")[:, 0].astype(np.uint64)
        rest = np.uint64(2 ** (8 * size) - 2**kind.bits)
        mask = np.uint64(2**kind.bits - 1)
        addend, symbol = self.entries.addend[members], self.symbol_value[members]
        in_place = kind.operation in ("add", "subtract")
        if number >= 0 and (not self.entries.has_addend or adds_field(machine, number) or in_place):
            if in_place and self.by_the_book and kind.operation == "subtract":
                # readelf adds the addend here, the RISC-V and LoongArch ABIs subtract it. It is 0 nearly always.
                addend = np.uint64(0) - addend
            addend = addend + (before & mask)
        if kind.operation == "subtract":
            value = addend - symbol
        elif kind.operation == "relative":
            # PA-RISC counts from two instructions after the place.
            bias = np.uint64(8 if machine == elf.EM_PARISC else 0)
            value = addend + symbol - self.place[members] - bias
        else:
            value = addend + symbol
        value = (value & mask) | (before & rest)
        field = value.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :size]
        self.data[where] = field if little else field[:, ::-1]

    def _uleb128_length(self, index: int) -> int:
        """Bytes in the ULEB128 number at a relocation's place; 0 where there is none."""
        start = int(self.entries.offset[index])
        # 64 bits take 10 bytes; a longer number is padded, which no assembler does here.
        field = bytes(self.data[start : start + 10]) if start < len(self.data) else b""
        return next((length for length, byte in enumerate(field, 1) if not byte & 0x80), 0)

    def _uleb128_bits(self, index: int) -> int:
        if self.by_the_book:
            return ULEB128
        # readelf stores a plain number of the same length.
        length = self._uleb128_length(index)
        return 8 * length if 0 < length <= 8 else -1

    def _change_uleb128(self, index: int, kind: Kind) -> None:
        """Change a ULEB128 number, keeping its length and the bits that say how long it is."""
        length = self._uleb128_length(index)
        if not length:
            self._lost(np.array([index]), "relocations of a damaged ULEB128 number are not applied")
            return
        start, data = int(self.entries.offset[index]), self.data
        value = int(self.symbol_value[index]) + int(self.entries.addend[index])
        if kind.operation != "absolute":
            before = sum((int(data[start + step]) & 0x7F) << 7 * step for step in range(length))
            value = before + value if kind.operation == "add" else before - value
        for step in range(length):
            more = 0x80 if step + 1 < length else 0
            data[start + step] = value >> 7 * step & 0x7F | more
