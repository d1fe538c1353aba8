"""clew.backtrace(): the stack of this very process."""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path

import pytest

import clew
from clew import inprocess


@pytest.fixture
def _built() -> None:
    if not inprocess.LIBRARY.exists():
        pytest.skip("the in-process library is not built")


@pytest.mark.usefixtures("_built")
def test_frames_of_the_interpreter() -> None:
    frames = clew.backtrace()
    assert frames[-1].module is not None
    # The judge: glibc's own walk, through the same interpreter and ctypes.
    function = ctypes.CDLL("libc.so.6").backtrace
    buffer = (ctypes.c_size_t * 512)()
    count = function(ctypes.byref(buffer), 512)
    assert [frame.pc for frame in frames[-5:]] == list(buffer[count - 5 : count])
    assert all(frame.module and "libffi" not in frame.module for frame in frames[:1])


@pytest.mark.usefixtures("_built")
def test_limit() -> None:
    assert len(clew.backtrace(3)) == 3
    assert clew.backtrace(0) == []
    assert clew.backtrace(-5) == []


@pytest.mark.usefixtures("_built")
def test_in_a_thread() -> None:
    found: list[clew.NativeFrame] = []
    thread = threading.Thread(target=lambda: found.extend(clew.backtrace()))
    thread.start()
    thread.join()
    assert any(frame.module and "libc.so" in frame.module for frame in found[-3:])


def test_library_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(inprocess, "LIBRARY", tmp_path / "libclew-unwind.so")
    inprocess._library.cache_clear()
    with pytest.raises(clew.DependencyError, match="not built") as caught:
        clew.backtrace()
    assert "clew.native.unwind.compile" in str(caught.value.hint)
    inprocess._library.cache_clear()
