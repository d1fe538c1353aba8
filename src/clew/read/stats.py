"""What unwind tables are made of: sizes, rows, rules and instructions, of one file or of many.

Register rules are counted as in table 4 of Bastian, Kell and Zappa Nardelli, "Reliable and fast DWARF-based stack unwinding"
(OOPSLA 2019): one a row and register that the row names, once for the registers that their compiled unwinders keep (rip,
rsp, rbp, rbx) and once for all. Their table 3 adds the CFA of each row, and counts expressions.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Future, as_completed
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Protocol

import numpy as np

from clew.errors import Error, NotFoundError, Problem
from clew.image import Image
from clew.image.elf import MAGIC
from clew.read.dwarf_cfi.instructions import instruction_name
from clew.read.dwarf_cfi.section import CfiSection
from clew.read.frames import frame_sections
from clew.table import (
    Architectural,
    AtCfa,
    AtExpression,
    CfaExpression,
    CfaPlus,
    InRegister,
    InvalidExpression,
    IsExpression,
    SameValue,
    Table,
    Undefined,
    merge,
)

#: Kinds of register rules, as the paper's table 4 and DWARF name them.
KINDS = {
    Undefined: "undefined",
    SameValue: "same_value",
    AtCfa: "offset",
    CfaPlus: "val_offset",
    InRegister: "register",
    AtExpression: "expression",
    IsExpression: "val_expression",
    Architectural: "architectural",
}


@dataclass(slots=True)
class Stats:
    """Counts over one file, or the sum over several.

    Attributes:
        files: files with call frame information.
        section_bytes: bytes of their sections.
        cies, fdes: entries.
        code_bytes: bytes of code that they describe.
        rows: decoded rows of all sections, gaps not counted; normalised_rows: of one table of them all, after merging what is
            equal and absorbing padding.
        rules: different rules of each section, summed.
        instructions: how many there are, by name.
        all_columns, kept_columns: register rules by kind, one a row and register: of all registers, and of those that the
            paper's unwinders keep (the return address, stack and frame pointer, and rbx on x86-64).
        cfas: rows by their CFA: ``register`` plus an offset, ``expression``, ``unset``.
        expressions: uses of expressions in rows, the CFA's included; unreadable_expressions of them say nothing.
        lost: entries that could not be read.
        problems: (file, what was wrong in it) pairs.
        unreadable: (file, why) pairs of files that could not be read at all.
    """

    files: int = 0
    section_bytes: int = 0
    cies: int = 0
    fdes: int = 0
    code_bytes: int = 0
    rows: int = 0
    normalised_rows: int = 0
    rules: int = 0
    instructions: Counter[str] = field(default_factory=Counter)
    all_columns: Counter[str] = field(default_factory=Counter)
    kept_columns: Counter[str] = field(default_factory=Counter)
    cfas: Counter[str] = field(default_factory=Counter)
    expressions: int = 0
    unreadable_expressions: int = 0
    lost: int = 0
    problems: list[tuple[str, Problem]] = field(default_factory=list)
    unreadable: list[tuple[str, str]] = field(default_factory=list)

    def add(self, other: Stats) -> None:
        """Adds the counts of another file."""
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, Counter):
                value.update(getattr(other, name))
            elif isinstance(value, list):
                value.extend(getattr(other, name))
            else:
                setattr(self, name, value + getattr(other, name))

    def to_json(self) -> dict[str, Any]:
        """The counts as JSON values: of problems their number, of unreadable files their names and why."""
        out: dict[str, Any] = {}
        for name in self.__slots__:
            value = getattr(self, name)
            out[name] = dict(value.most_common()) if isinstance(value, Counter) else value
        out["problems"] = len(self.problems)
        out["unreadable"] = [{"file": file, "message": message} for file, message in self.unreadable]
        return out


def read_stats(path: str | os.PathLike[str]) -> Stats:
    """The counts of one file.

    Raises:
        Error: as :meth:`clew.image.Image.open` and :func:`clew.read.frames.frame_sections`.
    """
    with Image.open(path) as image:
        return _image_stats(image)


def file_stats(path: str | os.PathLike[str]) -> Stats:
    """As :func:`read_stats`; a file without unwind tables counts nothing, one that cannot be read is in ``unreadable``."""
    name = os.fspath(path)
    try:
        with Image.open(name) as image:
            try:
                return _image_stats(image)
            except NotFoundError:
                # That there are none is one thing, that they could not be read another.
                return Stats(problems=[(name, problem) for problem in image.problems])
    except Error as error:
        error.file = None
        return Stats(unreadable=[(name, str(error))])


def _image_stats(image: Image) -> Stats:
    sections = frame_sections(image)
    tables = [section.table() for section in sections]
    table = merge(tables)
    known = table.rule[:-1] != 0
    stats = Stats(
        files=1,
        section_bytes=sum(len(section.data) for section in sections),
        cies=sum(len(section.cies) for section in sections),
        fdes=sum(len(section) for section in sections),
        code_bytes=int(np.diff(table.start)[known].sum()),
        rows=sum(one.row_count for one in tables),
        normalised_rows=table.normalise().row_count,
        lost=sum(one.lost for one in tables),
    )
    for section in sections:
        _count_instructions(stats, section)
    for one in tables:
        _count_rules(stats, one)
    problems = [*image.problems, *(problem for one in tables for problem in one.problems)]
    stats.problems = [(image.name, problem) for problem in problems]
    return stats


def _count_instructions(stats: Stats, section: CfiSection) -> None:
    for opcode, count in enumerate(section.census()):
        if count:
            name = instruction_name(opcode, section.machine.cfa_dialect)
            stats.instructions[name or f"unknown {opcode:#04x}"] += count


def _count_rules(stats: Stats, table: Table) -> None:
    machine = table.machine
    kept = {machine.stack_pointer, machine.frame_pointer}
    if machine.name == "x86-64":
        kept.add(machine.register_number("rbx"))
    for number, count in enumerate(np.bincount(table.rule).tolist()):
        if not count or not number:
            continue
        rule = table.rules[number]
        stats.rules += 1
        cfa = "unset" if rule.cfa is None else "expression" if isinstance(rule.cfa, CfaExpression) else "register"
        stats.cfas[cfa] += count
        for register, term in rule.registers:
            kind = KINDS[type(term)]
            stats.all_columns[kind] += count
            if register in kept or register == rule.return_address:
                stats.kept_columns[kind] += count
        for part in (rule.cfa, *(term for _, term in rule.registers)):
            if isinstance(part, CfaExpression | AtExpression | IsExpression):
                stats.expressions += count
                stats.unreadable_expressions += count * isinstance(part.expression, InvalidExpression)


def elf_files(paths: Iterable[str | os.PathLike[str]]) -> Iterator[str]:
    """The ELF files among and below paths, each once however many names it has.

    A file that is named itself is taken as it is. Directories are searched; symbolic links inside them are not followed. What
    cannot be opened there, file or directory, is given as well: whoever reads it learns why.
    """
    seen: set[tuple[int, int]] = set()
    closed: list[str] = []

    def is_new(status: os.stat_result) -> bool:
        before = len(seen)
        seen.add((status.st_dev, status.st_ino))
        return len(seen) > before

    for each in paths:
        path = os.fspath(each)
        if os.path.isdir(path):
            for folder, _, names in os.walk(path, onerror=lambda error: closed.append(error.filename)):
                files = (os.path.join(folder, name) for name in sorted(names))
                yield from (file for file in files if _wanted(file, is_new))
        elif not os.path.exists(path) or is_new(os.stat(path)):
            yield path
    yield from closed


def _wanted(file: str, is_new: Callable[[os.stat_result], bool]) -> bool:
    """Whether something in a directory is an ELF file, or may be one."""
    try:
        status = os.lstat(file)
        if not stat.S_ISREG(status.st_mode):
            return False
        with open(file, "rb", buffering=0) as stream:
            return stream.read(len(MAGIC)) == MAGIC and is_new(status)
    except FileNotFoundError:
        return False
    except OSError:
        return True


class Submits(Protocol):
    """What :func:`survey` needs of an executor: the ``submit`` of :class:`concurrent.futures.Executor`."""

    def submit(self, function: Callable[[str], Stats], file: str, /) -> Any:
        """Something whose ``result()`` is what ``function(file)`` gives."""
        ...  # pragma: no cover


def survey(
    files: Iterable[str],
    executor: Submits | None = None,
    progress: Callable[[str], None] | None = None,
) -> Stats:
    """The sum of the counts of many files.

    Args:
        executor: where the files are read, one task a file: a process pool, or anything with the interface of
            :class:`concurrent.futures.Executor`, such as a Dask client. Without one they are read here.
        progress: told each file that is done.

    Raises:
        Error: the executor broke down.
    """
    total = Stats()
    results = ((file, file_stats(file)) for file in files) if executor is None else _results(files, executor)
    for file, stats in results:
        total.add(stats)
        if progress is not None:
            progress(file)
    # In whatever order the files were done, the same answer: what is told of files by name, and of equal counts too.
    for told in (total.problems, total.unreadable):
        told.sort(key=itemgetter(0))
    for counts in (total.instructions, total.all_columns, total.kept_columns, total.cfas):
        ordered = sorted(counts.items())
        counts.clear()
        counts.update(dict(ordered))
    return total


def _results(files: Iterable[str], executor: Submits) -> Iterator[tuple[str, Stats]]:
    """What the tasks give, as they are done; in their order where the futures are not this library's own."""
    tasks = [(executor.submit(file_stats, file), file) for file in files]
    names: dict[Any, str] = {task: file for task, file in tasks if isinstance(task, Future)}
    try:
        if len(names) == len(tasks):
            for task in as_completed(names):
                yield names.pop(task), task.result()
        else:
            for task, file in tasks:
                yield file, task.result()
    except BrokenExecutor:
        raise Error(
            "a process that was reading files ended before it was done",
            hint="memory may have run out, or a file was cut while it was read; try again with fewer processes",
        ) from None
