"""The records of a Breakpad symbol file, as columns; the text is read once, names and rules stay in it.

The format is Breakpad's ``docs/symbol_files.md``. Real files differ from it, and are read all the same:

- ``MODULE`` may be missing or late; of several the first counts. ``INFO`` records, which the document does not have, are kept.
- Lines may end in CR LF; the last one may have no end. Empty lines, blanks before and several between fields are nothing.
- Numbers are hexadecimal in either case. Of a record that lacks a field, has one that is no number, or an address or size that
  exceeds its range (64 bits; sizes of line records, parameters and numbers of ``STACK WIN`` 32), nothing is kept; but a
  function that goes on behind the last address of all is cut there. The line of a line record that is negative or exceeds 32
  bits is 0, none; its file likewise.
- Records of no bytes (size 0) are left out: there is no address at which they hold. So are the lines of such a function, those
  before the first ``FUNC``, and those after a ``FUNC`` that cannot be read.
- ``INLINE`` comes in two forms. The old one has no number of the file of the call, so it has an odd number of fields, and
  ``INLINE_ORIGIN`` then has a number of a file before the name. The form of most of a file's records is the file's; records of
  the other are left out.

Each flaw becomes a problem with its line; of a kind, the first few are told, then how many more there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from clew.errors import UsageError
from clew.native import breakpad_columns as kinds
from clew.native.breakpad_records import Scanner
from clew.read.breakpad.flaws import Flaws
from clew.read.breakpad.module import ModuleRecord
from clew.read.breakpad.texts import Texts

U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]

NO_NUMBER = 0xFFFFFFFF
"""The number of a file or origin that is not given."""

MAXIMUM_INFO = 1000
"""How many INFO records are kept."""

MAXIMUM_SIZE = 1 << 34
"""The largest text in bytes: rows are counted in 32 bits."""


@dataclass(frozen=True, slots=True)
class NamedRecords:
    """``FILE`` or ``INLINE_ORIGIN`` records: ``number`` uint32[n], ``text_line`` uint32[n], and their names."""

    number: U32
    text_line: U32
    names: Texts


@dataclass(frozen=True, slots=True)
class FunctionRecords:
    """``FUNC`` records, in the file's order.

    Attributes:
        address, size: uint64[n], in bytes; size is not 0. parameter_size: uint32[n]. multiple: the ``m``, uint8[n].
        first_line, end_line: its line records, uint32[n]. first_inline, end_inline: its ``INLINE`` records.
        text_line: uint32[n].
    """

    address: U64
    size: U64
    parameter_size: U32
    multiple: U8
    first_line: U32
    end_line: U32
    first_inline: U32
    end_inline: U32
    text_line: U32
    names: Texts


@dataclass(frozen=True, slots=True)
class PublicRecords:
    """``PUBLIC`` records: as :class:`FunctionRecords`, without a size."""

    address: U64
    parameter_size: U32
    multiple: U8
    text_line: U32
    names: Texts


@dataclass(frozen=True, slots=True)
class LineRecords:
    """Line records: ``address`` uint64[n]; ``size``, ``line`` and ``file``, a number of a ``FILE`` record, uint32[n]."""

    address: U64
    size: U32
    line: U32
    file: U32
    _anchor_record: U32
    _anchor_line: U32

    def text_line(self, records: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """The lines of the text in which these line records stand."""
        # Known is where each run of them begins.
        at = np.searchsorted(self._anchor_record, records, "right") - 1
        lines: npt.NDArray[np.int64] = self._anchor_line[at].astype(np.int64) - self._anchor_record[at] + records
        return lines


@dataclass(frozen=True, slots=True)
class InlineRecords:
    """``INLINE`` records: uint8[n], uint16[n] and uint32[n]; ``first_range`` has one element more.

    Attributes:
        old: 1 where the record is of the old form; its ``call_file`` is then :data:`NO_NUMBER`.
        range_address, range_size: uint64[r].
    """

    old: U8
    depth: U16
    call_line: U32
    call_file: U32
    origin: U32
    first_range: U32
    text_line: U32
    range_address: U64
    range_size: U64


@dataclass(frozen=True, slots=True)
class StackWin:
    """``STACK WIN`` records, uint32[n] unless said otherwise, with the document's names.

    Attributes:
        type: 0 for FPO data, 4 for frame data; others are kept.
        address: the document's rva, uint64[n].
        has_program: whether ``programs`` has a program string for it, uint8[n].
        allocates_base_pointer: for those that have none, uint8[n].
    """

    type: U32
    address: U64
    code_size: U32
    prologue_size: U32
    epilogue_size: U32
    parameter_size: U32
    saved_register_size: U32
    local_size: U32
    max_stack_size: U32
    has_program: U8
    allocates_base_pointer: U8
    text_line: U32
    programs: Texts

    def __len__(self) -> int:
        return len(self.type)


@dataclass(frozen=True, slots=True)
class CfiText:
    """The ``STACK CFI`` records, as text, in runs of lines that follow each other.

    Attributes:
        data: the file's bytes.
        offset, end: where each run begins and ends, uint64[n].
        text_line: the line of the text that it begins in, uint32[n].
    """

    data: memoryview
    offset: U64
    end: U64
    text_line: U32

    def __len__(self) -> int:
        return len(self.offset)

    def texts(self) -> Iterator[memoryview]:
        """The bytes of each run."""
        for begin, end in zip(self.offset.tolist(), self.end.tolist(), strict=True):
            yield self.data[begin:end]


@dataclass(frozen=True, slots=True)
class Records:
    """Everything that a symbol file says, unresolved.

    Attributes:
        module: the first ``MODULE`` record, or None.
        info: the ``INFO`` records: keyword and the rest of the line.
        text_lines: how many lines the text has.
    """

    module: ModuleRecord | None
    info: tuple[tuple[str, str], ...]
    files: NamedRecords
    origins: NamedRecords
    functions: FunctionRecords
    lines: LineRecords
    inlines: InlineRecords
    publics: PublicRecords
    stack_win: StackWin
    cfi: CfiText
    text_lines: int

    def __len__(self) -> int:
        """How many records were understood."""
        parts = (
            self.files.number,
            self.origins.number,
            self.functions.address,
            self.publics.address,
            self.lines.address,
        )
        rest = (
            len(self.inlines.depth) + len(self.stack_win) + len(self.cfi) + len(self.info) + (self.module is not None)
        )
        return sum(len(part) for part in parts) + rest


def read_records(data: memoryview, flaws: Flaws) -> Records:
    """Splits a symbol file into its records. Whatever the bytes are, what they hold is returned.

    Args:
        data: the file's bytes, contiguous.
        flaws: gets what is wrong.

    Raises:
        UsageError: there are more than :data:`MAXIMUM_SIZE` bytes.
    """
    if len(data) > MAXIMUM_SIZE:
        raise UsageError(f"a symbol file of more than {MAXIMUM_SIZE >> 30} GiB is not read")
    scanner = Scanner(data)
    scanner.run()
    flaws.add_told(scanner.told, scanner.flaw_counts())
    groups = scanner.columns()
    named, symbols = groups["named"], groups["symbols"]
    return Records(
        module=_module(data, named, flaws),
        info=_info(data, named, flaws),
        files=_named(data, named, kinds.FILE),
        origins=_named(data, named, kinds.ORIGIN),
        functions=_functions(data, symbols, len(groups["lines"]["address"]), len(groups["inlines"]["depth"])),
        lines=LineRecords(
            **groups["lines"], _anchor_record=groups["anchors"]["record"], _anchor_line=groups["anchors"]["text_line"]
        ),
        inlines=_inlines(groups["inlines"], groups["ranges"]),
        publics=_publics(data, symbols),
        stack_win=_stack_win(data, groups["win"]),
        cfi=CfiText(data, **groups["cfi"]),
        text_lines=scanner.lines,
    )


_Columns = dict[str, npt.NDArray[Any]]


def _of_kind(columns: _Columns, kind: int) -> _Columns:
    chosen = columns["kind"] == kind
    return {name: column[chosen] for name, column in columns.items()}


def _texts(data: memoryview, columns: _Columns) -> Texts:
    return Texts(data, columns["offset"], columns["length"])


def _named(data: memoryview, columns: _Columns, kind: int) -> NamedRecords:
    chosen = _of_kind(columns, kind)
    return NamedRecords(chosen["number"], chosen["text_line"], _texts(data, chosen))


def _module(data: memoryview, columns: _Columns, flaws: Flaws) -> ModuleRecord | None:
    chosen = _of_kind(columns, kinds.MODULE)
    if not len(chosen["offset"]):
        flaws.add("there is no MODULE record", (1,), lost=False)
        return None
    parts = _texts(data, chosen)[0].split(" ", 3)
    if len(parts) < 4 and parts != [""]:
        flaws.add("the MODULE record lacks a field", chosen["text_line"].tolist(), lost=False)
    return ModuleRecord(*parts, *[""] * (4 - len(parts)))


def _info(data: memoryview, columns: _Columns, flaws: Flaws) -> tuple[tuple[str, str], ...]:
    chosen = _of_kind(columns, kinds.INFO)
    texts = _texts(data, chosen)
    if len(texts) > MAXIMUM_INFO:
        flaws.add(
            "there are too many INFO records; the rest is left out", chosen["text_line"][MAXIMUM_INFO:][:1].tolist()
        )
    pairs = (text.partition(" ") for text in texts[:MAXIMUM_INFO])
    return tuple((word, rest) for word, _, rest in pairs)


def _functions(data: memoryview, symbols: _Columns, lines: int, inlines: int) -> FunctionRecords:
    chosen = _of_kind(symbols, kinds.FUNC)
    # What stands behind one function's record, up to that of the next, is its own.
    ends = {
        name: np.append(chosen[name][1:], np.uint32(count))
        for name, count in (("first_line", lines), ("first_inline", inlines))
    }
    count = len(chosen["address"])
    return FunctionRecords(
        address=chosen["address"],
        size=chosen["size"],
        parameter_size=chosen["parameter_size"],
        multiple=chosen["multiple"],
        first_line=chosen["first_line"],
        end_line=ends["first_line"][:count].astype(np.uint32),
        first_inline=chosen["first_inline"],
        end_inline=ends["first_inline"][:count].astype(np.uint32),
        text_line=chosen["text_line"],
        names=_texts(data, chosen),
    )


def _publics(data: memoryview, symbols: _Columns) -> PublicRecords:
    chosen = _of_kind(symbols, kinds.PUBLIC)
    columns = {name: chosen[name] for name in ("address", "parameter_size", "multiple", "text_line")}
    return PublicRecords(**columns, names=_texts(data, chosen))


def _inlines(inlines: _Columns, ranges: _Columns) -> InlineRecords:
    bounds = np.append(inlines["first_range"], np.uint32(len(ranges["address"]))).astype(np.uint32)
    return InlineRecords(
        **{**inlines, "first_range": bounds}, range_address=ranges["address"], range_size=ranges["size"]
    )


def _stack_win(data: memoryview, win: _Columns) -> StackWin:
    columns = {each.name: win[each.name] for each in fields(StackWin) if each.name != "programs"}
    return StackWin(**columns, programs=_texts(data, win))
