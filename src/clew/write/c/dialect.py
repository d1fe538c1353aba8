"""What differs between the interfaces in C: how registers are read and written, memory is loaded, and failures are told."""

from __future__ import annotations

from dataclasses import dataclass

from clew.write.compiled.abi import PAPER, Abi, Outcome

_WIDTH = 118


def comment(text: str, indent: str = "") -> str:
    """A comment, whatever the text: of several lines where it is long.

    >>> print(comment('a */ "b"' + chr(10)))
    /* a * / "b"\\n */
    """
    plain = text.encode("unicode_escape").decode("ascii") if not (text.isascii() and text.isprintable()) else text
    plain = plain.replace("*/", "* /").replace("/*", "/ *")
    # Three question marks could be half of a trigraph, and a backslash continues a line.
    plain = plain.replace("??", "? ?")
    if plain.endswith("\\"):
        plain += " "
    if len(indent) + len(plain) <= _WIDTH - 6:
        return f"{indent}/* {plain} */"
    lines, line = [], ""
    for word in plain.split(" "):
        if line and len(indent) + len(line) + len(word) + 4 > _WIDTH:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    lines.append(line)
    inner = "\n".join(f"{indent} * {line.rstrip(chr(92))}" for line in lines)
    return f"{indent}/*\n{inner}\n{indent} */"


@dataclass(frozen=True, slots=True)
class Dialect:
    """An interface as C.

    Attributes:
        abi: which.
        deref: whether memory is loaded through the parameter.
    """

    abi: Abi
    deref: bool

    @property
    def paper(self) -> bool:
        return self.abi.name == PAPER

    def name(self, register: int) -> str:
        """What a register is called in the source."""
        name = self.abi.machine.register_name(register)
        return name if self.paper else name.upper()

    def read(self, register: int) -> str:
        """A register of the frame that is undone."""
        return f"ctx.{self.name(register)}" if self.paper else f"r[{self.name(register)}]"

    def write(self, register: int) -> str:
        """The same register of its caller."""
        return f"out_ctx.{self.name(register)}" if self.paper else f"r[{self.name(register)}]"

    @property
    def flags(self) -> str:
        """The bits that say which registers of the frame are known."""
        return "ctx.flags" if self.paper else "frame->known"

    def known(self, register: int) -> str:
        """Whether a register of the frame is known."""
        bit = self.abi.bit(register)
        if bit is None:
            return "0"
        return f"ctx.flags & {1 << bit}u" if self.paper else f"KNOWN({self.name(register)})"

    def failure(self, outcome: Outcome) -> str:
        """The statement that ends the function in failure."""
        return "goto _factor_default;" if self.paper else f"return CLEW_{outcome.name};"

    def give(self, register: str, address: str) -> str:
        """The statement that loads the word at an address, or ends the function."""
        if not self.deref:
            return f"{register} = *(const word *)({address});"
        if self.paper:
            return f"{register} = deref({address});"
        return f"if (!deref(argument, {address}, &{register})) return CLEW_UNREADABLE;"

    def load_part(self, value: str, size: int) -> list[str]:
        """The lines that replace an address in a variable by the ``size`` bytes there; they may return."""
        if not self.deref:
            return [f"{value} = part({value}, {size});"]
        if self.paper:
            mask = (1 << 8 * size) - 1
            return [f"{value} = deref({value});" if size == 8 else f"{value} = deref({value}) & {mask:#x}u;"]
        return [f"if (!part(deref, argument, &{value}, {size})) return CLEW_UNREADABLE;"]

    @property
    def expression_parameters(self) -> str:
        """The parameters of functions that compute expressions, but for the last."""
        if self.paper:
            return "unwind_context_t ctx, uintptr_t cfa" + (", deref_func_t deref" if self.deref else "")
        more = ", clew_deref *deref, void *argument" if self.deref else ""
        return f"const struct clew_frame *frame, uintptr_t cfa{more}"

    @property
    def expression_unused(self) -> list[str]:
        """What an expression may have no use for."""
        names = ["ctx", "cfa"] if self.paper else ["r", "cfa"]
        if self.deref:
            names += ["deref"] if self.paper else ["deref", "argument"]
        return names

    @property
    def expression_arguments(self) -> str:
        """What they are called with."""
        if self.paper:
            return "ctx, cfa" + (", deref" if self.deref else "")
        return "frame, cfa" + (", deref, argument" if self.deref else "")
