"""What clew says when something is wrong: raised errors, and problems found on the way.

An :class:`Error` ends the work it is raised in; a :class:`Problem` is a finding about part of the input, kept beside the
result while the rest of the input is read. Both name the file, the section and the offset (of a text, the line) where they
are known, and the next thing to do where there is one.
"""

from __future__ import annotations

from dataclasses import dataclass


def _place(file: str | None, section: str | None, offset: int | None, line: int | None = None) -> str:
    parts = [part for part in (file, section) if part]
    if line is not None:
        parts.append(f"line {line}")
    if offset is not None:
        parts.append(f"{offset:#x}")
    return ": ".join(parts)


class Error(Exception):
    """The base of every error that clew raises on purpose.

    Attributes:
        message: what is wrong, one sentence.
        file, section: where, when known.
        offset: byte offset in the section (in the file where no section is named), when known.
        line: number of the line, from 1 on, in a file that is text.
        hint: the next thing to do or to type, when there is one.
    """

    exit_code = 3

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        section: str | None = None,
        offset: int | None = None,
        hint: str | None = None,
        line: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.section = section
        self.offset = offset
        self.hint = hint
        self.line = line

    def __str__(self) -> str:
        place = _place(self.file, self.section, self.offset, self.line)
        return f"{place}: {self.message}" if place else self.message


class FormatError(Error):
    """The input is not what it claims to be: cut, malformed, or of a kind that clew does not read."""


class NotFoundError(Error):
    """A file, section, symbol or address that was asked for is not there."""


class UsageError(Error):
    """The request itself makes no sense; the command line exits with 2."""

    exit_code = 2


class DependencyError(Error):
    """An optional library is needed and absent; the hint is the command that installs it."""


class EvaluationError(Error):
    """An expression or rule cannot be evaluated: unknown register, unreadable memory, or an operation without meaning."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with part of the input, found while the rest was read.

    Attributes:
        message: what is wrong, one sentence.
        section: the section it is in, if any.
        offset: byte offset in that section (in the file without one), if known.
        lost: whether something was left out of the result because of it.
        line: number of the line it is in, from 1 on, where the input is text.
    """

    message: str
    section: str | None = None
    offset: int | None = None
    lost: bool = True
    line: int | None = None

    def __str__(self) -> str:
        place = _place(None, self.section, self.offset, self.line)
        return f"{place}: {self.message}" if place else self.message
