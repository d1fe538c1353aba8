"""The rows that programs make, as columns that grow, and the numbers under which the Table knows their rules."""

import cython

if cython.compiled:
    from cython.cimports.clew.native.pointers import Pointers
    from cython.cimports.libc.stdint import int32_t, uint32_t
else:
    from clew.native.pointers import Pointers

    int32_t = uint32_t = cython.longlong

from clew.native.columns import enlarged, together, zeros


@cython.cclass
class RowColumns(Pointers):
    """What an interpreter emits: start, rule and argument size, one element a row."""

    def make_room(self, rows):
        """Begins without a row, and with room for about so many."""
        self.args_size = 0
        # Rule 0 is number 0; number_of holds numbers plus one, so that zeros say that there is none yet.
        self.numbered = zeros(1024, "u4")
        self.number_count = 1
        self.number_of = zeros(1024, "u4")
        self.number_of[0] = 1
        self.row_count = 0
        self.row_room = self.easy_rows = rows + 16
        self.any_args = False
        self.row_start, self.row_rule = together(self.row_room, ("u8", "u4"))
        self.row_args = None

    def set_args(self, size):
        """``DW_CFA_GNU_args_size``: a fact of the row, not of its rule; rows get a column for it when first met."""
        self.args_size = size
        if size and not self.any_args:
            self.any_args = True
            # Mostly never touched: rows with argument sizes are rare and come late.
            self.row_args = zeros(self.row_room, "u4")
        self.easy_rows = 0 if size else self.row_room

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def prepare_row(self) -> cython.int:
        """What seldom has to be done before a row is added: room for half as many again, and its argument size."""
        if self.row_count == self.row_room:
            self.grow_rows()
        if self.args_size:
            self.row_args[self.row_count] = self.args_size
        return 0

    def grow_rows(self):
        """Makes room for half as many rows again."""
        self.row_room += self.row_room // 2
        starts, rules = together(self.row_room, ("u8", "u4"))
        starts[: self.row_count] = self.row_start[: self.row_count]
        rules[: self.row_count] = self.row_rule[: self.row_count]
        self.row_start, self.row_rule = starts, rules
        if self.any_args:
            self.row_args = enlarged(self.row_args, self.row_room, 0)
        self.easy_rows = 0 if self.args_size else self.row_room

    @cython.cfunc
    @cython.exceptval(0, check=False)
    def give_number(self, rule: int32_t) -> uint32_t:
        """Gives a rule the number under which the Table knows it, and answers with that plus one; rules of no row get none."""
        if rule >= self.number_of.shape[0]:
            self.number_of = enlarged(self.number_of, 2 * rule, 0)
        if self.number_count == cython.cast(cython.size_t, self.numbered.shape[0]):
            self.numbered = enlarged(self.numbered, 2 * self.number_count)
        self.numbered[self.number_count] = rule
        self.number_count += 1
        self.number_of[rule] = self.number_count
        return self.number_count
