"""Runs call frame programs (DWARF 5, 6.4.2) over numbered rules.

The interpreter's state is not a set of columns but the number of a rule in the :class:`~clew.native.rulebook.Rulebook`,
and an instruction is a step from one number to another. Steps are remembered: compilers write the same few prologues over
and over, so nearly every instruction is one look-up. ``remember_state`` pushes a number.
"""

import cython

if cython.compiled:
    from cython.cimports.clew.native.cies import CieRecord
    from cython.cimports.clew.native.cursor import ONES, SPREAD, WORD
    from cython.cimports.clew.native.expressionbook import ExpressionBook
    from cython.cimports.clew.native.pointers import Pointers
    from cython.cimports.clew.native.rows import RowColumns
    from cython.cimports.clew.native.rulebook import Rulebook
    from cython.cimports.libc.stdint import int32_t, int64_t, uint32_t, uint64_t
else:
    from clew.native.cies import CieRecord
    from clew.native.cursor import ONES, SPREAD, WORD
    from clew.native.expressionbook import ExpressionBook
    from clew.native.pointers import Pointers
    from clew.native.rows import RowColumns
    from clew.native.rulebook import Rulebook

    int64_t = uint32_t = uint64_t = int32_t = cython.longlong

from clew.native.columns import empty, zeros
from clew.native.cursor import Malformed

#: What the vendor opcodes mean, by machine.
GENERIC, AARCH64, SPARC, MIPS = range(4)

#: ``DW_CFA_remember_state`` may nest this deep; compilers need two, and each level costs hostile input one byte.
_DEEPEST = cython.declare(cython.size_t, 1024)

#: In the place of an offset that waits, for one that has no room there.
_TOO_WIDE = cython.declare(int64_t, -(1 << 31))

#: How many steps the far memory holds; rare ones only.
_FAR = 1024

# What a step changes: the CFA (whole, offset, register, expression), a register (restored; 8 + its kind), the context.
_CFA = cython.declare(cython.uint, 1)
_CFA_OFFSET = cython.declare(cython.uint, 2)
_CFA_REGISTER = cython.declare(cython.uint, 3)
_CFA_EXPRESSION = cython.declare(cython.uint, 4)
_RESTORED = cython.declare(cython.uint, 5)
_CONTEXT = cython.declare(cython.uint, 6)
_WINDOW = cython.declare(cython.uint, 7)
_UNDEFINED = cython.declare(cython.uint, 9)
_SAME_VALUE = cython.declare(cython.uint, 10)
_AT_CFA = cython.declare(cython.uint, 11)
_CFA_PLUS = cython.declare(cython.uint, 12)
_IN_REGISTER = cython.declare(cython.uint, 13)
_AT_EXPRESSION = cython.declare(cython.uint, 14)
_IS_EXPRESSION = cython.declare(cython.uint, 15)


@cython.cclass
class Interpreter(RowColumns):
    """The machine that turns programs into rows.

    Args:
        entries: the section's :class:`~clew.native.entries.Entries`.
        data: the section's bytes.
        dialect: which machine's vendor instructions are meant.
        rows: how many rows there will be, about.
    """

    def __init__(self, entries, data, dialect, rows):
        Pointers.__init__(self, data, entries.address, entries.big, entries.address_size, *entries.bases())
        self.dialect = dialect
        self.rules = Rulebook(len(data))
        self.expressions = ExpressionBook(data)
        self.initials = [None] * len(entries.cies)
        slots = 8192 if len(data) < 1 << 19 else 16384
        self.near_mask = slots - 1
        self.near = zeros(slots, "u8")
        self.far = zeros(4 * _FAR, "u8")
        self.stack = empty(_DEEPEST, "i4")
        self.depth = 0
        self.current = None
        self.make_room(rows)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def enter(self, record: CieRecord, index: cython.size_t) -> cython.int:
        """Makes a CIE the one in force, running its program the first time."""
        self.current = None
        self.code_alignment = record.code_alignment
        self.data_alignment = record.data_alignment
        self.cie_address_size = record.address_size
        self.encoding = record.fde_encoding
        self.mask = ONES >> (64 - 8 * record.address_size)
        initial = self.initials[index]
        if initial is None:
            context: uint32_t = record.return_address << 8
            if record.signal:
                context |= 1
            if record.key_b:
                context |= 8
            self.initial = -1
            try:
                self.location = 0
                self.depth = 0
                initial = self.execute(record.program, record.end, ONES, self.rules.blank(context), False)
            except Malformed as error:
                initial = f"its CIE's program cannot be run: {error}"
            self.initials[index] = initial
        if isinstance(initial, str):
            raise Malformed(initial)
        self.initial = initial
        self.current = record
        return 0

    def begin(self, record, index, start):
        """Makes a CIE the one in force and goes to an FDE's start: the number of the rule that its program begins with."""
        self.enter(record, index)
        self.location = start
        self.depth = 0
        self.args_size = 0
        self.rules.work = 0
        return self.initial

    def step(self, at, end, rule):
        """Runs the one instruction in ``data[at:end]``; the rule after it. ``location`` and ``args_size`` follow."""
        return self.execute(at, end, ONES, rule, False)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def execute(
        self, at: cython.size_t, end: cython.size_t, limit: uint64_t, rule: int32_t, emit: cython.bint
    ) -> int32_t:
        """Runs the instructions in ``data[at:end]`` and answers with the rule in force after them.

        ``location`` moves; with ``emit`` each move completes a row, and the last one ends at ``limit``. What would lie at or
        beyond ``limit`` is not emitted: the end of an FDE is a hard boundary. Raises Malformed where the program makes no
        sense; rows emitted so far are the caller's to take back.
        """
        location: uint64_t = self.location
        delta: uint64_t
        value: uint64_t
        register: uint64_t
        opcode: cython.uint
        self.end = end
        while at < end:
            opcode = self.data[at]
            at += 1
            if opcode >= 0x40:
                register = opcode & 0x3F
                if opcode < 0x80:  # DW_CFA_advance_loc
                    delta = register * self.code_alignment
                    if delta:
                        if emit:
                            _emit(self, location, rule)
                        delta = (location + delta) & self.mask
                        if delta < location:
                            raise Malformed("the location wraps around")
                        location = delta
                        if location >= limit:
                            self.location = location
                            return rule
                        # What nearly always comes next: DW_CFA_def_cfa_offset with an operand of one byte.
                        if at + 1 < end and self.data[at] == 0x0E and self.data[at + 1] < 0x80:
                            rule = _step(self, rule, _CFA_OFFSET, 0, self.data[at + 1])
                            at += 2
                    continue
                if opcode >= 0xC0:  # DW_CFA_restore
                    rule = _step(self, rule, _RESTORED, register, self.initial)
                    continue
                # DW_CFA_offset
                if at < end and self.data[at] < 0x80:
                    rule = _step(self, rule, _AT_CFA, register, self.data[at] * self.data_alignment)
                    at += 1
                else:
                    self.pos = at
                    rule = _step(self, rule, _AT_CFA, register, self.factored(self.uleb()))
                    at = self.pos
                continue
            if opcode == 0x0E:  # DW_CFA_def_cfa_offset
                if at < end and self.data[at] < 0x80:
                    value = self.data[at]
                    at += 1
                else:
                    self.pos = at
                    value = self.uleb()
                    at = self.pos
                if value >> 63:
                    raise Malformed("an offset is out of all proportion")
                rule = _step(self, rule, _CFA_OFFSET, 0, value)
                continue
            if opcode == 0x00:  # DW_CFA_nop, seldom alone
                while at < end and self.data[at] == 0:
                    at += 1
                continue
            if opcode == 0x0A:  # DW_CFA_remember_state
                if self.depth >= _DEEPEST:
                    raise Malformed("DW_CFA_remember_state nests too deep")
                self.stack[self.depth] = rule
                self.depth += 1
                continue
            if opcode == 0x0B:  # DW_CFA_restore_state
                if self.depth == 0:
                    raise Malformed("DW_CFA_restore_state without a remembered state")
                self.depth -= 1
                rule = self.stack[self.depth]
                continue
            self.pos = at
            if 0x02 <= opcode <= 0x04 or opcode == 0x1D or opcode == 0x01:
                if opcode == 0x01:  # DW_CFA_set_loc
                    delta = self.encoded(self.encoding, self.cie_address_size)
                else:  # DW_CFA_advance_loc1, 2, 4, DW_CFA_MIPS_advance_loc8
                    if opcode == 0x1D and self.dialect != MIPS:
                        raise Malformed("the call frame instruction 0x1d is not defined for this machine")
                    value = self.fixed(8 if opcode == 0x1D else cython.cast(cython.size_t, 1) << (opcode - 2))
                    # The factor is at most 2^10. A move beyond the address space must not come out as a small one.
                    if value >> 53 or value * self.code_alignment > self.mask:
                        raise Malformed("the location wraps around")
                    delta = (location + value * self.code_alignment) & self.mask
                at = self.pos
                if delta == location:
                    continue
                if emit:
                    _emit(self, location, rule)
                if delta < location:
                    raise Malformed("the location goes back")
                location = delta
                if location >= limit:
                    self.location = location
                    return rule
                continue
            rule = self.operate(opcode, rule)
            at = self.pos
        self.location = location
        if emit:
            _emit(self, location, rule)
        return rule

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def operate(self, opcode: cython.uint, rule: int32_t) -> int32_t:
        """One instruction that neither moves nor remembers, operands at ``pos``: the rule that follows from ``rule``."""
        register: uint64_t
        value: uint64_t
        if opcode == 0x0C or opcode == 0x12:  # DW_CFA_def_cfa, _sf
            register = self.uleb()
            if opcode == 0x12:
                return _step(self, rule, _CFA, register, self.factored_signed(self.sleb()))
            value = self.uleb()
            if value >> 63:
                raise Malformed("an offset is out of all proportion")
            return _step(self, rule, _CFA, register, value)
        if opcode == 0x0D:  # DW_CFA_def_cfa_register
            return _step(self, rule, _CFA_REGISTER, self.uleb(), 0)
        if opcode == 0x13:  # DW_CFA_def_cfa_offset_sf
            return _step(self, rule, _CFA_OFFSET, 0, self.factored_signed(self.sleb()))
        if opcode == 0x0F:  # DW_CFA_def_cfa_expression
            return _step(self, rule, _CFA_EXPRESSION, 0, self.expression())
        if opcode == 0x05 or opcode == 0x14:  # DW_CFA_offset_extended, DW_CFA_val_offset
            register = self.uleb()
            return _step(self, rule, _AT_CFA if opcode == 0x05 else _CFA_PLUS, register, self.factored(self.uleb()))
        if opcode == 0x11 or opcode == 0x15:  # DW_CFA_offset_extended_sf, DW_CFA_val_offset_sf
            register = self.uleb()
            return _step(
                self, rule, _AT_CFA if opcode == 0x11 else _CFA_PLUS, register, self.factored_signed(self.sleb())
            )
        if opcode == 0x06:  # DW_CFA_restore_extended
            return _step(self, rule, _RESTORED, self.uleb(), self.initial)
        if opcode == 0x07:  # DW_CFA_undefined
            return _step(self, rule, _UNDEFINED, self.uleb(), 0)
        if opcode == 0x08:  # DW_CFA_same_value
            return _step(self, rule, _SAME_VALUE, self.uleb(), 0)
        if opcode == 0x09:  # DW_CFA_register
            register = self.uleb()
            value = self.uleb()
            if value > 0xFFFF:
                raise Malformed("a register number is out of all proportion")
            return _step(self, rule, _IN_REGISTER, register, value)
        if opcode == 0x10 or opcode == 0x16:  # DW_CFA_expression, DW_CFA_val_expression
            register = self.uleb()
            return _step(self, rule, _AT_EXPRESSION if opcode == 0x10 else _IS_EXPRESSION, register, self.expression())
        if opcode == 0x2E:  # DW_CFA_GNU_args_size
            value = self.uleb()
            if value > 0xFFFFFFFF:
                raise Malformed("an argument size is out of all proportion")
            self.set_args(value)
            return rule
        if opcode == 0x2F:  # DW_CFA_GNU_negative_offset_extended
            register = self.uleb()
            return _step(self, rule, _AT_CFA, register, -self.factored(self.uleb()))
        return self.vendor(opcode, rule)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def vendor(self, opcode: cython.uint, rule: int32_t) -> int32_t:
        """Instructions that mean different things on different machines."""
        if opcode == 0x2D and self.dialect == SPARC:  # DW_CFA_GNU_window_save
            return _step(self, rule, _WINDOW, 0, self.cie_address_size)
        if self.dialect == AARCH64:
            context: uint32_t = self.rules.context[rule]
            if opcode == 0x2D or opcode == 0x2C:  # DW_CFA_AARCH64_negate_ra_state, _with_pc (aadwarf64, 4.4)
                context ^= 2 if opcode == 0x2D else 6
                if context & 6 == 4:
                    raise Malformed("the return address is signed with the pc and not signed")
                return _step(self, rule, _CONTEXT, 0, context)
            if opcode == 0x2B:  # DW_CFA_AARCH64_set_ra_state: 0 not signed, 1 signed, 2 signed with the pc
                state: uint64_t = self.uleb()
                self.sleb()
                if state > 2:
                    raise Malformed("DW_CFA_AARCH64_set_ra_state sets a state that is not defined")
                return _step(self, rule, _CONTEXT, 0, (context & ~6) | (0 if state == 0 else 2 if state == 1 else 6))
        raise Malformed(f"the call frame instruction {opcode:#04x} is not defined for this machine")

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def emit(self, start: uint64_t, rule: int32_t) -> cython.int:
        """Adds a row."""
        return _emit(self, start, rule)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def factored(self, value: uint64_t) -> int64_t:
        """An unsigned operand times the data alignment factor, which the CIE keeps below 2^20."""
        if value >> 42:
            raise Malformed("an offset is out of all proportion")
        return cython.cast(int64_t, value) * self.data_alignment

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def factored_signed(self, value: int64_t) -> int64_t:
        """A signed operand times the data alignment factor."""
        if value >> 42 != 0 and value >> 42 != -1:
            raise Malformed("an offset is out of all proportion")
        return value * self.data_alignment

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def expression(self) -> int64_t:
        """The block operand of an expression instruction: its number."""
        size: uint64_t = self.uleb()
        at: cython.size_t = self.pos
        self.skip(size)
        return self.expressions.number(at, size)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def far_step(self, rule: int32_t, what: cython.uint, register: uint64_t, value: int64_t) -> int32_t:
        """As :func:`_step`, for what does not fit into the near memory's keys."""
        if register > 0xFFFF:
            raise Malformed("a register number is out of all proportion")
        key: uint64_t = cython.cast(uint64_t, rule) << 20 | register << 4 | what
        bits: uint64_t = value & ONES
        at: cython.size_t = (((key ^ bits << 24) * SPREAD) & ONES) >> 54 << 2
        if self.far[at] == key and self.far[at + 1] == bits:
            return self.far[at + 2]
        made: int32_t = self.make(rule, what, register, value)
        self.far[at] = key
        self.far[at + 1] = bits
        self.far[at + 2] = made
        return made

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def make(self, rule: int32_t, what: cython.uint, register: uint32_t, value: int64_t) -> int32_t:
        """The step from a rule by one change, worked out."""
        kind: cython.int = self.rules.cfa_kind[rule]
        if what >= 8:
            return self.rules.with_register(rule, register, what - 8, value)
        if what == _RESTORED:
            if self.initial < 0:
                raise Malformed("DW_CFA_restore in a CIE has nothing to restore to")
            return self.rules.with_restored(rule, self.initial, register)
        if what == _CFA:
            return self.rules.with_cfa(rule, 1, register, value)
        # The offset outlives its register: libgcrypt's assembly goes from rsp+56 to an expression and back to rsp, and means
        # rsp+56, as libgcc, gdb and readelf read it; gcc's RISC-V CIEs give only the register, and mean an offset of 0. While
        # the CFA is an expression, its number is the value, and the offset waits where the register would be.
        offset: int64_t = self.rules.cfa_value[rule]
        if kind == 2:
            offset = self.rules.cfa_register[rule]
            if offset >> 31:
                offset -= 1 << 32
        if what == _CFA_OFFSET:
            if kind == 2:
                return self.rules.with_cfa(rule, 2, _low(value), self.rules.cfa_value[rule])
            if kind == 0:
                raise Malformed("an offset is given for a CFA that has no register")
            return self.rules.with_cfa(rule, 1, self.rules.cfa_register[rule], value)
        if what == _CFA_REGISTER:
            if kind == 2 and offset == _TOO_WIDE:
                raise Malformed("an offset is out of all proportion")
            return self.rules.with_cfa(rule, 1, register, offset)
        if what == _CFA_EXPRESSION:
            return self.rules.with_cfa(rule, 2, _low(offset), value)
        if what == _CONTEXT:
            return self.rules.with_context(rule, value)
        return self.rules.with_window(rule, value)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _low(offset: int64_t) -> uint32_t:
    """An offset in 32 bits; one that needs more is as good as none, unless a register asks for it."""
    if offset < _TOO_WIDE or offset > -_TOO_WIDE - 1:
        offset = _TOO_WIDE
    return offset & WORD


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def _step(machine: Interpreter, rule: int32_t, what: cython.uint, register: uint64_t, value: int64_t) -> int32_t:
    """The step from a rule by one change, remembered or made.

    The near memory keeps a step in eight bytes: rule (20 bits), value (14), register (6) and change (4), and what it leads
    to (20). It is as direct as a cache can be: a step that needs the place of another takes it.
    """
    if rule >= 0x100000 or register >= 64 or value >= 0x2000 or value < -0x2000:
        return machine.far_step(rule, what, register, value)
    key: uint64_t = cython.cast(uint64_t, rule) << 24 | (value & 0x3FFF) << 10 | register << 4 | what
    # Not a hash: what is near in the programs stays near in the cache lines.
    spread: int64_t = (value >> 3) + cython.cast(int64_t, 3 * register + what)
    at: cython.size_t = ((rule << 2) + (spread & 3) + (value >> 5) * 0xB31) & machine.near_mask
    entry: uint64_t = machine.near[at]
    if entry >> 20 == key:
        return entry & 0xFFFFF
    made: int32_t = machine.make(rule, what, register, value)
    if made < 0x100000:
        machine.near[at] = key << 20 | made
    return made


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def _emit(machine: Interpreter, start: uint64_t, rule: int32_t) -> cython.int:
    """Adds a row."""
    n: cython.size_t = machine.row_count
    if n >= machine.easy_rows:
        machine.prepare_row()
    number: uint32_t = machine.number_of[rule] if rule < machine.number_of.shape[0] else 0
    if number == 0:
        number = machine.give_number(rule)
    machine.row_start[n] = start
    machine.row_rule[n] = number - 1
    machine.row_count = n + 1
    return 0
