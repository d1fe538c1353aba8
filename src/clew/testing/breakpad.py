"""Breakpad symbol files made in memory, for tests: every record, in any order, as odd as a test needs them.

>>> from clew.symbols.sym_file import SymbolFile
>>> builder = SymbolFileBuilder()
>>> builder.module(name="demo")
>>> builder.file(0, "demo.c")
>>> builder.func(0x1000, 0x20, "main")
>>> builder.line(0x1000, 0x20, 7, 0)
>>> file = SymbolFile.open(builder.build())
>>> file.module.name, file.symbols.names[0], int(file.symbols.lines.line[0]), file.problems
('demo', 'main', 7, [])
"""

from __future__ import annotations

from collections.abc import Sequence


class SymbolFileBuilder:
    """A symbol file in the making: records stand in the order in which they were added.

    Args:
        newline: what ends a line.
    """

    def __init__(self, newline: str = "\n") -> None:
        self.newline = newline
        self.records: list[str] = []

    def raw(self, text: str) -> None:
        """Add any line."""
        self.records.append(text)

    def module(
        self,
        os: str = "Linux",
        architecture: str = "x86_64",
        id: str = "0" * 33,
        name: str = "module",
    ) -> None:
        """Add ``MODULE``."""
        self.raw(f"MODULE {os} {architecture} {id} {name}")

    def info(self, keyword: str, text: str) -> None:
        """Add ``INFO``."""
        self.raw(f"INFO {keyword} {text}")

    def file(self, number: int, name: str) -> None:
        """Add ``FILE``."""
        self.raw(f"FILE {number} {name}")

    def origin(self, number: int, name: str, *, file: int | None = None) -> None:
        """Add ``INLINE_ORIGIN``, in its old form if a file is given."""
        self.raw(f"INLINE_ORIGIN {number} {name}" if file is None else f"INLINE_ORIGIN {number} {file} {name}")

    def func(self, address: int, size: int, name: str, *, parameter_size: int = 0, multiple: bool = False) -> None:
        """Add ``FUNC``."""
        self.raw(f"FUNC {'m ' * multiple}{address:x} {size:x} {parameter_size:x} {name}")

    def inline(self, depth: int, line: int, file: int | None, origin: int, ranges: Sequence[tuple[int, int]]) -> None:
        """Add ``INLINE``, in its old form if no file is given. Ranges are (address, size)."""
        pieces = " ".join(f"{address:x} {size:x}" for address, size in ranges)
        self.raw(f"INLINE {depth} {line} {f'{file} ' if file is not None else ''}{origin} {pieces}")

    def line(self, address: int, size: int, line: int, file: int) -> None:
        """Add a line record."""
        self.raw(f"{address:x} {size:x} {line} {file}")

    def public(self, address: int, name: str, *, parameter_size: int = 0, multiple: bool = False) -> None:
        """Add ``PUBLIC``."""
        self.raw(f"PUBLIC {'m ' * multiple}{address:x} {parameter_size:x} {name}")

    def stack_win(
        self,
        type: int,
        address: int,
        size: int,
        *,
        prologue: int = 0,
        epilogue: int = 0,
        parameters: int = 0,
        saved: int = 0,
        local: int = 0,
        most: int = 0,
        program: str | None = None,
        allocates_base_pointer: bool = False,
    ) -> None:
        """Add ``STACK WIN``, with a program or with the flag."""
        numbers = (type, address, size, prologue, epilogue, parameters, saved, local, most, program is not None)
        fields = " ".join(f"{int(number):x}" for number in numbers)
        self.raw(f"STACK WIN {fields} {int(allocates_base_pointer) if program is None else program}")

    def stack_cfi_init(self, address: int, size: int, rules: str) -> None:
        """Add ``STACK CFI INIT``."""
        self.raw(f"STACK CFI INIT {address:x} {size:x} {rules}")

    def stack_cfi(self, address: int, rules: str) -> None:
        """Add ``STACK CFI``."""
        self.raw(f"STACK CFI {address:x} {rules}")

    def build(self, *, final_newline: bool = True) -> bytes:
        """The file's bytes: UTF-8, lone surrogates as the bytes that they stand for."""
        text = self.newline.join(self.records) + (self.newline if final_newline and self.records else "")
        return text.encode("utf-8", "surrogateescape")
