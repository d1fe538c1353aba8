"""ELF cores made in memory, for tests: of any machine whose registers clew reads, as Linux or as qemu writes them.

>>> from clew.target import open_core
>>> import tempfile
>>> core = CoreBuilder("x86-64")
>>> core.thread(42, {"rip": 0x1004, "rsp": 0x7ff0})
>>> core.memory(0x7000, b"\\x2a" + bytes(0xfff))
>>> with tempfile.NamedTemporaryFile() as file, core.write(file.name) as target:
...     [(thread.id, hex(thread.pc)) for thread in target.threads], target.memory.read(0x7000, 1)
([(42, '0x1004')], b'*')
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from struct import Struct, pack

from clew.arch import Machine, machine_named
from clew.errors import UsageError
from clew.image import Image
from clew.image.elf import ET_CORE, LAYOUTS, MAGIC, PF_R, PF_W, PF_X, PT_LOAD, PT_NOTE
from clew.target import Target, open_core
from clew.target.core_notes import NT_AUXV, NT_FILE, NT_PRPSINFO, NT_PRSTATUS
from clew.target.register_layouts import LAYOUTS as REGISTER_LAYOUTS
from clew.testing.elf_parts import padded

PAGE = 0x1000


class CoreBuilder:
    """A core in the making: add threads, memory and notes, then :meth:`build` it.

    Notes come in the order in which they were added; memory in the order of addresses.

    Args:
        machine: its name, or the machine itself in the byte order that is wanted.
    """

    def __init__(self, machine: str | Machine = "x86-64") -> None:
        self.machine = machine_named(machine) if isinstance(machine, str) else machine
        if self.machine.name not in REGISTER_LAYOUTS:
            raise UsageError(f"the registers of {self.machine.name} have no known layout in a core")
        self.layout = LAYOUTS[self.machine.bits, self.machine.byte_order]
        self._notes: list[bytes] = []
        self._segments: list[tuple[int, int, bytes, int]] = []
        self._files: list[tuple[int, int, int, str]] = []
        self._auxv: dict[int, int] = {}

    @property
    def program_counter(self) -> str:
        """What the pc is called among the registers."""
        return REGISTER_LAYOUTS[self.machine.name].pc

    def _key(self, name: str) -> str | int:
        number = self.machine.register_number(name)
        return name if number is None else number

    @property
    def _word(self) -> str:
        return "Q" if self.machine.bits == 64 else "I"

    def note(self, name: bytes, type: int, description: bytes) -> None:
        """Add a note. What follows a thread belongs to it."""
        head = pack(self.layout.prefix + "III", len(name) + 1, len(description), type)
        self._notes.append(head + padded(name + b"\0", 4) + padded(description, 4))

    def thread(self, id: int, registers: Mapping[str, int], *, signal: int = 0) -> None:
        """Add a thread: ``NT_PRSTATUS``.

        Args:
            registers: by any name of the machine's, or, where a word is no register, by its name in
                :data:`clew.target.register_layouts.LAYOUTS`, such as ``orig_rax``. The others are 0.
        """
        layout = REGISTER_LAYOUTS[self.machine.name]
        places = {self._key(word): index for index, word in enumerate(layout.words) if word != "_"}
        values = [0] * len(layout.words)
        for name, value in registers.items():
            if self._key(name) not in places:
                raise UsageError(f"{self.machine.name} has no register {name} in a core")
            values[places[self._key(name)]] = value
        prefix = self.layout.prefix
        words = Struct(prefix + layout.codes).pack(*values)
        head = bytearray(layout.offset)
        head[:14] = pack(prefix + "iiiH", signal, 0, 0, signal)
        head[layout.thread_offset : layout.thread_offset + 4] = pack(prefix + "i", id)
        # pr_fpvalid, and the alignment of the structure.
        self.note(b"CORE", NT_PRSTATUS, padded(bytes(head) + words + bytes(4), 8 if "Q" in layout.codes else 4))

    def process(self, id: int, name: str, arguments: str = "") -> None:
        """Add what is known of the process: ``NT_PRPSINFO``, in the form of machines whose user ids have 32 bits."""
        prefix = self.layout.prefix
        wide = self.machine.bits == 64
        head = pack(prefix + ("4x4xQIIiiii" if wide else "4xIIIiiii"), 0, 0, 0, id, 0, 0, 0)
        texts = pack("16s80s", os.fsencode(name)[:15], os.fsencode(arguments)[:79])
        self.note(b"CORE", NT_PRPSINFO, head + texts)

    def auxv(self, values: Mapping[int, int]) -> None:
        """Add to the auxiliary vector, ``NT_AUXV``, which is written last."""
        self._auxv.update(values)

    def file(self, path: str, start: int, end: int, offset: int = 0) -> None:
        """Add a mapping of a file to ``NT_FILE``, which is written after the other notes. ``offset`` is in bytes."""
        self._files.append((start, end, offset, path))

    def memory(self, address: int, data: bytes = b"", *, size: int | None = None, flags: int = PF_R | PF_W) -> None:
        """Add a segment.

        Args:
            data: the bytes that the core holds, from the segment's beginning.
            size: how large it is in memory; as large as the data unless told.
        """
        self._segments.append((address, len(data) if size is None else size, data, flags))

    def load(
        self, file: bytes, bias: int = 0, *, path: str | None = None, whole: bool = False, first_page: bool = True
    ) -> None:
        """Add the memory of a file that is loaded, as the kernel dumps it: what is writable, and the first page.

        Args:
            file: an executable or a shared library.
            bias: how far it is moved.
            path: what ``NT_FILE`` calls it; without, it is not there, as in qemu's cores.
            whole: dump the read-only segments too.
            first_page: dump the page with the program headers; qemu does not.
        """
        image = Image.from_bytes(file)
        for segment in image.segments:
            if segment.type != PT_LOAD:
                continue
            slack = segment.address % PAGE
            start, offset = segment.address - slack + bias, segment.offset - slack
            size = segment.memory_size + slack + -(segment.memory_size + slack) % PAGE
            # A mapping shows whatever stands in the file beside the segment; only .bss is zeroed.
            end = segment.offset + segment.file_size
            data = file[offset : end if segment.memory_size > segment.file_size else offset + size].ljust(size, b"\0")
            if not (whole or segment.flags & PF_W):
                data = data[:PAGE] if first_page and offset == 0 else b""
            flags = segment.flags & (PF_R | PF_W | PF_X)
            self.memory(start, data, size=size, flags=flags)
            if path is not None:
                self.file(path, start, start + size, offset)

    def build(self) -> bytes:
        """The core's bytes. The builder can be added to afterwards, and built again."""
        layout, machine = self.layout, self.machine
        notes = list(self._notes)
        try:
            if self._files:
                self.note(b"CORE", NT_FILE, self._file_note())
            if self._auxv:
                pairs = [*self._auxv.items(), (0, 0)]
                self.note(b"CORE", NT_AUXV, b"".join(pack(layout.prefix + 2 * self._word, *pair) for pair in pairs))
            note_data = b"".join(self._notes)
        finally:
            self._notes = notes
        segments = sorted(self._segments, key=lambda each: each[0])
        count = len(segments) + 1
        offset = layout.header.size + count * layout.segment.size
        headers = [self._program_header(PT_NOTE, 0, offset, 0, len(note_data), 0)]
        body = note_data
        for address, size, data, flags in segments:
            start = offset + len(body)
            start += -start % PAGE
            body = body.ljust(start - offset, b"\0") + data
            headers.append(self._program_header(PT_LOAD, flags, start, address, len(data), size))
        ident = MAGIC + bytes([layout.bits // 32, 1 if layout.byte_order == "little" else 2, 1])
        fields = (ET_CORE, machine.elf_machines[0], 1, 0, layout.header.size, 0, 0, layout.header.size)
        header = layout.header.pack(*fields, layout.segment.size, count, 0, 0, 0)
        return ident.ljust(16, b"\0") + header[16:] + b"".join(headers) + body

    def write(
        self,
        path: str | os.PathLike[str],
        *,
        exe: str | os.PathLike[str] | None = None,
        sysroot: str | os.PathLike[str] | None = None,
        debug_dirs: Iterable[str | os.PathLike[str]] = (),
    ) -> Target:
        """Write the core to a file, and open it; the options are those of :func:`clew.target.open_core`."""
        Path(path).write_bytes(self.build())
        return open_core(path, exe=exe, sysroot=sysroot, debug_dirs=debug_dirs)

    def _file_note(self) -> bytes:
        prefix, word = self.layout.prefix, self._word
        head = pack(prefix + 2 * word, len(self._files), PAGE)
        records = [pack(prefix + 3 * word, start, end, offset // PAGE) for start, end, offset, _ in self._files]
        return head + b"".join(records) + b"".join(os.fsencode(path) + b"\0" for *_, path in self._files)

    def _program_header(self, type: int, flags: int, offset: int, address: int, file_size: int, size: int) -> bytes:
        if self.layout.bits == 64:
            return self.layout.segment.pack(type, flags, offset, address, 0, file_size, size, PAGE if address else 4)
        return self.layout.segment.pack(type, offset, address, 0, file_size, size, flags, PAGE if address else 4)
