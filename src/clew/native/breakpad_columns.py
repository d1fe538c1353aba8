"""The columns that a Breakpad symbol file is split into, one group a kind of record, which grow as they fill."""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.clew.native.breakpad_fields import Fields
else:
    from clew.native.breakpad_fields import Fields

from clew.native.columns import empty, enlarged

#: Kinds of named records, and of symbols.
FILE, ORIGIN, INFO, MODULE = range(4)
FUNC, PUBLIC = range(2)

LINE_COLUMNS = (("address", "u8"), ("size", "u4"), ("line", "u4"), ("file", "u4"))
NAMED_COLUMNS = (("kind", "u1"), ("number", "u4"), ("offset", "u8"), ("length", "u4"), ("text_line", "u4"))
SYMBOL_COLUMNS = (
    ("kind", "u1"),
    ("multiple", "u1"),
    ("address", "u8"),
    ("size", "u8"),
    ("parameter_size", "u4"),
    ("offset", "u8"),
    ("length", "u4"),
    ("text_line", "u4"),
    ("first_line", "u4"),
    ("first_inline", "u4"),
)
INLINE_COLUMNS = (
    ("old", "u1"),
    ("depth", "u2"),
    ("call_line", "u4"),
    ("call_file", "u4"),
    ("origin", "u4"),
    ("first_range", "u4"),
    ("text_line", "u4"),
)
RANGE_COLUMNS = (("address", "u8"), ("size", "u8"))
WIN_COLUMNS = (
    ("type", "u4"),
    ("address", "u8"),
    ("code_size", "u4"),
    ("prologue_size", "u4"),
    ("epilogue_size", "u4"),
    ("parameter_size", "u4"),
    ("saved_register_size", "u4"),
    ("local_size", "u4"),
    ("max_stack_size", "u4"),
    ("has_program", "u1"),
    ("allocates_base_pointer", "u1"),
    ("offset", "u8"),
    ("length", "u4"),
    ("text_line", "u4"),
)
RUN_COLUMNS = (("offset", "u8"), ("end", "u8"), ("text_line", "u4"))
ANCHOR_COLUMNS = (("record", "u4"), ("text_line", "u4"))


@cython.cclass
class Columns(Fields):
    """Text to be read, and the columns that its records go into. Arguments are those of its base."""

    def __init__(self, data, words):
        Fields.__init__(self, data, words)
        self.line_count = self.named_count = self.symbol_count = self.inline_count = 0
        self.range_count = self.win_count = self.run_count = self.anchor_count = 0
        # About as many as a file of mostly line records has. What stays untouched takes no memory.
        self.line_columns = [empty(self.end // 32 + 64, code) for _, code in LINE_COLUMNS]
        self.named_columns = [empty(64, code) for _, code in NAMED_COLUMNS]
        self.symbol_columns = [empty(64, code) for _, code in SYMBOL_COLUMNS]
        self.inline_columns = [empty(64, code) for _, code in INLINE_COLUMNS]
        self.range_columns = [empty(64, code) for _, code in RANGE_COLUMNS]
        self.win_columns = [empty(64, code) for _, code in WIN_COLUMNS]
        self.run_columns = [empty(16, code) for _, code in RUN_COLUMNS]
        self.anchor_columns = [empty(64, code) for _, code in ANCHOR_COLUMNS]
        self.bind()

    def bind(self):
        """Takes the columns by their names, after they have been made or enlarged."""
        self.l_address, self.l_size, self.l_line, self.l_file = self.line_columns
        self.n_kind, self.n_number, self.n_offset, self.n_length, self.n_line = self.named_columns
        self.s_kind, self.s_multiple, self.s_address, self.s_size, self.s_parameter = self.symbol_columns[:5]
        self.s_offset, self.s_length, self.s_text, self.s_line, self.s_inline = self.symbol_columns[5:]
        self.i_old, self.i_depth, self.i_line, self.i_file = self.inline_columns[:4]
        self.i_origin, self.i_range, self.i_text = self.inline_columns[4:]
        self.r_address, self.r_size = self.range_columns
        self.w_type, self.w_address = self.win_columns[:2]
        self.w_sizes = self.win_columns[2:9]
        self.w_program, self.w_base, self.w_offset, self.w_length, self.w_text = self.win_columns[9:]
        self.c_offset, self.c_end, self.c_text = self.run_columns
        self.a_record, self.a_text = self.anchor_columns

    def roomier(self, columns):
        """The same columns with twice the room."""
        made = [enlarged(column, 2 * len(column)) for column in columns]
        columns[:] = made
        self.bind()

    def columns(self):
        """What was found, by group: lines, named, symbols, inlines, ranges, win, cfi, anchors; each by column."""
        groups = (
            ("lines", LINE_COLUMNS, self.line_columns, self.line_count),
            ("named", NAMED_COLUMNS, self.named_columns, self.named_count),
            ("symbols", SYMBOL_COLUMNS, self.symbol_columns, self.symbol_count),
            ("inlines", INLINE_COLUMNS, self.inline_columns, self.inline_count),
            ("ranges", RANGE_COLUMNS, self.range_columns, self.range_count),
            ("win", WIN_COLUMNS, self.win_columns, self.win_count),
            ("cfi", RUN_COLUMNS, self.run_columns, self.run_count),
            ("anchors", ANCHOR_COLUMNS, self.anchor_columns, self.anchor_count),
        )
        return {
            group: {name: np.asarray(column)[:count] for (name, _), column in zip(names, columns)}
            for group, names, columns, count in groups
        }

    def flaw_counts(self):
        """How often each flaw was met."""
        return [int(count) for count in self.counts]
