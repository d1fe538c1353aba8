from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

INIT: int
CHANGE: int
ODD: int

class CfiLines:
    line: int
    def __init__(self, data: Buffer, line: int) -> None: ...
    def run(
        self,
    ) -> tuple[
        npt.NDArray[np.uint8],
        npt.NDArray[np.uint64],
        npt.NDArray[np.uint64],
        npt.NDArray[np.uint32],
        npt.NDArray[np.uint32],
    ]: ...
    def texts(self) -> list[bytes]: ...

class CfiSteps:
    def run(
        self, block: Any, text: Any, follow: Callable[[int], tuple[int, bool]]
    ) -> tuple[npt.NDArray[np.int32], list[int]]: ...
