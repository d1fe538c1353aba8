"""The compiled core and the same files uncompiled say the same of a corpus of damaged sections."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from fuzz_cfi_inputs import mutated, seeds
from fuzz_cfi_layers import Choices, decode, digest
from uncompiled import said_uncompiled

from clew.errors import Error
from clew.image import Image
from clew.native import compiled

COUNT = 400
LIBRARIES = ("/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6")


def corpus() -> Iterator[tuple[bytes, Choices]]:
    """The same inputs in every process: builder-made sections and slices of the system's own, most of them damaged."""
    random = Random(5)
    good = seeds(random, 100)
    for turn in range(COUNT):
        yield decode(good[turn] if turn < 60 else mutated(random, random.choice(good), random.choice(good)))
    for path in LIBRARIES:
        if not Path(path).exists():
            continue
        with Image.open(path) as image:
            frames = image.section(".eh_frame")
            if frames is None:
                continue
            data, machine = bytes(frames.data), {183: "aarch64"}.get(image.e_machine, "x86-64")
            for _ in range(12):
                begin = random.randrange(len(data) // 8) * 4
                slice_ = data[begin : begin + 1500]
                yield data[:64] + slice_, Choices(machine, address=frames.address)
                yield mutated(random, b"  " + data[:2000], slice_)[2:], Choices(machine, address=frames.address)


def digests() -> str:
    lines = []
    for data, choices in corpus():
        try:
            lines.append(digest(data, choices))
        except Error as error:
            lines.append(str(error))
    return "\n".join(lines)


@pytest.mark.skipif(not compiled(), reason="the core is not compiled here, so there is nothing to compare it with")
def test_compiled_and_uncompiled_agree() -> None:
    pure = said_uncompiled(__file__)
    ours, theirs = digests().split("\n"), pure.strip().split("\n")
    assert len(ours) == len(theirs) >= COUNT
    assert [index for index, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1]] == []


if __name__ == "__main__":
    assert not compiled()
    print(digests())
