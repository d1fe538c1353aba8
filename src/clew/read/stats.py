"""What unwind tables are made of: sizes, rows, rules and instructions, of one file or of a whole directory.

The counts of register rules are those of tables 3 and 4 of Bastian, Kell and Zappa Nardelli, "Reliable and fast DWARF-based
stack unwinding" (OOPSLA 2019): one a row and register that the row names, for the registers that their compiled unwinders
keep (the CFA, rip, rsp, rbp, rbx) and for all.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, as_completed
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from clew.errors import Error, NotFoundError, Problem
from clew.image import Image
from clew.read.dwarf_cfi.instructions import instruction_name
from clew.read.dwarf_cfi.section import CfiSection
from clew.read.frames import frame_sections
from clew.table import AtExpression, CfaExpression, InvalidExpression, IsExpression, Rule, Table, merge

#: Kinds of register rules, as the paper's table 4 names them.
KINDS = {
    "Undefined": "undefined",
    "SameValue": "same_value",
    "AtCfa": "offset",
    "CfaPlus": "val_offset",
    "InRegister": "register",
    "AtExpression": "expression",
    "IsExpression": "val_expression",
    "Architectural": "architectural",
}


@dataclass(slots=True)
class Stats:
    """Counts over one file, or the sum over several.

    Attributes:
        files: files with unwind tables.
        section_bytes: bytes of their sections.
        cies, fdes: entries.
        code_bytes: bytes of code that they describe.
        rows: decoded rows, gaps not counted; normalised_rows: after merging what is equal and padding.
        rules: different rules of each file, summed.
        instructions: by name.
        all_columns, kept_columns: register rules by kind, one a row and register: of all registers, and of those that the
            paper's unwinders keep.
        cfas: rows whose CFA is a register plus an offset, an expression, or unset.
        expressions: uses of expressions in rows, the CFA's included; unreadable_expressions of them say nothing.
        lost: entries that could not be read.
        problems: what was wrong, with the file it was wrong in.
        unreadable: files that could not be read at all, and why.
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
        """The counts as JSON values; lists of problems as their numbers."""
        return {
            name: dict(value.most_common()) if isinstance(value := getattr(self, name), Counter) else value
            for name in self.__slots__
            if name not in ("problems", "unreadable")
        } | {"unreadable": [{"file": file, "message": message} for file, message in self.unreadable]}


def read_stats(path: str | os.PathLike[str]) -> Stats:
    """The counts of one file.

    Raises:
        Error: as :meth:`clew.image.Image.open` and :func:`clew.read.frames.frame_sections`.
    """
    with Image.open(path) as image:
        return _image_stats(image, os.fspath(path))


def file_stats(path: str | os.PathLike[str]) -> Stats:
    """As :func:`read_stats`; a file without unwind tables counts nothing, one that cannot be read is in ``unreadable``."""
    try:
        return read_stats(path)
    except NotFoundError:
        return Stats()
    except Error as error:
        return Stats(unreadable=[(os.fspath(path), str(error))])


def _image_stats(image: Image, name: str) -> Stats:
    sections = frame_sections(image)
    tables = [section.table() for section in sections]
    table = merge(tables)
    stats = Stats(files=1)
    for section in sections:
        stats.section_bytes += len(section.data)
        stats.cies += len(section.cies)
        stats.fdes += len(section)
        _count_instructions(stats, section)
    stats.rows = sum(one.row_count for one in tables)
    normalised = table.normalise()
    stats.normalised_rows = normalised.row_count
    known = normalised.rule[:-1] != 0
    stats.code_bytes = int(np.diff(normalised.start)[known].sum())
    for one in tables:
        _count_rules(stats, one)
        stats.lost += one.lost
        stats.problems += [(name, problem) for problem in one.problems]
    stats.problems += [(name, problem) for problem in image.problems]
    return stats


def _count_instructions(stats: Stats, section: CfiSection) -> None:
    census = section.census()
    for opcode, count in enumerate(census):
        if count:
            found = instruction_name(opcode, section.machine.cfa_dialect)
            stats.instructions[found or f"unknown {opcode:#04x}"] += count


def _count_rules(stats: Stats, table: Table) -> None:
    uses = np.bincount(table.rule, minlength=len(table.rules)).tolist() if len(table.rule) else []
    machine = table.machine
    stats.rules += sum(1 for number, count in enumerate(uses) if count and number)
    kept = {machine.stack_pointer, machine.frame_pointer}
    kept |= {machine.register_number("rbx")} if machine.name == "x86-64" else set()
    for number, count in enumerate(uses):
        if not count or not number:
            continue
        rule = table.rules[number]
        cfa = rule.cfa
        expression = isinstance(cfa, CfaExpression)
        stats.cfas["unset" if cfa is None else "expression" if expression else "register"] += count
        for register, term in rule.registers:
            kind = KINDS[type(term).__name__]
            stats.all_columns[kind] += count
            if register in kept or register == rule.return_address:
                stats.kept_columns[kind] += count
        _count_expressions(stats, rule, count)


def _count_expressions(stats: Stats, rule: Rule, count: int) -> None:
    terms = [rule.cfa, *(term for _, term in rule.registers)]
    for term in terms:
        if isinstance(term, CfaExpression | AtExpression | IsExpression):
            stats.expressions += count
            stats.unreadable_expressions += count * isinstance(term.expression, InvalidExpression)


def elf_files(paths: Iterable[str | os.PathLike[str]]) -> Iterator[str]:
    """The ELF files among and below paths, each once however many names it has. Directories are searched, links inside them
    are not followed; a file that is named itself is taken as it is."""
    seen: set[tuple[int, int]] = set()
    for name in paths:
        path = os.fspath(name)
        if not os.path.isdir(path):
            yield path
            continue
        for folder, _, files in os.walk(path):
            for file in (os.path.join(folder, each) for each in sorted(files)):
                try:
                    info = os.lstat(file)
                    if info.st_mode & 0o170000 != 0o100000 or info.st_size < 52 or (info.st_dev, info.st_ino) in seen:
                        continue
                    with open(file, "rb") as stream:
                        if stream.read(4) != b"\x7fELF":
                            continue
                except OSError:
                    continue
                seen.add((info.st_dev, info.st_ino))
                yield file


def survey(
    files: Iterable[str],
    executor: Executor | None = None,
    progress: Callable[[str], None] | None = None,
) -> Stats:
    """The sum of the counts of many files.

    Args:
        executor: where the files are read, one task a file: a process pool, or anything with the interface of
            :class:`concurrent.futures.Executor`, such as a Dask client. Without one they are read here.
        progress: told each file that is done.
    """
    total = Stats()
    if executor is None:
        for file in files:
            total.add(file_stats(file))
            if progress is not None:
                progress(file)
        return total
    tasks: dict[Future[Stats], str] = {executor.submit(file_stats, file): file for file in files}
    for task in _completed(tasks):
        total.add(task.result())
        if progress is not None:
            progress(tasks[task])
    return total


def _completed(tasks: dict[Future[Stats], str]) -> Iterator[Future[Stats]]:
    """The tasks as they are done; in their order where the futures are not this library's own."""
    if all(isinstance(task, Future) for task in tasks):
        return as_completed(tasks)
    return iter(tasks)
