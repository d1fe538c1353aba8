"""Numbers of DWARF by name, those that tests of symbols need; anything that takes them takes plain numbers too.

Sources: DWARF 5, 7.5.1 (units), 7.5.3 (tags), 7.5.4 (attributes), 7.12 (languages), 7.20 (inline codes); binutils'
``include/dwarf2.def`` (what GNU adds).
"""

from __future__ import annotations

from enum import IntEnum


class UnitType(IntEnum):
    """``DW_UT_*``."""

    COMPILE = 1
    TYPE = 2
    PARTIAL = 3
    SKELETON = 4
    SPLIT_COMPILE = 5
    SPLIT_TYPE = 6


class Tag(IntEnum):
    """``DW_TAG_*``."""

    CLASS_TYPE = 0x02
    FORMAL_PARAMETER = 0x05
    IMPORTED_DECLARATION = 0x08
    LABEL = 0x0A
    LEXICAL_BLOCK = 0x0B
    POINTER_TYPE = 0x0F
    COMPILE_UNIT = 0x11
    STRUCTURE_TYPE = 0x13
    SUBROUTINE_TYPE = 0x15
    TYPEDEF = 0x16
    UNION_TYPE = 0x17
    INLINED_SUBROUTINE = 0x1D
    MODULE = 0x1E
    BASE_TYPE = 0x24
    SUBPROGRAM = 0x2E
    TEMPLATE_TYPE_PARAMETER = 0x2F
    TEMPLATE_VALUE_PARAMETER = 0x30
    VARIABLE = 0x34
    NAMESPACE = 0x39
    IMPORTED_MODULE = 0x3A
    PARTIAL_UNIT = 0x3C
    IMPORTED_UNIT = 0x3D
    TYPE_UNIT = 0x41
    CALL_SITE = 0x48
    SKELETON_UNIT = 0x4A
    GNU_CALL_SITE = 0x4109


class At(IntEnum):
    """``DW_AT_*``."""

    SIBLING = 0x01
    LOCATION = 0x02
    NAME = 0x03
    BYTE_SIZE = 0x0B
    STMT_LIST = 0x10
    LOW_PC = 0x11
    HIGH_PC = 0x12
    LANGUAGE = 0x13
    COMP_DIR = 0x1B
    CONST_VALUE = 0x1C
    INLINE = 0x20
    PRODUCER = 0x25
    PROTOTYPED = 0x27
    ABSTRACT_ORIGIN = 0x31
    ARTIFICIAL = 0x34
    DATA_MEMBER_LOCATION = 0x38
    DECL_COLUMN = 0x39
    DECL_FILE = 0x3A
    DECL_LINE = 0x3B
    DECLARATION = 0x3C
    ENCODING = 0x3E
    EXTERNAL = 0x3F
    FRAME_BASE = 0x40
    SPECIFICATION = 0x47
    TYPE = 0x49
    USE_UTF8 = 0x53
    IMPORT = 0x18
    ENTRY_PC = 0x52
    RANGES = 0x55
    CALL_COLUMN = 0x57
    CALL_FILE = 0x58
    CALL_LINE = 0x59
    SIGNATURE = 0x69
    MAIN_SUBPROGRAM = 0x6A
    LINKAGE_NAME = 0x6E
    STR_OFFSETS_BASE = 0x72
    ADDR_BASE = 0x73
    RNGLISTS_BASE = 0x74
    DWO_NAME = 0x76
    CALL_ALL_CALLS = 0x7A
    NORETURN = 0x87
    LOCLISTS_BASE = 0x8C
    MIPS_LINKAGE_NAME = 0x2007
    GNU_DWO_NAME = 0x2130
    GNU_DWO_ID = 0x2131
    GNU_RANGES_BASE = 0x2132
    GNU_ADDR_BASE = 0x2133
    GNU_DISCRIMINATOR = 0x2136
    GNU_LOCVIEWS = 0x2137


class Language(IntEnum):
    """``DW_LANG_*``."""

    C89 = 0x01
    C = 0x02
    ADA83 = 0x03
    C_PLUS_PLUS = 0x04
    FORTRAN90 = 0x08
    C99 = 0x0C
    D = 0x13
    GO = 0x16
    C_PLUS_PLUS_11 = 0x1A
    RUST = 0x1C
    C11 = 0x1D
    SWIFT = 0x1E
    C_PLUS_PLUS_14 = 0x21
    ZIG = 0x27
    C_PLUS_PLUS_17 = 0x2A
    MIPS_ASSEMBLER = 0x8001


class Inline(IntEnum):
    """``DW_INL_*``."""

    NOT_INLINED = 0
    INLINED = 1
    DECLARED_NOT_INLINED = 2
    DECLARED_INLINED = 3
