"""Against elfutils' own server and client on loopback: what one fetched, the other uses."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from clew.image import Image
from clew.symbols import DebuginfodSettings, Places, find_debug_information
from clew.symbols.debuginfod import Debuginfod

_TOOLS = ("debuginfod", "debuginfod-find", "gcc", "objcopy", "strip")


@dataclass(frozen=True)
class Served:
    """A server, and what it serves."""

    url: str
    stripped: Path
    debug: Path
    source: Path

    @property
    def build_id(self) -> bytes:
        with Image.open(self.stripped) as image:
            assert image.build_id is not None
            return image.build_id


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{missing[0]} is not installed")
    folder = tmp_path_factory.mktemp("debuginfod")
    files = folder / "files"
    files.mkdir()
    source, whole, stripped, debug = folder / "a#b.c", folder / "whole", folder / "tool", files / "tool.debug"
    source.write_text("int twice(int x) { return 2 * x; }\nint main(int c, char **v) { return twice(c); }\n")
    subprocess.run(["gcc", "-g", "-O1", "-Wl,--build-id", "-o", whole, source], check=True)
    subprocess.run(["objcopy", "--only-keep-debug", whole, debug], check=True)
    subprocess.run(["strip", "-o", stripped, whole], check=True)
    # Elfutils finds sources only for programs that it has as well.
    shutil.copy(stripped, files / "tool")
    environment = os.environ | {"no_proxy": "127.0.0.1", "HOME": str(folder)}
    environment.pop("DEBUGINFOD_URLS", None)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["debuginfod", "-p", str(port), "-F", "-d", ":memory:", "-t", "0", "-c", "1", str(files)]
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(server, f"{url}/metrics")
        yield Served(url, stripped, debug, source)
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _wait_for(server: subprocess.Popen[bytes], url: str) -> None:
    """Waits until the server has scanned its directory; skips where it does not come up."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    until = time.monotonic() + 30
    while time.monotonic() < until and server.poll() is None:
        try:
            with opener.open(url, timeout=2) as answer:
                if b'scanned_files_total{source="file"} 2' in answer.read():
                    return
        except (OSError, urllib.error.URLError):
            pass
        time.sleep(0.1)
    pytest.skip("debuginfod does not come up here")


def settings(served: Served, cache: Path) -> DebuginfodSettings:
    return DebuginfodSettings((served.url,), str(cache), timeout=20)


def find_by_elfutils(cache: Path, url: str, *arguments: str) -> str | None:
    environment = {"DEBUGINFOD_CACHE_PATH": str(cache), "DEBUGINFOD_URLS": url, "PATH": os.environ["PATH"]}
    environment |= {"no_proxy": "127.0.0.1", "HOME": str(cache)}
    done = subprocess.run(
        ["debuginfod-find", *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else None


def test_a_debug_file_from_a_server(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("DEBUGINFOD_URLS", served.url)
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path))
    with Image.open(served.stripped) as image:
        found = find_debug_information(image, Places.default())
    assert found.symbols is not None
    assert found.symbols is found.dwarf
    assert found.dwarf.name == f"{tmp_path}/{served.build_id.hex()}/debuginfo"
    assert Path(found.dwarf.name).read_bytes() == served.debug.read_bytes()
    assert str(served.stripped) in [path for path, _ in found.tried]
    # What the cache has, elfutils uses though nobody answers.
    nobody = "http://127.0.0.1:1"
    assert find_by_elfutils(tmp_path, nobody, "debuginfo", served.build_id.hex()) == found.dwarf.name


def test_what_elfutils_fetched_is_used(served: Served, tmp_path: Path) -> None:
    build_id = served.build_id.hex()
    theirs = {
        "debuginfo": find_by_elfutils(tmp_path, served.url, "debuginfo", build_id),
        "executable": find_by_elfutils(tmp_path, served.url, "executable", build_id),
        "source": find_by_elfutils(tmp_path, served.url, "source", build_id, str(served.source)),
    }
    offline = Debuginfod(DebuginfodSettings(("http://127.0.0.1:1",), str(tmp_path)))
    assert offline.find(served.build_id).path == theirs["debuginfo"] is not None
    assert offline.find(served.build_id, "executable").path == theirs["executable"] is not None
    assert offline.find_source(served.build_id, str(served.source)).path == theirs["source"] is not None


def test_either_makes_the_same_cache(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    build_id, other = served.build_id, bytes(20)
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    client = Debuginfod(settings(served, ours))
    client.find(build_id)
    client.find(build_id, "executable")
    client.find_source(build_id, str(served.source))
    client.find(other)
    for arguments in (
        ("debuginfo", build_id.hex()),
        ("executable", build_id.hex()),
        ("source", build_id.hex(), str(served.source)),
        ("debuginfo", other.hex()),
    ):
        find_by_elfutils(theirs, served.url, *arguments)

    def listing(folder: Path) -> list[tuple[str, int, bytes]]:
        paths = sorted(folder.rglob("*"))
        return [
            (str(path.relative_to(folder)), path.stat().st_mode, path.read_bytes() if path.is_file() else b"")
            for path in paths
        ]

    assert len(listing(theirs)) == 7
    assert listing(ours) == listing(theirs)


def test_either_remembers_that_nobody_has_a_file(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    client = Debuginfod(settings(served, tmp_path))
    assert find_by_elfutils(tmp_path, served.url, "debuginfo", bytes(20).hex()) is None
    assert "no server has it" in client.find(bytes(20)).tried[0].reason
    assert client.find(b"\1" * 20).tried[0].reason == "HTTP 404: it does not have the file"
    assert (tmp_path / ("01" * 20) / "debuginfo").stat().st_size == 0


def test_too_large_for_the_user(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    limited = DebuginfodSettings((served.url,), str(tmp_path), maximum_size=1000)
    assert "larger than DEBUGINFOD_MAXSIZE" in Debuginfod(limited).find(served.build_id).tried[0].reason
