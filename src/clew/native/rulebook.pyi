from typing import Any

import numpy as np
import numpy.typing as npt

class Rulebook:
    count: int
    cell_count: int
    budget: int
    def __init__(self, size: int) -> None: ...
    def heads(
        self, numbers: Any
    ) -> tuple[
        npt.NDArray[np.uint8],
        npt.NDArray[np.uint32],
        npt.NDArray[np.int64],
        npt.NDArray[np.uint32],
        npt.NDArray[np.uint32],
        npt.NDArray[np.uint32],
    ]: ...
    def cells(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint8], npt.NDArray[np.int64]]: ...
