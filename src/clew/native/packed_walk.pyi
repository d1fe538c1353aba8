from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

class PackedFile:
    def __init__(
        self,
        table: Any,
        plain: npt.NDArray[np.uint8],
        special_start: npt.NDArray[np.uint64],
        special_end: npt.NDArray[np.uint64],
    ) -> None: ...

class PackedWalker:
    def __init__(
        self,
        machine: int,
        code_mask: int,
        load: Callable[[int], PackedFile | None],
        start: npt.NDArray[np.uint64],
        end: npt.NDArray[np.uint64],
        bias: npt.NDArray[np.uint64],
    ) -> None: ...
    def walk(
        self,
        buffer: Any,
        which: npt.NDArray[np.int64],
        sp: npt.NDArray[np.uint64],
        stack_offset: npt.NDArray[np.uint64],
        stack_size: npt.NDArray[np.uint32],
        registers_offset: npt.NDArray[np.uint64],
        restarted: npt.NDArray[np.uint8],
        slots: npt.NDArray[np.uint8],
        pc: npt.NDArray[np.uint64],
        module: npt.NDArray[np.int32],
        first: npt.NDArray[np.uint32],
        size: npt.NDArray[np.uint32],
        reason: npt.NDArray[np.uint8],
        in_call: npt.NDArray[np.uint8],
        witness: int,
        limit: int,
        begin: int,
        used: int,
    ) -> tuple[int, int]: ...
