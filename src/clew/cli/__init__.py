"""The command line: one file a command, each thin: parse, call the library, print."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit code. Errors go to standard error, with the next thing to do.

    Args:
        arguments: by default those of the program, which an interrupt then ends at once.
    """
    if arguments is None:
        # An exception would come up wherever it finds the program: in half an import, or between the locks of a pool.
        signal.signal(signal.SIGINT, _quit)
        # A command ends before garbage in cycles matters: looking for it took a tenth of a short one's time.
        gc.set_threshold(200_000, 50, 100)
    try:
        # Imported here, so that an interrupt is quiet from the beginning.
        from clew.cli.commands import run

        code = run(arguments)
        sys.stdout.flush()
        if arguments is None:
            # Taking everything apart before the process ends anyway is a tenth of a short command's time.
            sys.stderr.flush()
            os._exit(code)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader went away, as head does: quiet, but not a success, for nobody knows what there was still to find. What
        # the shell reports for a program that SIGPIPE ends.
        _abandon_output()
        return 141
    except OSError as error:
        # The library raises only its own errors: this is of what was written.
        _abandon_output()
        print(f"clew: error: cannot write: {error.strerror}", file=sys.stderr)
        return 3
    return code


def _quit(signal_number: int, frame: object) -> None:
    """Ends the program without a word, as an interrupt shall."""
    if sys.stderr.isatty():
        # A progress bar has hidden the cursor, and is half drawn.
        os.write(sys.stderr.fileno(), b"\r\x1b[K\x1b[?25h")
    os._exit(128 + signal_number)


def _abandon_output() -> None:
    """What is still unwritten has nowhere to go; Python shall not try again when it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
