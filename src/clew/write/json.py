"""A table as JSON, function by function, so that a large one is never in memory as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from clew.table import Table
from clew.write.text import Namer


def table_json(
    table: Table, file: str, name_of: Namer, problems: list[dict[str, Any]], start: int = 0, end: int | None = None
) -> Iterator[str]:
    """Pieces of one JSON document: machine, rules by number, and functions with their rows.

    Addresses and offsets are strings ``"0x…"``, everything else is a number; what is absent is unknown.
    """
    head = {
        "file": file,
        "machine": table.machine.name,
        "row_count": table.row_count,
        "problems": problems,
        "rules": [rule.to_json(table.machine) for rule in table.rules],
    }
    yield json.dumps(head, indent=1)[:-2] + ',\n "functions": ['
    ranges = table.ranges
    wanted = np.flatnonzero(ranges.end > np.uint64(start))
    if end is not None:
        wanted = wanted[ranges.start[wanted] < np.uint64(end)]
    comma = "\n  "
    for index in wanted.tolist():
        this = ranges[index]
        found = name_of(this.start)
        out: dict[str, Any] = {"start": f"{this.start:#x}", "end": f"{this.end:#x}"}
        if found is not None:
            out["function"], out["function_offset"] = found[0], f"{found[1]:#x}"
        out["section"], out["fde"] = this.source, f"{this.entry:#x}"
        if this.lsda:
            out["lsda"] = f"{this.lsda:#x}"
        if this.personality:
            out["personality"] = f"{this.personality:#x}"
        first, last = max(table.index(this.start), 0), table.index(this.end - 1)
        rows = []
        for row in range(first, last + 1):
            line: dict[str, Any] = {"start": f"{int(table.start[row]):#x}", "rule": int(table.rule[row])}
            if table.args_size is not None and table.args_size[row]:
                line["args_size"] = int(table.args_size[row])
            rows.append(line)
        out["rows"] = rows
        yield comma + json.dumps(out)
        comma = ",\n  "
    yield "\n ]\n}\n"
