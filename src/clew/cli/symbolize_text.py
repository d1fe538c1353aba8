"""Frames in the words of ``addr2line`` (binutils 2.40), byte for byte."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clew.cli.output import printable
from clew.cli.symbolize_names import gnu_demangled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clew.symbols import SourceFrame


@dataclass(frozen=True, slots=True)
class Form:
    """What is printed for an address: the options ``-a -f -i -C -p -s``.

    Attributes:
        addresses: the address itself.
        functions: names of functions.
        inlines: all functions of which the code is a part, not the innermost one only.
        demangle: names as people write them.
        pretty: a line for each function.
        basenames: files without their directories.
        digits: how many of them an address has.
    """

    addresses: bool = False
    functions: bool = False
    inlines: bool = False
    demangle: bool = False
    pretty: bool = False
    basenames: bool = False
    digits: int = 16

    def address(self, address: int) -> str:
        """What comes before the answer for an address."""
        if not self.addresses:
            return ""
        return f"0x{address:0{self.digits}x}{': ' if self.pretty else chr(10)}"

    def answer(self, frames: Sequence[SourceFrame]) -> str:
        """What is known of an address, the innermost function first; of an unknown one that nothing is."""
        if not frames:
            # addr2line has a zero here, and a question mark where it knows a function but no line.
            return self._name(None, " ") + "??:0\n"
        # addr2line prints the discriminator, which is that of the innermost line, with all lines.
        block = f" (discriminator {frames[0].discriminator})" if frames[0].discriminator else ""
        shown = frames if self.inlines else frames[:1]
        return (" (inlined by) " if self.pretty else "").join(self._frame(frame, block) for frame in shown)

    def _frame(self, frame: SourceFrame, block: str) -> str:
        file = "??" if frame.file is None else printable(frame.file)
        if self.basenames:
            file = file[file.rfind("/") + 1 :]
        place = f"{file}:{frame.line}{block}\n" if frame.line else f"{file}:?\n"
        return self._name(frame.function, " at ") + place

    def _name(self, function: str | None, separator: str) -> str:
        if not self.functions:
            return ""
        name = "??" if not function else gnu_demangled(function) if self.demangle else function
        return printable(name) + (separator if self.pretty else "\n")
