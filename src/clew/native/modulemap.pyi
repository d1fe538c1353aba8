from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from clew.native.steptable import StepTable

class Owner(Protocol):
    def load(self, module: int) -> StepTable[Any] | None: ...
    def resolve(self, table: StepTable[Any], module: int, row: int) -> int: ...

class ModuleMap:
    def __init__(
        self, owner: Owner, start: npt.NDArray[np.uint64], end: npt.NDArray[np.uint64], bias: npt.NDArray[np.uint64]
    ) -> None: ...
