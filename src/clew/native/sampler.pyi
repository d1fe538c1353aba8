from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clew.native.modulemap import ModuleMap
from clew.native.packed_walk import PackedWalker
from clew.native.stepper import Stepper

class SampleColumns:
    def __init__(self, count: int, room: int) -> None: ...
    def walk(
        self,
        stepper: Stepper,
        modules: ModuleMap,
        which: npt.NDArray[np.int64],
        sp: npt.NDArray[np.uint64],
        stack_offset: npt.NDArray[np.uint64],
        stack_size: npt.NDArray[np.uint32],
        registers_offset: npt.NDArray[np.uint64],
        restarted: npt.NDArray[np.uint8],
        slots: npt.NDArray[np.uint8],
        witness: int,
        limit: int,
        work: int,
    ) -> None: ...
    def walk_packed(
        self,
        walker: PackedWalker,
        buffer: Any,
        which: npt.NDArray[np.int64],
        sp: npt.NDArray[np.uint64],
        stack_offset: npt.NDArray[np.uint64],
        stack_size: npt.NDArray[np.uint32],
        registers_offset: npt.NDArray[np.uint64],
        restarted: npt.NDArray[np.uint8],
        slots: npt.NDArray[np.uint8],
        witness: int,
        limit: int,
    ) -> npt.NDArray[np.int64]: ...
    def reasons(self) -> npt.NDArray[np.uint8]: ...
    def put(self, index: int, reason: int, in_call: bool, pcs: Sequence[int], modules: Iterable[int]) -> None: ...
    def columns(
        self,
    ) -> tuple[
        npt.NDArray[np.uint32],
        npt.NDArray[np.uint32],
        npt.NDArray[np.uint8],
        npt.NDArray[np.uint8],
        npt.NDArray[np.uint64],
        npt.NDArray[np.int32],
    ]: ...
