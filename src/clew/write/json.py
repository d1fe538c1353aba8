"""A table as JSON, function by function, so that a large one is never in memory as text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from clew.table import Table
from clew.write.functions import Function, Namer, functions


def table_json(
    table: Table,
    file: str,
    name_of: Namer,
    problems: list[dict[str, Any]],
    within: Sequence[tuple[int, int]] | None = None,
) -> Iterator[str]:
    """Pieces of one JSON document: machine, rules, and functions with their rows.

    Rows name their rules by index; only rules that a row names are there. Addresses and offsets are strings ``"0x…"``,
    everything else is a number; what is absent is unknown.

    Args:
        within: only functions that count somewhere in these ``(start, end)`` addresses.
    """
    chosen: Iterable[Function] = functions(table, name_of, within)
    if within is None:
        used = np.unique(table.rule).tolist()
    else:
        chosen = list(chosen)
        used = sorted({number for function in chosen for number in function.rule})
    index = {number: place for place, number in enumerate(used)}
    head = {"file": file, "machine": table.machine.name, "row_count": table.row_count, "problems": problems}
    yield json.dumps(head, indent=1)[:-2] + ","
    yield from _list("rules", (table.rules[number].to_json(table.machine) for number in used))
    yield ","
    yield from _list("functions", (_function(function, index) for function in chosen))
    yield "\n}\n"


def _list(key: str, values: Iterable[object]) -> Iterator[str]:
    """A key with a list of values, one a line."""
    yield f'\n "{key}": ['
    comma = ""
    for value in values:
        yield f"{comma}\n  {json.dumps(value)}"
        comma = ","
    yield "\n ]"


def _function(function: Function, index: dict[int, int]) -> dict[str, Any]:
    this = function.range
    out: dict[str, Any] = {"start": f"{this.start:#x}", "end": f"{this.end:#x}"}
    if function.name is not None:
        out["function"], out["function_offset"] = function.name, f"{function.offset:#x}"
    out["section"], out["fde"] = this.source, f"{this.entry:#x}"
    if this.lsda:
        out["lsda"] = f"{this.lsda:#x}"
    if this.personality:
        out["personality"] = f"{this.personality:#x}"
    rows = out["rows"] = []
    for start, number, args_size in zip(function.start, function.rule, function.args_size, strict=True):
        row: dict[str, Any] = {"start": f"{start:#x}", "rule": index[number]}
        if args_size:
            row["args_size"] = args_size
        rows.append(row)
    return out
