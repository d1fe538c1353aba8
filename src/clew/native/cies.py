"""Common information entries, field by field (DWARF 5, 6.4.1; LSB 5, 10.6.1.1)."""

import cython

if cython.compiled:
    from cython.cimports.clew.native.pointers import OMIT, Pointers
else:
    from clew.native.pointers import OMIT, Pointers

from clew.native.cursor import Malformed, Truncated


@cython.final
@cython.cclass
class CieRecord:
    """A common information entry as read, field by field; see :class:`clew.read.dwarf_cfi.Cie` for their meanings."""

    def __init__(self, offset, end, address_size):
        self.offset = offset
        self.end = self.program = end
        self.address_size = address_size
        self.lsda_encoding = self.personality_encoding = OMIT
        self.augmentation = self.augmentation_data = b""
        self.error = None
        self.version = self.segment_size = self.fde_encoding = 0
        self.sized = self.signal = self.key_b = self.tagged = self.opaque = self.usual = False
        self.code_alignment = self.data_alignment = self.return_address = self.personality = 0


@cython.cclass
class CieReader(Pointers):
    """A cursor that reads CIEs."""

    def read_cie_fields(self, record: CieRecord):
        """Fills a record from the version on (DWARF 5, 6.4.1; LSB 5, 10.6.1.1)."""
        record.version = self.fixed(1)
        if record.version not in (1, 3, 4):
            raise Malformed(f"its version is {record.version}, not 1, 3 or 4")
        begin: cython.size_t = self.pos
        while self.fixed(1):
            pass
        augmentation = bytes(self.data[begin : self.pos - 1])
        record.augmentation = augmentation
        if augmentation == b"eh":
            # gcc 2 puts the address of its exception table here; nothing that unwinds needs it.
            self.skip(self.address_size)
        if record.version == 4:
            record.address_size = self.fixed(1)
            record.segment_size = self.fixed(1)
            if record.address_size not in (2, 4, 8):
                raise Malformed(f"its address size is {record.address_size}")
            if record.segment_size > 8:
                raise Malformed(f"its segment selector size is {record.segment_size}")
        if augmentation not in (b"", b"eh", b"armcc+") and not augmentation.startswith(b"z"):
            # "Only the following fields can be read" (DWARF 5, 6.4.1): the ranges of its FDEs, and no rules.
            record.opaque = True
            raise Malformed(f"its augmentation {augmentation!r} is unknown and has no length")
        record.code_alignment = self.uleb()
        # So that no move wraps more than once around the smallest address space, of 16 bits.
        if record.code_alignment > 1 << 10:
            raise Malformed("its code alignment factor is out of all proportion")
        record.data_alignment = self.sleb()
        if not -(1 << 20) < record.data_alignment < 1 << 20:
            raise Malformed("its data alignment factor is out of all proportion")
        record.return_address = self.fixed(1) if record.version == 1 else self.uleb()
        if record.return_address > 0xFFFF:
            raise Malformed("its return address column is out of all proportion")
        if augmentation.startswith(b"z"):
            record.sized = True
            length = self.uleb()
            if length > self.end - self.pos:
                raise Truncated("its augmentation data run past its end")
            outer: cython.size_t = self.end
            self.end = self.pos + length
            record.augmentation_data = bytes(self.data[self.pos : self.end])
            record.program = self.end
            self.read_augmentation(record, augmentation)
            self.end = outer
            # DW_EH_PE_pcrel | DW_EH_PE_sdata4, with addresses as wide as the arithmetic.
            record.usual = record.fde_encoding == 0x1B and record.address_size == 8 and record.segment_size == 0
        else:
            record.program = self.pos

    def read_augmentation(self, record: CieRecord, augmentation):
        """Letters after ``z``: L, R, P take data; S, B, G take none; after an unknown one the data are skipped by length."""
        known: cython.bint = True
        for letter in augmentation[1:]:
            if letter == 0x53:  # S
                record.signal = True
            elif letter == 0x42:  # B
                record.key_b = True
            elif letter == 0x47:  # G
                record.tagged = True
            elif not known:
                if letter == 0x52:
                    raise Malformed(f"its augmentation {augmentation!r} has R behind a letter that is unknown")
            elif letter == 0x4C:  # L
                record.lsda_encoding = self.fixed(1)
            elif letter == 0x52:  # R
                record.fde_encoding = self.fixed(1)
            elif letter == 0x50:  # P
                record.personality_encoding = self.fixed(1)
                if record.personality_encoding != OMIT:
                    record.personality = self.encoded(record.personality_encoding & 0x7F, 0)
            else:
                known = False
