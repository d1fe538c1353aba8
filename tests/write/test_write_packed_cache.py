"""The cache of packed tables: where it is, and what is not taken from it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clew.errors import Error
from clew.table import AtCfa, RegisterPlus, Rule, table_of
from clew.write.packed import cache_directory, packed
from clew.write.packed.cache import find, store

BUILD_ID = bytes(range(20))
ROW = (0x1000, 0x1100, Rule(RegisterPlus(7, 8), ((16, AtCfa(-8)),), 16))
DATA = packed(table_of("x86-64", [ROW]), None, BUILD_ID)


def test_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_directory() == Path("/home/somebody/.cache/clew/tables")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_directory() == Path("/home/somebody/.cache/clew/tables")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert cache_directory() == Path("/cache/clew/tables")


@pytest.mark.parametrize("home", ["relative", None])
def test_without_a_home(home: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if home is None:
        # A user whom nobody knows: the name cannot be replaced.
        monkeypatch.setattr("os.path.expanduser", lambda path: path)
    else:
        monkeypatch.setenv("HOME", home)
    with pytest.raises(Error, match="no home directory"):
        cache_directory()
    assert find(BUILD_ID) is None
    with pytest.raises(Error, match="no home directory"):
        store(DATA, BUILD_ID)


def test_what_is_taken(tmp_path: Path) -> None:
    path = store(DATA, BUILD_ID, tmp_path)
    found = find(BUILD_ID, tmp_path)
    assert found is not None
    assert bytes(found.data) == DATA
    assert find(BUILD_ID[::-1], tmp_path) is None
    for mode in (0o664, 0o646):
        path.chmod(mode)
        assert find(BUILD_ID, tmp_path) is None
    path.chmod(0o644)
    path.write_bytes(DATA[:-32])
    assert find(BUILD_ID, tmp_path) is None
    path.write_bytes(b"")
    assert find(BUILD_ID, tmp_path) is None
    path.unlink()
    path.mkdir()
    assert find(BUILD_ID, tmp_path) is None


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = store(DATA, BUILD_ID, tmp_path)
    path.unlink()
    os.mkfifo(path)
    assert find(BUILD_ID, tmp_path) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_files_of_others(tmp_path: Path) -> None:
    path = store(DATA, BUILD_ID, tmp_path)
    os.chown(path, 12345, -1)
    assert find(BUILD_ID, tmp_path) is None
