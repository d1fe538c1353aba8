"""The text that GNU readelf 2.40 prints for a frame section: entries, and their programs as rows or as instructions.

What is readelf's and not DWARF's is listed in :mod:`clew.write.readelf`.
"""

import cython

if cython.compiled:
    from cython.cimports.clew.native.readelf_program import ProgramReader
else:
    from clew.native.readelf_program import ProgramReader

from clew.native.lenient import CUT, OVERSIZED, UNENDED
from clew.native.readelf_columns import phrase

COMPILED = bool(cython.compiled)

#: Text is handed over when so much of it has gathered.
_CHUNK = cython.declare(cython.size_t, 1 << 20)

_CLOSE = cython.declare(cython.size_t, phrase(b")\n"))


@cython.final
@cython.cclass
class FrameText(ProgramReader):
    """The listing of one section, from after its heading to before the empty line that ends it.

    Args:
        data: the section's bytes.
        address: where it is loaded.
        eh: whether it is ``.eh_frame`` (else ``.debug_frame``).
        big: big-endian.
        address_size: width of the file's addresses in bytes.
        names: the names of registers 0 to 255, as bytes or None.
        known: how many registers readelf's table has; 0 if it has no names for the machine.
        rare_name: a function from the number of another register to its name, as bytes or None.
        aarch64: whether opcode 0x2d has AArch64's name.
        raw: list instructions instead of rows.
        describe: a function (offset in the section, length, address size) to the pieces of an expression's text.

    ``problems`` is a list of (offset of the entry, message).
    """

    def __init__(self, data, address, eh, big, address_size, names, known, rare_name, aarch64, raw, describe):
        ProgramReader.__init__(
            self, data, address, eh, big, address_size, names, known, rare_name, aarch64, raw, describe
        )
        self.inside = False

    def more(self):
        """The next piece of the listing, about a mebibyte; empty when there is no more."""
        while self.out.pos < _CHUNK and not self.over:
            if self.pending is not None:
                self.go_on()
            elif self.inside:
                self.run()
            elif self.pos >= self.section_size or not self.enter():
                self.over = True
            else:
                if self.flaws:
                    self.confess()
                self.inside = True
                self.idle = True
                self.discover()
        return self.out.take()

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def go_on(self) -> cython.int:
        """Puts more of an expression's text out."""
        for piece in self.pending:
            self.out.append(piece)
            if self.out.pos >= _CHUNK:
                return 0
        self.pending = None
        self.out.word(_CLOSE)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def run(self) -> cython.int:
        """The second pass, until the entry ends, the piece of text is full or an expression has to be told."""
        while self.pos < self.end:
            if self.out.pos >= _CHUNK or self.pending is not None:
                return 0
            self.step()
            if self.flaws:
                self.confess()
        if self.pending is not None:
            return 0
        if not self.raw and not self.idle:
            self.rows.row(self.masked(self.location, self.address_size), self.address_size)
        self.inside = False
        if (self.is_cie and not self.leave_cie()) or not self.rows.settle():
            self.over = True
            self.note("more columns are kept for later entries than the section has bytes for")
        self.address_size = self.file_address_size
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def leave_cie(self) -> cython.bint:
        """Keeps a CIE for its FDEs; False when that is too much to keep."""
        if not self.rows.keep(self.cie):
            return False
        self.rows.load(self.cie)
        self.seen[self.at] = self.cie
        return True

    def confess(self):
        """Turns what was read leniently into problems."""
        if self.flaws & UNENDED:
            self.note("a LEB128 number runs past the end of the entry")
        if self.flaws & OVERSIZED:
            self.note("a LEB128 number exceeds 64 bits")
        if self.flaws & CUT:
            self.note("an encoded pointer runs past the end of the entry")
        self.flaws = 0
