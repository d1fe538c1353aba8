"""What tells whether a file is the debug file of another, and what is in it."""

from __future__ import annotations

from zlib import crc32

from clew.image import Image

_PIECE = 1 << 24
#: Larger files are sparse, or no debug files; reading one would take minutes.
_LARGEST = 1 << 34


def other_build_id(image: Image, build_id: bytes) -> str | None:
    """Why a file is not the one with this build id, or None where it is."""
    own = image.build_id
    if own == build_id:
        return None
    if own is None:
        # Where the headers are not there, neither is the build id.
        return cut(image) or "has no build id that says that it belongs to the file"
    return f"has build id {own.hex()}, not {build_id.hex()}"


def without_symbols(image: Image) -> str | None:
    """Why a file does not serve where all symbols are wanted, or None where it does."""
    # What is whole in the file itself counts, even where that was cut.
    return None if len(image.symbols("symtab")) else cut(image) or "has no symbols"


def without_dwarf(image: Image) -> str | None:
    """Why a file does not serve where lines and inlined calls are wanted, or None where it does."""
    if image.section(".stab") is not None and not _holds(image, ".debug_info"):
        return "has debugging information in STABS, which is not read"
    for name in (".debug_info", ".debug_line"):
        if _holds(image, name):
            return cut(image)
    return cut(image) or "has no DWARF"


def without_supplement(image: Image) -> str | None:
    """Why a file does not serve as the supplement of others, or None where it does. Often it has strings and no units."""
    for name in (".debug_info", ".debug_str"):
        if _holds(image, name):
            return cut(image)
    return cut(image) or "has no DWARF"


def cut(image: Image) -> str | None:
    """What is missing of a file that was cut short, or None where nothing is."""
    header, end = image.header, image.source.size
    if header.section_offset and header.section_offset + header.section_size * max(header.section_count, 1) > end:
        return "is cut: its section headers are missing"
    for section in image.sections:
        if section.has_data and section.size and section.offset + section.size > end:
            return f"is cut: of {section.name or 'a section'} {max(end - section.offset, 0):,} bytes are there"
    return None


def other_checksum(image: Image, checksum: int) -> str | None:
    """Why a file is not the one of which ``.gnu_debuglink`` has this CRC-32, or None where it is."""
    if image.source.size > _LARGEST:
        return "is too large for its checksum to be computed"
    value = 0
    for start in range(0, image.source.size, _PIECE):
        value = crc32(image.source.slice(start, _PIECE), value)
    return None if value == checksum else "has another checksum than .gnu_debuglink says"


def _holds(image: Image, name: str) -> bool:
    section = image.section(name)
    return section is not None and section.has_data and section.size > 0
