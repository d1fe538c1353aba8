"""What holds for all tests."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test asks the servers of debug files that the environment may name, unless it names some itself."""
    monkeypatch.delenv("DEBUGINFOD_URLS", raising=False)
