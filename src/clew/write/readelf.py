"""The text of a file's frame tables exactly as GNU readelf prints it: binutils 2.40, in the C locale.

:func:`frames_text` makes what ``readelf -wN --debug-dump=frames-interp`` writes to its standard output (rows), or
``--debug-dump=frames`` (*raw*: instructions), byte for byte. Programs parse that text, and people compare it. For that,
what is readelf's and not DWARF's has to be kept too:

- An entry is read twice. The first pass finds the registers that it mentions, which get a column each; the second
  prints. The passes disagree on bad programs (an expression longer than the entry ends the first and not the second,
  an unknown opcode the other way round); a register that only the second finds is a "bad register".
- Columns reach at least as far as those of the row printed last in the section. A register beyond the machine's table
  is refused; where readelf has no table, one of 1024 or more is refused *and takes the entry's columns with it*.
- A register that the CIE does not mention is restored to "u". In a CIE's own program, restoring changes nothing.
- Remembered rows are a stack of the section: an FDE can restore what another one remembered, of another width even, and
  the return-address column with it.
- An FDE begins with its CIE's CFA, but not with its being an expression.
- An FDE whose CIE stands behind it begins with an empty row, and once prints the CIE's length instead of its own.
- An entry whose program is nothing but nops has no row. A CIE's own rows begin at address 0.
- ``advance_loc`` multiplies in 32 bits, the others in 64. A CFA's offset prints as 32 bits, a column's as 64.
- Register numbers, alignment factors and the return-address column are cut to 32 bits and print signed.
- Addresses and lengths print as wide as the CIE's addresses. The address size of a version 4 CIE counts until its entry
  ends, and in its FDEs, except for the width of the range, which without an encoding is the file's. A CIE that ends the
  listing leaves its address size to the next section.
- Pointer encodings: LEB128 forms are read as addresses; every base but pc-relative is ignored, and so is indirection.
- In a 64-bit entry of ``.eh_frame`` the CIE pointer counts from four bytes before the end of its field.
- Opcode 0x1d is always ``DW_CFA_MIPS_advance_loc8``. 0x2d has AArch64's name there, else SPARC's, and changes nothing.
  Others from 0x1c on print as user defined and end the entry, even in the rows; unknown ones below end it silently.
- Numbers that the data cut short are made of the bytes that are left; LEB128 bits beyond 64 are dropped.
- A CIE that cannot be read, or whose return-address column is refused, ends the section's listing.

Warnings, which readelf writes to its standard error, become problems; their wording and number differ from readelf's.
"""

from __future__ import annotations

from collections.abc import Iterator

from clew.arch import Machine, machine_for
from clew.errors import Error, Problem
from clew.image import Image, Section
from clew.native.readelf_text import FrameText
from clew.write.readelf_expression import ExpressionText

_EM_AARCH64 = 183
_SHT_NOBITS = 8

#: The names of frame sections. readelf also tries others that begin with one of the last two, and does not know them.
_NAMES = (".eh_frame", ".debug_frame", ".zdebug_frame")

#: Registers whose names the compiled core is told in advance.
_COMMON = 256


def frames_text(image: Image, *, raw: bool = False, problems: list[Problem] | None = None) -> Iterator[bytes]:
    """What GNU readelf 2.40 prints of a file's frame sections, in pieces of about a mebibyte.

    Args:
        image: the file.
        raw: the instructions, as ``--debug-dump=frames``, instead of the rows of ``--debug-dump=frames-interp``.
        problems: gets what is wrong with the tables. Those with ``lost`` are about something that is not in the text.

    Sections come in the order of the section headers; a file without frame sections gives no text. Memory stays bounded
    by a multiple of the largest section, but the text of a malicious file may be many times its size: every row
    repeats all columns.
    """
    found: list[Problem] = [] if problems is None else problems
    machine = machine_for(image.e_machine, image.elf_class, image.byte_order)
    address_size = _address_size(image)
    for section in _frame_sections(image):
        name = section.name
        if section.size == 0:
            yield b"\nSection '%s' has no debugging data.\n" % _printable(name)
        elif section.type == _SHT_NOBITS:
            found.append(Problem("the file does not hold the section's contents", name))
            yield b"section '%s' has the NOBITS type - its contents are unreliable.\n" % _printable(name)
        elif name not in _NAMES:
            found.append(Problem("no frame section has this name", name))
            yield b"Unrecognized debug section: %s\n" % _printable(name)
        else:
            data = _contents(section, found)
            if data is None:
                continue
            yield b"Contents of the %s section:\n\n" % name.encode()
            text = _section_text(image, section, data, machine, address_size, raw)
            while piece := text.more():
                yield piece
            yield b"\n"
            address_size = text.address_size
            found.extend(Problem(message, name, offset) for offset, message in text.problems)


def readelf_fails(image: Image) -> bool:
    """Whether readelf exits with 1 after printing this file's frame sections; about anything else it only warns."""
    return any(
        section.size and (section.type == _SHT_NOBITS or section.name not in _NAMES)
        for section in _frame_sections(image)
    )


def _frame_sections(image: Image) -> Iterator[Section]:
    """The sections that readelf takes for frame sections, in the order of their headers."""
    for section in image.sections:
        if section.is_named(b".eh_frame") or section.name.startswith((".debug_frame", ".zdebug_frame")):
            yield section


def _section_text(
    image: Image, section: Section, data: memoryview, machine: Machine, address_size: int, raw: bool
) -> FrameText:
    """The listing of one section, not yet begun."""
    big = image.byte_order == "big"

    def encoded_name(number: int) -> bytes | None:
        name = machine.readelf_name(number)
        return name.encode() if name is not None else None

    def name_or_number(number: int) -> str:
        # The number prints as a C int.
        return machine.readelf_name(number) or f"r{number - (1 << 32) if number >> 31 else number}"

    return FrameText(
        data,
        section.address,
        section.name == ".eh_frame",
        big,
        address_size,
        [encoded_name(number) for number in range(_COMMON)],
        machine.readelf_names,
        encoded_name,
        image.e_machine == _EM_AARCH64,
        raw,
        ExpressionText(data, section.address, big, name_or_number).pieces,
    )


def _contents(section: Section, problems: list[Problem]) -> memoryview | None:
    """The section's bytes, or None if readelf would not get them either."""
    if len(section.raw) < section.size:
        problems.append(Problem("the file ends before the section does", section.name))
        return None
    try:
        return section.data
    except Error as error:
        problems.append(Problem(error.message, section.name, error.offset))
        return None


def _address_size(image: Image) -> int:
    """The width of addresses in frame sections, in bytes: the file's class, but for ABIs that mix them.

    Source: the processor supplements' ``e_flags``, as GNU binutils names them (``elf/mips.h``, ``h8.h``, ``m32c.h``).
    """
    flags = image.header.flags
    machine = image.e_machine
    if machine in (8, 10) and flags & 0xF000 == 0x4000:  # MIPS, EABI64
        if not any(section.is_named(b".gcc_compiled_long32") for section in image.sections):
            return 8
    elif machine in (46, 47):  # H8/300, H8/300H
        variant = flags & 0xFF0000
        if variant in (0x800000, 0x830000, 0x840000, 0x860000):  # H8/300, and the normal modes of the others
            return 2
        if variant in (0x810000, 0x820000, 0x850000):  # H8/300H, H8S, H8SX
            return 4
    elif machine in (120, 0xFEB0) and flags & 0x7F == 0x75:  # M16C
        return 2
    return image.elf_class // 8


def _printable(name: str) -> bytes:
    """A section's name as in readelf's messages: control characters as ``^X``, bytes outside ASCII as ``<XX>``."""
    text = b""
    for byte in name.encode():
        if byte < 0x20 or byte == 0x7F:
            text += b"^%c" % (byte + 0x40 & 0xFF)
        elif byte < 0x7F:
            text += b"%c" % byte
        else:
            text += b"<%02X>" % byte
    return text[:256]
