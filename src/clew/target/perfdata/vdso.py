"""The vdso of a recording, which no file holds: the one that the running kernel gives to this process, if it is the same."""

from __future__ import annotations

import os
import platform

from clew.arch import Machine
from clew.errors import Error, NotFoundError
from clew.image import Image
from clew.memory import BytesMemory, ProcessMemory, process_mappings

_MAXIMUM = 1 << 17


def own_vdso(machine: Machine, build_id: bytes | None, release: str | None) -> Image:
    """This process's vdso.

    Args:
        machine: of the processes that were sampled.
        build_id: of their vdso, if it was recorded.
        release: the release of the kernel that was running (``uname -r``), if it is known.

    Raises:
        NotFoundError: it is another one, or may be.
    """
    name = "[vdso]"
    try:
        memory = ProcessMemory(os.getpid())
        with memory:
            mapping = next((each for each in process_mappings(os.getpid()) if each.path == name), None)
            size = mapping.end - mapping.start if mapping is not None else 0
            data = memory.read(mapping.start, size) if mapping is not None and size <= _MAXIMUM else None
        if mapping is None or data is None:
            raise NotFoundError("this machine has none to look into", file=name)
        image = Image.from_memory(BytesMemory(data, mapping.start), mapping.start, name)
    except NotFoundError:
        raise
    except Error as error:
        raise NotFoundError(f"that of this machine cannot be read: {error.message}", file=name) from None
    if (image.e_machine, image.elf_class, image.byte_order) not in [
        (each, machine.bits, machine.byte_order) for each in machine.elf_machines
    ]:
        raise NotFoundError("it was recorded on another kind of machine", file=name)
    if build_id is not None:
        if image.build_id != build_id:
            raise NotFoundError("the running kernel has another one than the recorded one", file=name)
    elif release is None or release != platform.release():
        # perf notes build ids of what samples hit only. The vdso is part of the kernel: the same release has, but for
        # kernels that somebody built anew under the same name, the same vdso.
        raise NotFoundError("it was recorded on another kernel, or it is not known on which", file=name)
    return image
