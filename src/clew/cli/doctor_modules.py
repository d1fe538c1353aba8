"""What ``doctor`` finds out about a module: its file, its unwind table, its symbols."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from clew.cli.doctor_debug import debug_json, lacks_supplement, tried_json
from clew.errors import Error
from clew.target.module_files import MissingFileError

if TYPE_CHECKING:
    from clew.cli.doctor_stacks import ModuleUse, Observed
    from clew.cli.stack_names import FrameNames
    from clew.symbols import DebugFiles, SymbolSource
    from clew.table import Table
    from clew.target import Module

Tried = tuple[tuple[str, str], ...]
"""Paths that did not serve, each with the reason."""

_DELETED = " (deleted)"


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    """A module as the doctor sees it.

    Attributes:
        module: the module.
        frames: how many frames of the stacks are in it.
        guessed: how many of them have no row, and were left by something else than a rule.
        unnamed: addresses in it, the file's own, of frames that no symbol names.
        file: the file that is used, or None.
        tried: the paths where the file was looked for in vain; known only where none was found.
        trouble: why there is no file, or no table.
        covered: the share of its code for which the table has a row, 0 to 1; None where that is not known.
        symbols: where its symbols come from.
        debug: where its symbols and its DWARF are, and where they were looked for; None where they were not.
        servers: whether the environment names servers of debuginfod, so that they were asked, too.
    """

    module: Module
    frames: int
    guessed: int
    unnamed: tuple[int, ...]
    file: str | None
    tried: Tried
    trouble: Error | None
    covered: float | None
    symbols: tuple[SymbolSource, ...]
    debug: DebugFiles | None = None
    servers: bool = False

    @property
    def debug_tried(self) -> Tried:
        """The places where its symbols were looked for in vain."""
        return self.debug.symbols_tried if self.debug is not None and self.debug.symbols is None else ()

    @property
    def lacks_supplement(self) -> bool:
        """Whether its DWARF refers to a supplementary file that was not found."""
        return self.debug is not None and lacks_supplement(self.debug.dwarf, self.debug.alternate)

    @property
    def build_id(self) -> bytes | None:
        """The build id: as the target has it, else as the file has it."""
        image = self.module.image
        return self.module.build_id or (image.build_id if image is not None else None)

    @property
    def matches(self) -> bool | None:
        """Whether the file has the build id that is in the target; None where one of them is not known."""
        image = self.module.image
        own = image.build_id if image is not None and image.load_bias is None else None
        return None if own is None or self.module.build_id is None else own == self.module.build_id

    @property
    def from_memory(self) -> bool:
        """Whether it was read out of the target's memory, because no file was at hand."""
        return self.module.image is not None and self.module.image.load_bias is not None

    @property
    def is_kernels(self) -> bool:
        """Whether it has no file in the first place, as the vdso."""
        return self.module.name.startswith("[")

    @property
    def replaced(self) -> bool:
        """Whether its file was removed, or another took its place, while the process ran."""
        return self.module.name.endswith(_DELETED)


def examine(observed: Observed) -> list[ModuleFacts]:
    """The modules that the stacks go through, those with the most frames first."""
    found = [_facts(use, observed.names) for use in observed.uses.values()]
    return sorted(found, key=lambda facts: -facts.frames)


def _facts(use: ModuleUse, names: FrameNames) -> ModuleFacts:
    module = use.module
    trouble = module.trouble
    tried = trouble.tried if isinstance(trouble, MissingFileError) else ()
    image, table = module.image, module.table
    symbols = names.symbols(module)
    sources: tuple[SymbolSource, ...] = ()
    if symbols.names is not None:
        try:
            sources = tuple(symbols.names.sources)
        except Error:
            sources = ()
    covered = None
    if image is not None and table is not None:
        try:
            covered = coverage(table, image.code_ranges())
        except Error:
            covered = None
    return ModuleFacts(
        module=module,
        frames=use.frames,
        guessed=use.guessed,
        unnamed=tuple(sorted(use.unnamed)),
        file=None if image is None else image.name,
        tried=tried,
        trouble=trouble,
        covered=covered,
        symbols=sources,
        debug=symbols.debug,
        servers=names.places.debuginfod is not None,
    )


def coverage(table: Table, code: Iterable[tuple[int, int]]) -> float | None:
    """The share of code that a table has rows for, padding between functions included; None where there is no code.

    Args:
        table: in the addresses of the file.
        code: start and end of each range of code.
    """
    rows = table.normalise()
    here = rows.rule[:-1] != 0
    start, end = rows.start[:-1][here], rows.start[1:][here]
    covered = total = 0
    for low, high in code:
        first, last = np.clip(start, np.uint64(low), np.uint64(high)), np.clip(end, np.uint64(low), np.uint64(high))
        covered += int((last - first).sum())
        total += high - low
    return covered / total if total else None


def module_json(facts: ModuleFacts) -> dict[str, Any]:
    """The facts as JSON values; what is absent is unknown."""
    out: dict[str, Any] = {"module": facts.module.name, "frames": facts.frames}
    if facts.build_id is not None:
        out["build_id"] = facts.build_id.hex()
    file: dict[str, Any] = {"found": facts.file is not None}
    if facts.from_memory:
        file["from_memory"] = True
    elif facts.file is not None:
        file["path"] = facts.file
    if facts.matches is not None:
        file["build_id_matches"] = facts.matches
    out["file"] = file | tried_json(facts.tried)
    table = facts.module.table
    if table is not None:
        out["table"] = {"sections": list(table.ranges.sources), "fdes": len(table.ranges), "rows": table.row_count}
        out["table"]["lost"] = table.lost
        if facts.covered is not None:
            out["table"]["covered"] = round(facts.covered, 4)
    out["symbols"] = [
        {"file": source.file, "section": source.section, "count": len(source.table)} for source in facts.symbols
    ]
    out |= debug_json(facts)
    if facts.guessed:
        out["frames_without_row"] = facts.guessed
    if facts.unnamed:
        out["unnamed"] = [f"{address:#x}" for address in facts.unnamed]
    return out
