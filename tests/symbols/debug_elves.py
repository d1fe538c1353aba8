"""Small ELF files with what the search for debug files looks at."""

from __future__ import annotations

from pathlib import Path

from clew.testing import ElfBuilder

BUILD_ID = bytes.fromhex("ab12cd34ef56ab12cd34ef56ab12cd34ef56ab12")
OTHER_ID = bytes.fromhex("0123456789abcdef0123456789abcdef01234567")


def note(build_id: bytes) -> bytes:
    """An ``NT_GNU_BUILD_ID`` note: sizes of name and contents, type 3, the name."""
    return b"\4\0\0\0" + len(build_id).to_bytes(4, "little") + b"\3\0\0\0GNU\0" + build_id


def elf(
    build_id: bytes | None = BUILD_ID, *, symbol: str | None = None, dwarf: bool = False, **sections: bytes
) -> bytes:
    """An ELF file. Further sections by name, with ``_`` for ``.``, and ``__`` for ``_``."""
    file = ElfBuilder()
    file.section(".text", bytes(0x100), address=0x1000, executable=True)
    if build_id is not None:
        file.section(".note.gnu.build-id", note(build_id), type=7)
    if symbol is not None:
        file.symbol(symbol, 0x1000, size=0x40, section=".text")
    if dwarf:
        file.section(".debug_info", b"\1" * 64)
    for name, data in sections.items():
        file.section(name.replace("__", "\0").replace("_", ".").replace("\0", "_"), data)
    return file.build()


def linked(name: bytes, checksum: int) -> bytes:
    """The contents of ``.gnu_debuglink``: the name, zeros up to a multiple of four, the checksum."""
    name += b"\0" * (4 - len(name) % 4)
    return name + checksum.to_bytes(4, "little")


def supplement(name: bytes, checksum: bytes, *, itself: bool = False) -> bytes:
    """The contents of ``.debug_sup`` (DWARF 5, section 7.3.6): version, whether it is one, name, checksum with its size."""
    return b"\5\0" + bytes([itself]) + name + b"\0" + bytes([len(checksum)]) + checksum


def write(path: Path, data: bytes) -> str:
    """Writes a file, with the directories above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return str(path)


def by_build_id(directory: Path, build_id: bytes = BUILD_ID) -> Path:
    """Where a directory has the debug file with a build id."""
    return directory / ".build-id" / build_id.hex()[:2] / f"{build_id.hex()[2:]}.debug"
