from collections.abc import Iterable
from typing import Protocol

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

from clew.native.modulemap import ModuleMap
from clew.native.stepbook import StepBook

UNUSUAL: int
OUTERMOST_FRAME: int
FULL: int
COPY_END: int
VALUES: int

class Windows(Protocol):
    def window(self, address: int) -> tuple[int, Buffer] | None: ...

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
