"""drgn on a core: for each line that comes in it walks all threads and prints frames, and nanoseconds of time and of CPU time."""

import contextlib
import sys
import time

import drgn

program = drgn.Program()
program.set_core_dump(sys.argv[1])
with contextlib.suppress(drgn.MissingDebugInfoError):
    program.load_default_debug_info()
print(drgn.__version__ if hasattr(drgn, "__version__") else "", flush=True)
for _ in sys.stdin:
    wall, cpu = time.perf_counter_ns(), time.process_time_ns()
    frames = sum(len(thread.stack_trace()) for thread in program.threads())
    print(frames, time.perf_counter_ns() - wall, time.process_time_ns() - cpu, flush=True)
