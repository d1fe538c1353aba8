"""Progress bars of commands that take long."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Seconds between two looks of a bar.
_PAUSE = 0.1


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A progress bar, where somebody sees it; its function is called with how much is done.

    Args:
        what: is read, such as ``tables``.
        total: how much there is to do, or None where that is not known.
    """
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # Refreshed from here: a thread of the bar's own would be alive while processes are forked.
    with Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False) as bar:
        task = bar.add_task(f"reading {what}", total=total)
        shown = 0.0

        def advance(done: int) -> None:
            nonlocal shown
            bar.update(task, completed=done)
            if time.monotonic() - shown > _PAUSE:
                bar.refresh()
                shown = time.monotonic()

        yield advance
