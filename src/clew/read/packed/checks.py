"""Whether a packed table is sound: the checks of ``native/packed_check.h``, part by part, with the place that is wrong.

The C header decides for those who walk fast. This one says where and why; a fuzz test holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from clew.errors import FormatError
from clew.native.packed_rows import pages_of
from clew.read.packed import layout
from clew.read.packed.layout import PackedMachine

Parts = Mapping[str, npt.NDArray[Any]]

_PAGE = 1 << layout.PAGE_BITS
_BUCKET = 1 << layout.BUCKET_BITS


class Checker:
    """Checks the parts of one table.

    Args:
        name: what the table is called in messages.
        target: its machine.
        parts: its records, by the part's name; ``offsets`` says where each part begins in the file.
    """

    def __init__(self, name: str, target: PackedMachine, parts: Parts, offsets: Mapping[str, int]) -> None:
        self.name = name
        self.target = target
        self.parts = parts
        self.offsets = offsets

    def check(self) -> None:
        """Raises FormatError for the first thing that is wrong."""
        self._segments()
        self._rows()
        self._escapes()
        self._rules()
        self._cells()
        self._steps()

    def wrong(self, part: str, index: int, message: str) -> FormatError:
        """The error that names a record."""
        offset = self.offsets[part] + int(index) * layout.RECORDS[part].itemsize
        return FormatError(
            f"the packed table is damaged: {message}", file=self.name, section=part, offset=offset, hint=layout.DAMAGED
        )

    def _first(self, part: str, bad: npt.NDArray[np.bool_], message: str) -> None:
        found = np.flatnonzero(bad)
        if len(found):
            raise self.wrong(part, int(found[0]), message)

    def _segments(self) -> None:
        segments = self.parts["segments"]
        if len(segments) > layout.MOST_SEGMENTS:
            raise self.wrong("segments", layout.MOST_SEGMENTS, f"it has {len(segments):,} segments")
        page = row = end = 0
        for index, segment in enumerate(segments):
            start, size, first, pages = (int(segment[name]) for name in ("start", "size", "page", "pages"))
            if not size or start < end or start + size >= 1 << 64:
                raise self.wrong("segments", index, "a segment is empty, or out of order")
            if first != page or pages != pages_of(size) or pages > len(self.parts["pages"]) - page:
                raise self.wrong("segments", index, "a segment's pages are not its own")
            end = start + size
            for number in range(pages):
                row += self._page(page + number, row, min(size - number * _PAGE, _PAGE))
            page += pages
        if page != len(self.parts["pages"]) or row != len(self.parts["rows"]):
            raise self.wrong("pages", page, "there are pages or rows that belong to no segment")

    def _page(self, page: int, first: int, size: int) -> int:
        """Checks one page; how many rows it has, padding included."""
        buckets, rows = self.parts["buckets"], self.parts["rows"]
        base, count = page * layout.PAGE_STRIDE, -(-size >> layout.BUCKET_BITS)
        if int(self.parts["pages"][page]) != first or base + count + 1 > len(buckets) or first >= len(rows):
            raise self.wrong("pages", page, "a page's rows or buckets are not its own")
        numbers = buckets[base : base + count].astype(np.int64)
        last = int(buckets[base + count])
        total = last + 1 + layout.ROW_PADDING
        if total > len(rows) - first:
            raise self.wrong("buckets", base + count, "a page has more rows than there are")
        mine = rows[first : first + last + 1]
        start = (mine >> np.uint32(16)).astype(np.int64)
        if start[0] or start[-1] >= size or (start[1:] <= start[:-1]).any():
            raise self.wrong(
                "rows", first, "a page's rows do not begin at its start, lie behind its end, or are out of order"
            )
        if (rows[first + last + 1 : first + total] != mine[-1] | np.uint32(0xFFFF0000)).any():
            raise self.wrong("rows", first + last + 1, "a page's padding is not its last row")
        begin = np.arange(count) * _BUCKET
        if not np.array_equal(numbers, np.searchsorted(start, begin, "right") - 1):
            raise self.wrong("buckets", base, "a bucket does not lead to the row at its start")
        return total

    def _escapes(self) -> None:
        escapes, rules = self.parts["escapes"], len(self.parts["rules"])
        rows = self.parts["rows"]
        if int(np.count_nonzero(rows & np.uint32(0xFFFF) == layout.ESCAPED)) != len(escapes):
            raise self.wrong("escapes", 0, "there is not one escape for each row that has one")
        row = escapes["row"].astype(np.int64)
        self._first("escapes", (row >= len(rows)) | (escapes["rule"] >= rules), "there is no such row or rule")
        self._first("escapes", np.diff(row, prepend=-1) <= 0, "the escapes are out of order")

    def _rows(self) -> None:
        number = self.parts["rows"] & np.uint32(0xFFFF)
        bad = (number >= len(self.parts["rules"])) & (number != layout.ESCAPED)
        self._first("rows", bad, "there is no such rule")

    def _rules(self) -> None:
        rules, cells = self.parts["rules"], self.parts["cells"]
        if not len(rules) or rules["cfa"][0] >> 6:
            raise self.wrong("rules", 0, "its first rule is not the one that says nothing")
        kind, register, flags, saved = rules["cfa"] >> 6, rules["cfa"] & 63, rules["flags"], rules["saved"]
        with_cells = flags & layout.CELLS != 0
        stub = flags >> layout.STUB_SHIFT != 0
        bad = (register >= self.target.registers) | ((kind == layout.CFA_EXPRESSION) & ~with_cells)
        bad |= stub & ((kind != layout.CFA_REGISTER) | (self.target.number != 1))
        bad |= (saved & np.uint32(~self.target.saved & 0xFFFFFFFF) != 0) | (with_cells & (saved != 0))
        sp = np.uint32(self.target.machine.stack_pointer)
        bad |= ~with_cells & (rules["same"] >> sp & 1 != 0)
        farthest = rules["slot"][:, self.target.machine.stack_pointer & 15]
        for number in range(32):
            bad |= (saved >> np.uint32(number) & 1 != 0) & (rules["slot"][:, number & 15] > farthest)
        self._first("rules", bad, "a rule contradicts itself")
        for index in np.flatnonzero(with_cells).tolist():
            first, count = first_cell(rules[index]), int(rules["slot"][index][4])
            if not 0 < count <= layout.MOST_CELLS or count > len(cells) - first:
                raise self.wrong("rules", index, "a rule's cells are not there")
            of_cfa = cells["reg"][first : first + count] == layout.CELL_OF_CFA
            if bool(of_cfa[0]) != bool(kind[index] == layout.CFA_EXPRESSION) or of_cfa[1:].any():
                raise self.wrong("rules", index, "a rule's CFA is not its first cell")

    def _cells(self) -> None:
        cells, steps = self.parts["cells"], self.parts["steps"]
        register, kind = cells["reg"], cells["kind"]
        of_cfa = register == layout.CELL_OF_CFA
        self._first("cells", (register >= self.target.registers) & ~of_cfa, "there is no such register")
        bad = (kind < layout.AT_CFA) | (kind > layout.BAD)
        bad |= of_cfa & (kind != layout.IS_EXPRESSION) & (kind != layout.BAD)
        self._first("cells", bad, "there is no such kind of cell")
        of_register = (kind == layout.IN_REGISTER) | (kind == layout.AT_REGISTER)
        self._first("cells", of_register & (cells["other"] >= self.target.registers), "there is no such register")
        expression = (kind == layout.AT_EXPRESSION) | (kind == layout.IS_EXPRESSION)
        first, count = cells["value"].astype(np.int64), cells["other"].astype(np.int64)
        bad = expression & ((first < 0) | (first + count > len(steps)) | (count > layout.MOST_STEPS))
        self._first("cells", bad, "its expression is not there")
        branch, skip = layout.STEP_NUMBERS["bra"], layout.STEP_NUMBERS["skip"]
        for begin, size in sorted(set(zip(first[expression].tolist(), count[expression].tolist(), strict=True))):
            mine = steps[begin : begin + size]
            goes = (mine["kind"] == branch) | (mine["kind"] == skip)
            astray = goes & ((mine["value"] < 0) | (mine["value"] > size))
            if astray.any():
                raise self.wrong("steps", begin + int(np.flatnonzero(astray)[0]), "a branch leaves its expression")

    def _steps(self) -> None:
        steps = self.parts["steps"]
        kind, operand = steps["kind"], steps["operand"]
        bad = (kind == 0) | (kind >= len(layout.STEP_NAMES))
        bad |= (kind == layout.STEP_NUMBERS["register"]) & (operand >= self.target.registers)
        bad |= (kind == layout.STEP_NUMBERS["deref"]) & ((operand < 1) | (operand > 8))
        self._first("steps", bad, "there is no such step")


def first_cell(rule: Any) -> int:
    """The number of the first cell of a rule that has any."""
    return int.from_bytes(bytes(rule["slot"][:4].tolist()), "little")
