"""What the steps of an expression do to the stack: known before it runs."""

from __future__ import annotations

from clew.table.expression import Step

UNARY = ("abs", "neg", "not")
_NEEDED = {"push": 0, "register": 0, "skip": 0, "bra": 1, "deref": 1, "drop": 1, "swap": 2, "rot": 3}
_EFFECTS = {"push": 1, "register": 1, "pick": 1, "drop": -1, "bra": -1, "skip": 0, "deref": 0, "swap": 0, "rot": 0}


def needed(step: Step) -> int:
    """How many numbers a step finds on the stack, at least.

    >>> needed(("plus",)), needed(("pick", 3)), needed(("push", 1))
    (2, 4, 0)
    """
    match step:
        case ("pick", depth):
            return int(depth) + 1
        case (name, *_):
            return 1 if name in UNARY else _NEEDED.get(name, 2)


def effect(step: Step) -> int:
    """By how much the stack grows.

    >>> effect(("plus",)), effect(("pick", 3)), effect(("not",))
    (-1, 1, 0)
    """
    return 0 if step[0] in UNARY else _EFFECTS.get(step[0], -1)


def jumps(steps: tuple[Step, ...]) -> dict[int, int]:
    """Where branches go: the number of the step that does, and of that which is next."""
    found: dict[int, int] = {}
    for number, step in enumerate(steps):
        match step:
            case ("bra" | "skip", target):
                found[number] = int(target)
            case _:
                pass
    return found
