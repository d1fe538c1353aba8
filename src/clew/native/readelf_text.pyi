from collections.abc import Callable, Iterable, Sequence

COMPILED: bool

class FrameText:
    address_size: int
    problems: list[tuple[int, str]]
    def __init__(
        self,
        data: bytes | bytearray | memoryview,
        address: int,
        eh: bool,
        big: bool,
        address_size: int,
        names: Sequence[bytes | None],
        known: int,
        rare_name: Callable[[int], bytes | None],
        aarch64: bool,
        raw: bool,
        describe: Callable[[int, int, int], Iterable[bytes]],
    ) -> None: ...
    def more(self) -> bytes: ...
