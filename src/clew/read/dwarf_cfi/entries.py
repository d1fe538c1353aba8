"""The entries of a section as objects: what their headers say, their instructions, their rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from clew.native.cies import CieRecord
from clew.read.dwarf_cfi.instructions import Instruction, read_instructions
from clew.table import Row

if TYPE_CHECKING:
    from clew.read.dwarf_cfi.section import CfiSection

OMIT = 0xFF


@dataclass(frozen=True, slots=True)
class Terminator:
    """An entry of length zero: it ends ``.eh_frame`` for who scans it, though merged sections have them in the middle.

    Attributes:
        offset, end: where it stands; zeros that follow one another count as one.
    """

    kind: ClassVar[str] = "terminator"
    offset: int
    end: int


@dataclass(frozen=True, slots=True)
class Cie:
    """A common information entry: what its FDEs share (DWARF 5, 6.4.1; LSB 5, 10.6.1.1).

    Attributes:
        index: its number among the section's CIEs, in the order in which they are met.
        offset, end: where it stands in its section.
        program: where its instructions begin; they go on to ``end``.
        version: 1, 3 or 4.
        augmentation: the letters that say what follows: ``z`` the size of the rest, ``R`` the encoding of addresses, ``L``
            that of LSDA pointers, ``P`` a personality routine, ``S`` signal frames, ``B`` return addresses signed with key B,
            ``G`` tagged stacks.
        augmentation_data: the bytes that the letters describe.
        address_size, segment_size: bytes.
        code_alignment, data_alignment: factors of moves and offsets.
        return_address: the column of the return address.
        fde_encoding, lsda_encoding, personality_encoding: ``DW_EH_PE`` encodings; 0xff for none.
        personality: address of the routine, or of a pointer to it where the encoding says indirect (0x80); 0 for none.
        signal_frame, key_b, tagged: what ``S``, ``B`` and ``G`` say.
        opaque: whether the augmentation is unknown and of unknown size: only the ranges of its FDEs can be read.
        error: why it cannot be used, or None.
    """

    kind: ClassVar[str] = "CIE"
    section: CfiSection = field(repr=False)
    index: int
    offset: int
    end: int
    program: int
    version: int
    augmentation: str
    augmentation_data: bytes
    address_size: int
    segment_size: int
    code_alignment: int
    data_alignment: int
    return_address: int
    fde_encoding: int
    lsda_encoding: int
    personality_encoding: int
    personality: int
    signal_frame: bool
    key_b: bool
    tagged: bool
    opaque: bool
    error: str | None

    @classmethod
    def of(cls, section: CfiSection, index: int, record: CieRecord) -> Cie:
        """The entry that the core read."""
        return cls(
            section,
            index,
            record.offset,
            record.end,
            record.program,
            record.version,
            record.augmentation.decode("latin-1"),
            record.augmentation_data,
            record.address_size,
            record.segment_size,
            record.code_alignment,
            record.data_alignment,
            record.return_address,
            record.fde_encoding,
            record.lsda_encoding,
            record.personality_encoding,
            record.personality,
            bool(record.signal),
            bool(record.key_b),
            bool(record.tagged),
            bool(record.opaque),
            record.error,
        )

    def instructions(self) -> Iterator[Instruction]:
        """The initial instructions; FormatError at the first that cannot be read. None where the header cannot be."""
        return read_instructions(self.section.data, self.program, self.end, self)


@dataclass(frozen=True, slots=True)
class Fde:
    """A frame description entry: the rows of one function (DWARF 5, 6.4.1; LSB 5, 10.6.1.2).

    Attributes:
        index: its number among the section's FDEs, in file order.
        offset, end: where it stands in its section.
        cie: what it shares with others.
        program: where its instructions begin; they go on to ``end``.
        start, stop: the function's addresses, ``stop`` exclusive.
        lsda: address of the language-specific data, 0 for none.
    """

    kind: ClassVar[str] = "FDE"
    cie: Cie = field(repr=False)
    index: int
    offset: int
    end: int
    program: int
    start: int
    stop: int
    lsda: int

    def instructions(self) -> Iterator[Instruction]:
        """The instructions; FormatError at the first that cannot be read. None where the CIE is opaque."""
        return read_instructions(self.cie.section.data, self.program, self.end, self.cie)

    def rows(self) -> Iterator[Row]:
        """The rows that the instructions make, from ``start`` to ``stop``.

        Raises:
            FormatError: an instruction cannot be read or makes no sense; the rows before it have been given.
        """
        return (row for _, row in self.cie.section.trace(self) if row is not None)


Entry: TypeAlias = Cie | Fde | Terminator
