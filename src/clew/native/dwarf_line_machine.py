"""The machine of line number programs (DWARF 5, 6.2.2 and 6.2.5): opcodes into rows and sequences, as columns."""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.clew.native.cursor import ONES, WORD
    from cython.cimports.clew.native.dwarf_line_program import LineProgram
    from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
else:
    from clew.native.cursor import ONES, WORD
    from clew.native.dwarf_line_program import LineProgram

    int64_t = uint32_t = uint64_t = cython.longlong

from clew.native.columns import empty, enlarged, zeros
from clew.native.cursor import Malformed, Truncated

#: The file of a row that ends a sequence.
_GAP = cython.declare(uint32_t, 0xFFFFFFFF)
#: Rows that there is room for at first.
_ROOM = 1024

#: Why :meth:`LineMachine.run` came back: the program is at its end, or the columns are full.
DONE, FULL = 0, 1


@cython.cclass
class LineMachine(LineProgram):
    """Runs programs of one section. Rows and sequences stand in columns that grow, and are used again.

    Args:
        data: the bytes of ``.debug_line``.
        big: whether numbers are big-endian.
        code_start, code_end: the file's code, as sorted ranges (u8); None: every address is code.
        discriminators: whether rows have DWARF's discriminators.
    """

    def __init__(self, data, big, code_start, code_end, discriminators):
        LineProgram.__init__(self, data, big)
        self.any_code = code_start is not None
        self.code_start = _column(() if code_start is None else code_start)
        self.code_end = _column(() if code_end is None else code_end)
        if self.code_start.shape[0] != self.code_end.shape[0]:
            raise ValueError("code_start and code_end are not of one length")
        self.discriminators = discriminators
        self.advances = zeros(256, "u8")
        self.line_deltas = zeros(256, "u4")
        self.steps_for = 0
        self.row_room = self.sequence_room = 0
        self.make_rows(_ROOM)
        self.make_sequences(64)

    def make_rows(self, room):
        """Makes room for so many rows."""
        self.row_address = _resized(self.row_address if self.row_room else None, room, "u8")
        self.row_line = _resized(self.row_line if self.row_room else None, room, "u4")
        self.row_file = _resized(self.row_file if self.row_room else None, room, "u4")
        if self.discriminators:
            self.row_disc = _resized(self.row_disc if self.row_room else None, room, "u4")
        elif not self.row_room:
            self.row_disc = empty(0, "u4")
        self.row_room = room

    def make_sequences(self, room):
        """Makes room for so many sequences."""
        self.first = _resized(self.first if self.sequence_room else None, room, "u4")
        self.last = _resized(self.last if self.sequence_room else None, room, "u4")
        self.low = _resized(self.low if self.sequence_room else None, room, "u8")
        self.high = _resized(self.high if self.sequence_room else None, room, "u8")
        self.sequence_room = room

    def make_room(self):
        """More room, for half as many rows again, and for sequences where they are what lacks it."""
        if self.count == self.row_room:
            self.make_rows(self.row_room + self.row_room // 2)
        if self.sequences == self.sequence_room:
            self.make_sequences(2 * self.sequence_room)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def begin(self) -> cython.int:
        """Gets ready for the program whose header was read."""
        self.mask = self.address_mask()
        self.at = self.program
        self.start = self.count = self.sequences = self.backwards = 0
        self.unsorted = False
        self.restart()
        if self.line_range:
            self.tabulate()
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def tabulate(self) -> cython.int:
        """What each special opcode adds to the address (or operation index) and to the line (DWARF 5, 6.2.5.1)."""
        i: cython.uint
        adjusted: cython.uint
        steps: cython.uint = self.opcode_base << 24 | self.line_range << 16 | (self.line_base & 0xFF) << 8
        if steps | self.min_instruction == self.steps_for:
            return 0
        self.steps_for = steps | self.min_instruction
        for i in range(self.opcode_base, 256):
            adjusted = i - self.opcode_base
            self.advances[i] = cython.cast(uint64_t, adjusted // self.line_range) * self.min_instruction
            self.line_deltas[i] = (self.line_base + adjusted % self.line_range) & WORD
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def restart(self) -> cython.void:
        """The registers as they are at the start of each sequence."""
        self.address = 0
        self.operation = 0
        self.line = 1
        self.file = 1
        self.discriminator = 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def run(self) -> cython.int:
        """Runs the program from ``at`` on, to its end or until the columns are full.

        Raises Malformed where it makes no sense; ``at`` is then the opcode, and the rows before it are there.
        """
        # What the loop uses stands in local variables: a store to a column could otherwise change any of it, for a C compiler.
        data: cython.const[cython.uchar][::1] = self.data
        row_address: uint64_t[::1] = self.row_address
        row_line: uint32_t[::1] = self.row_line
        row_file: uint32_t[::1] = self.row_file
        advances: uint64_t[::1] = self.advances
        line_deltas: uint32_t[::1] = self.line_deltas
        at: cython.size_t = self.at
        end: cython.size_t = self.end
        start: cython.size_t = self.start
        count: cython.size_t = self.count
        room: cython.size_t = self.row_room
        address: uint64_t = self.address
        mask: uint64_t = self.mask
        value: uint64_t
        line: uint32_t = self.line
        file: uint32_t = self.file
        opcode: cython.uint
        base: cython.uint = self.opcode_base
        plain: cython.bint = self.most_operations == 1 and self.line_range != 0
        wanted: cython.bint = self.discriminators
        while at < end and count < room:
            opcode = data[at]
            if opcode >= base:
                if plain:
                    address = (address + advances[opcode]) & mask
                else:
                    self.at = at
                    self.count = count
                    self.address = address
                    self.line = line
                    address = self.advanced(address, self.special(opcode))
                line = (line + line_deltas[opcode]) & WORD
                at += 1
            elif opcode == 1:  # DW_LNS_copy
                at += 1
            else:
                # What compilers write most, with operands of one or two bytes.
                if opcode == 5 and end - at > 2:  # DW_LNS_set_column
                    if data[at + 1] < 0x80:
                        at += 2
                        continue
                    if data[at + 2] < 0x80:
                        at += 3
                        continue
                if opcode == 6:  # DW_LNS_negate_stmt
                    at += 1
                    continue
                if opcode == 3 and end - at > 2:  # DW_LNS_advance_line
                    value = data[at + 1]
                    if value < 0x80:
                        line = (line + value - ((value & 0x40) << 1)) & WORD
                        at += 2
                        continue
                    if data[at + 2] < 0x80:
                        value = (value & 0x7F) | cython.cast(uint64_t, data[at + 2]) << 7
                        line = (line + value - ((value & 0x2000) << 1)) & WORD
                        at += 3
                        continue
                if opcode == 0 and end - at > 3 and data[at + 1] == 2 and data[at + 2] == 4 and data[at + 3] < 0x80:
                    self.discriminator = data[at + 3]  # DW_LNE_set_discriminator
                    at += 4
                    continue
                self.at = at
                self.count = count
                self.address = address
                self.line = line
                if opcode:
                    self.standard(opcode)
                elif self.extended() == FULL:
                    return FULL
                at = self.at
                start = self.start
                count = self.count
                address = self.address
                line = self.line
                file = self.file
                continue
            # A row is complete.
            if count > start:
                value = row_address[count - 1]
                if address <= value:
                    if address == value:
                        count -= 1
                    else:
                        self.unsorted = True
            row_address[count] = address
            row_line[count] = line
            row_file[count] = file
            if wanted:
                self.row_disc[count] = self.discriminator
            self.discriminator = 0
            count += 1
        self.at = at
        self.count = count
        self.address = address
        self.line = line
        return DONE if at >= end else FULL

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=True)
    def special(self, opcode: cython.uint) -> uint64_t:
        """The operation advance of a special opcode."""
        if self.line_range == 0:
            raise Malformed("a special opcode where the line range is zero")
        return (opcode - self.opcode_base) // self.line_range

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def advanced(self, address: uint64_t, operations: uint64_t) -> uint64_t:
        """The address after so many operations, of which an instruction of a VLIW machine has several (DWARF 5, 6.2.5.1)."""
        if self.most_operations > 1:
            operations = (operations + self.operation) & ONES
            self.operation = operations % self.most_operations
            operations = operations // self.most_operations
        return (address + operations * self.min_instruction) & self.mask

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def standard(self, opcode: cython.uint) -> cython.int:
        """Does what a standard opcode says, which makes no row (DWARF 5, 6.2.5.2)."""
        value: uint64_t
        count: cython.uint
        self.pos = self.at + 1
        if opcode == 2:  # DW_LNS_advance_pc
            self.address = self.advanced(self.address, self.uleb())
        elif opcode == 3:  # DW_LNS_advance_line
            self.line = (self.line + (self.sleb() & WORD)) & WORD
        elif opcode == 4:  # DW_LNS_set_file
            value = self.uleb()
            # No table is that long; the number that says "none" must not come about.
            self.file = value if value < _GAP else _GAP - 1
        elif opcode == 8:  # DW_LNS_const_add_pc
            self.address = self.advanced(self.address, self.special(255))
        elif opcode == 9:  # DW_LNS_fixed_advance_pc: not scaled, and of two bytes always
            self.address = (self.address + self.fixed(2)) & self.mask
            self.operation = 0
        elif opcode == 5 or opcode == 12:  # DW_LNS_set_column, DW_LNS_set_isa
            self.uleb()
        elif opcode > 12:
            count = self.data[self.lengths + opcode - 1]
            while count:
                self.uleb()
                count -= 1
        # DW_LNS_set_basic_block, DW_LNS_set_prologue_end, DW_LNS_set_epilogue_begin: no operand, nothing to look up.
        self.at = self.pos
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def extended(self) -> cython.int:
        """Does what an extended opcode says (DWARF 5, 6.2.5.3); ``FULL`` where there is no room for what it makes."""
        length: uint64_t
        value: uint64_t
        opcode: cython.uint
        stop: cython.size_t = self.end
        self.pos = self.at + 1
        length = self.uleb()
        if length > stop - self.pos:
            raise Truncated("an extended opcode runs past the end of the line program")
        if length == 0:
            self.at = self.pos
            return DONE
        opcode = self.data[self.pos]
        self.pos += 1
        length -= 1
        self.end = self.pos + length
        try:
            if opcode == 4:  # DW_LNE_set_discriminator
                value = self.uleb()
                self.discriminator = value & WORD
            elif opcode == 2:  # DW_LNE_set_address
                if length == 0 or length > 8:
                    raise Malformed("an address of a line program is of no known size")
                self.address = self.fixed(length) & self.mask
                self.operation = 0
            elif opcode == 1:  # DW_LNE_end_sequence
                if self.sequences == self.sequence_room:
                    return FULL
                self.end_sequence(self.address)
            elif opcode == 3:  # DW_LNE_define_file
                self.define(self.pos)
            self.at = self.end
        finally:
            self.end = stop
        return DONE

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    @cython.with_gil
    def define(self, offset: cython.size_t) -> cython.int:
        """Keeps the place where the program defines a file."""
        self.defined.append(offset)
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def end_sequence(self, address: uint64_t) -> cython.int:
        """Closes the sequence, or drops it where it is of code that is not there, or of none."""
        i: cython.size_t = self.sequences
        first: cython.size_t = self.start
        last: cython.size_t = self.count
        low: uint64_t
        if last > first:
            low = self.row_address[first]
            if address == self.row_address[last - 1]:
                last -= 1
            elif address < self.row_address[last - 1]:
                self.unsorted = True
            if last > first and self.is_code(low):
                # The first row that found no room stops the loop, so there is always room for an end.
                self.row_address[last] = address
                self.row_line[last] = 0
                self.row_file[last] = _GAP
                if self.discriminators:
                    self.row_disc[last] = 0
                last += 1
                self.first[i] = first
                self.last[i] = last
                self.low[i] = low
                self.high[i] = address
                if self.unsorted:
                    self.backwards += 1
                first = last
                self.sequences = i + 1
        self.unsorted = False
        self.start = self.count = first
        self.restart()
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def is_code(self, address: uint64_t) -> cython.int:
        """Whether an address is one of the file's code."""
        low: cython.size_t = 0
        high: cython.size_t = self.code_start.shape[0]
        middle: cython.size_t
        if not self.any_code:
            return 1
        while low < high:
            middle = (low + high) // 2
            if self.code_start[middle] <= address:
                low = middle + 1
            else:
                high = middle
        return low > 0 and address < self.code_end[low - 1]


def _column(values):
    """Numbers of 64 bits as the core reads them."""
    array = np.ascontiguousarray(values, "u8")
    return array if cython.compiled else memoryview(array)


def _resized(column, room, code):
    """A column with that much room, holding what it held."""
    return empty(room, code) if column is None else enlarged(column, room)
