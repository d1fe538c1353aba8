"""How much memory a Table takes while it is built, beside what it takes when it is done.

Run as ``python memory.py FILE`` in a process of its own: prints a line of JSON. The peak is the growth of the resident
set at its highest (VmHWM) over what it was before, so numpy's buffers count as much as Python's objects do.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from pathlib import Path

import inputs


def status(name: str) -> int:
    """A figure of ``/proc/self/status``, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"/proc/self/status has no {name}")


def measure(path: str) -> dict[str, int]:
    """Bytes: the section, the peak while its Table is built, what stays, the row columns, all columns."""
    from clew.testing import Cfa, CfiBuilder

    cfi = inputs.load(path)
    # The first use imports modules and fills free lists: that is not the Table's.
    small = CfiBuilder(byte_order=cfi.machine.byte_order, address_size=cfi.machine.address_size)
    small.fde(small.cie(instructions=[Cfa.def_cfa(7, 8)]), start=0x1000, size=16, instructions=[Cfa.advance(1)])
    if not len(inputs.decode(inputs.Cfi(small.build(), ".eh_frame", 0, cfi.machine, None, None))):
        raise SystemExit("the first use of clew made no rows")
    gc.collect()
    # Sets the highest back to what is resident now (proc(5), clear_refs).
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    table = inputs.decode(cfi)
    peak = status("VmHWM") - before
    gc.collect()
    kept = status("VmRSS") - before
    ranges = table.ranges
    total = table.nbytes + sum(column.nbytes for column in ranges.columns)
    return {"section": len(cfi.data), "peak": peak, "kept": kept, "rows": table.nbytes, "table": total}


def in_a_fresh_process(path: str) -> dict[str, int]:
    """:func:`measure` where nothing was measured before."""
    answer = subprocess.run([sys.executable, __file__, path], check=True, capture_output=True, text=True)
    result: dict[str, int] = json.loads(answer.stdout)
    return result


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
