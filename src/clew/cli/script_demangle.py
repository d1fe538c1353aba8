"""Names as perf prints them: demangled without parameters and return types, as GNU's demangler does it when it is not asked for
them (``DMGL_NO_OPTS``, ``c++filt -p``)."""

from __future__ import annotations

import re
from functools import lru_cache

from clew.symbols.demangle import demangle

_LAMBDA = re.compile(r"'lambda(\d*)'\(")
#: The address of something, as a template argument.
_ADDRESS = re.compile(r"(?<=[<,( ])&(?=[\w(])")
_VECTOR = re.compile(r" vector\[(\d+)\]")
_UNNAMED = re.compile(r"'unnamed(\d*)'")
#: What legacy Rust puts behind a path (rustc, symbol mangling "legacy"): a hash, as if it were the path's last part.
_RUST_HASH = re.compile(r"17h[0-9a-f]{16}E$")
_RUST_TAIL = re.compile(r"::h[0-9a-f]{16}$")
_CLOSERS = re.compile(r"(?<!operator)(?<!operator>)>(?=>)")
#: GNU's demangler sets the template arguments of these operators apart.
_APART = re.compile(r"\boperator(<<=?(?=<)|<(?=<[^<=(\s]))")
#: A name without a scope: a source name, or an operator's two letters (Itanium C++ ABI, 5.1.3).
_UNSCOPED = re.compile(r"_Z(?:St)?L?(?:(\d{1,4})|[a-z][a-zA-Z])")
_TAG = re.compile(r"B(\d{1,4})")
_NUMBER = re.compile(r"\d{1,4}")
#: Abbreviations that GNU's demangler writes out where they are the scope of the name itself (Itanium C++ ABI, 5.1.10).
_SCOPES = re.compile(r"_ZN[VrK]*[RO]?S([sdio])(?!\d*E)")
_SCOPE_NAMES = {
    "s": ("std::string::", "std::basic_string<char, std::char_traits<char>, std::allocator<char> >::"),
    "d": ("std::iostream::", "std::basic_iostream<char, std::char_traits<char> >::"),
    "i": ("std::istream::", "std::basic_istream<char, std::char_traits<char> >::"),
    "o": ("std::ostream::", "std::basic_ostream<char, std::char_traits<char> >::"),
}
#: ``De``, which nobody uses.
_MARK = "decimal128"
#: Ends of a name that are tried, in a mangled one: there are as many as it has nested names.
_MOST_ENDS = 64


@lru_cache(maxsize=65536)
def perf_name(name: str) -> str:
    """A symbol's name as perf prints it.

    >>> perf_name("_ZNSt6vectorIiSaIiEE9push_backEOi"), perf_name("_ZNK1a1bIcEEvT_.cold"), perf_name("main")
    ('std::vector<int, std::allocator<int> >::push_back', 'a::b<char>', 'main')
    """
    if not name.startswith(("_Z", "_R")):
        return name
    name = name.partition("@")[0]
    base = name.partition(".")[0]
    if name.startswith("_R") or _RUST_HASH.search(base):
        return _RUST_TAIL.sub("", demangle(base))
    found = _with_empty_packs(base) if "JE" in base else None
    if found is None:
        short = _without_parameters(base) or demangle(base)
        if short == base:
            return name
        found = _as_gnu(short)
    scope = _SCOPES.match(name)
    if scope is not None:
        short, long = _SCOPE_NAMES[scope[1]]
        if found.startswith(short):
            found = long + found[len(short) :]
    return found


def _without_parameters(name: str) -> str | None:
    """The shortest beginning of a mangled name that is a name: what follows are types (Itanium C++ ABI, 5.1)."""
    if name[2:3] in "TG":
        return None
    begin = 2
    if name[2:3] not in "NZ":
        match = _UNSCOPED.match(name)
        if match is None:
            return None
        begin = match.end() + int(match[1] or 0)
        while (tag := _TAG.match(name, begin)) is not None:
            begin = tag.end() + int(tag[1])
        if name[begin : begin + 1] != "I":
            return _demangled(name[:begin])
    for _ in range(_MOST_ENDS):
        begin = name.find("E", begin) + 1
        if not begin or begin > len(name):
            break
        if name[2] == "Z" and name[begin : begin + 1].isdigit():
            # The name of what is inside a function, which does not end with a letter of its own.
            inner = _NUMBER.match(name, begin)
            assert inner is not None
            begin = inner.end() + int(inner[0])
        short = _demangled(name[:begin])
        if short is not None:
            return short
    return None


def _with_empty_packs(name: str) -> str | None:
    """The name where a pack of template arguments is empty (``JE``): GNU's demangler sets no blank behind it.

    For that, something stands in the pack meanwhile: a type that has a letter of its own, so that what counts types is not upset.
    """
    short = _without_parameters(name.replace("JE", "JDeE"))
    if short is None:
        return None
    found = _as_gnu(short).replace(f", {_MARK}", "").replace(f"<{_MARK}>", "<>")
    return None if _MARK in found else found


def _demangled(name: str) -> str | None:
    """A mangled name demangled, or None where it is none."""
    found = demangle(name)
    return None if found == name else found


def _as_gnu(name: str) -> str:
    """A name in the spelling of GNU's demangler."""
    # Most names have nothing of all this, and looking for a letter is quick.
    if ">>" in name:
        name = _CLOSERS.sub("> ", name)
    if "operator<" in name:
        name = _APART.sub(r"operator\1 ", name)
    if "std::nullptr_t" in name:
        name = name.replace("std::nullptr_t", "decltype(nullptr)")
    if " vector[" in name:
        name = _VECTOR.sub(r" __vector(\1)", name)
    if "&" in name and "(" in name:
        name = _with_parentheses(name)
    return _with_lambdas(name) if "'" in name else name


def _with_lambdas(name: str) -> str:
    """A name in which what has none is called as GNU's demangler calls it.

    >>> _with_lambdas("f()::'lambda0'(int)::operator()")
    'f()::{lambda(int)#2}::operator()'
    """
    while True:
        match = _LAMBDA.search(name)
        if match is None:
            break
        depth, at = 1, match.end()
        while at < len(name) and depth:
            depth += (name[at] == "(") - (name[at] == ")")
            at += 1
        number = int(match[1]) + 2 if match[1] else 1
        name = f"{name[: match.start()]}{{lambda({name[match.end() : at - 1]})#{number}}}{name[at:]}"
    return _UNNAMED.sub(lambda found: f"{{unnamed type#{int(found[1]) + 2 if found[1] else 1}}}", name)


def _with_parentheses(name: str) -> str:
    """A name in which the addresses of functions that are template arguments have parentheses.

    >>> _with_parentheses("f<&void g<int>(int)>")
    'f<&(void g<int>(int))>'
    """
    at = 0
    while True:
        match = _ADDRESS.search(name, at)
        if match is None:
            return name
        depth, end = 0, match.end()
        while end < len(name) and (depth or name[end] not in ",>"):
            depth += (name[end] in "<(") - (name[end] in ">)")
            end += 1
        at = match.end()
        if "(" in name[at:end] and name[at] != "(":
            name = f"{name[:at]}({name[at:end]}){name[end:]}"
