"""A recording of ``perf record`` as a row of targets: each sample is a stopped thread."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from posixpath import normpath
from types import TracebackType
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from clew.arch import ByteOrder, Machine, machine_for
from clew.errors import Error, FormatError, Problem
from clew.image import Image
from clew.native.perf_records import Splitter
from clew.target.model import Target
from clew.target.module_files import Path
from clew.target.parts import guessed_code_mask, reporter
from clew.target.perfdata.attributes import SAMPLE_TIME, Event
from clew.target.perfdata.features import Features
from clew.target.perfdata.header import read_header
from clew.target.perfdata.history import Generation, History
from clew.target.perfdata.indexing import Index, splitter_events, splitter_ids
from clew.target.perfdata.memory import SampleMemory
from clew.target.perfdata.modules import Files, MappedModules, is_file
from clew.target.perfdata.pipe import read_pipe_head
from clew.target.perfdata.records import COMPRESSED, COMPRESSED2, FINISHED_ROUND, Mapped
from clew.target.perfdata.registers import ABI_32, machine_for_abi, machine_of
from clew.target.perfdata.sample import Batch, Sample, SampledProcess
from clew.target.perfdata.stream import ROOM, Records, Run
from clew.target.perfdata.windows import Windows

_LOOKED_AT = 256


def open_perf_data(
    path: Path, *, exe: Path | None = None, sysroot: Path | None = None, debug_dirs: Iterable[Path] = ()
) -> PerfData:
    """What ``perf record`` wrote to a file, also through a pipe, and also with ``-z``.

    The file is gone through once to find out what the processes had mapped; samples are read when they are asked for, part
    after part, so that a large file takes no more memory than a small one. It is mapped: do not cut it short meanwhile.

    Args:
        exe: stands in for files of that name, whatever their build id.
        sysroot: the directory under which the files are that were mapped; without it, they are taken from where they were.
        debug_dirs: further directories to look for them in, see :class:`clew.target.module_files.ModuleFiles`.

    Raises:
        NotFoundError: there is no such file.
        FormatError: it is no ``perf.data``, or does not say of which machine.
        DependencyError: it is compressed, and no library for that is installed.
        Error: it may not be read.
    """
    windows = Windows(path)
    try:
        return PerfData(windows, exe, sysroot, tuple(debug_dirs))
    except BaseException:
        windows.close()
        raise


class PerfData:
    """A recording; :func:`open_perf_data` opens one.

    Attributes:
        name: the file's name.
        order: its byte order.
        machine: of the computer; a 32-bit program's target has that program's own.
        events: what was sampled.
        features: what it says about the recording.
        problems: what could not be read. It grows as samples are read, and files of modules looked for.
        command: the command line of perf, if it is there.
        lost: how many samples were lost for lack of room, as far as the file says.
        history: what processes had mapped, and what threads were called.
        kernel: where the kernel's own code was, its modules included.
    """

    def __init__(self, windows: Windows, exe: Path | None, sysroot: Path | None, debug_dirs: tuple[Path, ...]) -> None:
        self.name = windows.name
        self.problems: list[Problem] = []
        self._report: Callable[[Problem], None] = reporter(self.problems)
        self._windows = windows
        self._places = exe, sysroot, debug_dirs
        header = read_header(windows, self._report)
        if header.pipe:
            read_pipe_head(windows, header, self._report)
        self.order: ByteOrder = header.order
        self._ended = header.ended
        self.events: list[Event] = header.events
        self.features: Features = header.reader.features
        self._records = Records(windows, header.begin, header.end, header.order, self._report)
        # perf and the kernel write times to records of all kinds, or to none.
        self._timed = all(event.sample_type & SAMPLE_TIME and event.sample_id_all for event in self.events)
        index = Index(self._records, header, self._timed, self._report)
        self.history: History = index.history
        self.kernel: list[Mapped] = index.kernel
        self.lost = max(index.lost_records, index.lost_samples)
        self.command = " ".join(self.features.command) or None
        self.machine: Machine = self._machine()
        self._files: dict[Machine, Files] = {}
        self._modules: dict[tuple[int, Machine], MappedModules] = {}
        self._keys: list[tuple[int, int, int]] = []
        self._numbers: dict[tuple[int, int, int], int] = {}
        self._states: dict[int, SampledProcess] = {}
        # Processes of which nothing but the number is known, which anybody can make up: kept while somebody has them.
        self._strangers: WeakValueDictionary[int, SampledProcess] = WeakValueDictionary()
        self._nothing = Generation()

    def _machine(self) -> Machine:
        arch = self.features.arch
        machine = machine_of(arch, self.order) if arch is not None else self._machine_of_files()
        if machine is None and arch is not None:
            raise FormatError(f"it was recorded on a machine that is not known: {arch[:40]!r}", file=self.name)
        if machine is None and not self._ended:
            raise FormatError(
                "the recording was not ended properly: of which machine it is does not stand in it",
                file=self.name,
                hint="perf writes that when it ends: stop it with Ctrl-C or SIGINT, not with SIGKILL",
            )
        if machine is None:
            raise FormatError("the file does not say of which machine it is, nor do the files it names", file=self.name)
        return machine

    def _machine_of_files(self) -> Machine | None:
        """Whose files were mapped, as far as they are here: the machine with the widest addresses."""
        root = os.fsdecode(self._places[1] or "").rstrip("/")
        paths = dict.fromkeys(
            mapping.path for mapping in islice(self.history.mappings(), _LOOKED_AT) if is_file(mapping)
        )
        found: list[Machine] = []
        for path in paths:
            with suppress(Error), Image.open(f"{root}{normpath(path)}") as image:
                found.append(machine_for(image.e_machine, image.elf_class, image.byte_order))
        return max(found, key=lambda machine: machine.bits, default=None)

    def batches(self) -> Iterator[Batch]:
        """All samples in the file's order, many at a time. Their states are numbers for :meth:`state`."""
        events = splitter_events(self.events, self.machine)
        ids, owners = splitter_ids(self.events)
        big = self.order == "big"
        splitter = Splitter(events, ids, owners, big, (FINISHED_ROUND,), (COMPRESSED, COMPRESSED2), True, ROOM)
        for run in self._records.runs(splitter):
            yield self._batch(run)

    def samples(self) -> Iterator[Sample]:
        """All samples in the file's order.

        Each is shown by the memory of its process until the next one is taken: walk it before that.
        """
        for batch in self.batches():
            yield from batch.samples()

    def _batch(self, run: Run) -> Batch:
        columns: dict[str, Any] = run.samples
        offset = columns.pop("offset")
        rounds = np.searchsorted(offset, run.records["offset"])
        when = columns["time"] if self._timed else offset + np.uint64(run.position)
        state = self._states_of(columns["pid"], when, columns["abi"] == ABI_32)
        return Batch(data=self, buffer=run.buffer, state=state, when=when, rounds=rounds, **columns)

    def _states_of(self, pids: Any, when: Any, narrow: Any) -> Any:
        """The number of each sample's state."""
        found = np.empty(len(pids), np.int64)
        # A process's samples tend to stand together; those of all processes are few kinds of them.
        unique, inverse = np.unique(pids, return_inverse=True)
        for number, pid in enumerate(unique.tolist()):
            which = np.flatnonzero(inverse == number) if len(unique) > 1 else slice(None)
            periods = self.history.period_at(pid, when[which])
            combined = periods * 2 + narrow[which]
            kinds, kind = np.unique(combined, return_inverse=True)
            numbers = [self._number((pid, each >> 1, each & 1)) for each in kinds.tolist()]
            found[which] = np.array(numbers, np.int64)[kind]
        return found

    def _number(self, key: tuple[int, int, int]) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._keys)
            self._keys.append(key)
        return number

    def state(self, index: int) -> SampledProcess:
        """The process that a sample is of, by the number in its batch: the same object as long as somebody has it."""
        found = self._states.get(index) or self._strangers.get(index)
        if found is None:
            pid, period, narrow = self._keys[index]
            found = self._process(pid, period, machine_for_abi(self.machine, narrow))
            if period >= 0:
                self._states[index] = found
            else:
                self._strangers[index] = found
        return found

    def generation(self, index: int) -> Generation:
        """The code that the process of a state has mapped; the same object for states that have the same."""
        pid, period, _ = self._keys[index]
        return self.history.processes[pid][period].generation if period >= 0 else self._nothing

    def bits(self, index: int) -> int:
        """Of the machine that the process of a state runs on: 32 for an old program on a machine of 64."""
        return machine_for_abi(self.machine, self._keys[index][2]).bits

    def image(self, index: int, mapping: Mapped) -> Image | None:
        """The file behind a mapping of a state's process, if it is one and can be had."""
        file = self._files_for(machine_for_abi(self.machine, self._keys[index][2])).file_of(mapping)
        return file.image if file is not None and isinstance(file.image, Image) else None

    def _process(self, pid: int, number: int, machine: Machine) -> SampledProcess:
        period = self.history.processes[pid][number] if number >= 0 else None
        generation = period.generation if period is not None else self._nothing
        key = id(generation), machine
        modules = self._modules.get(key)
        if modules is None:
            modules = self._modules[key] = MappedModules(generation.mappings, self._files_for(machine))
        memory = SampleMemory(modules)
        code_mask = 0
        if machine.name == "aarch64" and machine.bits == 64:
            code_mask = guessed_code_mask(mapping.end for mapping in generation.mappings)
        name = period.name if period is not None else None
        target = Target(
            kind="sample",
            machine=machine,
            threads=[],
            memory=memory,
            modules=modules,
            code_mask=code_mask,
            problems=self.problems,
            process_id=pid,
            command=name,
        )
        return SampledProcess(pid, name, target, memory)

    def _files_for(self, machine: Machine) -> Files:
        files = self._files.get(machine)
        if files is None:
            exe, sysroot, debug_dirs = self._places
            found = self.features
            files = Files(machine, self._report, found.build_ids, found.release, exe, sysroot, debug_dirs)
            self._files[machine] = files
        return files

    def close(self) -> None:
        """Let go of the file, and of those of the modules. Batches that were handed out stay valid."""
        self._windows.close()
        for files in self._files.values():
            files.close()

    def __enter__(self) -> PerfData:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"PerfData({self.name!r}, {self.machine.name}, {len(self.events)} events)"
