"""Splits a run of the records of ``perf.data`` into columns: one element a sample, and one for each other record that is wanted.

Records and samples are those of ``linux/perf_event.h`` (``enum perf_event_type``); types from 64 on are perf's own
(``tools/perf/Documentation/perf.data-file-format.txt``). Stacks and registers are not copied: columns say where they are.
"""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.clew.native.cursor import Cursor
    from cython.cimports.libc.stdint import int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
else:
    from clew.native.cursor import Cursor

    uint64_t = uint32_t = int64_t = int32_t = uint16_t = uint8_t = cython.longlong

from clew.native.columns import empty, full, zeros
from clew.native.cursor import Malformed, Truncated

#: Why :meth:`Splitter.split` stopped: the bytes hold no other whole record; the columns are full; at a record of which
#: ``stops`` says so; at a record that is shorter than its own header.
DONE, FULL, STOPPED, BROKEN = range(4)
#: How many bad samples are told of at most, for one call.
MOST_PROBLEMS = 8
#: What an event has where it has no such register, or an id none of the events.
NONE = 0xFFFF
_KINDS = 256

SAMPLE_COLUMNS = (
    ("offset", "u8"),
    ("misc", "u2"),
    ("event", "u2"),
    ("pid", "i4"),
    ("tid", "i4"),
    ("cpu", "i4"),
    ("time", "u8"),
    ("period", "u8"),
    ("ip", "u8"),
    ("chain_offset", "u8"),
    ("chain_count", "u4"),
    ("abi", "u1"),
    ("pc", "u8"),
    ("sp", "u8"),
    ("registers_offset", "u8"),
    ("stack_offset", "u8"),
    ("stack_size", "u4"),
)
RECORD_COLUMNS = (("kind", "u4"), ("misc", "u2"), ("offset", "u8"), ("end", "u8"), ("time", "u8"))


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _as_int32(value: uint64_t) -> int32_t:
    """The two's-complement reading of 32 bits, the same compiled and not."""
    low: int64_t = value & 0xFFFFFFFF
    return low - 0x100000000 if low >= 0x80000000 else low


@cython.final
@cython.cclass
class Splitter(Cursor):
    """Splits records.

    Args:
        events: for each event, in this order: sample_type, read_format, branch_sample_type, registers in sample_regs_user,
            which of them is the pc and the stack pointer (or ``NONE``), and whether other records end with sample_id; all
            u8, events side by side.
        ids (u8), owners (u4): ids of events, sorted, and whose they are.
        big: whether numbers are big-endian.
        wanted, stops: kinds of records to list, and to stop at.
        samples: whether to read samples.
        room: how many samples, and how many other records, one call reads at most.

    Attributes:
        at: where the next call goes on. It may lie beyond the end, where a record is followed by data of its own.
        problems: bad samples as (offset, message); ``problem_count`` also counts those that are not told.
        unknown: samples of no known event.
    """

    def __init__(self, events, ids, owners, big, wanted, stops, samples, room):
        Cursor.__init__(self, b"", 0, None, big)
        if len(events) % 7:
            raise ValueError("seven numbers make up an event")
        self.event_count = len(events) // 7
        self.room = room
        self.samples = samples
        columns = (np.asarray(events, "u8"), np.asarray(ids, "u8"), np.asarray(owners, "u4"))
        if not cython.compiled:
            columns = tuple(memoryview(column) for column in columns)
        self.events, self.ids, self.owners = columns
        self.action = zeros(_KINDS, "u1")
        for kind in wanted:
            self.action[kind] = 1
        for kind in stops:
            self.action[kind] = 2
        self.where_id()
        self.at = self.sample_count = self.record_count = self.problem_count = self.unknown = 0
        self.problems = []

    def where_id(self):
        """Finds out where a record has its event's id: a field that all events have in one place (perf_event_open(2))."""
        self.trailer = full(max(self.event_count, 1), 0, "u4")
        self.time_back = full(max(self.event_count, 1), 0, "u4")
        self.id_at = self.id_back = 0
        if not self.event_count:
            return
        for index in range(self.event_count):
            kind = self.events[7 * index]
            if not self.events[7 * index + 6]:
                continue
            # TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER: eight bytes each.
            self.trailer[index] = 8 * sum(1 for bit in (1, 2, 6, 9, 7, 16) if kind >> bit & 1)
            self.time_back[index] = self.trailer[index] - 8 * (kind >> 1 & 1) if kind >> 2 & 1 else 0
        kind = self.events[0]
        if self.event_count > 1 and len(self.ids):
            if kind >> 16 & 1:
                self.id_at = 8
                self.id_back = 8 if self.trailer[0] else 0
            elif kind >> 6 & 1:
                # IP, TID, TIME and ADDR stand before it.
                self.id_at = 8 + 8 * sum(1 for bit in (0, 1, 2, 3) if kind >> bit & 1)
                if self.trailer[0]:
                    self.id_back = self.trailer[0] - 8 * sum(1 for bit in (1, 2) if kind >> bit & 1)

    def split(self, data, begin, end):
        """Splits the bytes from ``begin`` up to ``end``; the columns are then to be taken with :meth:`columns`.

        Returns:
            why it stopped; ``at`` says where.
        """
        self.data = data
        self.sample_count = self.record_count = self.problem_count = self.unknown = 0
        self.problems = []
        # As many as there can be, but not more than there is room for.
        room = min(self.room, max(end - begin, 0) // 8 + 1)
        self.prepare(room if self.samples else 0, room)
        self.at = begin
        self.stop_at = min(end, len(data))
        while True:
            try:
                return self.split_on()
            except Malformed as error:
                self.problem_count += 1
                if self.problem_count <= MOST_PROBLEMS:
                    self.problems.append((self.at, str(error)))
                self.at = self.following

    def prepare(self, samples, records):
        """Fresh columns, as those of the last call may still be in use."""
        self.sample_room = samples
        self.record_room = records
        made = [empty(samples, code) for _, code in SAMPLE_COLUMNS]
        self.s_offset, self.s_misc, self.s_event, self.s_pid, self.s_tid, self.s_cpu = made[:6]
        self.s_time, self.s_period, self.s_ip, self.s_chain, self.s_count, self.s_abi = made[6:12]
        self.s_pc, self.s_sp, self.s_registers, self.s_stack, self.s_size = made[12:]
        self.sample_columns = made
        made = [empty(records, code) for _, code in RECORD_COLUMNS]
        self.r_kind, self.r_misc, self.r_offset, self.r_end, self.r_time = made
        self.record_columns = made

    def columns(self):
        """What the last call has found: columns of samples, and of records, by name.

        Offsets are in the data that was split. ``end`` of a record is where its own fields end and sample_id begins.
        Where a sample lacks a field, its element is 0; its ``cpu`` -1.
        """
        count = self.sample_count
        samples = {name: np.asarray(column)[:count] for (name, _), column in zip(SAMPLE_COLUMNS, self.sample_columns)}
        count = self.record_count
        records = {name: np.asarray(column)[:count] for (name, _), column in zip(RECORD_COLUMNS, self.record_columns)}
        return samples, records

    def release(self):
        """Lets go of the data."""
        self.data = b""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def split_on(self) -> cython.int:
        kind: uint64_t
        misc: uint64_t
        size: uint64_t
        more: uint64_t
        action: uint8_t
        while True:
            if self.at > self.stop_at or self.stop_at - self.at < 8:
                return 0
            self.pos = self.at
            self.end = self.stop_at
            kind = self.fixed(4)
            misc = self.fixed(2)
            size = self.fixed(2)
            if size < 8:
                return 3
            if self.stop_at - self.at < size:
                return 0
            self.end = self.at + size
            self.following = self.end
            if kind == 9:  # SAMPLE
                if self.samples:
                    if self.sample_count >= self.sample_room:
                        return 1
                    self.sample(misc)
            else:
                action = self.action[kind] if kind < 256 else 0
                if action == 2:
                    return 2
                # AUXTRACE and TRACING_DATA are followed by bytes that are not counted in their size.
                if kind == 71:
                    more = self.fixed(8)
                    if more >> 62:
                        raise Malformed("the size of trace data is absurd")
                    self.following += more
                elif kind == 66:
                    self.following += (self.fixed(4) + 7) >> 3 << 3
                if action:
                    if self.record_count >= self.record_room:
                        return 1
                    self.record(kind, misc)
            self.at = self.following

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def owner(self, value: uint64_t) -> int64_t:
        """The event with this id, or -2. What perf writes of its own has the id 0, and the first event's form."""
        low: cython.size_t = 0
        high: cython.size_t = self.ids.shape[0]
        middle: cython.size_t
        if value == 0:
            return 0
        while low < high:
            middle = (low + high) >> 1
            if self.ids[middle] < value:
                low = middle + 1
            else:
                high = middle
        if low < cython.cast(cython.size_t, self.ids.shape[0]) and self.ids[low] == value:
            return self.owners[low]
        return -2

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def record(self, kind: uint64_t, misc: uint64_t) -> cython.int:
        """Lists a record that is no sample."""
        i: cython.size_t = self.record_count
        event: int64_t = 0
        trailer: cython.size_t
        start: cython.size_t = self.at
        end: cython.size_t = self.end
        self.r_time[i] = 0
        # Kinds from 64 on are perf's own, and have no sample_id.
        if kind < 64 and self.event_count:
            if self.id_back:
                if end - start < 8 + self.id_back:
                    raise Truncated("a record ends before its sample_id")
                self.pos = end - self.id_back
                event = self.owner(self.fixed(8))
                if event < 0:
                    event = 0
            trailer = self.trailer[event]
            if end - start < 8 + trailer:
                raise Truncated("a record ends before its sample_id")
            if self.time_back[event]:
                self.pos = end - self.time_back[event]
                self.r_time[i] = self.fixed(8)
            end -= trailer
        self.r_kind[i] = kind
        self.r_misc[i] = misc
        self.r_offset[i] = start
        self.r_end[i] = end
        self.record_count += 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def skip_words(self, count: uint64_t) -> cython.int:
        """Skips as many words of eight bytes as the record says that there are."""
        if count > (self.end - self.pos) >> 3:
            raise Truncated("a sample ends inside one of its fields")
        self.pos += count << 3
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def sample(self, misc: uint64_t) -> cython.int:
        """Reads a sample, up to its copy of the stack."""
        i: cython.size_t = self.sample_count
        event: int64_t = 0
        kind: uint64_t
        form: uint64_t
        count: uint64_t
        size: uint64_t
        value: uint64_t
        at: cython.size_t = self.at
        base: cython.size_t
        if not self.event_count:
            self.unknown += 1
            return 0
        if self.id_at:
            self.pos = at + self.id_at
            event = self.owner(self.fixed(8))
            if event < 0:
                self.unknown += 1
                return 0
        base = 7 * event
        kind = self.events[base]
        self.pos = at + 8
        self.s_offset[i] = at
        self.s_misc[i] = misc
        self.s_event[i] = event
        self.s_pid[i] = self.s_tid[i] = self.s_cpu[i] = -1
        self.s_time[i] = self.s_period[i] = self.s_ip[i] = self.s_chain[i] = self.s_count[i] = self.s_abi[i] = 0
        self.s_pc[i] = self.s_sp[i] = self.s_registers[i] = self.s_stack[i] = self.s_size[i] = 0
        if kind & 1 << 16:  # IDENTIFIER
            self.skip_words(1)
        if kind & 1 << 0:  # IP
            self.s_ip[i] = self.fixed(8)
        if kind & 1 << 1:  # TID
            self.s_pid[i] = _as_int32(self.fixed(4))
            self.s_tid[i] = _as_int32(self.fixed(4))
        if kind & 1 << 2:  # TIME
            self.s_time[i] = self.fixed(8)
        if kind & 1 << 3:  # ADDR
            self.skip_words(1)
        if kind & 1 << 6:  # ID
            self.skip_words(1)
        if kind & 1 << 9:  # STREAM_ID
            self.skip_words(1)
        if kind & 1 << 7:  # CPU
            self.s_cpu[i] = _as_int32(self.fixed(4))
            self.fixed(4)
        if kind & 1 << 8:  # PERIOD
            self.s_period[i] = self.fixed(8)
        if kind & 1 << 4:  # READ
            form = self.events[base + 1]
            if form & 1 << 3:  # GROUP: a count, the times, and for each event its value, id and what it lost
                count = self.fixed(8)
                self.skip_words((form & 1) + (form >> 1 & 1))
                size = 1 + (form >> 2 & 1) + (form >> 4 & 1)
                if count > (self.end - self.pos) >> 3:
                    raise Truncated("a sample ends inside one of its fields")
                self.skip_words(count * size)
            else:
                self.skip_words(1 + (form & 1) + (form >> 1 & 1) + (form >> 2 & 1) + (form >> 4 & 1))
        if kind & 1 << 5:  # CALLCHAIN
            count = self.fixed(8)
            self.s_chain[i] = self.pos
            self.skip_words(count)
            self.s_count[i] = count
        if kind & 1 << 10:  # RAW: a size, and so many bytes
            self.skip(self.fixed(4))
        if (
            kind & 1 << 11
        ):  # BRANCH_STACK: a count, perhaps an index (bit 17), three words each, perhaps counters (bit 19)
            form = self.events[base + 2]
            count = self.fixed(8)
            self.skip_words(form >> 17 & 1)
            if count > (self.end - self.pos) >> 3:
                raise Truncated("a sample ends inside one of its fields")
            self.skip_words(count * (3 + (form >> 19 & 1)))
        if kind & 1 << 12:  # REGS_USER: the ABI, and the registers where that is not 0
            value = self.fixed(8)
            if value:
                self.s_abi[i] = value if value < 255 else 255
                self.s_registers[i] = at = self.pos
                self.skip_words(self.events[base + 3])
                self.s_pc[i] = self.register(at, self.events[base + 4])
                self.s_sp[i] = self.register(at, self.events[base + 5])
        if (
            kind & 1 << 13
        ):  # STACK_USER: a size, so many bytes, and how many of them are filled; nothing more where it is 0
            size = self.fixed(8)
            if size:
                self.s_stack[i] = self.pos
                self.skip(size)
                value = self.fixed(8)
                self.s_size[i] = value if value < size else size
        self.sample_count += 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def register(self, start: cython.size_t, index: uint64_t) -> uint64_t:
        """One register out of the block that starts there, whose end has been checked."""
        value: uint64_t = 0
        after: cython.size_t = self.pos
        if index != 0xFFFF:
            self.pos = start + 8 * index
            value = self.fixed(8)
            self.pos = after
        return value
