"""Names as binutils writes them for people: those of :func:`clew.symbols.demangle` in the style of libiberty's demangler."""

from __future__ import annotations

import re
from functools import lru_cache

from clew.symbols.demangle import demangle

#: What a compiler appends to the name of a copy of a function: a word, and numbers.
_CLONE = re.compile(r"\.[a-z0-9_]+(?:\.[0-9]+)*")
_CLONES = re.compile(rf"(_Z[^.@]+)((?:{_CLONE.pattern})+)")
#: The end of a list of arguments inside another one. In `operator>>` it is none.
_ENDS = re.compile(r"(?<!operator)>(?=>)")
#: The same text is one operator with arguments of a template, or a longer operator; what follows tells them apart.
_OPERATOR = re.compile(r"operator<(?:<(?=<)|(?=<(?:[A-Za-z_:]|\(anonymous)))")
#: Rust's first mangling is C++'s, with a hash for the last name; libiberty has a demangler of its own for it.
_RUST = re.compile(r"17h[0-9a-f]{16}E$")
_CLOSURE = re.compile(r"'(lambda|unnamed)([0-9]*)'")


@lru_cache(maxsize=65536)
def gnu_demangled(name: str) -> str:
    """A name demangled, as ``addr2line -C`` and ``c++filt`` write it; one that is not mangled, as it is.

    >>> gnu_demangled("_ZNSt6vectorIS_IiEE3fooEv.part.0.cold")
    'std::vector<std::vector<int> >::foo() [clone .part.0] [clone .cold]'
    """
    base, at, version = name.partition("@")
    parts = _CLONES.fullmatch(base)
    if parts is not None:
        base = parts[1]
    text = demangle(base)
    if text == base:
        return name
    if base.startswith("_Z") and not _RUST.search(base):
        text = _closures(_OPERATOR.sub(r"\g<0> ", _ENDS.sub("> ", text)))
    if parts is not None:
        text += "".join(f" [clone {clone}]" for clone in _CLONE.findall(parts[2]))
    return text + at + version


def _closures(text: str) -> str:
    """The same text with ``{lambda(int)#1}`` for ``'lambda'(int)``, and ``{unnamed type#1}`` for ``'unnamed'``."""
    while (found := _CLOSURE.search(text)) is not None:
        # The first one has no number, the second one 0.
        number = int(found[2]) + 2 if found[2] else 1
        end = found.end()
        what = "unnamed type"
        if found[1] == "lambda":
            end = _closed(text, end)
            what = "lambda" + text[found.end() : end]
        text = f"{text[: found.start()]}{{{what}#{number}}}{text[end:]}"
    return text


def _closed(text: str, start: int) -> int:
    """Where the parentheses that open at a place are closed; that place, where none do."""
    depth = 0
    for place in range(start, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if depth <= 0:
            return place + 1 if place > start else start
    return start
