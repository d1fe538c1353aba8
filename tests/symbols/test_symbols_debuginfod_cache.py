"""What the environment says of debuginfod, and the cache that is shared with elfutils."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from debug_elves import BUILD_ID, elf, write

from clew.symbols import DebuginfodSettings
from clew.symbols.debuginfod import Debuginfod
from clew.symbols.debuginfod_cache import Cache
from clew.symbols.debuginfod_settings import cache_directory

ID = BUILD_ID.hex()


@pytest.mark.parametrize("urls", [None, "", " \t ", "ima:enforcing"])
def test_no_url_is_off(urls: str | None) -> None:
    environment = {"HOME": "/nowhere"} | ({} if urls is None else {"DEBUGINFOD_URLS": urls})
    assert DebuginfodSettings.from_environment(environment) is None


def test_everything_that_the_environment_says(tmp_path: Path) -> None:
    lines = "X-One: 1\n\n  \nbad header\nX-Two:two words \nX-Bad: \1\n: none\n"
    environment = {
        "DEBUGINFOD_URLS": "https://one.example/ http://two.example ima:permissive https://one.example/ file:///srv",
        "DEBUGINFOD_CACHE_PATH": "/cache",
        "DEBUGINFOD_TIMEOUT": "7",
        "DEBUGINFOD_MAXTIME": " 30 ",
        "DEBUGINFOD_MAXSIZE": "1000000",
        "DEBUGINFOD_RETRY_LIMIT": "5",
        "DEBUGINFOD_HEADERS_FILE": write(tmp_path / "headers", lines.encode()),
    }
    assert DebuginfodSettings.from_environment(environment) == DebuginfodSettings(
        urls=("https://one.example/", "http://two.example", "file:///srv"),
        cache="/cache",
        timeout=7,
        maximum_time=30,
        maximum_size=1_000_000,
        retries=5,
        headers=(("X-One", "1"), ("X-Two", "two words")),
    )


@pytest.mark.parametrize("text", ["", "nonsense", "1e3", "9" * 30])
def test_numbers_that_are_none(text: str) -> None:
    names = ("TIMEOUT", "MAXTIME", "MAXSIZE", "RETRY_LIMIT")
    environment = {"DEBUGINFOD_URLS": "http://one", "HOME": "/nowhere"} | {f"DEBUGINFOD_{name}": text for name in names}
    found = DebuginfodSettings.from_environment(environment)
    assert found == DebuginfodSettings(("http://one",), "/nowhere/.cache/debuginfod_client")


def test_zero_is_no_limit() -> None:
    names = ("TIMEOUT", "MAXTIME", "MAXSIZE", "RETRY_LIMIT")
    environment = {"DEBUGINFOD_URLS": "http://one", "HOME": "/h"} | {f"DEBUGINFOD_{name}": "-1" for name in names}
    found = DebuginfodSettings.from_environment(environment)
    assert found == DebuginfodSettings(("http://one",), "/h/.cache/debuginfod_client", timeout=None, retries=0)


def test_where_the_cache_is(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert cache_directory(home) == f"{tmp_path}/.cache/debuginfod_client"
    assert cache_directory(home | {"XDG_CACHE_HOME": "/x"}) == "/x/debuginfod_client"
    assert cache_directory(home | {"XDG_CACHE_HOME": "/x", "DEBUGINFOD_CACHE_PATH": "/d"}) == "/d"
    (tmp_path / ".debuginfod_client_cache").mkdir()
    assert cache_directory(home | {"XDG_CACHE_HOME": "/x"}) == f"{tmp_path}/.debuginfod_client_cache"


def test_names_in_the_cache() -> None:
    cache = Cache("/c")
    assert cache.place(BUILD_ID, "debuginfo") == f"/c/{ID}/debuginfo"
    # What debuginfod-find of elfutils 0.188 made of this path.
    assert cache.place(BUILD_ID, "source", "/tmp/./no#such.c") == f"/c/{ID}/source##tmp##.##no#_such.c"


def old(path: Path, seconds: float) -> Path:
    when = time.time() - seconds
    os.utime(path, (when, when))
    return path


def test_what_was_not_used_for_long_goes(tmp_path: Path) -> None:
    hour = 3600
    kept = [
        write(tmp_path / ID / "debuginfo", b"used"),
        write(tmp_path / "not an id" / "debuginfo", b"somebody else's"),
        write(tmp_path / ID / "notes", b"somebody else's"),
        write(tmp_path / "max_unused_age_s", b"7200\n"),
    ]
    for path in kept[1:]:
        old(Path(path), 3 * hour)
    gone = [ID + "/executable", ID + "/source##a.c", "12ab/debuginfo", ID + "/debuginfo.x1y2z3"]
    for name in gone:
        old(Path(write(tmp_path / name, b"unused")), 3 * hour)
    interval = tmp_path / "cache_clean_interval_s"
    cache = Cache(str(tmp_path))
    cache.clean()
    assert all((tmp_path / name).exists() for name in gone)
    write(interval, b"3600")
    cache.clean()
    assert all((tmp_path / name).exists() for name in gone)
    old(interval, 2 * hour)
    cache.clean()
    assert not any((tmp_path / name).exists() for name in gone)
    assert all(Path(path).exists() for path in kept)
    assert time.time() - interval.stat().st_mtime < hour
    # A directory goes when it was empty for as long.
    old(tmp_path / "12ab", 3 * hour)
    old(interval, 2 * hour)
    cache.clean()
    assert not (tmp_path / "12ab").exists()


def test_a_cache_is_not_cleaned_beyond_itself(tmp_path: Path) -> None:
    other = tmp_path / "other"
    old(Path(write(other / "debuginfo", b"x")), 1e7)
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "ab12").symlink_to(other)
    old(Path(write(cache / "cache_clean_interval_s", b"0")), 10)
    Cache(str(cache)).clean()
    assert (other / "debuginfo").exists()


@pytest.mark.parametrize("said", [b"", b"-5", b"x" * 100, b"9" * 100, b"600\n"])
def test_control_files_that_say_nothing_count_for_nothing(said: bytes, tmp_path: Path) -> None:
    write(tmp_path / "cache_miss_s", said)
    place = Path(write(tmp_path / ID / "debuginfo", b""))
    cache = Cache(str(tmp_path))
    left = cache.missing_for(str(place))
    assert left is not None
    assert 590 < left <= 600
    assert cache.missing_for(str(old(place, 601))) is None
    # It was made on another day than the clock has now.
    assert cache.missing_for(str(old(place, -1e6))) is None
    assert cache.missing_for(f"{place}x") is None


def test_a_source_is_asked_for_by_its_whole_path_only(tmp_path: Path) -> None:
    client = Debuginfod(DebuginfodSettings((f"file://{tmp_path}",), str(tmp_path / "cache")))
    assert client.find_source(BUILD_ID, "a.c").path is None
    write(tmp_path / "buildid" / ID / "source" / "src" / "a b.c", b"int a;")
    found = client.find_source(BUILD_ID, "/src/a b.c")
    assert found.path == f"{tmp_path}/cache/{ID}/source##src##a b.c"


def test_a_name_that_no_file_can_have(tmp_path: Path) -> None:
    client = Debuginfod(DebuginfodSettings((f"file://{tmp_path}",), str(tmp_path / "cache")))
    for name in ("/" + "x" * 5000, "/\0", "/\udcff\ud800"):
        found = client.find_source(BUILD_ID, name)
        assert found.path is None
        assert found.tried


#: Anything that has to do with sockets ends the program.
_NO_NETWORK = """
import os, sys
def stop(event, arguments):
    if event.startswith("socket."):
        os.write(2, f"{event} {arguments}".encode())
        os._exit(9)
sys.addaudithook(stop)
from clew.image import Image
from clew.symbols import Places, find_debug_information
places = Places.default([sys.argv[2]])
assert places.debuginfod is None
found = find_debug_information(Image.open(sys.argv[1]), places)
assert found.symbols is None and found.dwarf is None and found.tried
assert not {"socket", "urllib.request", "http.client", "ssl"} & sys.modules.keys()
"""


@pytest.mark.parametrize("urls", [None, "", "  "])
def test_without_urls_there_is_no_network(urls: str | None, tmp_path: Path) -> None:
    stripped = write(tmp_path / "tool", elf(BUILD_ID))
    # A cache is nothing to look into then either: elfutils does not.
    write(tmp_path / "cache" / ID / "debuginfo", elf(BUILD_ID, symbol="hidden", dwarf=True))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DEBUGINFOD")}
    environment["DEBUGINFOD_CACHE_PATH"] = str(tmp_path / "cache")
    if urls is not None:
        environment["DEBUGINFOD_URLS"] = urls
    command = [sys.executable, "-c", _NO_NETWORK, stripped, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
