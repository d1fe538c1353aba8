"""The numbers by which records of a symbol file name other records."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from clew.native.breakpad_fields import MOST_TOLD
from clew.read.breakpad.flaws import Flaws
from clew.read.breakpad.records import NO_NUMBER, NamedRecords

U32 = npt.NDArray[np.uint32]


def resolved(wanted: U32, named: NamedRecords) -> tuple[U32, npt.NDArray[np.bool_]]:
    """For each number the index of the first record that has it, :data:`NO_NUMBER` for none; and which name one in vain."""
    number = named.number
    count = len(number)
    if count and int(number.max()) < 4 * count + 1024:
        # Numbers as everybody writes them: a table by number. Filled backwards, so that the first record of a number stays.
        table = np.full(int(number.max()) + 2, NO_NUMBER, np.uint32)
        table[number[::-1]] = np.arange(count - 1, -1, -1, dtype=np.uint32)
        found = table[np.minimum(wanted, np.uint32(len(table) - 1))]
    elif count:
        known, first = np.unique(number, return_index=True)
        at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        found = np.where(known[at] == wanted, first[at].astype(np.uint32), np.uint32(NO_NUMBER))
    else:
        found = np.full(len(wanted), NO_NUMBER, np.uint32)
    return found, (found == NO_NUMBER) & (wanted != NO_NUMBER)


def tell_duplicates(named: NamedRecords, what: str, flaws: Flaws) -> None:
    """Tells of records whose number another one has."""
    order = np.argsort(named.number, kind="stable")
    again = order[1:][named.number[order][1:] == named.number[order][:-1]]
    tell(flaws, f"another {what} record has this number; the first one counts", named.text_line[again])


def tell(flaws: Flaws, message: str, lines: npt.NDArray[Any]) -> None:
    """Tells of a flaw in these lines, if there are any."""
    if len(lines):
        flaws.add(message, np.sort(lines)[:MOST_TOLD].tolist(), count=len(lines))
