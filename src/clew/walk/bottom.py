"""Strategies that know the outermost frame where no rule says that it is."""

from __future__ import annotations

from clew.arch import Machine
from clew.walk.arm_frames import unwound_by_index
from clew.walk.frame_code import clears_pointer
from clew.walk.frame_records import RECORDS
from clew.walk.go_files import go_functions, is_go
from clew.walk.link_register import link_target
from clew.walk.model import End, Trust
from clew.walk.step import Here, Outcome, Stop

# Go's runtime (runtime/asm_*.s, runtime/sys_linux_*.s): what goroutines, threads and the program begin in, and mcall, which
# leaves a goroutine that is put aside for the thread's own stack. Go's unwinder stops there (runtime/traceback.go, topofstack),
# but its tables have no rule that says so on every machine, and rt0_go aligns the stack pointer without telling its rows.
GO_BOTTOMS = frozenset({"runtime.goexit", "runtime.mstart", "runtime.mcall", "runtime.clone", "runtime.rt0_go"})
"""The functions in which stacks of Go begin."""


def go_bottom(here: Here) -> Outcome:
    """The outermost frame of a goroutine or thread of Go, by the name of its function."""
    if here.interrupted or here.module is None:
        return None
    found = go_functions(here.module, GO_BOTTOMS).at((here.pc.lookup - here.module.bias) & here.around.mask)
    return None if found is None else Stop(End.ENTRY, f"{found[1]} is where the stack begins")


def bottom(here: Here) -> Outcome:
    """The outermost frame where no row says so: the program's entry point, or a frame pointer of zero.

    Start-up code of programs and threads clears the frame pointer. AArch64's of glibc before 2.34 then set it again.
    """
    if here.row is not None or here.module is None:
        return None
    # A file that cannot be had may have a row for all we know.
    if here.module.table is None and here.module.image is None:
        return None
    if _at_entry_point(here):
        return Stop(End.ENTRY, f"there is no row for {here.pc.lookup:#x}, which is in the program's entry point")
    records = RECORDS.get(here.around.machine.name)
    if unwound_by_index(here.module):
        return None
    if records is None or here.value(records[0].register) != 0 or (here.interrupted and _has_caller(here)):
        return None
    # Behind a record the zero is the chain's end, and in all code of Go's, which keeps the chain; elsewhere the register may be
    # used for anything.
    if here.trust is not Trust.FRAME_POINTER and not is_go(here.module) and not clears_pointer(here):
        return None
    name = here.around.machine.register_name(records[0].register)
    return Stop(End.ENTRY, f"there is no row for {here.pc.lookup:#x}, and {name} is 0")


_START_UP = 16
"""How much of the code at an entry point is surely its own where no symbol says so, in bytes: ld.so's calls in its eighth."""


def _at_entry_point(here: Here) -> bool:
    """Whether the symbol at the pc is where the kernel starts the program, so that nobody has called it."""
    module = here.module
    if module is None or module.image is None or not module.image.entry:
        return False
    # The entry's lowest bit may say which instructions these are.
    entry = ((module.image.entry & here.around.machine.address_mask) + module.bias) & here.around.mask
    start = here.around.symbol_start(here.pc.lookup)
    return start == entry if start is not None else 0 <= here.pc.lookup - entry < _START_UP


def _has_caller(here: Here) -> bool:
    """Whether there seems to be a caller although the frame pointer is zero: code without one may use it for anything."""
    if here.around.machine.link_register is not None:
        target = link_target(here)
    else:
        sp = here.value(here.around.machine.stack_pointer)
        value = None if sp is None else here.word("return address", sp)
        target = None if value is None else here.around.return_target(value, signed=False)
    return target is not None and here.around.called(target)


# glibc's sysdeps/unix/sysv/linux/x86_64/__start_context.S: mov %rbx,%rsp; mov (%rsp),%rdi; test %rdi,%rdi; je.
START_CONTEXT = bytes.fromhex("4889dc488b3c244885ff74")


def code_of_bottoms(machine: Machine) -> tuple[bytes, ...]:
    """The code by which a function is known as the outermost, whatever its rows say."""
    return (START_CONTEXT,) if machine.name == "x86-64" else ()


def context_bottom(here: Here) -> Outcome:
    """The outermost frame of a stack that makecontext(3) made, by the code that its first function returns to.

    glibc writes the address of that code where a call would have put a return address. So it has no call before it, and the
    byte before is padding or another function's; its row, that of any function at its start, knows no better.
    """
    if here.around.machine.name != "x86-64" or not here.around.starts_with(here.pc, START_CONTEXT):
        return None
    return Stop(End.ENTRY, "the stack was made by makecontext and begins here")
