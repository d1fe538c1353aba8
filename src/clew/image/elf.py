"""The constants of ELF that clew names, and the shape of its records.

Source: System V Application Binary Interface, chapters 4 and 5 (the gABI, Edition 4.1 and its later drafts), and the
Linux extensions in the LSB. Names are the standard's own.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, Literal

ByteOrder = Literal["little", "big"]

MAGIC: Final = b"\x7fELF"

# e_type
ET_NONE: Final = 0
ET_REL: Final = 1
ET_EXEC: Final = 2
ET_DYN: Final = 3
ET_CORE: Final = 4

# e_ident
EI_CLASS: Final = 4
EI_DATA: Final = 5
EI_VERSION: Final = 6
EI_OSABI: Final = 7
ELFOSABI_NONE: Final = 0
ELFOSABI_GNU: Final = 3
ELFOSABI_STANDALONE: Final = 255

# sh_type
SHT_NULL: Final = 0
SHT_PROGBITS: Final = 1
SHT_SYMTAB: Final = 2
SHT_STRTAB: Final = 3
SHT_RELA: Final = 4
SHT_HASH: Final = 5
SHT_DYNAMIC: Final = 6
SHT_NOTE: Final = 7
SHT_NOBITS: Final = 8
SHT_REL: Final = 9
SHT_DYNSYM: Final = 11
SHT_GROUP: Final = 17
SHT_SYMTAB_SHNDX: Final = 18

# sh_flags
SHF_WRITE: Final = 1 << 0
SHF_ALLOC: Final = 1 << 1
SHF_EXECINSTR: Final = 1 << 2
SHF_INFO_LINK: Final = 1 << 6
SHF_GROUP: Final = 1 << 9
SHF_TLS: Final = 1 << 10
SHF_COMPRESSED: Final = 1 << 11

# ch_type
ELFCOMPRESS_ZLIB: Final = 1
ELFCOMPRESS_ZSTD: Final = 2

# Special section indices
SHN_UNDEF: Final = 0
SHN_LORESERVE: Final = 0xFF00
SHN_ABS: Final = 0xFFF1
SHN_COMMON: Final = 0xFFF2
SHN_XINDEX: Final = 0xFFFF
PN_XNUM: Final = 0xFFFF

# p_type and p_flags
PT_NULL: Final = 0
PT_LOAD: Final = 1
PT_DYNAMIC: Final = 2
PT_NOTE: Final = 4
PT_PHDR: Final = 6
PT_TLS: Final = 7
PT_GNU_EH_FRAME: Final = 0x6474E550
PT_GNU_STACK: Final = 0x6474E551
PF_X: Final = 1
PF_W: Final = 2
PF_R: Final = 4

# d_tag
DT_NULL: Final = 0
DT_PLTGOT: Final = 3
DT_HASH: Final = 4
DT_STRTAB: Final = 5
DT_SYMTAB: Final = 6
DT_STRSZ: Final = 10
DT_SONAME: Final = 14
DT_GNU_HASH: Final = 0x6FFFFEF5

# Symbol binding and type
STB_LOCAL: Final = 0
STB_GLOBAL: Final = 1
STB_WEAK: Final = 2
STB_GNU_UNIQUE: Final = 10
STT_NOTYPE: Final = 0
STT_OBJECT: Final = 1
STT_FUNC: Final = 2
STT_SECTION: Final = 3
STT_FILE: Final = 4
STT_COMMON: Final = 5
STT_TLS: Final = 6
STT_GNU_IFUNC: Final = 10
STT_ARM_TFUNC: Final = 13

NT_GNU_BUILD_ID: Final = 3

# e_machine, as far as this room treats a machine in a way of its own
EM_SPARC: Final = 2
EM_386: Final = 3
EM_68K: Final = 4
EM_MIPS: Final = 8
EM_PARISC: Final = 15
EM_SPARC32PLUS: Final = 18
EM_PPC: Final = 20
EM_PPC64: Final = 21
EM_S390: Final = 22
EM_ARM: Final = 40
EM_SH: Final = 42
EM_SPARCV9: Final = 43
EM_X86_64: Final = 62
EM_MN10300: Final = 89
EM_MSP430: Final = 105
EM_AARCH64: Final = 183
EM_RL78: Final = 197
EM_RISCV: Final = 243
EM_LOONGARCH: Final = 258
EM_MSP430_OLD: Final = 0x1059
EM_ALPHA: Final = 0x9026
EM_CYGNUS_MN10300: Final = 0xBEEF


class Layout:
    """The records of one ELF class and byte order.

    Attributes:
        bits: 32 or 64.
        byte_order: ``little`` or ``big``.
        prefix: the byte order as ``struct`` and numpy spell it, ``<`` or ``>``.
        header, section, segment, dynamic, compression: the fields after ``e_ident``, and of one entry of each table, in
            the file's own order.
        symbol_size: bytes in one entry of a symbol table.
    """

    __slots__ = (
        "bits",
        "byte_order",
        "compression",
        "dynamic",
        "header",
        "prefix",
        "section",
        "segment",
        "symbol_size",
    )

    def __init__(self, bits: int, byte_order: ByteOrder) -> None:
        self.bits = bits
        self.byte_order: ByteOrder = byte_order
        self.prefix = "<" if byte_order == "little" else ">"
        word = "Q" if bits == 64 else "I"
        self.header = Struct(f"{self.prefix}16xHHI3{word}IHHHHHH")
        self.section = Struct(f"{self.prefix}II4{word}II2{word}")
        # The flags moved forward in the 64-bit class, so that the wide fields are aligned.
        self.segment = Struct(self.prefix + ("IIQQQQQQ" if bits == 64 else "IIIIIIII"))
        self.dynamic = Struct(f"{self.prefix}2{word}")
        self.compression = Struct(self.prefix + ("IIQQ" if bits == 64 else "III"))
        self.symbol_size = 24 if bits == 64 else 16


_ORDERS: Final[tuple[ByteOrder, ...]] = ("little", "big")

LAYOUTS: Final = {(bits, order): Layout(bits, order) for bits in (32, 64) for order in _ORDERS}
"""The four layouts, by class (32 or 64) and byte order."""


class Header:
    """The ELF header (gABI chapter 4).

    Attributes:
        layout: the records that this file is made of.
        ident: the 16 bytes of ``e_ident``.
        type, machine, version, entry, flags: ``e_type`` and so on.
        segment_offset, segment_size, segment_count: where the program headers are, bytes in one, how many.
        section_offset, section_size, section_count: the same for the section headers.
        names_index: the section that holds section names.

    The counts and ``names_index`` are as stored; the escapes for large numbers are resolved by the image.
    """

    __slots__ = (
        "entry",
        "flags",
        "ident",
        "layout",
        "machine",
        "names_index",
        "section_count",
        "section_offset",
        "section_size",
        "segment_count",
        "segment_offset",
        "segment_size",
        "type",
        "version",
    )

    type: int
    machine: int
    version: int
    entry: int
    flags: int
    segment_offset: int
    segment_size: int
    segment_count: int
    section_offset: int
    section_size: int
    section_count: int
    names_index: int

    def __init__(self, layout: Layout, data: bytes) -> None:
        self.layout = layout
        self.ident = data[:16]
        (
            self.type,
            self.machine,
            self.version,
            self.entry,
            self.segment_offset,
            self.section_offset,
            self.flags,
            _,
            self.segment_size,
            self.segment_count,
            self.section_size,
            self.section_count,
            self.names_index,
        ) = layout.header.unpack(data[: layout.header.size])
