from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

_Frame = TypeVar("_Frame")

I32 = npt.NDArray[np.int32]

class SymbolIndex:
    def __init__(self, functions: Any, lines: Any, inlines: Any) -> None: ...
    def find(self, address: int) -> tuple[int, int, int]: ...
    def find_many(self, addresses: npt.NDArray[np.uint64]) -> tuple[I32, I32, I32]: ...
    def chains(
        self,
        addresses: npt.NDArray[np.uint64],
        frame: type[_Frame],
        names: Sequence[str],
        files: Sequence[str],
        known: dict[int, tuple[str | None, tuple[_Frame, ...], tuple[str | None, int]]],
        above: Callable[[int], tuple[str | None, tuple[_Frame, ...], tuple[str | None, int]]],
        otherwise: Callable[[int], tuple[_Frame, ...]],
    ) -> list[tuple[_Frame, ...]]: ...
    def callers(self) -> I32: ...
