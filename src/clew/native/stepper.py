"""The compiled walker's core: takes one step after another for as long as the steps are plain.

It never decides why a stack ends. Where anything is unusual (no row, a rule with an expression, memory that it cannot read,
a stack pointer that does not go on) it stops before the frame in question, and the general walker takes over.
"""

import sys

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.clew.native.modulemap import ModuleMap
    from cython.cimports.clew.native.stepbook import StepBook
    from cython.cimports.clew.native.steptable import StepTable
    from cython.cimports.libc.stdint import int64_t, uint8_t, uint64_t
else:
    from clew.native.modulemap import ModuleMap
    from clew.native.stepbook import StepBook
    from clew.native.steptable import StepTable

    int64_t = uint8_t = uint64_t = cython.longlong

from clew.native.columns import empty, enlarged, zeros

# The same numbers as in clew.native.stepbook, as C constants.
_SAME_VALUE = cython.declare(uint8_t, 2)
_AT_CFA = cython.declare(uint8_t, 3)
_CFA_PLUS = cython.declare(uint8_t, 4)
_IN_REGISTER = cython.declare(uint8_t, 5)
_OUTERMOST = cython.declare(int64_t, 1)
_SIGNED = cython.declare(int64_t, 2)
_ONE = cython.declare(uint64_t, 1)

#: Why :meth:`Stepper.run` came back.
UNUSUAL = 0
OUTERMOST_FRAME = 1
FULL = 2
COPY_END = 3
"""The next frame's return address is behind the end of what was copied of the stack."""

_LOADS = cython.declare(int64_t, 4)
_FIELDS = cython.declare(cython.size_t, 10)
_CFA_SLOT = cython.declare(cython.size_t, 0)
_CFA_VALUE = cython.declare(cython.size_t, 1)
_RETURN_SLOT = cython.declare(cython.size_t, 2)
_FLAGS = cython.declare(cython.size_t, 3)
_PLT = cython.declare(cython.size_t, 4)
_FIRST = cython.declare(cython.size_t, 5)
_SIZE = cython.declare(cython.size_t, 6)
_LOWEST = cython.declare(cython.size_t, 7)
_HIGHEST = cython.declare(cython.size_t, 8)
_RETURN_OFFSET = cython.declare(cython.size_t, 9)
_ON = cython.declare(cython.int, 9)

# As clew.walk.step.SAME_STACK.
_SAME_STACK = cython.declare(uint64_t, 1 << 26)

# How long the expression is that the CFA of a PLT's stub comes from.
_PLT_STEPS = cython.declare(int64_t, 9)

#: The columns of a note before the registers.
VALUES = cython.declare(cython.size_t, 6)


@cython.final
@cython.cclass
class Stepper:
    """Walks frames by steps.

    Args:
        book: the steps.
        slots: how many slots are in use.
        facts: the machine: bytes in an address, whether it is big-endian; slots of stack pointer and pc; whether the caller's
            stack pointer is the CFA where no rule names it; a bit for each slot that keeps its value where no rule names it;
            the bits of a code pointer that are address, those that are authentication, and whether any may carry them.
        with_registers: whether to note every frame's registers.

    Attributes:
        pc, interrupted, known: the frame that was not left: its pc, whether it was interrupted, and a bit for each slot
            whose value is known.
        count: frames that were left.
        highest: the highest stack pointer so far.
        work: what the walk may still spend.
    """

    def __init__(self, book, slots, facts, with_registers=False):
        self.book = book
        word, big, sp, pc_slot, sp_is_cfa, keep, address_mask, code_mask, strip_always = facts
        if word not in (4, 8) or not 0 < slots <= 64 or not sp < slots or not pc_slot < slots:
            raise ValueError("no such machine")
        self.word, self.big, self.sp, self.pc_slot, self.sp_is_cfa = word, big, sp, pc_slot, sp_is_cfa
        self.plain = word == 8 and not big and sys.byteorder == "little"
        self.loads_only = self.plain and sp_is_cfa and not strip_always
        self.mask = (1 << 8 * word) - 1
        self.keep = keep
        self.address_mask, self.code_mask, self.strip_always = address_mask, code_mask, strip_always
        self.slots = slots
        self.value, self.fresh = zeros(64, "u8"), zeros(64, "u8")
        self.with_registers = with_registers
        self.room = 256
        self.width = VALUES + (slots if with_registers else 0)
        self.out = empty(self.room * self.width, "u8")
        self.memory = None
        self.show(None)
        self.begin(0, True, False, ())

    def begin(self, pc, interrupted, restarted, registers):
        """The frame to start from: (slot, value) of its registers, and whether a system call may stand before its pc."""
        self.count = 0
        self.pc, self.interrupted, self.restarted = pc, interrupted, restarted
        known: uint64_t = 0
        slot: cython.size_t
        for slot, value in registers:
            self.value[slot] = value
            known |= _ONE << slot
        self.known = known | _ONE << self.pc_slot
        self.value[self.pc_slot] = self.pc
        self.highest = self.value[self.sp] if self.known >> self.sp & 1 else 0

    def registers(self):
        """(slot, value) of what is known of the frame that was not left."""
        return [(slot, self.value[slot]) for slot in range(self.slots) if self.known >> slot & 1]

    def show(self, memory):
        """Whose memory to read: it has ``window(address)``, which gives readable bytes around it with their address, or None."""
        self.memory = memory
        self.look(0, b"", 0, 0)

    def look(self, address, data, offset, size):
        """What is readable at once: ``size`` bytes from ``offset`` on in a buffer, which are at that address."""
        if offset + size > len(data):
            raise IndexError("the window is larger than its buffer")
        view = memoryview(data)
        self.bytes = view
        self.words = view[: len(view) & -8].cast("Q") if len(view) >= 8 else memoryview(b"").cast("Q")
        self.window, self.window_offset, self.window_size = address, offset, size
        self.copied = False

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def take(
        self,
        stack: uint64_t,
        stack_offset: cython.size_t,
        stack_size: cython.size_t,
        registers_offset: cython.size_t,
        slots: cython.const[uint8_t][::1],
    ) -> cython.int:
        """Begins with a sample: a copy of its stack and its registers, words of eight bytes each for a slot, in the buffer."""
        length: cython.size_t = self.bytes.shape[0]
        if stack_size > length or stack_offset > length - stack_size:
            raise IndexError("the stack is outside of the buffer")
        self.window, self.window_offset, self.window_size = stack, stack_offset, stack_size
        self.copied = True
        known: uint64_t = 0
        number: cython.size_t
        slot: cython.size_t
        i: cython.size_t
        value: uint64_t
        at: cython.size_t = registers_offset
        for number in range(cython.cast(cython.size_t, slots.shape[0])):
            slot = slots[number]
            if slot < 64:
                if self.plain and at & 7 == 0:
                    value = self.words[at >> 3]
                else:
                    value = 0
                    for i in range(8):
                        value |= cython.cast(uint64_t, self.bytes[at + i]) << 8 * (7 - i if self.big else i)
                self.value[slot] = value & self.mask
                known |= _ONE << slot
            at += 8
        self.count = 0
        self.known = known | _ONE << self.pc_slot
        self.pc = self.value[self.pc_slot] & self.address_mask & self.mask
        self.value[self.pc_slot] = self.pc
        self.interrupted, self.restarted = True, False
        self.highest = self.value[self.sp]
        return 0

    def run(self, modules: ModuleMap, limit: cython.size_t):
        """Leaves frames until there are ``limit`` of them, or the next one is not for it: why it came back."""
        return self.go(modules, limit)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def go(self, modules: ModuleMap, limit: cython.size_t) -> cython.int:
        """As :meth:`run`."""
        lookup: uint64_t
        module: cython.Py_ssize_t
        row: cython.Py_ssize_t
        number: cython.int
        table: StepTable
        while True:
            if self.count >= limit:
                return FULL
            lookup = self.pc if self.interrupted else (self.pc - 1) & self.mask
            module = modules.recent
            if not modules.disjoint or lookup < modules.start[module] or lookup >= modules.end[module]:
                module = modules.at(lookup)
                if module < 0:
                    return UNUSUAL
            if not modules.asked[module]:
                modules.tables[module] = modules.owner.load(module)
                modules.asked[module] = 1
            if module != modules.recent or modules.recent_table is None:
                if modules.tables[module] is None:
                    return UNUSUAL
                modules.recent, modules.recent_table = module, modules.tables[module]
            table = modules.recent_table
            lookup = (lookup - modules.bias[module]) & self.mask
            row = table.row(lookup)
            if row < 0 or (self.restarted and table.start[row] == lookup):
                return UNUSUAL
            number = table.step[row]
            if number == 0:
                number = modules.owner.resolve(table, module, row)
                table.step[row] = number
            if number <= 0:
                return UNUSUAL
            number = self.step(modules, module, table, row, number)
            if number != _ON:
                return number

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def step(
        self, modules: ModuleMap, module: cython.size_t, table: StepTable, row: cython.size_t, number: cython.size_t
    ) -> cython.int:
        """Leaves the frame; ``_ON``, or why not, and then nothing has changed."""
        book: StepBook = self.book
        base: cython.size_t = number * _FIELDS
        first: cython.size_t = book.field[base + _FIRST]
        last: cython.size_t = first + book.field[base + _SIZE]
        cost: int64_t = book.field[base + _SIZE] + 4
        cfa_slot: cython.size_t = book.field[base + _CFA_SLOT]
        flags: int64_t = book.field[base + _FLAGS]
        plt: uint64_t = book.field[base + _PLT]
        if plt:
            cost += _PLT_STEPS
        if self.work < cost or not self.known >> cfa_slot & 1:
            return UNUSUAL
        cfa: uint64_t = (self.value[cfa_slot] + cython.cast(uint64_t, book.field[base + _CFA_VALUE])) & self.mask
        if plt and self.pc & 15 >= plt:
            cfa = (cfa + 8) & self.mask
        if self.loads_only and flags & (_LOADS | _SIGNED) == _LOADS:
            if self.load_step(module, row, number, cfa, cost):
                return _ON
        cell: cython.size_t = first
        return_slot: cython.size_t = book.field[base + _RETURN_SLOT]
        got: uint64_t = 0
        slot: cython.size_t
        other: cython.size_t
        kind: uint8_t
        address: uint64_t
        same: cython.bint = False
        while cell < last:
            kind = book.cell_kind[cell]
            slot = book.cell_slot[cell]
            if kind == _AT_CFA:
                address = (cfa + cython.cast(uint64_t, book.cell_value[cell])) & self.mask
                if self.load(address):
                    self.fresh[slot] = self.loaded
                    got |= _ONE << slot
                elif slot == return_slot and self.behind_copy(address):
                    self.note(module, row, cfa)
                    return COPY_END
                elif not self.copied or modules.at(address) >= 0:
                    # Something else may know what is there; where nothing does, the register is unknown.
                    return UNUSUAL
            elif kind == _CFA_PLUS:
                self.fresh[slot] = (cfa + cython.cast(uint64_t, book.cell_value[cell])) & self.mask
                got |= _ONE << slot
            elif kind == _SAME_VALUE or kind == _IN_REGISTER:
                same = same or (kind == _SAME_VALUE and slot == return_slot)
                other = slot if kind == _SAME_VALUE else cython.cast(cython.size_t, book.cell_value[cell])
                if self.known >> other & 1:
                    self.fresh[slot] = self.value[other]
                    got |= _ONE << slot
            cell += 1
        if flags & _OUTERMOST:
            self.work -= cost
            self.note(module, row, cfa)
            return OUTERMOST_FRAME
        kept: uint64_t = self.known & self.keep & ~book.named[number]
        if self.sp_is_cfa and not book.named[number] >> self.sp & 1:
            self.fresh[self.sp] = cfa
            got |= _ONE << self.sp
        slot = return_slot
        target: uint64_t
        if got >> slot & 1:
            target = self.fresh[slot]
        elif kept >> slot & 1:
            target = self.value[slot]
            same = True
        else:
            return UNUSUAL
        if self.strip_always or flags & _SIGNED:
            target = target | self.code_mask if target >> 55 & 1 else target & ~self.code_mask
        target = target & self.address_mask & self.mask
        sp: uint64_t
        if got >> self.sp & 1:
            sp = self.fresh[self.sp]
        elif kept >> self.sp & 1:
            sp = self.value[self.sp]
        else:
            return UNUSUAL
        # Higher than ever: no frame that was there can be met again. An interrupted one may have no stack of its own.
        if target == 0 or (target == self.pc and (same or sp <= self.highest)):
            return UNUSUAL
        if sp <= self.highest and (sp != self.highest or not self.interrupted):
            return UNUSUAL
        self.work -= cost
        self.note(module, row, cfa)
        self.known = kept | got | _ONE << self.pc_slot
        cell = first
        while cell < last:
            slot = book.cell_slot[cell]
            if got >> slot & 1:
                self.value[slot] = self.fresh[slot]
            cell += 1
        self.value[self.sp] = sp
        self.value[self.pc_slot] = self.pc = target
        self.highest = sp
        self.interrupted = self.restarted = False
        return _ON

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1, check=False)
    def load_step(
        self, module: cython.size_t, row: cython.size_t, number: cython.size_t, cfa: uint64_t, cost: int64_t
    ) -> cython.bint:
        """Leaves the frame by a step that only loads words, all of which are in the window; whether it did."""
        book: StepBook = self.book
        base: cython.size_t = number * _FIELDS
        offset: uint64_t = cfa - self.window
        at: cython.size_t = self.window_offset + offset
        if (
            at & 7
            or cfa <= self.highest
            or book.named[number] >> self.sp & 1
            or offset > self.window_size
            or cython.cast(int64_t, offset) + book.field[base + _LOWEST] < 0
            or cython.cast(int64_t, offset) + book.field[base + _HIGHEST] + 8 > cython.cast(int64_t, self.window_size)
        ):
            return False
        at >>= 3
        target: uint64_t = self.words[at + (book.field[base + _RETURN_OFFSET] >> 3)] & self.address_mask & self.mask
        if target == 0:
            return False
        self.work -= cost
        self.note(module, row, cfa)
        cell: cython.size_t = book.field[base + _FIRST]
        last: cython.size_t = cell + book.field[base + _SIZE]
        what: int64_t
        while cell < last:
            what = book.cell_load[cell]
            self.value[what & 255] = self.words[at + (what >> 8)]
            cell += 1
        self.known = (self.known & self.keep) | book.named[number] | _ONE << self.sp | _ONE << self.pc_slot
        self.value[self.sp] = self.highest = cfa
        self.value[self.pc_slot] = self.pc = target
        self.interrupted = self.restarted = False
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def note(self, module: cython.size_t, row: cython.size_t, cfa: uint64_t) -> cython.int:
        """Notes the frame that is being left."""
        if self.count == self.room:
            self.room *= 4
            self.out = enlarged(self.out, self.room * self.width)
        at: cython.size_t = self.count * self.width
        self.out[at] = self.pc
        self.out[at + 1] = cfa
        self.out[at + 2] = self.value[self.sp]
        self.out[at + 3] = module
        self.out[at + 4] = row
        self.out[at + 5] = self.known
        slot: cython.size_t
        if self.with_registers:
            at += VALUES
            for slot in range(self.slots):
                self.out[at + slot] = self.value[slot]
        self.count += 1
        return 0

    def notes(self):
        """What was noted (u8): a row for each frame that was left, with its pc, CFA, sp, the numbers of its module and row, a
        bit for each slot that is known, and from column ``VALUES`` on the slots, where registers were asked for."""
        return np.array(np.asarray(self.out)[: self.count * self.width]).reshape(self.count, self.width)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def load(self, address: uint64_t) -> cython.bint:
        """Reads a word into ``loaded``; whether it could."""
        offset: uint64_t = (address - self.window) & self.mask
        if self.window_size < self.word or offset > self.window_size - self.word:
            if not self.refill(address):
                return False
            offset = address - self.window
        at: cython.size_t = self.window_offset + offset
        i: cython.size_t
        value: uint64_t = 0
        if self.plain and at & 7 == 0 and at >> 3 < cython.cast(cython.size_t, self.words.shape[0]):
            self.loaded = self.words[at >> 3]
            return True
        for i in range(self.word):
            value |= cython.cast(uint64_t, self.bytes[at + i]) << 8 * (self.word - 1 - i if self.big else i)
        self.loaded = value
        return True

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def behind_copy(self, address: uint64_t) -> cython.bint:
        """Whether a word that cannot be read is behind what was copied of the stack; as clew.walk.step.Here.unreadable."""
        end: uint64_t = self.window + self.window_size
        return self.copied and end < address + self.word and address < end + _SAME_STACK

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def refill(self, address: uint64_t) -> cython.bint:
        """Looks where the word at that address is; whether it is readable."""
        if self.memory is None:
            return False
        found = self.memory.window(address)
        if found is None:
            return False
        base, data = found
        size: uint64_t = len(data)
        if not base <= address or size < self.word or address - base > size - self.word:
            return False
        self.look(base, data, 0, size)
        return True
