"""Seeds for ``packed_fuzz.c`` and ``unwind_cfi_fuzz.c``: tables and sections of small libraries of this machine.

``packed_fuzz_seeds.py DIRECTORY`` fills ``DIRECTORY/packed`` and ``DIRECTORY/cfi``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import clew
from clew.table import AtExpression, CfaExpression, Expression, IsExpression, RegisterPlus, Rule, table_of
from clew.write.packed import packed

_LARGEST = 16000


def _tables() -> list[bytes]:
    found = [
        packed(
            table_of(
                "x86-64", [(0x1000, 0x1010, Rule(RegisterPlus(7, 8))), (0x1010, 0x1400, Rule(RegisterPlus(6, 16)))]
            )
        ),
        packed(table_of("aarch64", [(0x1000, 0x90000, Rule(RegisterPlus(31, 32)))])),
    ]
    expression = Expression(b"\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22", address_size=8, byte_order="little")
    rule = Rule(CfaExpression(expression), ((3, AtExpression(expression)), (16, IsExpression(expression))))
    found.append(packed(table_of("x86-64", [(0x1000, 0x1100, rule)])))
    return found


def fill(directory: Path, most: int = 200) -> None:
    """Writes seeds, of so many libraries at most."""
    tables, sections = directory / "packed", directory / "cfi"
    tables.mkdir(parents=True, exist_ok=True)
    sections.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(_tables()):
        (tables / f"made-{number}").write_bytes(bytes(16) + data)
    for path in sorted(Path("/usr/lib/x86_64-linux-gnu").glob("lib*.so.?"))[:most]:
        try:
            with clew.open_image(path) as image:
                data = packed(clew.read_table(image), image)
                if len(data) <= _LARGEST:
                    (tables / path.name).write_bytes(bytes(16) + data)
                header, frames = image.section(".eh_frame_hdr"), image.section(".eh_frame")
                if header is None or frames is None or frames.address - header.address + frames.size > 4000:
                    continue
                gap = frames.address - header.address - header.size
                if 0 <= gap < 64:
                    (sections / path.name).write_bytes(bytes(header.data) + bytes(gap) + bytes(frames.data))
        except clew.Error:
            continue


if __name__ == "__main__":
    fill(Path(sys.argv[1]))
