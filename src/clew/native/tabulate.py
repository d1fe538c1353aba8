"""Rows for all FDEs of a section: runs their programs in the order of their addresses, so that the rows come out sorted."""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.clew.native.cies import CieRecord
    from cython.cimports.clew.native.program import Interpreter
    from cython.cimports.libc.stdint import int32_t, uint32_t, uint64_t
else:
    from clew.native.cies import CieRecord
    from clew.native.program import Interpreter

    uint32_t = uint64_t = int32_t = cython.longlong

from clew.native.columns import empty
from clew.native.cursor import Malformed
from clew.native.entries import MOST_PROBLEMS


@cython.final
@cython.cclass
class Tabulator(Interpreter):
    """An interpreter that runs many FDEs in a row.

    Args:
        entries, data, dialect: as for :class:`~clew.native.program.Interpreter`.
        order: which FDEs to run, by number (i8), so that their starts do not fall; None for all, in file order.
        note_first: whether to note each FDE's first row, which only who must untangle overlaps wants to know.

    A program that cannot be run costs its FDE: its rows are taken back and a problem is kept. A gap between FDEs becomes a
    row of rule 0, *no information*; so does the end of the last.
    """

    def __init__(self, entries, data, dialect, order, note_first=False):
        columns = entries.columns
        self.count = entries.count if order is None else len(order)
        # Three bytes a row are usual: a move, an instruction, its operand. Each FDE may add a gap before it. A guess near the
        # truth matters: fresh memory costs more than decoding into it.
        Interpreter.__init__(self, entries, data, dialect, entries.program_bytes // 3 + self.count)
        self.cies = entries.cies
        if not cython.compiled:
            columns = tuple(memoryview(column) for column in columns)
            order = None if order is None else memoryview(order)
        self.offset, self.finish, self.program, self.cie, self.start, self.stop = columns[:6]
        self.in_order = order is None
        self.order = order
        self.note_first = note_first
        self.first_row = empty(self.count if note_first else 0, "u4")
        self.failed = []
        self.any_rows = False
        self.overlaps = False
        self.problems = []
        self.problem_count = 0
        self.turn = self.mark = 0
        self.reach = 0

    def run(self):
        """Runs all FDEs.

        Returns:
            row starts (u8), rule numbers (u4) and argument sizes (u4, or None where no program gives one), one element a
            row; and the first row of each FDE (u4), if it was noted; meaningless for those that are in ``failed``.
        """
        while self.turn < self.count:
            try:
                self.run_on()
            except Malformed as error:
                self.problem_count += 1
                if self.problem_count <= MOST_PROBLEMS:
                    which = self.turn if self.in_order else self.order[self.turn]
                    self.problems.append((self.offset[which], str(error)))
                self.failed.append(self.turn)
                if self.any_args:
                    np.asarray(self.row_args)[self.mark : self.row_count] = 0
                self.row_count = self.mark
                self.turn += 1
        self.close()
        return self.result()

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def run_on(self) -> cython.int:
        """Runs FDEs from ``turn`` on, up to the last or the first that cannot be run."""
        i: cython.size_t
        turn: cython.size_t
        last_cie: int32_t = -1
        start: uint64_t
        record: CieRecord = None
        for turn in range(self.turn, self.count):
            self.turn = turn
            i = turn if self.in_order else self.order[turn]
            self.mark = self.row_count
            if self.cie[i] != last_cie:
                last_cie = self.cie[i]
                record = self.cies[last_cie]
                if not record.opaque:
                    self.enter(record, last_cie)
            start = self.start[i]
            if self.args_size:
                self.set_args(0)
            if start > self.reach and self.any_rows:
                self.emit(self.reach, 0)
            if self.note_first:
                self.first_row[turn] = self.row_count
            self.location = start
            self.depth = 0
            if record.opaque:
                self.emit(start, 0)
            else:
                self.execute(self.program[i], self.finish[i], self.stop[i], self.initial, True)
            if start < self.reach:
                self.overlaps = True
            self.any_rows = True
            if self.stop[i] > self.reach:
                self.reach = self.stop[i]
        self.turn = self.count
        return 0

    def close(self):
        """Ends the last FDE's rows."""
        if self.any_rows:
            self.set_args(0)
            self.emit(self.reach, 0)

    def result(self):
        """What :meth:`run` returns; the columns release what they did not need."""
        n = self.row_count
        args = np.asarray(self.row_args)[:n] if self.any_args else None
        made = np.asarray(self.row_start)[:n], np.asarray(self.row_rule)[:n], args, np.asarray(self.first_row)
        self.row_start = self.row_rule = self.row_args = self.first_row = None
        return made

    def rules_of_rows(self):
        """Numbers in the rulebook of the rules that rows use, in the order of their first use; 0 first."""
        return np.asarray(self.numbered)[: self.number_count]
