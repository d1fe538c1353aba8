"""Packed tables that are not what they should be: refused in Python and in C, by the same measure."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from clew.errors import FormatError
from clew.read.packed import PackedTable, layout
from clew.read.packed.checksum import crc32
from clew.table import AtCfa, AtExpression, CfaExpression, Expression, RegisterPlus, Rule, table_of
from clew.write.packed import packed

sys.path.insert(0, str(Path(__file__).parent.parent / "native"))
from packed_steps import check


def example() -> bytes:
    """A table with some of everything: pages, cells, expressions with branches."""
    loop = Expression.from_canonical(
        [("register", 7, 8), ("pick", 0), ("bra", 4), ("push", 1 << 40), ("push", 3), ("plus",)],
        address_size=8,
        byte_order="little",
    )
    rules = [
        Rule(RegisterPlus(7, 8), ((16, AtCfa(-8)),), 16),
        Rule(RegisterPlus(6, 16), ((6, AtCfa(-16)), (16, AtCfa(-8))), 16),
        Rule(CfaExpression(loop), ((6, AtExpression(loop)), (16, AtCfa(-8))), 16),
        Rule(RegisterPlus(7, 16), ((0, AtCfa(-16)), (16, AtCfa(-8))), 16, signal_frame=True),
    ]
    some = random.Random(1)
    rows, at = [], 0x1000
    for _ in range(400):
        size = some.randrange(1, 900)
        rows.append((at, at + size, some.choice(rules)))
        at += size + some.choice([0, 0, 0, 70_000])
    return packed(table_of("x86-64", rows), build_id=bytes(range(20)))


EXAMPLE = example()


def resealed(data: bytes | bytearray) -> bytes:
    """The bytes with the checksum that they should have."""
    out = bytearray(data)
    size = int.from_bytes(out[16:24], "little")
    if layout.CHECKED_FROM <= size <= len(out):
        out[12:16] = crc32(memoryview(out)[layout.CHECKED_FROM : size]).to_bytes(4, "little")
    return bytes(out)


def refused(data: bytes) -> FormatError | None:
    try:
        PackedTable(data).table()
    except FormatError as error:
        return error
    return None


def test_example_is_sound() -> None:
    assert refused(EXAMPLE) is None
    assert check(EXAMPLE) == 0


@pytest.mark.parametrize(
    ("offset", "data", "message"),
    [
        (0, b"ELF", "not a packed table"),
        (8, b"\x07\x00", "version 7"),
        (10, b"\x09", "no machine 9"),
        (11, b"\x21", "at most 32"),
        (12, b"\x00\x00", "checksum"),
        (16, b"\xff\xff\xff", "are there"),
    ],
)
def test_header(offset: int, data: bytes, message: str) -> None:
    bad = bytearray(EXAMPLE)
    bad[offset : offset + len(data)] = data
    error = refused(bytes(bad))
    assert error is not None
    assert message in error.message
    assert error.hint or offset == 0
    assert check(bytes(bad))


def test_cut() -> None:
    for size in (0, 7, 8, 100, 127, 128, len(EXAMPLE) - 1):
        assert refused(EXAMPLE[:size]) is not None
        assert check(EXAMPLE[:size])


@pytest.mark.parametrize("part", layout.PARTS[:4] + layout.PARTS[5:])
def test_a_damaged_part_is_named(part: str) -> None:
    opened = PackedTable(EXAMPLE)
    at = int.from_bytes(EXAMPLE[24 + 8 * layout.PARTS.index(part) :][:4], "little")
    found = set()
    for more in range(min(64, opened.parts[part].nbytes)):
        bad = bytearray(EXAMPLE)
        bad[at + more] ^= 0xFF
        error = refused(resealed(bad))
        if error is not None:
            found.add(error.section)
            assert error.offset is not None
    assert found


def test_mutations_are_refused_in_c_and_in_python_alike() -> None:
    some = random.Random(7)
    sound = 0
    for _ in range(1500):
        bad = bytearray(EXAMPLE)
        for _ in range(some.choice([1, 1, 1, 2, 5])):
            # The header, and the beginnings of the parts, more often than a place in the middle of the rows.
            place = some.choice(
                [some.randrange(16, 128), some.randrange(len(bad)), some.randrange(len(bad) - 2000, len(bad))]
            )
            bad[place] = some.choice([0, 1, 0x7F, 0x80, 0xFF, some.randrange(256)])
        data = resealed(bad)
        assert (refused(data) is None) == (check(data) == 0)
        sound += check(data) == 0
    assert 0 < sound < 1500


def test_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from clew.write.packed import cache

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    build_id = bytes(range(20))
    assert cache.find(build_id) is None
    path = cache.store(EXAMPLE, build_id)
    assert path.relative_to(tmp_path).as_posix() == f"clew/tables/00/{build_id.hex()[2:]}.packed"
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    found = cache.find(build_id)
    assert found is not None
    assert found.size == len(EXAMPLE)
    # One that is damaged, or of another file, is not taken.
    path.write_bytes(EXAMPLE[:-1] + b"\xff")
    assert cache.find(build_id) is None
    path.write_bytes(b"")
    assert cache.find(build_id) is None
    cache.store(EXAMPLE, b"\x01\x02")
    assert cache.find(b"\x01\x02") is None


def test_writers_at_once(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from clew.write.packed import cache

    build_id = bytes(range(20))
    with ThreadPoolExecutor(8) as pool:
        seen = list(
            pool.map(lambda _: (cache.store(EXAMPLE, build_id, tmp_path), cache.find(build_id, tmp_path))[1], range(64))
        )
    assert all(each is not None and each.size == len(EXAMPLE) for each in seen)
    assert len(list(tmp_path.rglob("*.packed"))) == 1
    assert len([each for each in tmp_path.rglob("*") if each.is_file()]) == 1
