from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

_T = TypeVar("_T")

class StepTable(Generic[_T]):
    owner: _T
    def __init__(self, owner: _T, start: npt.NDArray[np.uint64]) -> None: ...
    def set_step(self, row: int, step: int) -> None: ...
    def find(self, address: int) -> int: ...
