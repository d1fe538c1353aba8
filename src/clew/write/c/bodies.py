"""Bodies as C statements: what is done where a rule holds. All values are had from the old frame before any is written."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from clew.table import AtCfa, AtExpression, CfaExpression, CfaPlus, Expression, InRegister, IsExpression, RegisterPlus
from clew.write.c.dialect import Dialect
from clew.write.c.expression import plus
from clew.write.compiled.abi import Outcome
from clew.write.compiled.planning import Body, Term


class Names(dict[tuple[Expression, bool], str]):
    """The function that computes an expression, by the expression and whether it begins with the CFA. Asking makes one."""

    def __missing__(self, key: tuple[Expression, bool]) -> str:
        name = self[key] = f"expression_{len(self) + 1}"
        return name


def statements(body: Body, dialect: Dialect, names: Names) -> Iterator[str]:
    """The lines of a body."""
    if body.outcome is not None:
        yield dialect.failure(body.outcome)
        return
    reading = [(number, term) for number, term in body.terms if not isinstance(term, AtCfa | CfaPlus)]
    yield from _cfa(body, dialect, names)
    if body.return_address is None:
        # Nothing to compute, but why there is no CFA comes first.
        yield dialect.failure(Outcome.BAD_RULE)
        return
    failed = yield from _return_address(body.return_address, body.missing, dialect, names)
    if failed:
        return
    for number, _ in reading:
        yield f"uint64_t new_{dialect.name(number)} = 0;"
    certain, uncertain = _sets(body, dialect)
    started = False
    if uncertain:
        yield "known = 0;"
        started = True
    for number, computed in reading:
        yield from _value(number, computed, dialect, names)
    for number, term in body.terms:
        register = dialect.write(number)
        match term:
            case AtCfa(offset):
                address = plus("cfa", offset)
                if dialect.deref and not dialect.paper:
                    bit = dialect.name(number)
                    yield f"known |= (uint64_t)deref(argument, {address}, &{register}) << {bit};"
                else:
                    yield dialect.give(register, address)
            case CfaPlus(offset):
                yield f"{register} = {plus('cfa', offset)};"
            case _:
                yield f"{register} = new_{dialect.name(number)};"
    yield f"{dialect.write(dialect.abi.pc)} = {'CLEW_STRIPPED(ra)' if body.strip else 'ra'};"
    yield _known(body, certain, started, dialect)
    yield "return out_ctx;" if dialect.paper else f"return {'CLEW_INTERRUPTED' if body.signal else 'CLEW_CALLED'};"


def _sets(body: Body, dialect: Dialect) -> tuple[list[int], bool]:
    """The registers that are certainly known in the caller, and whether there are some that may be."""
    certain = [dialect.abi.pc]
    uncertain = False
    for number, term in body.terms:
        loads = isinstance(term, AtCfa) and dialect.deref and not dialect.paper
        if isinstance(term, AtCfa | CfaPlus) and not loads:
            certain.append(number)
        else:
            uncertain = True
    return sorted(certain), uncertain


def _known(body: Body, certain: list[int], uncertain: bool, dialect: Dialect) -> str:
    kept = _mask(body.keeps, dialect)
    parts = [_hexadecimal(_mask(certain, dialect), dialect)]
    if kept:
        parts.append(f"({dialect.flags} & {_hexadecimal(kept, dialect)})")
    if uncertain:
        parts.append("known")
    target = "out_ctx.flags" if dialect.paper else "frame->known"
    value = " | ".join(parts)
    return f"{target} = (uint8_t)({value});" if dialect.paper and len(parts) > 1 else f"{target} = {value};"


def _mask(registers: list[int] | tuple[int, ...], dialect: Dialect) -> int:
    bits = (dialect.abi.bit(register) for register in registers)
    return sum(1 << bit for bit in bits if bit is not None)


def _hexadecimal(mask: int, dialect: Dialect) -> str:
    return f"{mask}u" if dialect.paper else f"{mask:#x}u"


def _cfa(body: Body, dialect: Dialect, names: Names) -> Iterator[str]:
    match body.cfa:
        case RegisterPlus(register, offset):
            if dialect.abi.bit(register) is None:
                yield dialect.failure(Outcome.UNKNOWN_REGISTER)
                yield "cfa = 0;"
                return
            yield f"if (!({dialect.known(register)})) {dialect.failure(Outcome.UNKNOWN_REGISTER)}"
            yield f"cfa = {plus(dialect.read(register), offset)};"
        case CfaExpression(Expression() as expression):
            yield "cfa = 0;"
            yield from _computed(names[expression, False], "cfa", dialect)


def _computed(name: str, result: str, dialect: Dialect) -> Iterator[str]:
    """The lines that compute an expression into a variable, or end the function."""
    call = f"{name}({dialect.expression_arguments}, &{result})"
    if dialect.paper:
        yield f"if ({call}) goto _factor_default;"
    else:
        yield f"if ((failure = {call})) return failure;"


def _return_address(term: Term, missing: Outcome, dialect: Dialect, names: Names) -> Generator[str, None, bool]:
    """The lines that give ``ra`` its value; whether they cannot."""
    match term:
        case AtCfa(offset):
            yield dialect.give("ra", plus("cfa", offset))
        case CfaPlus(offset):
            yield f"ra = {plus('cfa', offset)};"
        case InRegister(register):
            if dialect.abi.bit(register) is None:
                yield dialect.failure(missing)
                return True
            yield f"if (!({dialect.known(register)})) {dialect.failure(missing)}"
            yield f"ra = {dialect.read(register)};"
        case AtExpression(Expression() as expression) | IsExpression(Expression() as expression):
            yield "ra = 0;"
            yield from _computed(names[expression, True], "ra", dialect)
            if isinstance(term, AtExpression):
                yield dialect.give("ra", "ra")
    return False


def _value(number: int, term: Term, dialect: Dialect, names: Names) -> Iterator[str]:
    """The lines that compute a term which reads the old frame."""
    new = f"new_{dialect.name(number)}"
    bit = dialect.abi.bit(number)
    assert bit is not None
    mark = f"known |= {_hexadecimal(1 << bit, dialect)};"
    match term:
        case InRegister(register):
            yield f"if ({dialect.known(register)}) {{"
            yield f"    {new} = {dialect.read(register)};"
            yield f"    {mark}"
            yield "}"
        case AtExpression(Expression() as expression) | IsExpression(Expression() as expression):
            call = f"{names[expression, True]}({dialect.expression_arguments}, &{new})"
            if not isinstance(term, AtExpression):
                yield f"if (!{call})"
                yield f"    {mark}"
            elif dialect.deref and not dialect.paper:
                yield f"if (!{call} && deref(argument, {new}, &{new}))"
                yield f"    {mark}"
            else:
                yield f"if (!{call}) {{"
                yield f"    {dialect.give(new, new)}"
                yield f"    {mark}"
                yield "}"
