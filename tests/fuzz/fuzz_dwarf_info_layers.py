"""Everything that is asked of a file's DWARF: addresses one by one and all at once, and the text of its symbol file."""

from __future__ import annotations

import numpy as np
from fuzz_dwarf_info_inputs import CODE_SIZE, CODE_START

from clew.image import Image
from clew.native.dwarf_assemble import Assembler
from clew.symbols import Symbolizer, SymbolMap
from clew.symbols.debug_file import DebugFiles
from clew.symbols.dwarf.info import DebugInfo
from clew.write.breakpad.dump import dump_symbols

#: Addresses that are looked up: in the code, at its ends, and where none is.
ADDRESSES = (*range(CODE_START - 1, CODE_START + CODE_SIZE + 2, 5), 0, 1, (1 << 64) - 1, -1, 1 << 64)
_LAST = (1 << 64) - 1


def symbolizer_of(blob: bytes) -> Symbolizer:
    """The symboliser of a file in memory, which looks nowhere else."""
    image = Image.from_bytes(blob)
    return Symbolizer(image, DebugFiles(image, image))


def read_everything(blob: bytes) -> None:
    """Looks up and writes; what is found in either way is compared where nothing is wrong with the file."""
    with symbolizer_of(blob) as symbols:
        one_by_one = [symbols.lookup(address) for address in ADDRESSES]
        inside = np.array([address for address in ADDRESSES if 0 <= address <= _LAST], np.uint64)
        check_map(symbols.whole)
        at_once = symbols._whole_lookup.frames_of(inside)
        for problem in symbols.problems:
            str(problem)
        if symbols.info is not None and not symbols.problems and _within_claims(symbols.info):
            for address, lazy, whole in zip(inside.tolist(), one_by_one, at_once, strict=False):
                assert (whole or symbols._symbol(address)) == lazy, hex(address)
        text = b"".join(dump_symbols(symbols, cfi=False).text())
        assert len(text) < 4096 + 300 * len(blob)


def check_map(symbols: SymbolMap) -> None:
    """What holds of a map whatever it was read from."""
    functions, lines, inlines = symbols.functions, symbols.lines, symbols.inlines
    assert (functions.size > 0).all()
    assert (functions.address[1:] - functions.address[:-1] >= functions.size[:-1]).all()
    assert (functions.first_line <= functions.end_line).all()
    assert (functions.end_line <= len(lines.address)).all()
    assert (functions.first_inline <= functions.end_inline).all()
    assert (functions.end_inline <= len(inlines.depth)).all()
    assert inlines.first_range[-1] == len(inlines.range_address)
    assert (np.diff(inlines.first_range.astype(np.int64)) > 0).all()
    for first, end in set(zip(functions.first_inline.tolist(), functions.end_inline.tolist(), strict=True)):
        # Preorder: each call is at most one deeper than the one before it, the first in the function itself.
        depth = inlines.depth[first:end].astype(np.int64)
        assert not len(depth) or (depth[0] == 0 and (np.diff(depth) <= 1).all())
    for first, end in set(zip(functions.first_line.tolist(), functions.end_line.tolist(), strict=True)):
        address, size = lines.address[first:end], lines.size[first:end].astype(np.uint64)
        assert (address[1:] >= address[:-1] + size[:-1]).all()


def _within_claims(info: DebugInfo) -> bool:
    """Whether each unit has its functions where it says that it has code: others are only found by reading all units."""
    starts, ends, owners, wordless = info.claims
    if wordless:
        return False
    for unit in range(info.unit_count):
        claimed = np.zeros(CODE_SIZE, bool)
        for start, end in zip(starts[owners == unit].tolist(), ends[owners == unit].tolist(), strict=True):
            claimed[start - CODE_START : end - CODE_START] = True
        assembler = Assembler()
        info.read(unit, assembler)
        address, size = assembler.function_columns()[:2]
        for start, length in zip(address.tolist(), size.tolist(), strict=True):
            if not claimed[start - CODE_START : start + length - CODE_START].all():
                return False
    return True
