"""Where a file has its index of unwinding entries."""

from __future__ import annotations

from clew.arch import machine_for
from clew.errors import Error, Problem
from clew.image import Image
from clew.image.elf import ET_REL
from clew.read.arm_exidx.section import ExidxSection

EM_ARM = 40

NAME = ".ARM.exidx"
SHT_ARM_EXIDX = 0x7000_0001
PT_ARM_EXIDX = 0x7000_0001


def exidx_section(image: Image) -> ExidxSection | None:
    """The index of a program or library for 32-bit Arm, or None where there is none.

    It is found by its segment, as at run time, or by its section. Object files, which have one for each section of code,
    are not read.
    """
    if image.e_machine != EM_ARM or image.elf_class != 32 or image.type == ET_REL:
        return None
    by_name = [section for section in image.sections if section.name == NAME]
    if by_name and not any(section.has_data for section in by_name):
        # It holds what was stripped from another file, whose segments it tells.
        return None
    found = _by_segment(image) or _by_section(image)
    if found is None:
        return None
    address, data = found
    return ExidxSection(
        data,
        address=address,
        read=image.bytes_at,
        machine=machine_for(image.e_machine, image.elf_class, image.byte_order),
        code=image.code_ranges(),
        entry=image.entry,
    )


def _by_segment(image: Image) -> tuple[int, memoryview] | None:
    for segment in image.segments:
        if segment.type == PT_ARM_EXIDX and len(segment.data):
            return segment.address, segment.data
    return None


def _by_section(image: Image) -> tuple[int, memoryview] | None:
    for section in image.sections:
        if section.name == NAME and section.type == SHT_ARM_EXIDX and section.has_data:
            try:
                return section.address, memoryview(section.data)
            except Error as error:
                image.report(Problem(error.message, section.name, error.offset))
    return None
