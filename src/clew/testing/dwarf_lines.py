"""A builder of line number programs, in the spirit of an assembler: the bytes of ``.debug_line``.

>>> program = LineProgramBuilder(version=4, files=["a.c"])
>>> program.set_address(0x1000)
>>> program.special(0, 6)
>>> program.advance_pc(4)
>>> program.end_sequence()
>>> program.build()[-17:].hex(" ")
'00 09 02 00 10 00 00 00 00 00 00 18 02 04 00 01 01'

Operands are what stands in the file: advances are given factored. Nothing is checked but that numbers fit their fields
(``ValueError``); what no method can say is said by :meth:`LineProgramBuilder.raw` or by overriding a field in
:meth:`LineProgramBuilder.build`.

Sources: DWARF 5, 6.2 and 7.22; DWARF 2 to 4, 6.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from clew.testing.cfi_instructions import ByteOrder, fixed, sleb, uleb
from clew.testing.dwarf_forms import Form, FormEncoder, FormValue

#: How many LEB128 operands the standard opcodes 1 to 12 have (DWARF 5, 6.2.5.2).
OPERANDS = (0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1)

#: Content types of header entries (DWARF 5, 7.22).
LNCT_PATH, LNCT_DIRECTORY, LNCT_TIMESTAMP, LNCT_SIZE, LNCT_MD5 = range(1, 6)

#: The fields of header entries, each a content type and a form.
EntryFormat = Sequence[tuple[int, int]]


class LineProgramBuilder:
    """Builds one line number program.

    Args:
        version: 2 to 5.
        byte_order, address_size: of the target, the size in bytes.
        dwarf64: whether lengths and offsets have 8 bytes.
        directories: their names, as the header has them: in version 5 the first is that of the compilation.
        files: their names, or ``(name, directory)``. With a format of their own, tuples of the values of its fields.
        min_instruction, most_operations, is_stmt, line_base, line_range, opcode_base: of the header.
        operands: the header's ``standard_opcode_lengths``; those of the standard, and 1 for what is unknown, unless told.
        directory_format, file_format: of version 5. Names are strings in the header itself unless told.
        forms: encodes the fields of version 5; needed where they refer to other sections.
    """

    def __init__(
        self,
        *,
        version: int = 5,
        byte_order: ByteOrder = "little",
        address_size: int = 8,
        dwarf64: bool = False,
        directories: Sequence[str | tuple[FormValue, ...]] = (),
        files: Sequence[str | tuple[str, int] | tuple[FormValue, ...]] = (),
        min_instruction: int = 1,
        most_operations: int = 1,
        is_stmt: bool = True,
        line_base: int = -5,
        line_range: int = 14,
        opcode_base: int = 13,
        operands: Sequence[int] | None = None,
        directory_format: EntryFormat = ((LNCT_PATH, Form.STRING),),
        file_format: EntryFormat = ((LNCT_PATH, Form.STRING), (LNCT_DIRECTORY, Form.UDATA)),
        forms: FormEncoder | None = None,
    ) -> None:
        self.version = version
        self.byte_order: ByteOrder = byte_order
        self.address_size = address_size
        self.dwarf64 = dwarf64
        self.directories = list(directories)
        self.files = list(files)
        self.min_instruction = min_instruction
        self.most_operations = most_operations
        self.is_stmt = is_stmt
        self.line_base = line_base
        self.line_range = line_range
        self.opcode_base = opcode_base
        if operands is None:
            operands = [*OPERANDS, *[1] * max(opcode_base - 13, 0)][: max(opcode_base - 1, 0)]
        self.operands = operands
        self.directory_format = directory_format
        self.file_format = file_format
        self.forms = forms or FormEncoder(
            byte_order=byte_order, address_size=address_size, dwarf64=dwarf64, version=version
        )
        self._program = bytearray()

    def raw(self, data: bytes) -> None:
        """Adds bytes as they are."""
        self._program += data

    def standard(self, opcode: int, *operands: int) -> None:
        """A standard opcode with unsigned LEB128 operands; also an unknown one."""
        self.raw(bytes((opcode,)) + b"".join(uleb(operand) for operand in operands))

    def copy(self) -> None:
        """Makes a row."""
        self.standard(1)

    def advance_pc(self, advance: int) -> None:
        """Moves by so many operations."""
        self.standard(2, advance)

    def advance_line(self, delta: int) -> None:
        """Adds to the line."""
        self.raw(b"\x03" + sleb(delta))

    def set_file(self, number: int) -> None:
        """Makes a file the one in force."""
        self.standard(4, number)

    def set_column(self, column: int) -> None:
        """Makes a column the one in force."""
        self.standard(5, column)

    def negate_stmt(self) -> None:
        """Says that rows are where a breakpoint is wanted, or no longer so."""
        self.standard(6)

    def const_add_pc(self) -> None:
        """Moves by as much as the special opcode 255."""
        self.standard(8)

    def fixed_advance_pc(self, advance: int) -> None:
        """Moves by so many bytes, two bytes long."""
        self.raw(b"\x09" + fixed(advance, 2, self.byte_order))

    def special(self, advance: int, line: int) -> None:
        """Moves by so many operations, adds to the line, and makes a row, in one byte. ``ValueError`` if there is no such."""
        if not 0 <= line - self.line_base < self.line_range:
            raise ValueError(f"no special opcode adds {line} to the line")
        opcode = line - self.line_base + self.line_range * advance + self.opcode_base
        self.raw(fixed(opcode, 1))

    def extended(self, opcode: int, data: bytes = b"", *, length: int | None = None) -> None:
        """An extended opcode; ``length`` when it shall be wrong."""
        self.raw(b"\0" + uleb(len(data) + 1 if length is None else length) + bytes((opcode,)) + data)

    def end_sequence(self) -> None:
        """Ends the sequence at the address where it is now."""
        self.extended(1)

    def set_address(self, address: int, *, size: int | None = None) -> None:
        """Goes to an address."""
        self.extended(2, fixed(address, self.address_size if size is None else size, self.byte_order))

    def define_file(self, name: str, directory: int = 0, time: int = 0, size: int = 0) -> None:
        """Adds a file to the table; before version 5."""
        self.extended(3, _text(name) + uleb(directory) + uleb(time) + uleb(size))

    def discriminator(self, number: int) -> None:
        """Says which block of its line the next row is."""
        self.extended(4, uleb(number))

    def sequence(self, rows: Iterable[tuple[int, ...]], end: int) -> None:
        """A whole sequence: rows of address, line, and if need be file and discriminator, addresses ascending."""
        at = None
        line, file = 1, 1
        for address, row_line, *rest in rows:
            if at is None or self.most_operations > 1:
                self.set_address(address)
            elif address != at:
                self.advance_pc((address - at) // self.min_instruction)
            at = address
            if row_line != line:
                self.advance_line(row_line - line)
            row_file = rest[0] if rest else 1
            if row_file != file:
                self.set_file(row_file)
            if len(rest) > 1 and rest[1]:
                self.discriminator(rest[1])
            line, file = row_line, row_file
            self.copy()
        if at is None or self.most_operations > 1:
            self.set_address(end)
        else:
            self.advance_pc((end - at) // self.min_instruction)
        self.end_sequence()

    def build(
        self, *, length: int | None = None, header_length: int | None = None, version: int | None = None
    ) -> bytes:
        """The program's bytes. The arguments are fields that shall be wrong."""
        order = self.byte_order
        width = 8 if self.dwarf64 else 4
        tables = fixed(self.min_instruction, 1)
        if self.version >= 4:
            tables += bytes((self.most_operations,))
        tables += bytes((self.is_stmt, self.line_base & 0xFF, self.line_range, self.opcode_base, *self.operands))
        tables += self._entries() if self.version >= 5 else self._names()
        body = fixed(self.version if version is None else version, 2, order)
        if self.version >= 5:
            body += bytes((self.address_size, 0))
        stated = len(tables) if header_length is None else header_length
        body += stated.to_bytes(width, order) + tables + self._program
        stated = len(body) if length is None else length
        return (b"\xff" * 4 if self.dwarf64 else b"") + stated.to_bytes(width, order) + body

    def _names(self) -> bytes:
        data = b"".join(_text(name) for name in self.directories) + b"\0"
        for entry in self.files:
            name, directory = (entry, 0) if isinstance(entry, str) else (entry[0], int(str(entry[1])))
            data += _text(name) + uleb(directory) + b"\0\0"
        return data + b"\0"

    def _entries(self) -> bytes:
        data = b""
        for format_, entries in ((self.directory_format, self.directories), (self.file_format, self.files)):
            data += bytes((len(format_),))
            for content, form in format_:
                data += uleb(content) + uleb(form)
            data += uleb(len(entries))
            for entry in entries:
                values = (entry, 0)[: len(format_)] if isinstance(entry, str) else entry
                for (_, form), value in zip(format_, values, strict=True):
                    data += self.forms.encode(form, value)
        return data


def _text(name: object) -> bytes:
    """A string as it stands in a header."""
    return str(name).encode("utf-8", "surrogateescape") + b"\0"
