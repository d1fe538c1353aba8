"""A builder of call frame information, in the spirit of an assembler: the bytes of ``.eh_frame`` and ``.debug_frame``.

>>> cfi = CfiBuilder(address=0x2000)
>>> cie = cfi.cie(instructions=[Cfa.def_cfa(7, 8), Cfa.offset(16, 1)])
>>> fde = cfi.fde(cie, start=0x1000, size=0x20, instructions=[Cfa.advance(1), Cfa.def_cfa_offset(16)])
>>> cfi.terminator()
>>> cfi.build().hex(" ", 4)
'14000000 00000000 017a5200 01781001 1b0c0708 90010000 14000000 1c000000 e0efffff 20000000 00410e10 00000000 00000000'

Everything is placed where it is called for, and each handle knows its offset at once. A CIE behind its FDEs is declared
with ``later=True`` and placed by :meth:`CfiBuilder.place`. What no method can say (a wrong length, a stray byte) is
said by overriding a field or by :meth:`CfiBuilder.raw`; only that numbers fit their fields is checked (``ValueError``).

Sources: DWARF 5, 6.4.1 and 7.24; LSB 5, 10.5.1 (pointer encodings), 10.6.1 (``.eh_frame``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from clew.testing.cfi_instructions import ByteOrder, Cfa, Instruction, Late, fixed, sleb, uleb
from clew.testing.cfi_pointers import OMIT, PointerEncoder


@dataclass(slots=True)
class Cie:
    """A CIE of a builder: what its FDEs need to know of it. ``offset`` is in the section, None until it is placed."""

    body: bytes
    fde_encoding: int
    lsda_encoding: int
    sized: bool
    address_size: int
    segment_size: int
    padding: int | None
    length: int | None
    pc: PointerEncoder
    offset: int | None = None
    pending: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Fde:
    """An FDE as placed: its offset in the section, its own address, and the range it is for."""

    offset: int
    address: int
    start: int
    size: int


class CfiBuilder:
    """Builds one section of call frame information.

    Args:
        kind: ``eh_frame`` or ``debug_frame``.
        byte_order, address_size: of the target, the size in bytes.
        address: the section's address, which pc-relative pointers stand on.
        dwarf64: whether entries use the 64-bit format: 12 bytes of length.
        cie_pointer_size: bytes of a CIE pointer; 8 in the 64-bit format and 4 else, unless told. In ``.eh_frame`` the
            field always has 4 bytes by LSB 5, 10.6.1, and so for LLVM; binutils gives it 8 there.
        text_base, data_base: what textrel and datarel pointers are relative to.
    """

    def __init__(
        self,
        kind: Literal["eh_frame", "debug_frame"] = "eh_frame",
        *,
        byte_order: ByteOrder = "little",
        address_size: int = 8,
        address: int = 0,
        dwarf64: bool = False,
        cie_pointer_size: int | None = None,
        text_base: int = 0,
        data_base: int = 0,
    ) -> None:
        self.kind = kind
        self.byte_order: ByteOrder = byte_order
        self.address_size = address_size
        self.address = address
        self.dwarf64 = dwarf64
        self.cie_pointer_size = (8 if dwarf64 else 4) if cie_pointer_size is None else cie_pointer_size
        self.text_base = text_base
        self.data_base = data_base
        self.fdes: list[Fde] = []
        self._data = bytearray()
        self._unplaced = 0

    @property
    def offset(self) -> int:
        """Where the next thing will stand, in bytes from the section's start."""
        return len(self._data)

    def cie(
        self,
        *,
        version: int | None = None,
        augmentation: str | None = None,
        code_alignment: int = 1,
        data_alignment: int = -8,
        return_address: int = 16,
        fde_encoding: int = 0x1B,
        lsda_encoding: int | None = None,
        personality: tuple[int, int] | None = None,
        instructions: Sequence[Instruction] = (),
        address_size: int | None = None,
        segment_size: int = 0,
        augmentation_data: bytes = b"",
        padding: int | None = None,
        length: int | None = None,
        later: bool = False,
    ) -> Cie:
        """Adds a CIE.

        Args:
            version: 1, 3 or 4 by the standards; 1 in ``.eh_frame`` and 4 in ``.debug_frame`` unless told.
            augmentation: letters; ``zR`` in ``.eh_frame``, none in ``.debug_frame`` unless told. The letters L, P and R
                behind a ``z`` bring their data. ``eh`` brings a null pointer.
            fde_encoding, lsda_encoding: ``DW_EH_PE`` bytes, for R and L. Without R, FDEs have absolute pointers.
            personality: ``(encoding, address)``, for P.
            address_size, segment_size: written in version 4; FDEs follow them.
            augmentation_data: more bytes behind those of the letters.
            padding: how many nops stand at the end; None: up to a multiple of the address size.
            length: the value of the length field, when it shall be wrong.
            later: only declare it; :meth:`place` puts it into the section, behind FDEs that refer to it.
        """
        if version is None:
            version = 1 if self.kind == "eh_frame" else 4
        if augmentation is None:
            augmentation = "zR" if self.kind == "eh_frame" else ""
        size = self.address_size if address_size is None else address_size
        encoder = PointerEncoder(self.byte_order, size, self.text_base, self.data_base)
        sized = augmentation.startswith("z")
        head = bytes((version,)) + augmentation.encode("latin-1") + b"\0"
        if augmentation == "eh":
            head += bytes(self.address_size)
        if version >= 4:
            head += bytes((size, segment_size))
        head += uleb(code_alignment) + sleb(data_alignment)
        head += bytes((return_address,)) if version == 1 else uleb(return_address)
        letters = augmentation if sized else ""
        cie = Cie(
            body=head,
            fde_encoding=fde_encoding if "R" in letters else 0,
            lsda_encoding=OMIT if lsda_encoding is None or "L" not in letters else lsda_encoding,
            sized=sized,
            address_size=size,
            segment_size=segment_size,
            padding=padding,
            length=length,
            pc=encoder,
        )
        if later and ("P" in letters or any(isinstance(item, Late) and item.size is None for item in instructions)):
            raise ValueError("a CIE that depends on its place cannot be declared before it is placed")
        start = self.offset + self._header_size + len(head)

        def data_at(place: int) -> bytes:
            data = b""
            for letter in letters:
                if letter == "L":
                    data += bytes((OMIT if lsda_encoding is None else lsda_encoding,))
                elif letter == "R":
                    data += bytes((fde_encoding,))
                elif letter == "P":
                    encoding, target = personality or (OMIT, 0)
                    data += bytes((encoding,))
                    data += encoder.nullable(target, encoding, self.address + place + len(data))
            return data + augmentation_data

        if sized:
            cie.body += self._sized(start, data_at)
        else:
            cie.body += augmentation_data
        cie.body += self._program(cie, instructions, self.offset + self._header_size + len(cie.body))
        if later:
            self._unplaced += 1
        else:
            self._place(cie)
        return cie

    def place(self, cie: Cie) -> None:
        """Puts a CIE that was declared with ``later=True`` here."""
        self._place(cie)
        self._unplaced -= 1

    def fde(
        self,
        cie: Cie,
        *,
        start: int,
        size: int,
        instructions: Sequence[Instruction] = (),
        lsda: int | None = None,
        segment: int = 0,
        augmentation_data: bytes = b"",
        padding: int | None = None,
        length: int | None = None,
        cie_pointer: int | None = None,
    ) -> Fde:
        """Adds an FDE for ``size`` bytes of code at the address ``start``.

        Args:
            lsda: the address of the language-specific data, a null pointer if None; only where the CIE has an L.
            segment: the segment selector, where the CIE gives it a size.
            augmentation_data: more bytes behind the LSDA pointer; only where the CIE has a z.
            padding, length: as in :meth:`cie`.
            cie_pointer: the value of that field, when it shall be another.
        """
        at = self.offset
        here = at + self._header_size
        body = fixed(segment, cie.segment_size, self.byte_order)
        body += cie.pc.encode(start, cie.fde_encoding, self.address + here + len(body), start)
        # The range is a length: in the format of the pointer, relative to nothing.
        body += cie.pc.format(size, 0 if cie.fde_encoding & 0x70 == 0x50 else cie.fde_encoding)

        def data_at(place: int) -> bytes:
            return cie.pc.nullable(lsda or 0, cie.lsda_encoding, self.address + place, start) + augmentation_data

        if cie.sized:
            body += self._sized(here + len(body), data_at)
        body += self._program(cie, instructions, here + len(body), start)
        pointer_at = here - self.cie_pointer_size
        if cie_pointer is None:
            if cie.offset is None:
                cie.pending.append((pointer_at, pointer_at + self.cie_pointer_size))
                cie_pointer = 0
            else:
                cie_pointer = self._cie_pointer(cie.offset, pointer_at)
        self._entry(cie_pointer, body, cie.address_size, padding, length)
        fde = Fde(at, self.address + at, start, size)
        self.fdes.append(fde)
        return fde

    def terminator(self) -> None:
        """Adds the zero length that ends an ``.eh_frame``."""
        self._data += bytes(4)

    def raw(self, data: bytes) -> None:
        """Adds bytes as they are."""
        self._data += data

    def build(self) -> bytes:
        """The section's bytes. ``ValueError`` while a declared CIE is not placed."""
        if self._unplaced:
            raise ValueError("a CIE that was declared is not placed")
        return bytes(self._data)

    def search_table(self) -> list[tuple[int, int]]:
        """For :func:`clew.testing.eh_frame_hdr`: the start of each FDE's range and its own address, in file order."""
        return [(fde.start, fde.address) for fde in self.fdes]

    @property
    def _header_size(self) -> int:
        """Bytes of the length and of the CIE pointer (or the mark of a CIE)."""
        return (12 if self.dwarf64 else 4) + self.cie_pointer_size

    def _place(self, cie: Cie) -> None:
        if cie.offset is not None:
            raise ValueError("the CIE is placed already")
        cie.offset = self.offset
        mark = 0 if self.kind == "eh_frame" else (1 << 8 * self.cie_pointer_size) - 1
        self._entry(mark, cie.body, cie.address_size, cie.padding, cie.length)
        for begin, end in cie.pending:
            pointer = self._cie_pointer(cie.offset, begin)
            self._data[begin:end] = fixed(pointer, self.cie_pointer_size, self.byte_order)

    def _cie_pointer(self, cie_offset: int, pointer_at: int) -> int:
        """Back from the field in ``.eh_frame`` (negative: forward), from the section's start in ``.debug_frame``."""
        return pointer_at - cie_offset if self.kind == "eh_frame" else cie_offset

    def _entry(self, ident: int, body: bytes, address_size: int, padding: int | None, length: int | None) -> None:
        if padding is None:
            padding = -(self._header_size + len(body)) % address_size
        content = fixed(ident, self.cie_pointer_size, self.byte_order) + body + Cfa.nop * padding
        length = len(content) if length is None else length
        if self.dwarf64:
            self._data += b"\xff\xff\xff\xff" + fixed(length, 8, self.byte_order) + content
        else:
            self._data += fixed(length, 4, self.byte_order) + content

    def _sized(self, place: int, data_at: Callable[[int], bytes]) -> bytes:
        """Augmentation data behind their length. The length moves them, and they may depend on where they stand."""
        for width in range(1, 10):
            data = data_at(place + width)
            if len(uleb(len(data))) == width:
                return uleb(len(data)) + data
        raise ValueError("augmentation data without end")

    def _program(self, cie: Cie, instructions: Iterable[Instruction], place: int, function: int = 0) -> bytes:
        code = b""
        for item in instructions:
            if isinstance(item, bytes):
                code += item
                continue
            code += bytes((item.opcode,))
            if item.size is not None:
                code += fixed(item.value, item.size, self.byte_order)
            else:
                code += cie.pc.encode(item.value, cie.fde_encoding, self.address + place + len(code), function)
        return code
