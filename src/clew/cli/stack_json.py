"""Stacks as JSON values."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from clew.cli.stack_text import unknown_registers

if TYPE_CHECKING:
    from clew.cli.stack_names import FrameName, FrameNames
    from clew.cli.walking import Walked
    from clew.target import Target
    from clew.walk import Frame


def target_json(target: Target, file: str) -> dict[str, Any]:
    """What the target is."""
    out: dict[str, Any] = {"kind": target.kind, "machine": target.machine.name}
    if target.kind != "process":
        out["file"] = os.fsdecode(file)
    if target.process_id is not None:
        out["process_id"] = target.process_id
    if target.command:
        out["command"] = target.command
    if target.signal:
        out["signal"] = target.signal
    return out


def stack_json(walked: Walked, names: FrameNames, *, registers: bool = False, why: bool = False) -> dict[str, Any]:
    """One thread and its frames. Functions that were inlined come before the one that they are part of."""
    thread, stack = walked.thread, walked.stack
    out: dict[str, Any] = {"id": thread.id}
    if thread.name:
        out["name"] = thread.name
    out["end"] = stack.end.value
    if stack.detail:
        out["detail"] = stack.detail
    out["frames"] = frames = []
    for index, frame in enumerate(stack.frames):
        name = names.of_frame(stack.frames, index, in_call=thread.interrupted_call)
        found = {"pc": f"{frame.pc.address:#x}", "trust": frame.trust.value}
        frames += [found | {"inlined": True} | _module_json(name) | function_json(*call) for call in name.inlined]
        each = found | {"inlined": False} | name_json(name)
        if registers:
            each |= _registers(frame, names.target)
        if why:
            each |= _reasons(frame, names.target)
        frames.append(each)
    return out


def name_json(name: FrameName) -> dict[str, Any]:
    """What a frame is called, as far as that is known."""
    out = _module_json(name) | function_json(name.function, name.file, name.line)
    if name.function is not None:
        out["function_offset"] = f"{name.offset:#x}"
    if name.signal:
        out["signal_frame"] = True
    return out


def function_json(function: str | None, file: str | None, line: int) -> dict[str, Any]:
    """A function and the place in its source, as far as they are known."""
    out: dict[str, Any] = {}
    if function is not None:
        out["function"] = function
    if file is not None:
        out["file"] = file
        if line:
            out["line"] = line
    return out


def _module_json(name: FrameName) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if name.module is not None:
        out["module"] = name.module
    if name.build_id is not None:
        out["build_id"] = name.build_id.hex()
    if name.address is not None:
        out["module_offset"] = f"{name.address:#x}"
    return out


def _registers(frame: Frame, target: Target) -> dict[str, Any]:
    name = target.machine.register_name
    out: dict[str, Any] = {
        "registers": {name(number): f"{value:#x}" for number, value in sorted(frame.registers.items())}
    }
    unknown = unknown_registers(frame, target.machine)
    return out | ({"unknown": unknown} if unknown else {})


def _reasons(frame: Frame, target: Target) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if frame.cfa is not None:
        out["cfa"] = f"{frame.cfa:#x}"
    if frame.rule is not None:
        out["rule"] = frame.rule.to_json(target.machine)
    out["reads"] = [
        {"register": read.register, "address": f"{read.address:#x}"}
        | ({} if read.value is None else {"value": f"{read.value:#x}"})
        for read in frame.reads
    ]
    return out
