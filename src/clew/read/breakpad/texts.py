"""The names in a symbol file, left where they are until somebody asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]


class Texts(Sequence[str]):
    """Pieces of a file's bytes as text, decoded when they are asked for.

    They are UTF-8; a byte that is not becomes a lone surrogate, as in Python's file names.

    Args:
        data: the file's bytes.
        offset: where each begins, uint64[n]. length: in bytes, uint32[n].
    """

    __slots__ = ("_data", "length", "offset")

    def __init__(self, data: memoryview, offset: U64, length: U32) -> None:
        self._data = data
        self.offset = offset
        self.length = length

    def __len__(self) -> int:
        return len(self.offset)

    def raw(self, index: int) -> bytes:
        """The bytes of one."""
        begin = int(self.offset[index])
        return bytes(self._data[begin : begin + int(self.length[index])])

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Texts: ...
    def __getitem__(self, index: int | slice) -> str | Texts:
        if isinstance(index, slice):
            return Texts(self._data, self.offset[index], self.length[index])
        return self.raw(index).decode("utf-8", "surrogateescape")

    def raws(self) -> Iterator[bytes]:
        """The bytes of each."""
        for begin, length in zip(self.offset.tolist(), self.length.tolist(), strict=True):
            yield bytes(self._data[begin : begin + length])

    def __iter__(self) -> Iterator[str]:
        return (raw.decode("utf-8", "surrogateescape") for raw in self.raws())

    def __repr__(self) -> str:
        return f"Texts({len(self)} of them)"

    def where(self, text: bytes) -> npt.NDArray[np.int64]:
        """Which of them are this text: their indices."""
        same = np.flatnonzero(self.length == len(text))
        found = [index for index in same.tolist() if self.raw(index) == text]
        return np.asarray(found, np.int64)

    def moved(self, offset: U64, length: U32) -> Texts:
        """Other pieces of the same file."""
        return Texts(self._data, offset, length)

    def followed_by(self, *others: Texts) -> Texts:
        """These and then those of others, which are of the same file."""
        every = (self, *others)
        return Texts(
            self._data, np.concatenate([each.offset for each in every]), np.concatenate([each.length for each in every])
        )
