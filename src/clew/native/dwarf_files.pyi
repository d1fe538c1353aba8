from typing_extensions import Buffer

def is_absolute(path: str) -> bool: ...
def joined(name: str | None, directory: str | None, compilation: str | None) -> str | None: ...

class FileBook:
    files: list[str]
    def __init__(
        self, line: Buffer, strings: Buffer, line_strings: Buffer, offsets: Buffer, supplementary: Buffer, big: bool
    ) -> None: ...
