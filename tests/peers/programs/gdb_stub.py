"""A program under qemu's gdb stub: stepped, and seen as a target.

The protocol is that of GDB's manual, appendix "GDB Remote Serial Protocol".
"""

from __future__ import annotations

import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from struct import iter_unpack
from types import TracebackType

from programs.qemu_user import Guest

from clew.arch import Machine, machine_for
from clew.errors import Problem
from clew.image import Image
from clew.memory import Mapping, ProcessMemory, process_mappings
from clew.target import Modules, Target
from clew.target.core_modules import core_modules
from clew.target.core_notes import AT_PHDR, CoreNotes
from clew.target.module_files import ModuleFiles
from clew.target.register_layouts import LAYOUTS
from clew.testing.core import CoreBuilder

_REGISTER = re.compile(r"<reg\s([^>]*)>")
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
_INCLUDE = re.compile(r'<xi:include href="([^"]+)"')


class GuestMemory:
    """The guest's memory, which is part of the emulator's: at the same addresses, or all of it moved (32-bit guests)."""

    def __init__(self, pid: int, base: int, bits: int) -> None:
        self._process = ProcessMemory(pid)
        self._base = base
        self._limit = 1 << bits

    def read(self, address: int, size: int) -> bytes | None:
        if address < 0 or address + size > self._limit:
            return None
        return self._process.read(address + self._base, size)

    def mapping_at(self, address: int) -> Mapping | None:
        return None

    def close(self) -> None:
        self._process.close()


class Stub:
    """A program that waits before its first instruction.

    Args:
        folder: where it runs; a temporary directory unless told.

    Attributes:
        machine: the guest's, as the program's file says it.
        signal: the number (GDB's) of the signal at which it last stopped; 5 is a step or breakpoint; None: it has ended.
    """

    def __init__(self, guest: Guest, program: Path, *arguments: str, folder: Path | None = None) -> None:
        self.guest, self.program = guest, program
        with Image.open(program) as image:
            self.machine: Machine = machine_for(image.e_machine, image.elf_class, image.byte_order)
        self._folder = tempfile.TemporaryDirectory()
        place = f"{self._folder.name}/stub"
        emulator = guest.emulator
        self.process = subprocess.Popen(
            [emulator[0], "-g", place, *emulator[1:], str(program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder or self._folder.name,
        )
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(30)
        self._data = b""
        for _ in range(200):
            try:
                self._socket.connect(place)
                break
            except OSError:
                time.sleep(0.02)
        self.signal: int | None = 5
        self.command("qSupported:xmlRegisters=i386,arm;qXfer:features:read+")
        self.layout = self._layout()
        self.command("?")

    def __enter__(self) -> Stub:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if "memory" in self.__dict__:
            self.memory.close()
        self._socket.close()
        self.process.kill()
        self.process.communicate()
        self._folder.cleanup()

    def command(self, text: str) -> bytes:
        """The answer to a packet."""
        data = text.encode()
        self._socket.sendall(b"+$%s#%02x" % (data, sum(data) & 255))
        while True:
            start = self._data.find(b"$")
            end = self._data.find(b"#", start)
            if 0 <= start < end and len(self._data) >= end + 3:
                packet, self._data = self._data[start + 1 : end], self._data[end + 3 :]
                return _unescaped(packet)
            piece = self._socket.recv(1 << 16)
            if not piece:
                return b""
            self._data += piece

    def _transfer(self, what: str, annex: str = "") -> bytes:
        data = b""
        while True:
            piece = self.command(f"qXfer:{what}:read:{annex}:{len(data):x},800")
            data += piece[1:]
            if piece[:1] != b"m":
                return data

    def _layout(self) -> dict[str, tuple[int, int]]:
        """Where each register is in the answer to ``g``: offset and size."""
        text = self._transfer("features", "target.xml").decode()
        texts = [text, *(self._transfer("features", name).decode() for name in _INCLUDE.findall(text))]
        found, number = {}, 0
        for attributes in (dict(_ATTRIBUTE.findall(each)) for text in texts for each in _REGISTER.findall(text)):
            number = int(attributes.get("regnum", number))
            found[number] = attributes["name"], int(attributes["bitsize"]) // 8
            number += 1
        self.numbers = {name: number for number, (name, _) in found.items()}
        layout, offset = {}, 0
        for number in sorted(found):
            name, size = found[number]
            layout[name] = offset, size
            offset += size
        return layout

    def registers(self) -> tuple[int, dict[int, int]]:
        """The pc, and the registers by DWARF number."""
        data = bytes.fromhex(self.command("g").replace(b"x", b"0").decode())
        words = {
            name: int.from_bytes(data[offset : offset + size], self.machine.byte_order)
            for name, (offset, size) in self.layout.items()
            if offset + size <= len(data)
        }
        pc = next(words[name] for name in ("pc", "eip", "pswa") if name in words)
        numbers = {self.machine.register_number(name): value for name, value in words.items()}
        return pc, {number: value for number, value in numbers.items() if number is not None}

    def floats(self) -> dict[int, int]:
        """The floating-point registers of s390x, which leafs save others in, by DWARF number; of other machines, none."""
        if self.machine.name != "s390x":
            return {}
        found = {}
        for index in range(16):
            number = self.machine.register_number(f"f{index}")
            if number is not None:
                found[number] = int(self.command(f"p{self.numbers[f'f{index}']:x}"), 16)
        return found

    def _stopped(self, answer: bytes) -> None:
        self.signal = int(answer[1:3], 16) if answer[:1] in (b"T", b"S") else None

    def step(self) -> None:
        """One instruction; a signal that it stopped for is delivered."""
        self._stopped(self.command("s" if self.signal == 5 else f"vCont;S{self.signal or 0:02x}"))

    def go(self) -> None:
        """On until there is a reason to stop."""
        self._stopped(self.command("c" if self.signal == 5 else f"vCont;C{self.signal or 0:02x}"))

    def run_to(self, address: int) -> None:
        """On to an instruction."""
        self.command(f"Z0,{address:x},2")
        self.go()
        self.command(f"z0,{address:x},2")

    def output(self) -> str:
        """What the program has printed; it ends with that."""
        self.command("k")
        self.process.kill()
        return self.process.communicate(timeout=30)[0].decode()

    def core(self, path: Path) -> None:
        """Writes the program's core, as qemu would: what is writable, and what is no file's."""
        pc, registers = self.registers()
        builder = CoreBuilder(self.machine)
        values = {self.machine.register_name(number): value for number, value in registers.items()}
        known = set(LAYOUTS[self.machine.name].words)
        builder.thread(1, {**{name: value for name, value in values.items() if self._dumped(name, known)}, "pc": pc})
        builder.auxv(self.auxv)
        for start, data in self._pages():
            builder.memory(start, data)
        path.write_bytes(builder.build())

    def _dumped(self, name: str, known: set[str]) -> bool:
        number = self.machine.register_number(name)
        return any(self.machine.register_number(word) == number for word in known)

    def _pages(self) -> Iterator[tuple[int, bytes]]:
        """The guest's memory but for the files' code; the emulator's own is elsewhere, or large."""
        for mapping in process_mappings(self.process.pid):
            size = mapping.end - mapping.start
            if mapping.start >= 1 << 44 or size > 1 << 22 or "r" not in mapping.permissions:
                continue
            if "qemu" in mapping.path or (mapping.path.startswith("/") and self._is_code(mapping)):
                continue
            data = self.memory.read(mapping.start, size)
            probe = self.command(f"m{mapping.start:x},10")
            if data is not None and probe == data[:16].hex().encode():
                yield mapping.start, data

    def _is_code(self, mapping: Mapping) -> bool:
        # The guest's code is not executable for the host; a file's first mapping has it, and no relocated data.
        return mapping.offset == 0

    @cached_property
    def auxv(self) -> dict[int, int]:
        """The auxiliary vector."""
        order = ">" if self.machine.byte_order == "big" else "<"
        pairs = iter_unpack(order + ("QQ" if self.machine.bits == 64 else "II"), self._transfer("auxv"))
        return {kind: value for kind, value in pairs if kind}

    @cached_property
    def memory(self) -> GuestMemory:
        """The program's memory."""
        base = 0
        if self.machine.bits == 32:
            headers = self.auxv[AT_PHDR] & ~0xFFF
            maps = Path(f"/proc/{self.process.pid}/maps").read_text().splitlines()
            first = min(int(line.split("-")[0], 16) for line in maps if line.endswith(str(self.program)))
            base = first - headers
        return GuestMemory(self.process.pid, base, self.machine.bits)

    def target(self) -> Target:
        """What is loaded now, with the memory as it is whenever it is read; without threads."""
        problems: list[Problem] = []
        notes = CoreNotes(auxv=self.auxv)
        files = ModuleFiles(self.machine, problems.append, exe=self.program, sysroot=self.guest.sysroot)
        modules = core_modules(notes, self.memory, self.machine, files, problems.append)  # type: ignore[arg-type]
        return Target("process", self.machine, [], self.memory, Modules(modules), problems=problems)


def _unescaped(packet: bytes) -> bytes:
    """A packet without escapes and run lengths."""
    data, index = bytearray(), 0
    while index < len(packet):
        byte = packet[index]
        if byte == 0x7D:
            data.append(packet[index + 1] ^ 0x20)
            index += 1
        elif byte == 0x2A:
            data += bytes([data[-1]]) * (packet[index + 1] - 29)
            index += 1
        else:
            data.append(byte)
        index += 1
    return bytes(data)
