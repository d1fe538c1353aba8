"""What is wrong with a symbol file: the first few of each kind by line, the others by number."""

from __future__ import annotations

from collections.abc import Iterable

from clew.errors import Problem
from clew.native import breakpad_fields as fields

#: The sentence of each flaw that the scanner meets, and whether something is left out because of it.
_SENTENCES: dict[int, tuple[str, bool]] = {
    fields.UNKNOWN: ("no record begins like this; the line is left out", True),
    fields.MALFORMED: ("the record lacks a field, or has one that is no number; it is left out", True),
    fields.LARGE: ("a number is too large; it counts as unknown, or the record is left out", True),
    fields.ORPHAN_LINE: ("a line record belongs to no FUNC record that is kept; it is left out", True),
    fields.ORPHAN_INLINE: ("an INLINE record belongs to no FUNC record that is kept; it is left out", True),
    fields.NEGATIVE: ("the number of a line or file is negative; it counts as unknown", True),
    fields.EXTRA: ("the record goes on after its last field; the rest of the line is left out", True),
    fields.EMPTY: ("the record is for no bytes of code; it is left out", True),
    fields.UNNAMED: ("the record ends where its name should be", False),
    fields.SECOND_MODULE: ("there is a second MODULE record; the first one counts", True),
    fields.LATE_MODULE: ("the MODULE record is not in the first line", False),
    fields.CARRIAGE_RETURN: ("lines end in carriage return and newline", False),
    fields.NO_NEWLINE: ("the last line has no newline; the file may have been cut there", False),
}


class Flaws:
    """Problems of one file, capped by kind."""

    def __init__(self) -> None:
        self._told: list[Problem] = []
        self._more: list[Problem] = []

    @property
    def problems(self) -> list[Problem]:
        """All problems: those with a line, by line, then how many more there are of each kind."""
        return sorted(self._told, key=lambda problem: problem.line or 0) + self._more

    def add(self, message: str, lines: Iterable[int], *, count: int | None = None, lost: bool = True) -> None:
        """Tell of a flaw.

        Args:
            message: what is wrong.
            lines: where, at most :data:`~clew.native.breakpad_fields.MOST_TOLD` of which are told.
            count: how often in all, where that is more than ``lines``.
        """
        every = list(lines)
        told = every[: fields.MOST_TOLD]
        self._told += [Problem(message, line=line, lost=lost) for line in told]
        more = (len(every) if count is None else count) - len(told)
        if more > 0:
            self._more.append(Problem(f"{message} ({more:,} more of these)", lost=lost))

    def add_told(self, told: Iterable[tuple[int, int]], counts: list[int]) -> None:
        """Tell of what a scanner has met: its flaws with their lines, and how many there were of each."""
        lines: dict[int, list[int]] = {}
        for kind, line in told:
            lines.setdefault(kind, []).append(line)
        for kind, where in lines.items():
            message, lost = _SENTENCES[kind]
            self.add(message, where, count=counts[kind], lost=lost)
