"""What holds for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _no_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test asks the servers of debug files that the environment may name, unless it names some itself."""
    monkeypatch.delenv("DEBUGINFOD_URLS", raising=False)


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test reads or fills the user's own cache of packed tables; all of them share one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(_cache(tmp_path_factory)))


def _cache(factory: pytest.TempPathFactory) -> Path:
    place = factory.getbasetemp() / "cache"
    place.mkdir(exist_ok=True)
    return place
