"""Instructions of x86-64 as bytes, and as text for an assembler (Intel 64 and IA-32 Architectures SDM, volume 2).

Only what compiled unwinders need. Operands have 64 bits unless the name says otherwise.
"""

from __future__ import annotations

from typing import Final

from clew.write.assembler.operands import NAMES, NAMES8, NAMES32, RAX, RSP, At, displacement, fits8, fits32, signed

_ARITHMETIC: Final = {"add": 0, "or": 1, "and": 4, "sub": 5, "xor": 6, "cmp": 7}
_SHIFTS: Final = {"shl": 4, "shr": 5, "sar": 7}
_CONDITIONS: Final = {
    "b": 2, "ae": 3, "e": 4, "ne": 5, "be": 6, "a": 7, "s": 8, "ns": 9, "l": 12, "ge": 13, "le": 14, "g": 15,
}  # fmt: skip


class Code:
    """Machine code in the making.

    Attributes:
        data: the bytes so far; what depends on labels is filled in by :meth:`finish`.
        text: the same as lines for an assembler, in Intel's syntax.
        labels: where labels are.
        depth: how many bytes the CFA is above the stack pointer here; None where it counts from another register.
        frames: how to undo the code's own frame: positions with the instructions that hold from there on.
    """

    def __init__(self, depth: int | None = 8) -> None:
        self.depth = depth
        self.frames: list[tuple[int, bytes]] = []
        self.data = bytearray()
        self.text: list[str] = []
        self.labels: dict[str, int] = {}
        self._fixups: list[tuple[int, int, str]] = []

    def _put(self, data: bytes, text: str) -> None:
        self.data += data
        self.text.append(f"\t{text}")

    # Labels

    def label(self, name: str) -> None:
        """A label here."""
        self.labels[name] = len(self.data)
        self.text.append(f"{name}:")

    def remark(self, text: str) -> None:
        """A comment, for the text only."""
        self.text.append(f"\t# {text}")

    def align(self, size: int) -> None:
        """The next address that is a multiple of a power of two; what is between is never run."""
        self.data += b"\xcc" * (-len(self.data) % size)
        self.text.append(f"\t.balign {size}, 0xcc")

    def extend(self, other: Code) -> None:
        """Appends other code, with its labels."""
        at = len(self.data)
        self.data += other.data
        self.text += other.text
        self.labels.update((name, place + at) for name, place in other.labels.items())
        self.frames += [(place + at, instruction) for place, instruction in other.frames]
        self._fixups += [(place + at, size, name) for place, size, name in other._fixups]

    def finish(self, places: dict[str, int]) -> bytes:
        """The bytes, given where labels are that are not in the code, counted from its start."""
        for at, size, name in self._fixups:
            place = self.labels[name] if name in self.labels else places[name]
            self.data[at : at + size] = (place - at - size).to_bytes(size, "little", signed=True)
        return bytes(self.data)

    def _to(self, data: bytes, size: int, name: str, text: str) -> None:
        self._fixups.append((len(self.data) + len(data), size, name))
        self._put(data + bytes(size), text)

    # How to undo the frame of the code itself

    def undo(self, instruction: bytes) -> None:
        """An instruction of call frame information (DWARF 5, 6.4.2) that holds from here on."""
        self.frames.append((len(self.data), instruction))
        self.text.append("\t.cfi_escape " + ",".join(f"{byte:#x}" for byte in instruction))

    def _moved(self, size: int) -> None:
        """The stack pointer went down."""
        if self.depth is not None:
            self.depth += size
            self.undo(def_cfa_offset(self.depth))

    # Encoding

    @staticmethod
    def _encode(prefix: bytes, wide: bool, opcode: bytes, reg: int, rm: int | At, byte: bool = False) -> bytes:
        """An instruction with a ModRM byte: SDM volume 2, 2.1.5 and 2.2.1."""
        rex = 0x48 if wide else 0x40
        rex |= (reg >> 3) << 2
        if isinstance(rm, int):
            rex |= rm >> 3
            tail = bytes([0xC0 | (reg & 7) << 3 | rm & 7])
            needed = rex != 0x40 or (byte and (reg > 3 or rm > 3))
        else:
            rex |= rm.base >> 3
            size, mode = displacement(rm)
            low = (reg & 7) << 3
            if rm.index is not None:
                rex |= (rm.index >> 3) << 1
                scale = {1: 0, 2: 1, 4: 2, 8: 3}[rm.scale]
                tail = bytes([mode | low | 4, scale << 6 | (rm.index & 7) << 3 | rm.base & 7])
            elif rm.base & 7 == 4:
                tail = bytes([mode | low | 4, 0x24])
            else:
                tail = bytes([mode | low | rm.base & 7])
            tail += rm.displacement.to_bytes(size, "little", signed=True) if size else b""
            needed = rex != 0x40 or (byte and reg > 3)
        return prefix + (bytes([rex]) if needed else b"") + opcode + tail

    # Moves

    def load(self, register: int, source: At) -> None:
        """``register = *source``."""
        self._put(self._encode(b"", True, b"\x8b", register, source), f"mov {NAMES[register]}, {source}")

    def load32(self, register: int, source: At) -> None:
        """The four bytes, extended with zeros."""
        self._put(self._encode(b"", False, b"\x8b", register, source), f"mov {NAMES32[register]}, {source}")

    def load_small(self, register: int, source: At, size: int) -> None:
        """One or two bytes, extended with zeros."""
        opcode, width = (b"\x0f\xb6", "byte") if size == 1 else (b"\x0f\xb7", "word")
        data = self._encode(b"", False, opcode, register, source)
        self._put(data, f"movzx {NAMES32[register]}, {width} ptr {source}")

    def store(self, target: At, register: int) -> None:
        """``*target = register``."""
        self._put(self._encode(b"", True, b"\x89", register, target), f"mov {target}, {NAMES[register]}")

    def store8(self, target: At, register: int) -> None:
        """The register's low byte."""
        self._put(self._encode(b"", False, b"\x88", register, target, True), f"mov {target}, {NAMES8[register]}")

    def store_byte(self, target: At, value: int) -> None:
        """A constant of one byte."""
        data = self._encode(b"", False, b"\xc6", 0, target) + bytes([value])
        self._put(data, f"mov byte ptr {target}, {value}")

    def store_constant(self, target: At, value: int) -> None:
        """A number that fits into four bytes with a sign."""
        data = self._encode(b"", True, b"\xc7", 0, target) + value.to_bytes(4, "little", signed=True)
        self._put(data, f"mov qword ptr {target}, {value}")

    def move(self, target: int, source: int) -> None:
        """``target = source``."""
        self._put(self._encode(b"", True, b"\x89", source, target), f"mov {NAMES[target]}, {NAMES[source]}")

    def move32(self, target: int, source: int) -> None:
        """The low four bytes, extended with zeros."""
        self._put(self._encode(b"", False, b"\x89", source, target), f"mov {NAMES32[target]}, {NAMES32[source]}")

    def constant(self, register: int, value: int) -> None:
        """A number modulo 2 to the power of 64."""
        value = signed(value)
        if value == 0:
            self.arithmetic32("xor", register, register)
        elif 0 < value < 1 << 32:
            rex = b"\x41" if register > 7 else b""
            data = rex + bytes([0xB8 | register & 7]) + value.to_bytes(4, "little")
            self._put(data, f"mov {NAMES32[register]}, {value:#x}")
        elif fits32(value):
            data = self._encode(b"", True, b"\xc7", 0, register) + value.to_bytes(4, "little", signed=True)
            self._put(data, f"mov {NAMES[register]}, {value}")
        else:
            data = bytes([0x48 | register >> 3, 0xB8 | register & 7]) + value.to_bytes(8, "little", signed=True)
            self._put(data, f"movabs {NAMES[register]}, {value & (1 << 64) - 1:#x}")

    def address(self, register: int, source: At) -> None:
        """``register = &*source``."""
        self._put(self._encode(b"", True, b"\x8d", register, source), f"lea {NAMES[register]}, {source}")

    def address_of(self, register: int, name: str) -> None:
        """The address of a label."""
        data = bytes([0x48 | (register >> 3) << 2, 0x8D, (register & 7) << 3 | 5])
        self._to(data, 4, name, f"lea {NAMES[register]}, {name}[rip]")

    def push(self, register: int) -> None:
        rex = b"\x41" if register > 7 else b""
        self._put(rex + bytes([0x50 | register & 7]), f"push {NAMES[register]}")
        self._moved(8)

    def push_at(self, source: At) -> None:
        """Pushes what is in memory; an address that counts from the stack pointer counts from before."""
        self._put(self._encode(b"", False, b"\xff", 6, source), f"push qword ptr {source}")
        self._moved(8)

    def push_constant(self, value: int) -> None:
        """Pushes a number that fits into four bytes with a sign."""
        data = bytes([0x6A]) + value.to_bytes(1, "little", signed=True) if fits8(value) else b""
        self._put(data or bytes([0x68]) + value.to_bytes(4, "little", signed=True), f"push {value}")
        self._moved(8)

    def pop(self, register: int) -> None:
        rex = b"\x41" if register > 7 else b""
        self._put(rex + bytes([0x58 | register & 7]), f"pop {NAMES[register]}")
        self._moved(-8)

    # Arithmetic

    def arithmetic(self, name: str, target: int, source: int) -> None:
        """``add``, ``or``, ``and``, ``sub``, ``xor`` or ``cmp`` of two registers."""
        data = self._encode(b"", True, bytes([_ARITHMETIC[name] << 3 | 1]), source, target)
        self._put(data, f"{name} {NAMES[target]}, {NAMES[source]}")

    def arithmetic32(self, name: str, target: int, source: int) -> None:
        """The same of their low four bytes."""
        data = self._encode(b"", False, bytes([_ARITHMETIC[name] << 3 | 1]), source, target)
        self._put(data, f"{name} {NAMES32[target]}, {NAMES32[source]}")

    def immediate(self, name: str, target: int, value: int, wide: bool = True) -> None:
        """The same with a number that fits into four bytes with a sign."""
        names = NAMES if wide else NAMES32
        code = _ARITHMETIC[name]
        if fits8(value):
            data = self._encode(b"", wide, b"\x83", code, target) + value.to_bytes(1, "little", signed=True)
        elif target == RAX:
            data = (b"\x48" if wide else b"") + bytes([code << 3 | 5]) + value.to_bytes(4, "little", signed=True)
        else:
            data = self._encode(b"", wide, b"\x81", code, target) + value.to_bytes(4, "little", signed=True)
        self._put(data, f"{name} {names[target]}, {value}")
        if target == RSP and name in ("add", "sub"):
            self._moved(value if name == "sub" else -value)

    def add(self, target: int, value: int, scratch: int) -> None:
        """Adds any number modulo 2 to the power of 64."""
        value = signed(value)
        if fits32(value):
            if value:
                self.immediate("add", target, value)
        else:
            self.constant(scratch, value)
            self.arithmetic("add", target, scratch)

    def shift(self, name: str, target: int, count: int | None = None, wide: bool = True) -> None:
        """``shl``, ``shr`` or ``sar`` by a number above 1, or by ``cl``."""
        names = NAMES if wide else NAMES32
        if count is None:
            self._put(self._encode(b"", wide, b"\xd3", _SHIFTS[name], target), f"{name} {names[target]}, cl")
        elif count == 1:
            self._put(self._encode(b"", wide, b"\xd1", _SHIFTS[name], target), f"{name} {names[target]}, 1")
        elif count:
            data = self._encode(b"", wide, b"\xc1", _SHIFTS[name], target) + bytes([count])
            self._put(data, f"{name} {names[target]}, {count}")

    def unary(self, name: str, target: int, wide: bool = True) -> None:
        """``not``, ``neg``, ``mul``, ``div`` or ``idiv``; the last three by this register, of rdx and rax."""
        code = {"not": 2, "neg": 3, "div": 6, "idiv": 7}[name]
        names = NAMES if wide else NAMES32
        self._put(self._encode(b"", wide, b"\xf7", code, target), f"{name} {names[target]}")

    def multiply(self, target: int, source: int) -> None:
        """``target *= source``."""
        data = self._encode(b"", True, b"\x0f\xaf", target, source)
        self._put(data, f"imul {NAMES[target]}, {NAMES[source]}")

    def decrement(self, target: At) -> None:
        """``*target -= 1``."""
        self._put(self._encode(b"", True, b"\xff", 1, target), f"dec qword ptr {target}")

    def extend_sign(self) -> None:
        """rdx becomes the sign of rax."""
        self._put(b"\x48\x99", "cqo")

    def test(self, register: int) -> None:
        """Compares with 0."""
        data = self._encode(b"", True, b"\x85", register, register)
        self._put(data, f"test {NAMES[register]}, {NAMES[register]}")

    def test32(self, register: int) -> None:
        """Compares the low four bytes with 0."""
        data = self._encode(b"", False, b"\x85", register, register)
        self._put(data, f"test {NAMES32[register]}, {NAMES32[register]}")

    def test_al(self) -> None:
        """Compares al with 0."""
        self._put(b"\x84\xc0", "test al, al")

    def test_bit(self, source: At, bit: int) -> None:
        """Whether a bit of a number in memory is set: ``ne`` if so."""
        place = At(source.base, source.displacement + bit // 8)
        data = self._encode(b"", False, b"\xf6", 0, place) + bytes([1 << bit % 8])
        self._put(data, f"test byte ptr {place}, {1 << bit % 8}")

    def clear_bit(self, target: At, bit: int) -> None:
        """Clears a bit of a number in memory."""
        place = At(target.base, target.displacement + bit // 8)
        value = 0xFF & ~(1 << bit % 8)
        self._put(self._encode(b"", False, b"\x80", 4, place) + bytes([value]), f"and byte ptr {place}, {value}")

    def extend_al(self) -> None:
        """eax becomes al."""
        self._put(b"\x0f\xb6\xc0", "movzx eax, al")

    def set_al(self, condition: str) -> None:
        """al becomes 1 where the condition holds, else 0."""
        self._put(bytes([0x0F, 0x90 | _CONDITIONS[condition], 0xC0]), f"set{condition} al")

    def move_if(self, condition: str, target: int, source: int) -> None:
        """``target = source`` where the condition holds."""
        data = self._encode(b"", True, bytes([0x0F, 0x40 | _CONDITIONS[condition]]), target, source)
        self._put(data, f"cmov{condition} {NAMES[target]}, {NAMES[source]}")

    # Jumps

    def jump(self, name: str) -> None:
        self._to(b"\xe9", 4, name, f"jmp {name}")

    def jump_if(self, condition: str, name: str) -> None:
        self._to(bytes([0x0F, 0x80 | _CONDITIONS[condition]]), 4, name, f"j{condition} {name}")

    def hop_if(self, condition: str, name: str) -> None:
        """A jump to a label that is at most 127 bytes away."""
        self._to(bytes([0x70 | _CONDITIONS[condition]]), 1, name, f"j{condition} {name}")

    def hop(self, name: str) -> None:
        """A jump to a label that is at most 127 bytes away."""
        self._to(b"\xeb", 1, name, f"jmp {name}")

    def jump_to(self, register: int) -> None:
        self._put(self._encode(b"", False, b"\xff", 4, register), f"jmp {NAMES[register]}")

    def call(self, name: str) -> None:
        self._to(b"\xe8", 4, name, f"call {name}")

    def call_to(self, register: int) -> None:
        self._put(self._encode(b"", False, b"\xff", 2, register), f"call {NAMES[register]}")

    def ret(self) -> None:
        self._put(b"\xc3", "ret")

    def raw(self, data: bytes, text: str) -> None:
        """An instruction that is needed once."""
        self._put(data, text)


def def_cfa_offset(offset: int) -> bytes:
    """The instruction that says how far the CFA is from its register."""
    return b"\x0e" + uleb(offset)


def uleb(value: int) -> bytes:
    """An unsigned LEB128 number (DWARF 5, 7.6).

    >>> uleb(2), uleb(128)
    (b'\\x02', b'\\x80\\x01')
    """
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])
