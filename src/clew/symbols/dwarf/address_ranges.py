"""``.debug_aranges``: which code each unit has (DWARF 2, 6.1.2)."""

from __future__ import annotations

from clew.native.cursor import Cursor, Malformed


def read_address_ranges(data: memoryview, big: bool) -> dict[int, list[tuple[int, int]]]:
    """The code of each unit, as (start, end), by the unit's offset in ``.debug_info``.

    What makes no sense ends its set, or, where not even the next set is to be found, everything: other sections say the same.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    at = 0
    while at < len(data):
        cursor = Cursor(data, at, None, big)
        try:
            length = cursor.read_fixed(4)
            width = 8 if length == 0xFFFFFFFF else 4
            if width == 8:
                length = cursor.read_fixed(8)
            start, at = at, cursor.pos + length
            cursor.read_fixed(2)
            unit = cursor.read_fixed(width)
            size, segment = cursor.read_fixed(1), cursor.read_fixed(1)
            if size not in (4, 8) or segment:
                continue
            # Pairs are aligned as if they were one number, counted from where the set begins.
            cursor.pos += -(cursor.pos - start) % (2 * size)
            ranges = found.setdefault(unit, [])
            while cursor.pos + 2 * size <= min(at, len(data)):
                low, length = cursor.read_fixed(size), cursor.read_fixed(size)
                if low == length == 0:
                    break
                ranges.append((low, low + length))
        except Malformed:
            break
    return found
