"""The call frame information of a binary file: its sections, and one Table of them all."""

from __future__ import annotations

from clew.arch import Machine, machine_for
from clew.errors import Error, NotFoundError, Problem
from clew.image import Image, Section
from clew.read.dwarf_cfi.section import CfiSection
from clew.table import Table, merge

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
        only: the name of the one section that is wanted; it may be any that holds such bytes.

    Raises:
        NotFoundError: there is none, with what that means for this file.
    """
    found = [
        section
        for section in image.sections
        if (section.name == only if only else section.name in NAMES) and section.has_data and section.size
    ]
    found.sort(key=lambda section: NAMES.index(section.name) if section.name in NAMES else 0)
    out = [cfi for section in found if (cfi := _of_section(image, section)) is not None]
    if not any(cfi.eh for cfi in out) and only in (None, ".eh_frame"):
        # Stripped of its section headers, or in memory: the segment tells.
        bare = image.eh_frame()
        if bare is not None and not found:
            address, data = bare
            out.insert(0, _cfi(image, data[: _first_terminator(data, image.byte_order)], ".eh_frame", address))
    if not out:
        raise _absent(image, only)
    return out


def read_table(image: Image, only: str | None = None) -> Table:
    """One Table of all call frame information in a file, decoded. Where two sections have a rule, ``.eh_frame``'s counts.

    Raises:
        NotFoundError: there is none.
    """
    table = merge([section.table() for section in frame_sections(image, only)])
    return table if not image.problems else _with_problems(table, image.problems)


def _with_problems(table: Table, problems: list[Problem]) -> Table:
    from dataclasses import replace

    return replace(table, problems=(*problems, *table.problems))


def _of_section(image: Image, section: Section) -> CfiSection | None:
    try:
        data = section.data_at_layout
    except Error as error:
        image.report(Problem(error.message, section.name))
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


def _first_terminator(data: memoryview, byte_order: str) -> int:
    """Where the first entry of length zero ends: without a section header only it tells where the frames end."""
    at = 0
    while at + 4 <= len(data):
        length = int.from_bytes(data[at : at + 4], "big" if byte_order == "big" else "little")
        at += 4
        if length == 0:
            return at
        if length == 0xFFFFFFFF:
            length = int.from_bytes(data[at : at + 8], "big" if byte_order == "big" else "little")
            at += 8
        at += length
    return len(data)


def _absent(image: Image, only: str | None) -> NotFoundError:
    if only is not None:
        names = ", ".join(section.name for section in image.sections if section.name.startswith((".eh_", ".debug_f")))
        return NotFoundError(
            f"there is no section {only} with call frame information",
            file=image.name,
            hint=f"it has {names}" if names else "run clew stats on it to see what it has",
        )
    empty = [section.name for section in image.sections if section.name in NAMES and not section.has_data]
    if empty:
        return NotFoundError(
            f"{empty[0]} is there by name only: this file holds what was stripped from another",
            file=image.name,
            hint="name the file that is loaded and run instead",
        )
    if image.problems:
        return NotFoundError(
            f"no call frame information could be read: {image.problems[0]}",
            file=image.name,
        )
    return NotFoundError(
        "there is no .eh_frame and no .debug_frame",
        file=image.name,
        hint="it was built without unwind tables (see the compiler's -fasynchronous-unwind-tables)",
    )
