"""What was sampled and how: ``struct perf_event_attr`` of ``linux/perf_event.h``, of every size that it has had."""

from __future__ import annotations

from dataclasses import dataclass, field

from clew.arch import ByteOrder

SAMPLE_TID = 1 << 1
SAMPLE_TIME = 1 << 2
SAMPLE_CALLCHAIN = 1 << 5
SAMPLE_ID = 1 << 6
SAMPLE_PERIOD = 1 << 8
SAMPLE_REGS_USER = 1 << 12
SAMPLE_STACK_USER = 1 << 13
SAMPLE_IDENTIFIER = 1 << 16

SMALLEST = 64
"""``PERF_ATTR_SIZE_VER0``, the size of the structure as it was published first."""

_SAMPLE_ID_ALL = 1 << 18
_FREQ = 1 << 10

# enum perf_hw_id and enum perf_sw_ids, by the names that perf list gives them.
_NAMES = {
    0: "cycles instructions cache-references cache-misses branches branch-misses bus-cycles stalled-cycles-frontend "
    "stalled-cycles-backend ref-cycles",
    1: "cpu-clock task-clock page-faults context-switches cpu-migrations minor-faults major-faults alignment-faults "
    "emulation-faults dummy bpf-output cgroup-switches",
}


@dataclass(slots=True)
class Event:
    """One event that was sampled.

    Attributes:
        name: as perf calls it; made of type and configuration where the file does not say.
        type, config: of ``perf_event_attr``.
        period: the sampling period, or the frequency in Hz where ``frequency`` is set.
        frequency: which of the two it is.
        sample_type, read_format, branch_sample_type: which fields a sample has.
        sample_regs_user: which registers it has, bits in the order of the machine's ``asm/perf_regs.h``.
        sample_stack_user: how many bytes of the stack are copied.
        sample_id_all: whether records other than samples end with what identifies them.
        ids: by which its samples are known.
    """

    name: str
    type: int
    config: int
    period: int
    frequency: bool
    sample_type: int
    read_format: int
    branch_sample_type: int
    sample_regs_user: int
    sample_stack_user: int
    sample_id_all: bool
    ids: list[int] = field(default_factory=list)


def _default_name(type: int, config: int) -> str:
    names = _NAMES.get(type, "").split()
    return names[config] if config < len(names) else f"type {type} config {config:#x}"


def _flags(data: bytes, order: ByteOrder) -> int:
    # They are bit fields: where bytes are big-endian, compilers allocate bits from the most significant one on.
    if order == "little":
        return int.from_bytes(data, "little")
    return int(f"{int.from_bytes(data, 'big'):064b}"[::-1], 2)


def read_event(data: bytes, order: ByteOrder) -> Event:
    """The event that an attribute describes. What a shorter one lacks is 0 (perf_event_open(2), ``size``).

    Args:
        data: the structure, :data:`SMALLEST` bytes or more.
    """
    data = data.ljust(96, b"\0")

    def word(offset: int, size: int = 8) -> int:
        return int.from_bytes(data[offset : offset + size], order)

    flags = _flags(data[40:48], order)
    return Event(
        name=_default_name(word(0, 4), word(8)),
        type=word(0, 4),
        config=word(8),
        period=word(16),
        frequency=bool(flags & _FREQ),
        sample_type=word(24),
        read_format=word(32),
        branch_sample_type=word(72),
        sample_regs_user=word(80),
        sample_stack_user=word(88, 4),
        sample_id_all=bool(flags & _SAMPLE_ID_ALL),
    )
