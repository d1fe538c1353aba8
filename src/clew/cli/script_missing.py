"""Modules whose files are not there any more: perf ends stacks in them, and clew says that it went on without a table."""

from __future__ import annotations

from collections.abc import Iterable

from clew.cli.output import counted
from clew.errors import Problem


class Missing:
    """Files of modules that were not found, and how many samples have frames in them.

    Attributes:
        numbers: of the files, by their paths in the recording.
        samples: how many samples have frames there, by number.
    """

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.samples: list[int] = []

    def __bool__(self) -> bool:
        return bool(self.numbers)

    def add(self, path: str) -> int:
        """The number of a file."""
        number = self.numbers.setdefault(path, len(self.samples))
        if number == len(self.samples):
            self.samples.append(0)
        return number

    def count(self, files: Iterable[tuple[int, int]]) -> None:
        """Adds to the numbers of samples: pairs of a file's number, and how many more have frames there."""
        for number, samples in files:
            self.samples[number] += samples

    def problems(self) -> list[Problem]:
        """What there is to tell, of the most frequent one first."""
        order = sorted(self.numbers.items(), key=lambda item: -self.samples[item[1]])
        return [
            Problem(
                f"{path}: no file of it was found that fits: for the frames of {counted(self.samples[number], 'sample')} in it "
                "there are no names and no unwind table; stacks that were walked through it may be wrong"
            )
            for path, number in order
            if self.samples[number]
        ]
