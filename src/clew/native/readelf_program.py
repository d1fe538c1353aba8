"""Call frame instructions as GNU readelf takes them: what they do to its rows, and the lines that it prints for them.

An instruction is described by a line of a table: where its register comes from, what operand follows, what it does, and
what it is called. What is readelf's and not DWARF's is listed in :mod:`clew.write.readelf`.
"""

import cython

if cython.compiled:
    from cython.cimports.clew.native.cursor import as_signed
    from cython.cimports.clew.native.readelf_entries import EntryReader
    from cython.cimports.clew.native.readelf_rows import Rows, low32
    from cython.cimports.clew.native.textbuffer import TextBuffer
    from cython.cimports.libc.stdint import int64_t, uint8_t, uint64_t
else:
    from clew.native.cursor import as_signed
    from clew.native.readelf_entries import EntryReader
    from clew.native.readelf_rows import Rows, low32
    from clew.native.textbuffer import TextBuffer

    int64_t = uint8_t = uint64_t = cython.longlong

from clew.native.readelf_columns import phrase

#: The low 32 bits. Larger literals in the code would be Python objects.
_HALF = cython.declare(uint64_t, 0xFFFFFFFF)

# Where an instruction's register comes from: nowhere, the opcode's low six bits, a LEB128 number; or a LEB128 number
# that is the CFA's register, which needs no column for that.
_NONE = cython.declare(cython.uchar, 0)
_LOW = cython.declare(cython.uchar, 1)
_NUMBER = cython.declare(cython.uchar, 2)
_OF_CFA = cython.declare(cython.uchar, 3)

# The operand behind it: a number of 1 to 8 bytes (that many), or one of these.
_ULEB = cython.declare(cython.uchar, 16)
_SLEB = cython.declare(cython.uchar, 17)
_BLOCK = cython.declare(cython.uchar, 18)
_POINTER = cython.declare(cython.uchar, 19)

# What an instruction does.
_UNKNOWN = cython.declare(cython.uchar, 0)
_NOTHING = cython.declare(cython.uchar, 1)
_ADVANCE = cython.declare(cython.uchar, 2)
_GO = cython.declare(cython.uchar, 3)
_RULE = cython.declare(cython.uchar, 4)
_OFFSET_RULE = cython.declare(cython.uchar, 5)
_NEGATED_RULE = cython.declare(cython.uchar, 6)
_REGISTER_RULE = cython.declare(cython.uchar, 7)
_BLOCK_RULE = cython.declare(cython.uchar, 8)
_RESTORE = cython.declare(cython.uchar, 9)
_REMEMBER = cython.declare(cython.uchar, 10)
_RECALL = cython.declare(cython.uchar, 11)
_CFA = cython.declare(cython.uchar, 12)
_CFA_REGISTER = cython.declare(cython.uchar, 13)
_CFA_OFFSET = cython.declare(cython.uchar, 14)
_CFA_BLOCK = cython.declare(cython.uchar, 15)
_ARGUMENTS = cython.declare(cython.uchar, 16)

# The rules, by their numbers in readelf_columns.
_UNDEFINED, _SAME, _AT_EXPRESSION, _IS_EXPRESSION, _AT_CFA, _CFA_PLUS, _IN_REGISTER = range(1, 8)

# Opcode (0x40 and its number for the three with an operand in their low bits): register, operand, deed, rule, name.
_INSTRUCTIONS = {
    0x00: (_NONE, 0, _NOTHING, 0, b"nop"),
    0x01: (_NONE, _POINTER, _GO, 0, b"set_loc"),
    0x02: (_NONE, 1, _ADVANCE, 0, b"advance_loc1"),
    0x03: (_NONE, 2, _ADVANCE, 0, b"advance_loc2"),
    0x04: (_NONE, 4, _ADVANCE, 0, b"advance_loc4"),
    0x05: (_NUMBER, _ULEB, _OFFSET_RULE, _AT_CFA, b"offset_extended"),
    0x06: (_NUMBER, 0, _RESTORE, 0, b"restore_extended"),
    0x07: (_NUMBER, 0, _RULE, _UNDEFINED, b"undefined"),
    0x08: (_NUMBER, 0, _RULE, _SAME, b"same_value"),
    0x09: (_NUMBER, _ULEB, _REGISTER_RULE, _IN_REGISTER, b"register"),
    0x0A: (_NONE, 0, _REMEMBER, 0, b"remember_state"),
    0x0B: (_NONE, 0, _RECALL, 0, b"restore_state"),
    0x0C: (_OF_CFA, _ULEB, _CFA, 0, b"def_cfa"),
    0x0D: (_OF_CFA, 0, _CFA_REGISTER, 0, b"def_cfa_register"),
    0x0E: (_NONE, _ULEB, _CFA_OFFSET, 0, b"def_cfa_offset"),
    0x0F: (_NONE, _BLOCK, _CFA_BLOCK, 0, b"def_cfa_expression"),
    0x10: (_NUMBER, _BLOCK, _BLOCK_RULE, _AT_EXPRESSION, b"expression"),
    0x11: (_NUMBER, _SLEB, _OFFSET_RULE, _AT_CFA, b"offset_extended_sf"),
    0x12: (_OF_CFA, _SLEB, _CFA, 0, b"def_cfa_sf"),
    0x13: (_NONE, _SLEB, _CFA_OFFSET, 0, b"def_cfa_offset_sf"),
    0x14: (_NUMBER, _ULEB, _OFFSET_RULE, _CFA_PLUS, b"val_offset"),
    0x15: (_NUMBER, _SLEB, _OFFSET_RULE, _CFA_PLUS, b"val_offset_sf"),
    0x16: (_NUMBER, _BLOCK, _BLOCK_RULE, _IS_EXPRESSION, b"val_expression"),
    0x1D: (_NONE, 8, _ADVANCE, 0, b"MIPS_advance_loc8"),
    0x2D: (_NONE, 0, _NOTHING, 0, b"GNU_window_save"),
    0x2E: (_NONE, _ULEB, _ARGUMENTS, 0, b"GNU_args_size"),
    0x2F: (_NUMBER, _SLEB, _NEGATED_RULE, _AT_CFA, b"GNU_negative_offset_extended"),
    0x41: (_NONE, 0, _ADVANCE, 0, b"advance_loc"),
    0x42: (_LOW, _ULEB, _OFFSET_RULE, _AT_CFA, b"offset"),
    0x43: (_LOW, 0, _RESTORE, 0, b"restore"),
}
_TABLE = [_INSTRUCTIONS.get(code, (_NONE, 0, _UNKNOWN, 0, b"")) for code in range(0x44)]
_SOURCES, _OPERANDS, _DEEDS, _RULES = (bytes(line[column] for line in _TABLE) for column in range(4))
_ALONE = (_NOTHING, _REMEMBER, _RECALL)


def _name(line):
    """How the line of an instruction begins; of one without operands, the whole line."""
    return phrase(b"  DW_CFA_" + line[4] + (b"\n" if line[2] in _ALONE else b": "))


#: The words of the opcodes stand in order; this is opcode 0's.
_FIRST_NAME = cython.declare(cython.size_t, [_name(line) for line in _TABLE][0])
_AARCH64_NAME = cython.declare(cython.size_t, phrase(b"  DW_CFA_AARCH64_negate_ra_state\n"))
_CFA_EXPRESSION = cython.declare(cython.size_t, phrase(b"  DW_CFA_def_cfa_expression ("))

_BAD_REGISTER = cython.declare(cython.size_t, phrase(b"bad register: "))
_TO = cython.declare(cython.size_t, phrase(b" to "))
_IN = cython.declare(cython.size_t, phrase(b" in "))
_AT = cython.declare(cython.size_t, phrase(b" at cfa"))
_IS = cython.declare(cython.size_t, phrase(b" is cfa"))
_OFS = cython.declare(cython.size_t, phrase(b" ofs "))
_OPEN = cython.declare(cython.size_t, phrase(b" ("))
_CLOSE = cython.declare(cython.size_t, phrase(b")\n"))
_CORRUPT = cython.declare(cython.size_t, phrase(b"<corrupt len "))
_CORRUPT_END = cython.declare(cython.size_t, phrase(b">\n"))
_USER = cython.declare(cython.size_t, phrase(b"  DW_CFA_??? (User defined call frame op: 0x"))
_MISMATCHED = cython.declare(cython.size_t, phrase(b"Mismatched DW_CFA_restore_state\n"))


@cython.cclass
class ProgramReader(EntryReader):
    """Reads the program of the entry at hand, from ``pos`` to ``end``; see :class:`clew.native.readelf_text.FrameText`.

    ``pending`` is the text of an expression that has still to be put out, then closed; ``idle`` tells that there were
    only nops so far; ``over`` that the listing ends here.
    """

    def __init__(self, data, address, eh, big, address_size, names, known, rare_name, aarch64, raw, describe):
        EntryReader.__init__(self, data, address, eh, big, address_size, names, known, rare_name, raw)
        self.aarch64 = aarch64
        self.describe = describe
        self.sources = _SOURCES
        self.operands = _OPERANDS
        self.deeds = _DEEDS
        self.rules = _RULES
        self.pending = None
        self.over = self.idle = False

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def discover(self) -> cython.int:
        """The first pass over a program: gives columns to the registers that it mentions."""
        start: cython.size_t = self.pos
        byte: uint8_t
        code: uint8_t
        source: uint8_t
        operand: uint8_t
        register: uint64_t
        named: cython.bint
        while self.pos < self.end:
            byte = self.data[self.pos]
            self.pos += 1
            code = byte if byte < 0x40 else 0x40 | byte >> 6
            source = self.sources[code]
            operand = self.operands[code]
            named = False
            register = 0
            if source == _LOW:
                register = byte & 0x3F
                named = True
            elif source != _NONE:
                register = self.leb(False) & _HALF
                named = source == _NUMBER
            if operand == _ULEB or operand == _SLEB:
                self.leb(False)
            elif operand == _BLOCK:
                self.pass_over(self.leb(False))
            elif operand == _POINTER:
                self.pass_over(self.pointer_width)
            elif operand:
                self.pass_over(operand)
            # The largest number stands for none.
            if named and register != _HALF:
                self.rows.discover(register)
        self.pos = start
        self.flaws = 0
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def step(self) -> cython.int:
        """One instruction."""
        byte: uint8_t = self.data[self.pos]
        code: uint8_t = byte if byte < 0x40 else 0x40 | byte >> 6
        deed: uint8_t = self.deeds[code]
        source: uint8_t = self.sources[code]
        register: uint64_t = 0
        self.pos += 1
        if code:
            self.idle = False
        if deed == _ADVANCE:
            return self.advance(byte, code)
        if source == _LOW:
            return self.column(code, deed, byte & 0x3F)
        if source != _NONE:
            register = self.leb(False) & _HALF
            if source == _NUMBER:
                return self.column(code, deed, register)
        if deed == _NOTHING:
            if self.raw:
                return self.out.word(_AARCH64_NAME if code == 0x2D and self.aarch64 else _FIRST_NAME + code)
            return 0
        if deed == _CFA or deed == _CFA_OFFSET or deed == _CFA_REGISTER:
            return self.cfa(code, deed, register)
        return self.others(code, deed)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def advance(self, byte: uint8_t, code: uint8_t) -> cython.int:
        """Ends a row and moves on."""
        out: TextBuffer = self.out
        ones: uint64_t = 0xFFFFFFFFFFFFFFFF
        size: cython.size_t = self.operands[code]
        delta: uint64_t
        shown: int64_t
        place: uint64_t
        if size:
            delta = self.some(size) * self.code_factor & ones
            shown = as_signed(delta)
        else:
            delta = cython.cast(uint64_t, byte & 0x3F) * self.code_factor & _HALF
            shown = low32(delta)
        place = (self.location + delta) & ones
        if self.raw:
            out.word(_FIRST_NAME + code)
            out.integer(shown, False)
            out.word(_TO)
            out.hex(self.masked(place, self.address_size), 2 * self.address_size)
            out.byte(0x0A)
        else:
            self.rows.row(self.masked(self.location, self.address_size), self.address_size)
        self.location = place
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def column(self, code: uint8_t, deed: uint8_t, register: uint64_t) -> cython.int:
        """Gives a register a rule. A register without a column is told in either listing."""
        out: TextBuffer = self.out
        rows: Rows = self.rows
        ones: uint64_t = 0xFFFFFFFFFFFFFFFF
        bad: cython.bint = register >= rows.columns
        operand: uint8_t = self.operands[code]
        rule: uint8_t = self.rules[code]
        value: uint64_t = 0
        if operand:
            value = self.leb(operand == _SLEB)
            if operand == _BLOCK and value > self.end - self.pos:
                return self.corrupt(code, value)
        if deed == _NEGATED_RULE:
            value = (ones - value + 1) & ones
        if deed == _OFFSET_RULE or deed == _NEGATED_RULE:
            value = value * self.data_factor & ones
        if self.raw or bad:
            out.word(_FIRST_NAME + code)
            if bad:
                out.word(_BAD_REGISTER)
            rows.number_and_name(register)
            if deed == _OFFSET_RULE or deed == _NEGATED_RULE:
                out.word(_AT if rule == _AT_CFA else _IS)
                out.integer(as_signed(value), True)
            elif deed == _REGISTER_RULE:
                out.word(_IN)
                rows.number_and_name(value & _HALF)
            if deed == _BLOCK_RULE:
                out.word(_OPEN)
                self.tell(value)
            else:
                out.byte(0x0A)
        if operand == _BLOCK:
            self.pos += value
        if self.raw or bad:
            return 0
        if deed == _RESTORE:
            return rows.restore(register)
        return rows.set(register, rule, value)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def corrupt(self, code: uint8_t, size: uint64_t) -> cython.int:
        """An expression that is longer than the rest of the entry."""
        self.note("an expression runs past the end of the entry")
        self.out.word(_FIRST_NAME + code)
        self.out.word(_CORRUPT)
        self.out.natural(size)
        return self.out.word(_CORRUPT_END)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def tell(self, size: uint64_t) -> cython.int:
        """Begins the text of the expression at ``pos``; it is put out by and by, for it may be long."""
        self.pending = iter(self.describe(self.pos, size, self.address_size))
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def cfa(self, code: uint8_t, deed: uint8_t, register: uint64_t) -> cython.int:
        """Changes the CFA's register, its offset, or both."""
        out: TextBuffer = self.out
        rows: Rows = self.rows
        ones: uint64_t = 0xFFFFFFFFFFFFFFFF
        operand: uint8_t = self.operands[code]
        value: uint64_t = 0
        if operand:
            value = self.leb(operand == _SLEB)
            if operand == _SLEB:
                value = value * self.data_factor & ones
            rows.cfa_offset = value
        if deed != _CFA_OFFSET:
            rows.cfa_register = register
            rows.cfa_expression = False
        if not self.raw:
            return 0
        out.word(_FIRST_NAME + code)
        if deed != _CFA_OFFSET:
            rows.number_and_name(register)
        if deed == _CFA:
            out.word(_OFS)
        if operand == _SLEB:
            out.integer(as_signed(value), False)
        elif operand:
            out.integer(low32(value), False)
        return out.byte(0x0A)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def others(self, code: uint8_t, deed: uint8_t) -> cython.int:
        """The rarer instructions."""
        out: TextBuffer = self.out
        rows: Rows = self.rows
        value: uint64_t
        if deed == _UNKNOWN:
            if code >= 0x1C:
                out.word(_USER)
                out.hex(code, 2)
                out.word(_CLOSE)
            self.note(f"unknown call frame instruction {code:#x}; the rest of the entry is left out")
            self.pos = self.end
            return 0
        if deed == _CFA_BLOCK:
            value = self.leb(False)
            if value > self.end - self.pos:
                return self.corrupt(code, value)
            if self.raw:
                out.word(_CFA_EXPRESSION)
                self.tell(value)
            rows.cfa_expression = True
            self.pos += value
            return 0
        if deed == _GO:
            value = self.pointer(self.encoding)
            if self.raw:
                out.word(_FIRST_NAME + code)
                out.hex(self.masked(value, self.address_size), 2 * self.address_size)
                out.byte(0x0A)
            else:
                rows.row(self.masked(self.location, self.address_size), self.address_size)
            self.location = value
            return 0
        if self.raw:
            out.word(_FIRST_NAME + code)
        if deed == _REMEMBER:
            rows.remember()
        elif deed == _RECALL:
            if not rows.recall() and not self.raw:
                out.word(_MISMATCHED)
        else:
            value = self.leb(False)
            if self.raw:
                out.natural(value)
                out.byte(0x0A)
        return 0
