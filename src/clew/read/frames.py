"""The unwind tables of a binary file: its sections of call frame information, and one Table of everything it has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from clew.arch import Machine, machine_for
from clew.errors import Error, NotFoundError, Problem
from clew.image import Image, Section
from clew.image.elf import EM_ARM, ET_CORE, ByteOrder
from clew.read.dwarf_cfi.section import CfiSection
from clew.table import Table, merge

if TYPE_CHECKING:
    from clew.read.arm_exidx import ExidxSection

ARM_EXIDX = ".ARM.exidx"
"""The index of 32-bit Arm's exception handling ABI."""

#: The sections that hold call frame information, in the order in which they count.
NAMES = (".eh_frame", ".debug_frame", ".zdebug_frame")


def machine_of(image: Image) -> Machine:
    """The machine that a file is for."""
    return machine_for(image.e_machine, image.elf_class, image.byte_order)


def frame_sections(image: Image, only: str | None = None) -> list[CfiSection]:
    """The sections of call frame information that a file has, ``.eh_frame`` first.

    In an object file they are relocated to the addresses of :meth:`clew.image.Image.section_addresses`, so that functions
    of different sections do not lie upon each other. What cannot be read is in ``image.problems``.

    Args:
        only: the name of the one section that is wanted; it may be any that holds such bytes. ``.debug_frame`` is also
            found under its old compressed name, ``.zdebug_frame``.

    Raises:
        NotFoundError: there is none, with what that means for this file.
    """
    names = NAMES if only is None else (only, only.replace(".debug", ".zdebug"))
    named = [section for section in image.sections if section.name in names]
    there = [section for section in named if section.has_data and section.size]
    there.sort(key=lambda section: names.index(section.name))
    if only == ARM_EXIDX:
        # Its entries are no call frame information.
        raise _absent(image, only)
    found = [cfi for section in there if (cfi := _of_section(image, section)) is not None]
    # A file stripped of its section headers, or in memory, still tells by a segment. One that has the section by name only
    # does not: its segments are those of another file.
    if not named and only in (None, ".eh_frame"):
        bare = image.eh_frame()
        if bare is not None:
            address, data = bare
            found.append(_cfi(image, data[: _first_terminator(data, image.byte_order)], ".eh_frame", address))
    if not found:
        raise _absent(image, only)
    return found


def unwind_tables(image: Image, only: str | None = None) -> list[Table]:
    """The tables of a file, decoded, in the order in which they count.

    First those of :func:`frame_sections`, which are true at every instruction; then, for 32-bit Arm, the index of its
    exception handling ABI, ``.ARM.exidx``, which is true at calls.

    Raises:
        NotFoundError: there is none.
    """
    exidx = _exidx_section(image) if only in (None, ARM_EXIDX) else None
    if only == ARM_EXIDX and exidx is None:
        raise _absent(image, only)
    try:
        sections = frame_sections(image, only) if only != ARM_EXIDX else []
    except NotFoundError:
        if exidx is None:
            raise
        sections = []
    return [section.table() for section in sections] + ([exidx.table()] if exidx is not None else [])


def read_table(image: Image, only: str | None = None) -> Table:
    """One Table of all that a file has, decoded. Where two sections have a rule, that of :func:`unwind_tables`' first counts.

    The problems of the image are the Table's too.

    Raises:
        NotFoundError: there is none.
    """
    table = merge(unwind_tables(image, only))
    return replace(table, problems=(*image.problems, *table.problems)) if image.problems else table


def _exidx_section(image: Image) -> ExidxSection | None:
    if image.e_machine != EM_ARM:
        return None
    from clew.read.arm_exidx import exidx_section

    return exidx_section(image)


def _of_section(image: Image, section: Section) -> CfiSection | None:
    try:
        data = section.data_at_layout
    except Error as error:
        image.report(Problem(error.message, section.name, error.offset))
        return None
    return _cfi(image, data, section.name.replace(".zdebug", ".debug"), section.layout_address)


def _cfi(image: Image, data: memoryview, name: str, address: int) -> CfiSection:
    return CfiSection(
        data,
        name=name,
        address=address,
        machine=machine_of(image),
        address_size=image.address_size,
        text_base=image.text_address(),
        data_base=image.got_address(),
        code=image.code_ranges() or None,
    )


def _first_terminator(data: memoryview, order: ByteOrder) -> int:
    """Where the first entry of length zero ends: without a section header only it tells where the frames end."""
    at = 0
    while at + 4 <= len(data):
        length = int.from_bytes(data[at : at + 4], order)
        at += 4
        if length == 0:
            return at
        if length == 0xFFFFFFFF:
            length = int.from_bytes(data[at : at + 8], order)
            at += 8
        at += length
    return len(data)


def _absent(image: Image, only: str | None) -> NotFoundError:
    """Why a file has no call frame information, in the words of the most particular reason."""
    there = [section.name for section in image.sections if section.name in NAMES]
    empty = [section.name for section in image.sections if section.name in NAMES and not section.has_data]
    hint: str | None = None
    if image.type == ET_CORE:
        message = "this is a core file: the tables are in the program that it is of, and in that one's libraries"
        hint = "name the program; `file` tells which one it was"
    elif empty and only in (None, *empty):
        message = f"{empty[0]} is there by name only: this file holds what was stripped from another"
        hint = "name the file that is loaded and run instead"
    elif only in (None, ARM_EXIDX) and _exidx_section(image) is not None:
        message = f"its unwind table is {ARM_EXIDX}, which has no call frame information"
        hint = "`clew table` prints it"
    elif image.problems:
        message = f"no call frame information could be read: {image.problems[0]}"
    elif only is not None:
        message = f"there is no section {only}, or it is empty"
        hint = f"it has {', '.join(dict.fromkeys(there))}" if there else None
    else:
        message = "there is no .eh_frame and no .debug_frame"
        hint = "it was built without unwind tables (see the compiler's -fasynchronous-unwind-tables)"
    return NotFoundError(message, file=image.name, hint=hint)
