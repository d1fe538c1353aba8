from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from clew.native.textbuffer import TextBuffer

CPU: int
TIME: int
PERIOD: int
IP: int
NANOSECONDS: int
SYMBOL: int
OFFSET: int
MODULE: int

U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

class FrameLines(TextBuffer):
    def __init__(self, what: int) -> None: ...
    def __len__(self) -> int: ...
    def add(
        self,
        alone: U8,
        address: U64,
        symbol: I64,
        offset: U64,
        module: I64,
        symbols: Sequence[bytes],
        modules: Sequence[bytes],
    ) -> None: ...
    def forget(self) -> None: ...

class SampleText(TextBuffer):
    def __init__(self, lines: FrameLines, what: int) -> None: ...
    def begin(
        self,
        order: I64,
        head: U32,
        heads: Sequence[bytes],
        event: U16,
        events: Sequence[bytes],
        cpu: I32,
        time: U64,
        period: U64,
        alone: U8,
        first: U64,
        end: U64,
        numbers: U32,
    ) -> None: ...
    def more(self) -> memoryview: ...
