"""A recording of a small program that was never run, for the commands that print samples."""

from __future__ import annotations

from pathlib import Path

from clew.image import Image
from clew.image.elf import STB_GLOBAL, STB_LOCAL, STB_WEAK, STT_FUNC, STT_OBJECT
from clew.testing import Cfa, CfiBuilder, ElfBuilder
from clew.testing.perfdata import PerfDataBuilder

BASE = 0x7F0000000000
STACK = 0x7FFF0000
KERNEL, USER = 1, 2
MARK_KERNEL, MARK_USER = (1 << 64) - 128, (1 << 64) - 512
CHAIN = 1 << 5
COMMON = 0b111 | CHAIN | 1 << 7 | 1 << 8
"""IP, TID, TIME, CALLCHAIN, CPU, PERIOD."""
CALLER = (BASE + 0x1030).to_bytes(8, "little")


def library() -> bytes:
    """``leaf``, which a::b() calls at 0x102f, which is the outermost frame; and several names for one address."""
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(instructions=[Cfa.def_cfa(7, 8), Cfa.offset(16, 1)])
    cfi.fde(cie, start=0x1000, size=0x20, instructions=[])
    cfi.fde(cie, start=0x1020, size=0x20, instructions=[Cfa.undefined(16)])
    cfi.terminator()
    elf = ElfBuilder()
    elf.section(".text", bytes(0x100), address=0x1000, executable=True)
    elf.section(".eh_frame", cfi.build(), address=0x2000)
    elf.symbol("leaf", 0x1000, size=0x20, section=".text", type=STT_FUNC)
    elf.symbol("_ZN1a1bEv", 0x1020, size=0x20, section=".text", type=STT_FUNC)
    for name, binding in (("weak", STB_WEAK), ("__under", STB_GLOBAL), ("good", STB_GLOBAL), ("own", STB_LOCAL)):
        elf.symbol(name, 0x1040, size=0x10, section=".text", type=STT_FUNC, binding=binding)
    # Without a size, it reaches to the next one, also as an object.
    elf.symbol("endless", 0x1060, section=".text", type=STT_FUNC)
    elf.symbol("thing", 0x1080, size=8, section=".text", type=STT_OBJECT)
    elf.symbol("b\x1b[2Jell", 0x1090, size=8, section=".text", type=STT_FUNC)
    return elf.build()


class Made:
    """A recording of one process, 7, which maps the library."""

    def __init__(self, folder: Path, type: int = COMMON, *, stack: bool = True, name: str = "cpu-clock") -> None:
        self.file = folder / "it.so"
        self.file.write_bytes(library())
        self.path = folder / "perf.data"
        with Image.open(self.file) as image:
            [segment] = [each for each in image.segments if each.type == 1 and each.flags & 1]
        self.shift = segment.offset - segment.address
        self.data = PerfDataBuilder("x86-64")
        registers = ("rsp", "rip") if stack else ()
        self.data.event(name, type=type, registers=registers, stack=stack)
        self.data.named(7, "work")
        self.data.mapped2(7, str(self.file), BASE + segment.address, 0x1000, segment.offset)

    def line(self, place: int, name: str) -> str:
        """A frame's line."""
        return f"\t{place + self.shift:16x} {name} ({self.file})\n"

    def sample(self, place: int, stack: bytes = CALLER + bytes(8), **more: object) -> None:
        """A sample with a copied stack."""
        registers = {"rip": BASE + place, "rsp": STACK}
        self.data.sample(**{"pid": 7, "ip": BASE + place, "registers": registers, "stack": stack} | more)  # type: ignore[arg-type]

    def write(self) -> str:
        """The path of the file."""
        self.path.write_bytes(self.data.build())
        return str(self.path)
