"""Recordings of ``perf record``: samples with a copy of the stack, and what was loaded when each was taken.

    from clew.target import open_perf_data
    from clew.walk import Walker

    walkers = {}
    with open_perf_data("perf.data") as data:
        for sample in data.samples():
            if sample.thread is not None:
                if sample.process not in walkers:
                    walkers[sample.process] = Walker(sample.process.target)
                print(walkers[sample.process].walk(sample.thread).end)

A process is the same object for all its samples, until it becomes another program or maps code in the place of other code.
"""

from __future__ import annotations

from clew.target.perfdata.attributes import Event
from clew.target.perfdata.memory import SampleMemory
from clew.target.perfdata.opening import PerfData, open_perf_data
from clew.target.perfdata.sample import Batch, Sample, SampledProcess

__all__ = ["Batch", "Event", "PerfData", "Sample", "SampleMemory", "SampledProcess", "open_perf_data"]
