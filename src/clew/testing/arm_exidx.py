"""Unwinding entries of 32-bit Arm made in memory, for tests: ``.ARM.exidx`` and ``.ARM.extab`` (IHI 0038, chapters 5 to 7).

>>> from clew.image import Image
>>> from clew.read.arm_exidx import exidx_section
>>> builder = ExidxBuilder()
>>> builder.compact(0x1000, "a8")          # push {r4, lr}
>>> builder.cantunwind(0x1010)
>>> section = exidx_section(Image.from_bytes(builder.file(code=(0x1000, bytes(32)))))
>>> [(hex(entry.start), entry.data and entry.data.hex()) for entry in section.entries()]
[('0x1000', 'a8b0b0'), ('0x1010', None)]
"""

from __future__ import annotations

from struct import pack

from clew.image.elf import ByteOrder
from clew.testing.elf import ElfBuilder

EM_ARM = 40
SHT_ARM_EXIDX = 0x7000_0001
FINISH = b"\xb0"


class ExidxBuilder:
    """An index in the making. Instructions are in hexadecimal; they are padded with *finish*.

    Args:
        address: where ``.ARM.exidx`` is.
        table: where ``.ARM.extab`` is.
    """

    def __init__(self, *, byte_order: ByteOrder = "little", address: int = 0x8000, table: int = 0x9000) -> None:
        self.byte_order = byte_order
        self.prefix = "<" if byte_order == "little" else ">"
        self.address = address
        self.table = table
        self._index = bytearray()
        self._table = bytearray()

    def _word(self, value: int) -> bytes:
        return pack(self.prefix + "I", value)

    def _prel31(self, target: int, place: int) -> bytes:
        return self._word((target - place) & 0x7FFF_FFFF)

    def raw(self, start: int, second: int) -> None:
        """Add an entry for the function at ``start`` whose second word is this number."""
        self._index += self._prel31(start, self.address + len(self._index)) + self._word(second)

    def cantunwind(self, start: int) -> None:
        """Add an entry of a function that cannot be unwound."""
        self.raw(start, 1)

    def compact(self, start: int, instructions: str, *, model: int = 0, lsda: bytes = b"") -> None:
        """Add an entry of a compact model: of model 0 in the index itself, of the others in the table.

        Args:
            lsda: what stands behind the instructions in the table.
        """
        data = bytes.fromhex(instructions)
        if model == 0:
            self.raw(start, 0x80 << 24 | int.from_bytes(data.ljust(3, FINISH), "big"))
            return
        more = max(0, -(-(len(data) - 2) // 4))
        data = data.ljust(2 + 4 * more, FINISH)
        self.large(start, bytes((0x80 | model, more)) + data, lsda)

    def generic(self, start: int, personality: int, instructions: str, *, lsda: bytes = b"") -> None:
        """Add an entry with a personality routine, and its instructions as assemblers place them."""
        data = bytes.fromhex(instructions)
        more = max(0, -(-(len(data) - 3) // 4))
        place = self.table + len(self._table)
        self.large(start, bytes((more,)) + data.ljust(3 + 4 * more, FINISH), lsda, self._prel31(personality, place))

    def large(self, start: int, words: bytes, lsda: bytes = b"", head: bytes = b"") -> None:
        """Add an entry whose part of the table is ``head`` as it is, then words of which the highest byte comes first."""
        place = self.address + len(self._index) + 4
        self.raw(start, (self.table + len(self._table) - place) & 0x7FFF_FFFF)
        numbers = (int.from_bytes(words[at : at + 4], "big") for at in range(0, len(words), 4))
        self._table += head + b"".join(map(self._word, numbers)) + lsda

    @property
    def index(self) -> bytes:
        """The bytes of ``.ARM.exidx``."""
        return bytes(self._index)

    @property
    def extab(self) -> bytes:
        """The bytes of ``.ARM.extab``."""
        return bytes(self._table)

    def file(self, *, code: tuple[int, bytes], entry: int = 0, segment: bool = False) -> bytes:
        """A shared library with these tables.

        Args:
            code: address and bytes of its machine code.
            segment: whether it has the segment ``PT_ARM_EXIDX`` too.
        """
        elf = ElfBuilder(machine=EM_ARM, bits=32, byte_order=self.byte_order, entry=entry)
        elf.section(".text", code[1], address=code[0], executable=True)
        if self._table:
            elf.section(".ARM.extab", self.extab, address=self.table)
        elf.section(".ARM.exidx", self.index, type=SHT_ARM_EXIDX, address=self.address)
        if segment:
            elf.segment(SHT_ARM_EXIDX, [".ARM.exidx"])
        return elf.build()
