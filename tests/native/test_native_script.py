"""The parts of the compiled core that print samples, with what no recording of a test has enough of."""

from __future__ import annotations

import numpy as np
import pytest

from clew.native.script_frames import ALONE, KERNEL, FrameNumbers
from clew.native.script_kallsyms import kernel_symbols
from clew.native.script_text import CPU, IP, MODULE, NANOSECONDS, OFFSET, PERIOD, SYMBOL, TIME, FrameLines, SampleText

U64 = np.uint64
SPREADING = 0x9E3779B97F4A7C15


def numbered(
    numbers: FrameNumbers, addresses: list[int], *, space: int = 5, chained: bool = True
) -> tuple[list[int], list[int]]:
    """The frames of one sample whose call chain these are, and where they begin and end."""
    order = ">" if numbers is _BIG else "<"
    data = memoryview(np.array(addresses, f"{order}u8").tobytes() or b"\0")
    begins, found, _ = numbers.samples(
        data,
        np.array([space], np.uint32),
        np.array([chained], np.uint8),
        np.array([2], np.uint16),
        np.array([0x1234], U64),
        np.zeros(1, U64),
        np.array([len(addresses)], np.uint32),
        np.zeros(1, np.uint32),
        np.zeros(1, np.uint32),
        np.zeros(1, U64),
        np.zeros(1, np.uint8),
        np.zeros(1, np.uint8),
        1 << 20,
    )
    return found.tolist(), begins.tolist()


_BIG = FrameNumbers(SPREADING, True)


@pytest.mark.parametrize("odd", [1, SPREADING, (1 << 64) - 1])
def test_many_frames_have_a_number_each(odd: int) -> None:
    numbers = FrameNumbers(odd, False)
    # Enough for the table to grow some times; the other multipliers put them all into few slots.
    addresses = [n * 0x10010 for n in range(20_000 if odd == SPREADING else 300)]
    for _ in range(2):
        found, begins = numbered(numbers, addresses)
        assert found == list(range(len(addresses)))
        assert begins == [0, len(addresses)]
    again, _ = numbered(numbers, addresses[::-1], space=6)
    assert again == list(range(len(addresses), 2 * len(addresses)))
    spaces, known = numbers.known(len(addresses))
    assert set(spaces.tolist()) == {6}
    assert known.tolist() == addresses[::-1]


def test_marks_change_the_space() -> None:
    kernel, user, hypervisor = (1 << 64) - 128, (1 << 64) - 512, (1 << 64) - 32
    for numbers in (FrameNumbers(3, False), _BIG):
        found, _ = numbered(numbers, [1, kernel, 2, 3, user, 2, hypervisor, 4])
        spaces, addresses = numbers.known(0)
        assert [(int(spaces[n]), int(addresses[n])) for n in found] == [
            (5, 1),
            (KERNEL, 2),
            (KERNEL, 3),
            (5, 2),
            (0, 4),
        ]
        assert numbered(numbers, [1, (1 << 64) - 1, 2])[0] == []
        alone, _ = numbered(numbers, [], chained=False)
        assert int(numbers.known(alone[0])[0][0]) == 5 + ALONE


def test_kernel_symbols() -> None:
    text = (
        b"0000000000000010 T first\n"
        b"ffffffff81000000 t second\t[mod]\n"
        b"ffffffff81000010 r data of another kind\n"
        b"ffffffff81000020 W third\n"
        b"\n"
        b"not a line\n"
        b"ffffffffffffffffff T too many digits\n"
        b"ffffffff81000030 T\n"
        b"ffffffff81000040 T \n"
        b"ffffffff81000050 B last"
    )
    address, begin, end = kernel_symbols(text)
    names = [text[first:last] for first, last in zip(begin.tolist(), end.tolist(), strict=True)]
    assert list(zip(address.tolist(), names, strict=True)) == [
        (0x10, b"first"),
        (0xFFFFFFFF81000000, b"second"),
        (0xFFFFFFFF81000020, b"third"),
        (0xFFFFFFFF81000050, b"last"),
    ]
    for cut in range(len(text)):
        assert len(kernel_symbols(text[:cut])[0]) <= 4


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (CPU, b"[007] "),
        (TIME, b"    1.000002: "),
        (TIME | NANOSECONDS, b"    1.000002003: "),
        (PERIOD, b"        42 "),
        (CPU | TIME | PERIOD, b"[007]     1.000002:         42 "),
    ],
)
def test_numbers_of_samples(what: int, expected: bytes) -> None:
    assert text_of(what, cpu=7, time=1_000_002_003, period=42) == b"head " + expected + b"event\n"


def test_extreme_numbers() -> None:
    assert text_of(CPU, cpu=-1) == b"head [-01] event\n"
    assert text_of(CPU, cpu=123456) == b"head [123456] event\n"
    assert text_of(TIME, time=(1 << 64) - 1) == b"head 18446744073.709551: event\n"
    assert text_of(PERIOD, period=(1 << 64) - 1) == b"head 18446744073709551615 event\n"


def text_of(what: int, *, cpu: int = 0, time: int = 0, period: int = 0, lines: FrameLines | None = None) -> bytes:
    """The text of one sample with the frames of all lines."""
    lines = FrameLines(0) if lines is None else lines
    text = SampleText(lines, what)
    text.begin(
        np.zeros(1, np.int64),
        np.zeros(1, np.uint32),
        [b"head "],
        np.zeros(1, np.uint16),
        [b"event"],
        np.array([cpu], np.int32),
        np.array([time], U64),
        np.array([period], U64),
        np.zeros(1, np.uint8),
        np.zeros(1, U64),
        np.array([len(lines)], U64),
        np.arange(len(lines), dtype=np.uint32),
    )
    return b"".join(iter(lambda: bytes(text.more()), b""))


def test_lines_of_frames() -> None:
    lines = FrameLines(SYMBOL | OFFSET | MODULE)
    for _ in range(2):
        lines.add(
            np.array([0, 0, 1], np.uint8),
            np.array([0, (1 << 64) - 1, 0x1000], U64),
            np.array([-1, 1, 0], np.int64),
            np.array([0, 0xABC, 0], U64),
            np.array([0, 1, 0], np.int64),
            [b"main", b"x" * 100_000],
            [b"[unknown]", b"/a file"],
        )
        first = b"\t               0 [unknown] ([unknown])\n"
        second = b"\tffffffffffffffff " + b"x" * 100_000 + b"+0xabc (/a file)\n"
        third = b"            1000 main+0x0 ([unknown])\n"
        assert text_of(IP, lines=lines) == b"head event\n" + first + second + third + b"\n"
        lines.forget()
