"""The client of debuginfod against servers that misbehave, in every way that is known of servers."""

from __future__ import annotations

import gzip
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from debug_elves import BUILD_ID, OTHER_ID, elf, write
from odd_server import (
    Behaviour,
    Server,
    chunked,
    drips_body,
    drips_header,
    endless,
    one_chunk,
    redirects,
    resets,
    sends,
)

from clew.symbols import DebuginfodSettings
from clew.symbols.debuginfod import Debuginfod
from clew.symbols.debuginfod_transfer import _trusted

FILE = elf(symbol="hidden", dwarf=True)
PATH = f"/buildid/{BUILD_ID.hex()}/debuginfo"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def settings(cache: Path, *urls: str, **more: object) -> DebuginfodSettings:
    base = DebuginfodSettings(urls, str(cache / "cache"), timeout=10)
    return replace(base, **more)  # type: ignore[arg-type]


def left_over(cache: Path) -> list[str]:
    """Files in the cache, but for the control files."""
    return sorted(path.name for path in (cache / "cache").glob("*/*"))


def test_a_file_is_kept_as_elfutils_keeps_it(tmp_path: Path) -> None:
    with Server(sends(FILE)).running() as server:
        # A slash at the end of the URL is as good as none.
        client = Debuginfod(settings(tmp_path, f"{server.url}/"))
        found = client.find(BUILD_ID)
        place = tmp_path / "cache" / BUILD_ID.hex() / "debuginfo"
        assert (found.path, found.tried) == (str(place), ())
        assert place.read_bytes() == FILE
        # What debuginfod-find of elfutils 0.188 gives its files.
        assert place.stat().st_mode & 0o777 == 0o400
        assert place.parent.stat().st_mode & 0o777 == 0o700
        assert (tmp_path / "cache" / "cache_clean_interval_s").read_text() == "86400"
        assert client.find(BUILD_ID).path == str(place)
        assert server.asked == [PATH]
        assert server.headers[0]["user-agent"].startswith("clew/")
        assert left_over(tmp_path) == ["debuginfo"]


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (sends(b"", 404), "HTTP 404: it does not have the file"),
        (sends(b"", 403), "answered HTTP 403"),
        (sends(b"", 500), "answered HTTP 500"),
        (sends(b"", 204), "answered HTTP 204"),
        (sends(b"<html>log in</html>"), "sent a wrong file: this is not an ELF file"),
        (sends(b""), "sent a wrong file: it is empty"),
        (sends(elf(OTHER_ID)), f"has build id {OTHER_ID.hex()}, not {BUILD_ID.hex()}"),
        (sends(elf(None)), "has no build id"),
        (sends(FILE[:-100], length=len(FILE)), f"broke off after {len(FILE) - 100:,} of {len(FILE):,} bytes"),
        # Nothing but the file itself tells that there should be more.
        (sends(FILE[:-100], length=-1), "is cut"),
        (sends(FILE[: len(FILE) // 2], length=-1), "is cut"),
        (sends(gzip.compress(FILE), Content_Encoding="gzip"), "sent the file compressed"),
        (resets, "broke off the connection"),
        (lambda handler: handler.wfile.write(b"SSH-2.0-server\r\n\r\n"), "answered something else than HTTP"),  # type: ignore[arg-type,return-value]
        (chunked(one_chunk(FILE)), "broke off in the middle of the file"),
        (chunked(b"zz\r\n"), "broke off in the middle of the file"),
        (redirects("/loop"), "redirects more than 5 times"),
        (redirects("file:///etc/passwd"), "redirects to something else than http or https"),
        (redirects("ftp://127.0.0.1/x"), "redirects to something else than http or https"),
        (redirects("http://[bad/"), "cannot be asked"),
    ],
)
def test_what_is_not_taken(behaviour: Behaviour, reason: str, tmp_path: Path) -> None:
    with Server(behaviour).running() as server:
        found = Debuginfod(settings(tmp_path, server.url, retries=1)).find(BUILD_ID)
    assert found.path is None
    [(url, why)] = found.tried
    assert url == f"{server.url}{PATH}"
    assert reason in why
    # That no server has it is remembered by an empty file, and nothing else is.
    assert left_over(tmp_path) == (["debuginfo"] if "404" in reason else [])


@pytest.mark.parametrize("behaviour", [drips_header, drips_body, lambda _: time.sleep(3)])
def test_slow_servers_are_left(behaviour: Behaviour, tmp_path: Path) -> None:
    with Server(behaviour).running() as server, Server(sends(FILE)).running() as other:
        client = Debuginfod(settings(tmp_path, server.url, other.url, timeout=0.3))
        found = client.find(BUILD_ID)
        assert found.path is not None
        assert [reason for _, reason in found.tried] == ["timed out"]
        assert len(server.asked) == 1
        # A server that hangs is not waited for once for each module.
        found = client.find(OTHER_ID)
        assert found.tried[0].reason == "was not asked again: timed out"
        assert len(server.asked) == 1


def test_a_maximum_time(tmp_path: Path) -> None:
    with Server(drips_body).running() as server:
        found = Debuginfod(settings(tmp_path, server.url, timeout=None, maximum_time=0.3)).find(BUILD_ID)
    assert [reason for _, reason in found.tried] == ["timed out"]


@pytest.mark.parametrize(
    "behaviour", [endless, sends(FILE), sends(b"", length=1 << 60), sends(FILE, length=-1, X_DEBUGINFOD_SIZE="99999")]
)
def test_too_large(behaviour: Behaviour, tmp_path: Path) -> None:
    with Server(behaviour).running() as server:
        found = Debuginfod(settings(tmp_path, server.url, maximum_size=len(FILE) - 1)).find(BUILD_ID)
    assert [reason for _, reason in found.tried] == [f"has a file of more than {len(FILE) - 1:,} bytes"]
    assert server.headers[0]["x-debuginfod-maxsize"] == str(len(FILE) - 1)
    assert left_over(tmp_path) == []


def test_a_failure_that_passes(tmp_path: Path) -> None:
    with Server(sends(b"", 500), resets, sends(FILE)).running() as server:
        found = Debuginfod(settings(tmp_path, server.url, retries=2)).find(BUILD_ID)
        assert found.path is not None
        assert len(server.asked) == 3


def test_pieces_without_a_size(tmp_path: Path) -> None:
    with Server(chunked(one_chunk(FILE[:100]), one_chunk(FILE[100:]), b"0\r\n\r\n")).running() as server:
        assert Debuginfod(settings(tmp_path, server.url)).find(BUILD_ID).path is not None


def test_one_server_that_fails_does_not_stop_the_next(tmp_path: Path) -> None:
    with socket.socket() as taken:
        # Nobody listens there.
        taken.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with Server(sends(b"", 404)).running() as empty, Server(sends(FILE)).running() as full:
            wrong = ["ftp://127.0.0.1", "nonsense", "http://127.0.0.1:port", closed, empty.url]
            found = Debuginfod(settings(tmp_path, *wrong, full.url)).find(BUILD_ID)
    assert found.path is not None
    assert [reason for _, reason in found.tried] == [
        "is no http, https or file URL",
        "is no http, https or file URL",
        "is no URL",
        "refused the connection",
        "HTTP 404: it does not have the file",
    ]


def test_a_redirect_is_followed_without_what_may_be_secret(tmp_path: Path) -> None:
    with Server(sends(FILE)).running() as other, Server(redirects(f"{other.url}/elsewhere")).running() as first:
        headers = (("X-Token", "secret"),)
        named = first.url.replace("//", "//user:pass%20word@")
        found = Debuginfod(settings(tmp_path, named, headers=headers)).find(BUILD_ID)
        assert found.path is not None
        assert first.headers[0]["x-token"] == "secret"
        # RFC 7617: the base64 of "user:pass word".
        assert first.headers[0]["authorization"] == "Basic dXNlcjpwYXNzIHdvcmQ="
        assert other.asked == ["/elsewhere"]
        assert not {"x-token", "authorization"} & other.headers[0].keys()


def test_a_password_is_not_shown(tmp_path: Path) -> None:
    with Server(sends(b"", 404)).running() as server:
        named = server.url.replace("//", "//user:password@")
        found = Debuginfod(settings(tmp_path, named)).find(BUILD_ID)
    assert [url for url, _ in found.tried] == [f"{server.url}{PATH}"]


def test_that_nobody_has_it_is_remembered_for_a_while(tmp_path: Path) -> None:
    with Server(sends(b"", 404), sends(FILE)).running() as server:
        client = Debuginfod(settings(tmp_path, server.url))
        assert client.find(BUILD_ID).path is None
        found = client.find(BUILD_ID)
        assert "no server has it" in found.tried[0].reason
        assert len(server.asked) == 1
        (tmp_path / "cache" / "cache_miss_s").write_text("0")
        os.utime(found.tried[0].path, (1, 1))
        assert client.find(BUILD_ID).path is not None


def test_that_nobody_has_it_is_not_said_where_one_did_not_answer(tmp_path: Path) -> None:
    with Server(sends(b"", 404)).running() as one, Server(sends(b"", 403)).running() as other:
        client = Debuginfod(settings(tmp_path, one.url, other.url))
        for _ in range(2):
            assert client.find(BUILD_ID).path is None
        assert (len(one.asked), len(other.asked)) == (2, 2)


def test_what_is_wrong_in_the_cache_is_replaced(tmp_path: Path) -> None:
    place = tmp_path / "cache" / BUILD_ID.hex() / "debuginfo"
    write(place, FILE[:200])
    with Server(sends(FILE)).running() as server:
        found = Debuginfod(settings(tmp_path, server.url)).find(BUILD_ID)
    assert found.path == str(place)
    assert [path for path, _ in found.tried] == [str(place)]
    assert place.read_bytes() == FILE


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    write(tmp_path / "cache", b"a file")
    with Server(sends(FILE)).running() as server:
        found = Debuginfod(settings(tmp_path, server.url)).find(BUILD_ID)
    assert "the cache cannot be written" in found.tried[-1].reason
    assert server.asked == []


def test_files_of_this_machine(tmp_path: Path) -> None:
    store = tmp_path / "a store"
    write(store / PATH.lstrip("/"), FILE)
    url = f"file://{tmp_path}/a%20store"
    client = Debuginfod(settings(tmp_path, f"file://other{store}", f"file://{tmp_path}", url))
    found = client.find(BUILD_ID)
    assert found.path is not None
    assert [reason for _, reason in found.tried] == ["names a file of another host", "there is no such file"]
    os.mkfifo(write(store / "buildid" / OTHER_ID.hex() / "x", b"")[:-1] + "debuginfo")
    assert client.find(OTHER_ID).tried[-1].reason == "this is not a regular file"


def test_build_ids_that_are_none(tmp_path: Path) -> None:
    client = Debuginfod(settings(tmp_path, "http://127.0.0.1:1"))
    for build_id in (b"", b"\1", bytes(65), bytes(1 << 20)):
        [(_, reason)] = client.find(build_id).tried
        assert reason == f"no server knows a build id of {len(build_id)} bytes"
    assert not (tmp_path / "cache").exists()


def test_writers_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    with Server(sends(FILE)).running() as server:
        clients = [Debuginfod(settings(tmp_path, server.url)) for _ in range(8)]
        threads = [threading.Thread(target=each.find, args=(BUILD_ID,)) for each in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert left_over(tmp_path) == ["debuginfo"]
    assert (tmp_path / "cache" / BUILD_ID.hex() / "debuginfo").read_bytes() == FILE


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    program = (
        "import sys; from clew.symbols import DebuginfodSettings; from clew.symbols.debuginfod import Debuginfod\n"
        f"Debuginfod(DebuginfodSettings((sys.argv[1],), sys.argv[2])).find(bytes.fromhex('{BUILD_ID.hex()}'))"
    )
    with Server(drips_body).running() as server:
        arguments = [sys.executable, "-c", program, server.url, str(tmp_path / "cache")]
        child = subprocess.Popen(arguments, stderr=subprocess.PIPE, env=os.environ | {"no_proxy": "127.0.0.1"})
        until = time.monotonic() + 20
        while not left_over(tmp_path) and time.monotonic() < until:
            time.sleep(0.02)
        assert left_over(tmp_path)[0].startswith("debuginfo.")
        child.send_signal(2)
        _, error = child.communicate(timeout=20)
    assert b"KeyboardInterrupt" in error
    assert left_over(tmp_path) == []


def test_a_proxy_is_asked_where_the_environment_names_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(sends(FILE)).running() as server:
        monkeypatch.setenv("http_proxy", server.url)
        found = Debuginfod(settings(tmp_path, "http://nobody.invalid")).find(BUILD_ID)
        assert found.path is not None
        assert server.asked == [f"http://nobody.invalid{PATH}"]


def test_certificates_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    for trusted in (False, True):
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate) if trusted else os.devnull)
        _trusted.cache_clear()
        # To plain HTTP there is no way from there.
        with Server(sends(FILE), redirects("http://127.0.0.1:1/")).running(context) as server:
            client = Debuginfod(settings(tmp_path, server.url))
            found = client.find(BUILD_ID)
            if trusted:
                assert found.path is not None
                assert client.find(OTHER_ID).tried[-1].reason == "redirects from https to http"
            else:
                assert "its certificate is not to be trusted" in found.tried[0].reason
    _trusted.cache_clear()
