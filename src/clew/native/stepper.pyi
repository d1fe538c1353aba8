from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

from clew.native.stepbook import StepBook
from clew.native.steptable import StepTable

UNUSUAL: int
OUTERMOST_FRAME: int
FULL: int
COPY_END: int
VALUES: int

class Owner(Protocol):
    def load(self, module: int) -> StepTable[Any] | None: ...
    def resolve(self, table: StepTable[Any], module: int, row: int) -> int: ...

class Windows(Protocol):
    def window(self, address: int) -> tuple[int, Buffer] | None: ...

class ModuleMap:
    def __init__(
        self, owner: Owner, start: npt.NDArray[np.uint64], end: npt.NDArray[np.uint64], bias: npt.NDArray[np.uint64]
    ) -> None: ...

class Stepper:
    pc: int
    interrupted: bool
    known: int
    count: int
    highest: int
    work: int
    def __init__(
        self,
        book: StepBook,
        slots: int,
        facts: tuple[int, bool, int, int, bool, int, int, int, bool],
        with_registers: bool = False,
    ) -> None: ...
    def begin(self, pc: int, interrupted: bool, restarted: bool, registers: Iterable[tuple[int, int]]) -> None: ...
    def registers(self) -> list[tuple[int, int]]: ...
    def show(self, memory: Windows | None) -> None: ...
    def look(self, address: int, data: Buffer, offset: int, size: int) -> None: ...
    def run(self, modules: ModuleMap, limit: int) -> int: ...
    def notes(self) -> npt.NDArray[np.uint64]: ...
