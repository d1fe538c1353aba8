"""A builder of DWARF debugging information: units, entries, lines, ranges, and the tables behind them.

>>> dwarf = DwarfBuilder(version=5)
>>> lines = dwarf.line_program(directories=["/src"], files=["a.c", "a.c"])
>>> lines.sequence([(0x1000, 3), (0x1004, 4)], 0x1008)
>>> unit = dwarf.unit()
>>> root = unit.die(
...     Tag.COMPILE_UNIT,
...     (At.NAME, Form.STRING, "a.c"),
...     (At.COMP_DIR, Form.LINE_STRP, "/src"),
...     (At.STMT_LIST, Form.SEC_OFFSET, dwarf.add_lines(lines)),
...     (At.LOW_PC, Form.ADDR, 0x1000),
...     (At.HIGH_PC, Form.UDATA, 8),
... )
>>> square = root.child(Tag.SUBPROGRAM, (At.NAME, Form.STRP, "square"), (At.INLINE, Form.IMPLICIT_CONST, Inline.INLINED))
>>> main = root.child(
...     Tag.SUBPROGRAM,
...     (At.NAME, Form.STRP, "main"),
...     (At.EXTERNAL, Form.FLAG_PRESENT, 1),
...     (At.LOW_PC, Form.ADDR, 0x1000),
...     (At.HIGH_PC, Form.DATA4, 8),
... )
>>> inlined = main.child(
...     Tag.INLINED_SUBROUTINE,
...     (At.ABSTRACT_ORIGIN, Form.REF4, square),
...     (At.RANGES, Form.RNGLISTX, dwarf.range_list([Rle.start_length(0x1004, 2)])),
...     (At.CALL_LINE, Form.DATA1, 4),
... )
>>> root.add(At.RNGLISTS_BASE, Form.SEC_OFFSET, dwarf.rnglists_base)
>>> sorted(dwarf.sections())
['.debug_abbrev', '.debug_info', '.debug_line', '.debug_line_str', '.debug_rnglists', '.debug_str']
>>> hex(main.offset)
'0x2b'
>>> len(dwarf.elf(code=[(0x1000, bytes(8))])) > 500
True

An attribute is a tuple of its number, its form and its value: a number, a string, bytes, another entry, a list of ranges;
with ``DW_FORM_indirect`` a tuple of the form and the value. Strings and addresses go into the tables that their forms refer
to. Nothing is checked but that values fit their forms (``ValueError``).

Sources: DWARF 5, 7.5 (units and entries), 7.26 (``.debug_str_offsets``), 7.27 (``.debug_addr``); DWARF 4, 7.5;
the GNU wiki's DebugFission (split DWARF before version 5).
"""

from __future__ import annotations

from collections.abc import Sequence

from clew.image.elf import EM_X86_64, ET_DYN
from clew.testing.cfi_instructions import ByteOrder, fixed
from clew.testing.dwarf_constants import At, Inline, Language, Tag, UnitType
from clew.testing.dwarf_dies import AbbrevTable, Attribute, Die, Unit
from clew.testing.dwarf_forms import Form, FormEncoder, IndexTable, StringTable
from clew.testing.dwarf_lines import EntryFormat, LineProgramBuilder
from clew.testing.dwarf_ranges import RangeEntry, RangeList, RangeListTable, Rle, range_list
from clew.testing.elf import ElfBuilder
from clew.testing.elf_parts import Compression

__all__ = [
    "AbbrevTable",
    "At",
    "Attribute",
    "Die",
    "DwarfBuilder",
    "EntryFormat",
    "Form",
    "FormEncoder",
    "Inline",
    "Language",
    "LineProgramBuilder",
    "RangeEntry",
    "RangeList",
    "Rle",
    "StringTable",
    "Tag",
    "Unit",
    "UnitType",
    "range_list",
]


class DwarfBuilder:
    """Builds the DWARF sections of one file.

    Args:
        version: of its units unless they say otherwise.
        byte_order, address_size: of the target, the size in bytes.
        dwarf64: whether lengths and offsets have 8 bytes.
        dwo: whether the sections are those of a ``.dwo`` file, by their names.
        supplementary: the builder of the supplementary file, which entries and strings are referred to with
            ``DW_FORM_GNU_ref_alt``, ``DW_FORM_GNU_strp_alt`` and their like. Its strings are complete once this one is built.
    """

    def __init__(
        self,
        *,
        version: int = 5,
        byte_order: ByteOrder = "little",
        address_size: int = 8,
        dwarf64: bool = False,
        dwo: bool = False,
        supplementary: DwarfBuilder | None = None,
    ) -> None:
        self.version = version
        self.byte_order: ByteOrder = byte_order
        self.address_size = address_size
        self.dwarf64 = dwarf64
        self.dwo = dwo
        self.strings = StringTable()
        self.line_strings = StringTable()
        self.supplementary = supplementary
        self.string_offsets = IndexTable()
        self.addresses = IndexTable()
        self.range_lists = RangeListTable(byte_order=byte_order, address_size=address_size, dwarf64=dwarf64)
        self.units: list[Unit] = []
        self._any_range_lists = False
        self._line = b""
        self._ranges = b""

    # Units

    def unit(
        self,
        kind: int = UnitType.COMPILE,
        *,
        version: int | None = None,
        address_size: int | None = None,
        dwarf64: bool | None = None,
        abbrevs: AbbrevTable | None = None,
        dwo_id: int = 0,
        signature: int = 0,
        length: int | None = None,
        header_version: int | None = None,
        padding: int = 0,
    ) -> Unit:
        """Adds a unit; entries are added to it with :meth:`Unit.die` and :meth:`Die.child`.

        Args:
            version, address_size, dwarf64: where it differs from the others.
            abbrevs: a table that several units share; else it has its own.
            dwo_id, signature, length, header_version, padding: see :class:`Unit`; its ``type_die`` is set afterwards.
        """
        version = self.version if version is None else version
        unit = Unit(
            version=version,
            kind=kind,
            forms=self._forms(version, address_size, dwarf64),
            abbrevs=AbbrevTable() if abbrevs is None else abbrevs,
            dwo_id=dwo_id,
            signature=signature,
            length=length,
            header_version=header_version,
            padding=padding,
        )
        self.units.append(unit)
        return unit

    # What attributes refer to

    def line_program(
        self,
        *,
        version: int | None = None,
        directories: Sequence[str] = (),
        files: Sequence[str | tuple[str, int]] = (),
        form: int | None = None,
    ) -> LineProgramBuilder:
        """A line program with this builder's properties and tables; :meth:`add_lines` puts it into its section.

        Args:
            form: of names in version 5; strings in the header unless told.
        """
        version = self.version if version is None else version
        form = Form.STRING if form is None else form
        return LineProgramBuilder(
            version=version,
            byte_order=self.byte_order,
            address_size=self.address_size,
            dwarf64=self.dwarf64,
            directories=directories,
            files=files,
            directory_format=((1, form),),
            file_format=((1, form), (2, Form.UDATA)),
            forms=self._forms(version),
        )

    def add_lines(self, program: LineProgramBuilder | bytes) -> int:
        """Puts a line program into ``.debug_line``; its offset, for ``DW_AT_stmt_list``."""
        offset = len(self._line)
        self._line += program if isinstance(program, bytes) else program.build()
        return offset

    def ranges(self, entries: Sequence[tuple[int, int]], *, end: bool = True) -> int:
        """Puts a list into ``.debug_ranges``; its offset, for ``DW_AT_ranges`` before version 5. See :func:`range_list`."""
        offset = len(self._ranges)
        self._ranges += range_list(entries, byte_order=self.byte_order, address_size=self.address_size, end=end)
        return offset

    def range_list(self, entries: Sequence[RangeEntry | bytes], *, end: bool = True) -> RangeList:
        """Puts a list into ``.debug_rnglists``, for ``DW_AT_ranges`` with ``DW_FORM_rnglistx`` or ``DW_FORM_sec_offset``."""
        self._any_range_lists = True
        return self.range_lists.add(entries, end=end)

    @property
    def rnglists_base(self) -> int:
        """For ``DW_AT_rnglists_base``."""
        return self.range_lists.base

    @property
    def str_offsets_base(self) -> int:
        """For ``DW_AT_str_offsets_base``; before version 5 the table has no header."""
        return 0 if self.version < 5 else 16 if self.dwarf64 else 8

    @property
    def addr_base(self) -> int:
        """For ``DW_AT_addr_base``, or ``DW_AT_GNU_addr_base`` before version 5."""
        return self.str_offsets_base

    # Results

    def sections(self) -> dict[str, bytes]:
        """The sections by their names; those without anything in them are left out. Entries know their offsets then."""
        if self.supplementary is not None:
            # For the offsets of its entries.
            self.supplementary.sections()
        info, types, abbrev = b"", b"", b""
        known: dict[int, int] = {}
        placed: list[tuple[Unit, bytearray]] = []
        ends = {False: 0, True: 0}
        for unit in self.units:
            data = unit.place(ends[unit.in_types])
            ends[unit.in_types] += len(data)
            placed.append((unit, data))
        for unit in self.units:
            # Complete only now: units may share a table.
            if id(unit.abbrevs) not in known:
                known[id(unit.abbrevs)] = len(abbrev)
                abbrev += unit.abbrevs.build()
            unit.abbrev_offset = known[id(unit.abbrevs)]
        for unit, data in placed:
            if unit.in_types:
                types += unit.finish(data)
            else:
                info += unit.finish(data)
        parts = {
            ".debug_info": info,
            ".debug_types": types,
            ".debug_abbrev": abbrev,
            ".debug_line": self._line,
            ".debug_ranges": self._ranges,
            ".debug_rnglists": self.range_lists.build() if self._any_range_lists else b"",
            ".debug_str_offsets": self._table(self.string_offsets, 8 if self.dwarf64 else 4, b"\0\0"),
            ".debug_addr": self._table(self.addresses, self.address_size, bytes((self.address_size, 0))),
            ".debug_str": self.strings.data,
            ".debug_line_str": self.line_strings.data,
        }
        # Addresses stay in the program: a .dwo file has none (DWARF 5, 7.3.2.2).
        suffix = ".dwo" if self.dwo else ""
        return {name + (suffix if name != ".debug_addr" else ""): data for name, data in parts.items() if data}

    def put_into(self, elf: ElfBuilder, *, compress: Compression | None = None) -> None:
        """Adds the sections to an ELF file in the making."""
        for name, data in self.sections().items():
            strings = name.startswith((".debug_str.", ".debug_line_str")) or name == ".debug_str"
            renamed = name.replace(".debug_", ".zdebug_") if compress == "zdebug" else name
            # SHF_MERGE and SHF_STRINGS, as compilers have it.
            elf.section(renamed, data, flags=0x30 if strings else 0, entry_size=int(strings), compress=compress)

    def elf(
        self,
        *,
        code: Sequence[tuple[int, bytes]] = (),
        machine: int = EM_X86_64,
        type: int = ET_DYN,
        compress: Compression | None = None,
    ) -> bytes:
        """An ELF file with these sections, and with machine code at addresses."""
        elf = ElfBuilder(machine=machine, bits=8 * self.address_size, byte_order=self.byte_order, type=type)
        for number, (address, data) in enumerate(code):
            elf.section(f".text.{number}" if number else ".text", data, address=address, executable=True)
        self.put_into(elf, compress=compress)
        return elf.build()

    def _forms(self, version: int, address_size: int | None = None, dwarf64: bool | None = None) -> FormEncoder:
        return FormEncoder(
            byte_order=self.byte_order,
            address_size=self.address_size if address_size is None else address_size,
            dwarf64=self.dwarf64 if dwarf64 is None else dwarf64,
            version=version,
            strings=self.strings,
            line_strings=self.line_strings,
            supplementary=None if self.supplementary is None else self.supplementary.strings,
            string_offsets=self.string_offsets,
            addresses=self.addresses,
        )

    def _table(self, table: IndexTable, size: int, rest: bytes) -> bytes:
        """A table with the header that it has from version 5 on: length, version, and two bytes more."""
        data = b"".join(fixed(value, size, self.byte_order) for value in table.values)
        if not data or self.version < 5:
            return data
        head = fixed(5, 2, self.byte_order) + rest
        length = fixed(len(head) + len(data), 8 if self.dwarf64 else 4, self.byte_order)
        return (b"\xff" * 4 if self.dwarf64 else b"") + length + head + data
