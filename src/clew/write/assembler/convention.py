"""Where a function keeps what: the frame, the CFA and the rest, for each interface (System V ABI, AMD64, "Function Calling")."""

from __future__ import annotations

from dataclasses import dataclass

from clew.write.assembler.operands import R8, R9, R10, R12, R13, R14, R15, RBP, RBX, RDI, RSI, At
from clew.write.compiled.abi import PAPER, Abi


@dataclass(frozen=True, slots=True)
class Convention:
    """Registers of the machine, and places in the frame.

    Without ``deref`` nothing is called, and everything is in registers that a function may overwrite. With it, what has to
    outlive a call is in registers that calls preserve.

    Attributes:
        abi: the interface.
        deref: whether memory is loaded through the parameter.
    """

    abi: Abi
    deref: bool

    @property
    def paper(self) -> bool:
        return self.abi.name == PAPER

    @property
    def frame(self) -> int:
        """Points into the frame, :attr:`bias` bytes behind its start."""
        return RBX if self.deref else RDI

    @property
    def bias(self) -> int:
        """With 64, all registers of the full frame are within a displacement of one byte."""
        return 64 if self.own_frames else 0

    @property
    def own_frames(self) -> bool:
        """Whether each body saves what it needs, and is a function; else they share a frame, or need none."""
        return self.deref and not self.paper

    @property
    def cfa(self) -> int:
        return R13 if self.deref else R8

    @property
    def known(self) -> int:
        """The bits of the registers that are known in the caller."""
        return R14 if self.deref else R9

    @property
    def return_address(self) -> int:
        return R15 if self.deref else RSI

    @property
    def stack(self) -> int:
        """The stack pointer at the start of an expression."""
        return R15 if self.deref else R10

    #: The two parameters with ``deref``: the function, and what it gets as its first argument.
    function = R12
    argument = RBP

    @property
    def flags(self) -> At:
        """The bits of the registers that are known in the frame."""
        return At(self.frame, -self.bias)

    def slot(self, register: int) -> At:
        """A register of the frame."""
        place = self.abi.registers.index(register)
        return At(self.frame, 8 + 8 * place - self.bias)
