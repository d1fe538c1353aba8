"""Rows for all FDEs of a section: runs their programs in the order of their addresses, so that the rows come out sorted."""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.clew.native.cursor import ONES
    from cython.cimports.clew.native.entries import CieRecord
    from cython.cimports.clew.native.program import Interpreter
    from cython.cimports.libc.stdint import int32_t, uint32_t, uint64_t
else:
    from clew.native.cursor import ONES
    from clew.native.entries import CieRecord
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
        columns: the FDEs' columns to run: offset, end, program, cie, start, stop, sorted by start.

    A program that cannot be run costs its FDE: its rows are taken back and a problem is kept. A gap between FDEs becomes a
    row of rule 0, *no information*; so does the end of the last.
    """

    def __init__(self, entries, data, dialect, columns):
        offset, finish, program, cie, start, stop = columns
        count = len(offset)
        # Every row but an FDE's last takes at least one byte; each FDE may add a gap before it.
        rows = int(finish.sum(dtype=np.int64)) - int(program.sum(dtype=np.int64)) + 2 * count + 1
        Interpreter.__init__(self, entries, data, dialect, rows)
        self.cies = entries.cies
        if not cython.compiled:
            columns = tuple(memoryview(column) for column in columns)
        self.offset, self.finish, self.program, self.cie, self.start, self.stop = columns
        self.kept = empty(count, "u4")
        self.first_row = empty(count, "u4")
        self.kept_count = 0
        self.overlaps = False
        self.problems = []
        self.problem_count = 0
        self.turn = self.mark = 0
        self.reach = 0

    def run(self):
        """Runs all FDEs.

        Returns:
            row starts (u8), rule numbers (u4) and argument sizes (u4, or None where no program gives one), one element a
            row; the FDEs that have rows (u4, indices into the columns) and the first row of each (u4).
        """
        count: cython.size_t = self.offset.shape[0]
        while self.turn < count:
            try:
                self.run_on()
            except Malformed as error:
                self.problem_count += 1
                if self.problem_count <= MOST_PROBLEMS:
                    self.problems.append((self.offset[self.turn], str(error)))
                self.take_back()
                self.turn += 1
        self.close()
        return self.result()

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def run_on(self) -> cython.int:
        """Runs FDEs from ``turn`` on, up to the last or the first that cannot be run."""
        i: cython.size_t
        count: cython.size_t = self.offset.shape[0]
        k: cython.size_t = self.kept_count
        last_cie: int32_t = -1
        start: uint64_t
        record: CieRecord = None
        for i in range(self.turn, count):
            self.turn = i
            self.mark = self.row_count
            if self.cie[i] != last_cie:
                last_cie = self.cie[i]
                record = self.cies[last_cie]
                if not record.opaque:
                    self.enter(record, last_cie)
            start = self.start[i]
            if k and start > self.reach:
                self.emit(self.reach, 0)
            elif k and start < self.reach:
                self.overlaps = True
            self.first_row[k] = self.row_count
            self.location = start
            self.depth = 0
            self.args_size = 0
            if record.opaque:
                self.emit(start, 0)
            else:
                self.execute(self.program[i], self.finish[i], self.stop[i], self.initial, True)
            self.kept[k] = i
            k += 1
            self.kept_count = k
            if self.stop[i] > self.reach:
                self.reach = self.stop[i]
        self.turn = count
        return 0

    def take_back(self):
        """Forgets the rows of an FDE that turned out bad."""
        self.row_count = self.mark

    def close(self):
        """Ends the last FDE's rows."""
        if self.kept_count and self.reach < ONES:
            self.args_size = 0
            self.emit(self.reach, 0)

    def result(self):
        """What :meth:`run` returns; the columns release what they did not need."""
        arrays = [np.asarray(self.row_start), np.asarray(self.row_rule)]
        arrays.append(np.asarray(self.row_args) if self.any_args else None)
        self.row_start = self.row_rule = self.row_args = None
        counts = (self.row_count, self.row_count, self.row_count, self.kept_count, self.kept_count)
        arrays += [np.asarray(self.kept), np.asarray(self.first_row)]
        self.kept = self.first_row = None
        return tuple(array if array is None else array[:n] for array, n in zip(arrays, counts))

    def rules_of_rows(self):
        """Numbers in the rulebook of the rules that rows use, in the order of their first use; 0 first."""
        return np.array(self.numbered, "u4")
