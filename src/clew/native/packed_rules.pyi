from typing import Any

import numpy as np
import numpy.typing as npt

class RulePacker:
    def __init__(
        self,
        columns: tuple[npt.NDArray[Any], ...],
        registers: int,
        stack_pointer: int,
        return_address: int,
        saved: int,
        same: int,
    ) -> None: ...
    def pack(self, used: npt.NDArray[np.uint32], out: npt.NDArray[np.uint8]) -> list[int]: ...
