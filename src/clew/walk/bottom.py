"""Strategies that know the outermost frame where no rule says that it is."""

from __future__ import annotations

from clew.errors import Error
from clew.target.model import Module
from clew.walk.frame_pointer import RECORDS
from clew.walk.link_register import link_target
from clew.walk.model import End
from clew.walk.step import Here, Outcome, Stop

# Go's runtime (runtime/asm_*.s, runtime/sys_linux_*.s): what goroutines, threads and the program begin in, and mcall, which
# leaves a goroutine that is put aside for the thread's own stack. Go's unwinder stops there (runtime/traceback.go, topofstack),
# but its tables have no rule that says so on every machine, and rt0_go aligns the stack pointer without telling its rows.
_GO = ("runtime.goexit", "runtime.mstart", "runtime.mcall", "runtime.clone", "runtime.rt0_go")


def go_bottom(here: Here) -> Outcome:
    """The outermost frame of a goroutine or thread of Go, by the name of its function."""
    if here.interrupted or here.module is None:
        return None
    known = here.around.outermost
    ranges = known.get(here.module)
    if ranges is None:
        ranges = known[here.module] = _go_ranges(here.module)
    address = here.pc.lookup - here.module.bias
    for start, end, name in ranges:
        if start <= address < end:
            return Stop(End.ENTRY, f"{name} is where the stack begins")
    return None


def _go_ranges(module: Module) -> tuple[tuple[int, int, str], ...]:
    image = module.image
    try:
        if image is None or (image.section(".gopclntab") is None and image.section(".note.go.buildid") is None):
            return ()
        symbols = image.symbols()
        found = [
            (int(symbols.address[index]), int(symbols.size[index]), name)
            for name in _GO
            for spelling in (name, name + ".abi0")
            for index in symbols.find(spelling)
        ]
    except Error:
        return ()
    return tuple((address, address + size, name) for address, size, name in found if address and size)


def bottom(here: Here) -> Outcome:
    """The outermost frame where no row says so: the program's entry point, or a frame pointer of zero.

    Start-up code of programs and threads clears the frame pointer. AArch64's of glibc before 2.34 then set it again.
    """
    if here.row is not None or here.module is None:
        return None
    if _at_entry_point(here):
        return Stop(End.ENTRY, f"there is no row for {here.pc.lookup:#x}, which is in the program's entry point")
    records = RECORDS.get(here.around.machine.name)
    if records is None or here.value(records[0].register) != 0 or (here.interrupted and _has_caller(here)):
        return None
    name = here.around.machine.register_name(records[0].register)
    return Stop(End.ENTRY, f"there is no row for {here.pc.lookup:#x}, and {name} is 0")


def _at_entry_point(here: Here) -> bool:
    """Whether the symbol at the pc is where the kernel starts the program, so that nobody has called it."""
    module = here.module
    if module is None or module.image is None or not module.image.entry:
        return False
    return here.around.symbol_start(here.pc.lookup) == (module.image.entry + module.bias) & here.around.mask


def _has_caller(here: Here) -> bool:
    """Whether there seems to be a caller although the frame pointer is zero: code without one may use it for anything."""
    if here.around.machine.link_register is not None:
        target = link_target(here)
    else:
        sp = here.value(here.around.machine.stack_pointer)
        value = None if sp is None else here.word("return address", sp)
        target = None if value is None else here.around.return_target(value, signed=False)
    return target is not None and here.around.called(target)
