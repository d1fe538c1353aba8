from collections.abc import Sequence

UNDEFINED: int
SAME_VALUE: int
AT_CFA: int
CFA_PLUS: int
IN_REGISTER: int
OUTERMOST: int
SIGNED: int
SLOTS: int

class StepBook:
    count: int
    cell_count: int
    def add(
        self,
        cfa_slot: int,
        cfa_value: int,
        return_slot: int,
        flags: int,
        cells: Sequence[tuple[int, int, int]],
        plt: int = 0,
    ) -> int: ...
