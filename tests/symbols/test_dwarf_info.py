"""Which functions and inlined calls units have, where their code is, and what they are called."""

from __future__ import annotations

import pytest
from dwarf_programs import CODE, SIZE, asked, at, built, function, functions, inlined, root

from clew.testing.dwarf import At, Attribute, Die, DwarfBuilder, Form, Rle, Tag

_MEMBER = 0x0D


def ranged(parent: Die, ranges: Attribute, name: str) -> Die:
    """A function whose code is told by a list."""
    return parent.child(Tag.SUBPROGRAM, (At.NAME, Form.STRING, name), ranges)


# Ranges


@pytest.mark.parametrize("address_size", [4, 8])
@pytest.mark.parametrize("version", [3, 4])
def test_ranges_of_version_4_and_their_bases(version: int, address_size: int) -> None:
    dwarf = DwarfBuilder(version=version, address_size=address_size)
    form = Form.SEC_OFFSET if version == 4 else Form.DATA4
    top = root(dwarf.unit(), low=CODE)
    # From the unit's own base; then from another; empty ranges in between say nothing.
    offset = dwarf.ranges(
        [(0, 4), (8, 8), (0x10, 0x14), (-1, CODE + 0x40), (0, 4), (0x10, 0x14), (-1, 0), (CODE + 0x80, CODE + 0x84)]
    )
    ranged(top, (At.RANGES, form, offset), "f")
    with built(dwarf) as symbols:
        known = [(start - CODE, size) for start, size, _ in functions(symbols.whole)]
        assert known == [(0, 4), (0x10, 4), (0x40, 4), (0x50, 4), (0x80, 4)]
        assert at(symbols, 0, 4, 8, 0x10, 0x50, 0x83, 0x84) == [["f"], [], [], ["f"], ["f"], ["f"], []]
        assert symbols.problems == []


@pytest.mark.parametrize("address_size", [4, 8])
@pytest.mark.parametrize("dwarf64", [False, True])
@pytest.mark.parametrize("form", [Form.SEC_OFFSET, Form.RNGLISTX])
def test_every_entry_of_version_5(address_size: int, dwarf64: bool, form: int) -> None:
    dwarf = DwarfBuilder(version=5, address_size=address_size, dwarf64=dwarf64)
    index = {place: dwarf.addresses.add(CODE + place) for place in (0x99, 0x10, 0x20, 0x24, 0x30)}
    dwarf.range_list([Rle.start_length(CODE + 0xF0, 1)])
    entries = [
        Rle.offset_pair(0, 4),  # from the unit's low_pc
        Rle.base_addressx(index[0x10]),
        Rle.offset_pair(0, 4),
        Rle.startx_endx(index[0x20], index[0x24]),
        Rle.startx_length(index[0x30], 4),
        Rle.base_address(CODE + 0x40),
        Rle.offset_pair(2, 4),
        Rle.start_end(CODE + 0x50, CODE + 0x54),
        Rle.start_length(CODE + 0x60, 4),
        Rle.start_length(CODE + 0x70, 0),
        Rle.start_end(CODE + 0x80, CODE + 0x7F),
    ]
    top = root(
        dwarf.unit(),
        (At.RNGLISTS_BASE, Form.SEC_OFFSET, dwarf.rnglists_base),
        (At.ADDR_BASE, Form.SEC_OFFSET, dwarf.addr_base),
    )
    ranged(top, (At.RANGES, form, dwarf.range_list(entries)), "f")
    with built(dwarf) as symbols:
        known = [(start - CODE, size) for start, size, _ in functions(symbols.whole)]
        assert known == [(0, 4), (0x10, 4), (0x20, 4), (0x30, 4), (0x42, 2), (0x50, 4), (0x60, 4)]
        assert at(symbols, 0x41, 0x42, 0x43, 0x44) == [[], ["f"], ["f"], []]
        assert symbols.problems == []


@pytest.mark.parametrize("address_size", [4, 8])
@pytest.mark.parametrize("dead", [0, 1, -1, -2])
def test_code_that_the_linker_threw_away(dead: int, address_size: int) -> None:
    dwarf = DwarfBuilder(version=5, address_size=address_size)
    low = dead & ((1 << 8 * address_size) - 1)
    top = root(dwarf.unit(), (At.RNGLISTS_BASE, Form.SEC_OFFSET, dwarf.rnglists_base), low=CODE)
    gone = function(top, low, 0x20, name="gone")
    inlined(gone, gone, low, 4, 1)
    # A base of its own that wraps around to where there is code.
    entries = [Rle.base_address(low), Rle.offset_pair(CODE + 0x41, CODE + 0x45)]
    if dead < 0:
        ranged(top, (At.RANGES, Form.RNGLISTX, dwarf.range_list(entries)), "wrapped")
    ranged(top, (At.RANGES, Form.RNGLISTX, dwarf.range_list([Rle.start_length(low, 9)])), "listed")
    function(top, CODE, 4, name="kept")
    # A unit of which nothing is left.
    function(root(dwarf.unit(), low=low), low, 8, name="unit")
    with built(dwarf) as symbols:
        assert functions(symbols.whole) == [(CODE, 4, "kept")]
        assert at(symbols, 0, 4, 0x41) == [["kept"], [], []]
        assert symbols.lookup(low) == ()
        assert symbols.problems == []


def test_code_ends_where_its_section_does() -> None:
    dwarf = DwarfBuilder(version=4)
    function(root(dwarf.unit()), CODE + SIZE - 8, 0x1000, name="f")
    with built(dwarf) as symbols:
        assert functions(symbols.whole) == [(CODE + SIZE - 8, 8, "f")]


def test_lists_that_cannot_be_read_cost_their_function_alone() -> None:
    dwarf = DwarfBuilder(version=5)
    # One without an end, behind which the section ends.
    dwarf.range_list([Rle.start_length(CODE + 0x20, 4)])
    cut = dwarf.range_list([Rle.start_length(CODE + 0x30, 4)], end=False)
    top = root(dwarf.unit(), (At.RNGLISTS_BASE, Form.SEC_OFFSET, dwarf.rnglists_base))
    wrong = [
        ranged(top, (At.RANGES, Form.SEC_OFFSET, 0x7FFFFFFF), "beyond"),
        ranged(top, (At.RANGES, Form.RNGLISTX, 0x7FFFFFFF), "no such list"),
        ranged(top, (At.RANGES, Form.RNGLISTX, 2), "the first behind the last"),
        ranged(top, (At.RANGES, Form.RNGLISTX, cut), "cut"),
        top.child(Tag.SUBPROGRAM, (At.LOW_PC, Form.ADDRX, bytes((9,))), (At.HIGH_PC, Form.DATA1, 8)),
    ]
    function(top, CODE, 4, name="kept")
    with built(dwarf) as symbols:
        assert functions(symbols.whole) == [(CODE, 4, "kept")]
        assert [problem.offset for problem in symbols.problems] == [die.offset for die in wrong]
        assert {problem.section for problem in symbols.problems} == {".debug_info"}


def test_lists_of_a_unit_that_does_not_say_where_they_begin() -> None:
    for dwarf64 in (False, True):
        dwarf = DwarfBuilder(version=5, dwarf64=dwarf64)
        listed = dwarf.range_list([Rle.start_length(CODE, 4)])
        ranged(root(dwarf.unit()), (At.RANGES, Form.RNGLISTX, listed), "f")
        # Where no list of lists can be.
        other = root(dwarf.unit(), (At.RNGLISTS_BASE, Form.SEC_OFFSET, 3), low=CODE + 0x80, size=8)
        odd = ranged(other, (At.RANGES, Form.RNGLISTX, listed), "g")
        with built(dwarf) as symbols:
            assert functions(symbols.whole) == [(CODE, 4, "f")]
            assert [problem.offset for problem in symbols.problems] == [odd.offset]


# Names


def test_names_come_through_chains_across_units() -> None:
    dwarf = DwarfBuilder(version=4)
    declaring = root(dwarf.unit(), low=0x10)
    declared = declaring.child(
        Tag.SUBPROGRAM,
        (At.NAME, Form.STRING, "method"),
        (At.LINKAGE_NAME, Form.STRP, "_ZN1s6methodEv"),
        (At.DECLARATION, Form.FLAG_PRESENT, 1),
    )
    abstract = declaring.child(Tag.SUBPROGRAM, (At.SPECIFICATION, Form.REF4, declared), (At.INLINE, Form.DATA1, 1))
    top = root(dwarf.unit())
    # An entry's own name comes before that of where it leads, unless that is the linker's.
    function(top, CODE, 8, (At.ABSTRACT_ORIGIN, Form.REF_ADDR, abstract))
    function(top, CODE + 8, 8, (At.ABSTRACT_ORIGIN, Form.REF_ADDR, abstract), name="own")
    plain = declaring.child(Tag.SUBPROGRAM, (At.NAME, Form.STRING, "plain"))
    function(top, CODE + 16, 8, (At.ABSTRACT_ORIGIN, Form.REF_ADDR, plain), name="own")
    function(
        top, CODE + 24, 8, (At.ABSTRACT_ORIGIN, Form.REF_ADDR, plain), (At.MIPS_LINKAGE_NAME, Form.STRING, "_Z1xv")
    )
    function(top, CODE + 32, 8)
    with built(dwarf) as symbols:
        assert at(symbols, 0, 8, 16, 24, 32) == [["_ZN1s6methodEv"], ["_ZN1s6methodEv"], ["own"], ["_Z1xv"], [None]]
        assert symbols.problems == []


def test_chains_end() -> None:
    dwarf = DwarfBuilder(version=4)
    top = root(dwarf.unit())
    starts: list[Die] = []
    for number, length in enumerate((16, 17, 18, 19)):
        die = top.child(Tag.SUBPROGRAM, (At.NAME, Form.STRING, f"end{length}"))
        for _ in range(length - 1):
            die = top.child(Tag.SUBPROGRAM, (At.ABSTRACT_ORIGIN, Form.REF4, die))
        function(top, CODE + 8 * number, 8, (At.ABSTRACT_ORIGIN, Form.REF4, die))
        starts.append(die)
    circle = function(top, CODE + 0x40, 8)
    circle.add(At.ABSTRACT_ORIGIN, Form.REF4, circle)
    named = function(top, CODE + 0x48, 8, name="own")
    named.add(At.SPECIFICATION, Form.REF4, circle)
    with built(dwarf) as symbols:
        assert at(symbols, 0, 8, 16, 24) == [["end16"], ["end17"], [None], [None]]
        # One that has a name keeps it, wherever it leads.
        assert at(symbols, 0x40, 0x48) == [[None], ["own"]]
        found = [problem for problem in symbols.problems if "circles" in problem.message]
        # They are told of the entry that the function refers to.
        assert [problem.offset for problem in found] == [starts[2].offset, starts[3].offset, circle.offset]


@pytest.mark.parametrize("where", [3, 0x7FFFFFFF])
def test_names_that_cannot_be_read(where: int) -> None:
    dwarf = DwarfBuilder(version=5)
    top = root(dwarf.unit())
    function(top, CODE, 8, (At.ABSTRACT_ORIGIN, Form.REF_ADDR, where))
    missing = function(top, CODE + 8, 8, (At.NAME, Form.STRP, 0x1234))
    function(top, CODE + 16, 8, (At.NAME, Form.LINE_STRP, "kept"))
    with built(dwarf) as symbols:
        assert at(symbols, 0, 8, 16) == [[None], [None], ["kept"]]
        assert [problem.offset for problem in symbols.problems] == [where, missing.offset]


def test_names_are_text_whatever_their_bytes_are() -> None:
    dwarf = DwarfBuilder(version=4)
    function(root(dwarf.unit()), CODE, 8, name="a\udcff\udcfeb")
    with built(dwarf) as symbols:
        assert at(symbols, 0) == [["a\\xff\\xfeb"]]


# Scopes


def test_functions_inside_functions() -> None:
    """Methods of local classes, and GNU C's nested functions: the calls behind them are still the outer one's."""
    dwarf = DwarfBuilder(version=4)
    top = root(dwarf.unit())
    callee = top.child(Tag.SUBPROGRAM, (At.NAME, Form.STRING, "callee"))
    outer = function(top, CODE, 0x40, name="outer")
    inlined(outer, callee, CODE, 4, 1)
    local = outer.child(Tag.LEXICAL_BLOCK).child(Tag.STRUCTURE_TYPE, (At.NAME, Form.STRING, "local"))
    method = function(local, CODE + 0x40, 0x20, name="method")
    inlined(method, callee, CODE + 0x48, 4, 2)
    inner = function(method, CODE + 0x80, 8, name="inner")
    inlined(inner, callee, CODE + 0x84, 4, 3)
    inlined(method, callee, CODE + 0x50, 4, 4)
    again = inlined(outer, callee, CODE + 0x10, 8, 5)
    inlined(again, callee, CODE + 0x14, 4, 6)
    function(top, CODE + 0x60, 8, name="last")
    with built(dwarf) as symbols:
        assert at(symbols, 0, 4, 0x40, 0x48, 0x50, 0x54) == [
            ["callee", "outer"],
            ["outer"],
            ["method"],
            ["callee", "method"],
            ["callee", "method"],
            ["method"],
        ]
        assert at(symbols, 0x10, 0x14, 0x18, 0x60, 0x80, 0x84) == [
            ["callee", "outer"],
            ["callee", "callee", "outer"],
            ["outer"],
            ["last"],
            ["inner"],
            ["callee", "inner"],
        ]
        assert [frame[2] for frame in asked(symbols, CODE + 0x14)] == [0, 6, 5]


def test_functions_inside_what_has_no_code() -> None:
    dwarf = DwarfBuilder(version=4)
    top = root(dwarf.unit())
    abstract = top.child(Tag.SUBPROGRAM, (At.NAME, Form.STRING, "abstract"), (At.INLINE, Form.DATA1, 1))
    inlined(abstract, abstract, CODE, 4, 1)
    function(abstract.child(Tag.STRUCTURE_TYPE), CODE + 8, 8, name="method")
    function(top.child(Tag.NAMESPACE).child(Tag.CLASS_TYPE), CODE + 16, 8, name="member")
    # With a sibling, which may not be followed: GCC has the methods of classes that are local to inlined functions so.
    local = abstract.child(Tag.LEXICAL_BLOCK).child(Tag.STRUCTURE_TYPE)
    function(local, CODE + 24, 8, name="local")
    local.add(At.SIBLING, Form.REF4, abstract.child(Tag.VARIABLE))
    with built(dwarf) as symbols:
        assert at(symbols, 0, 8, 16, 24) == [[], ["method"], ["member"], ["local"]]


def test_types_are_leapt_over_by_their_siblings() -> None:
    for form in (Form.REF1, Form.REF2, Form.REF4, Form.REF8, Form.REF_UDATA):
        dwarf = DwarfBuilder(version=4)
        top = root(dwarf.unit())
        kind = top.child(Tag.STRUCTURE_TYPE, (At.NAME, Form.STRING, "s"))
        for _ in range(5):
            kind.child(_MEMBER, (At.NAME, Form.STRING, "member"))
        behind = function(top, CODE, 8, name="f")
        kind.add(At.SIBLING, form, behind)
        kind.add(At.BYTE_SIZE, Form.DATA1, 8)
        with built(dwarf) as symbols:
            assert at(symbols, 0) == [["f"]]
            assert symbols.problems == []


@pytest.mark.parametrize("where", [0, 12, 0x7FFFFFFF])
def test_siblings_that_lead_nowhere(where: int) -> None:
    dwarf = DwarfBuilder(version=4)
    top = root(dwarf.unit())
    function(top, CODE, 8, name="before")
    top.child(Tag.STRUCTURE_TYPE, (At.SIBLING, Form.REF4, where)).child(_MEMBER)
    with built(dwarf) as symbols:
        assert at(symbols, 0) == [["before"]]
        assert "DW_AT_sibling" in symbols.problems[0].message


def test_inlined_calls_without_code_are_as_if_they_were_not_there() -> None:
    dwarf = DwarfBuilder(version=4)
    top = root(dwarf.unit())
    callee = top.child(Tag.SUBPROGRAM, (At.NAME, Form.STRING, "callee"))
    outer = function(top, CODE, 0x40, name="outer")
    empty = outer.child(Tag.INLINED_SUBROUTINE, (At.ABSTRACT_ORIGIN, Form.REF4, callee), (At.CALL_LINE, Form.DATA1, 1))
    inlined(empty, callee, CODE + 8, 8, 2)
    gone = inlined(outer, callee, 0, 8, 3)
    inlined(gone, callee, CODE + 0x18, 8, 4)
    with built(dwarf) as symbols:
        assert asked(symbols, CODE + 8) == [("callee", None, 0), ("outer", None, 2)]
        assert asked(symbols, CODE + 0x18) == [("callee", None, 0), ("outer", None, 4)]


def test_functions_in_pieces_have_the_calls_of_each() -> None:
    dwarf = DwarfBuilder(version=5)
    top = root(dwarf.unit(), (At.RNGLISTS_BASE, Form.SEC_OFFSET, dwarf.rnglists_base))
    callee = top.child(Tag.SUBPROGRAM, (At.NAME, Form.STRING, "callee"))
    pieces = [Rle.offset_pair(0x40, 0x60), Rle.offset_pair(0, 0x10)]
    split = ranged(top, (At.RANGES, Form.RNGLISTX, dwarf.range_list(pieces)), "split")

    def call(around: Die, line: int, *entries: tuple[int, int]) -> Die:
        listed = dwarf.range_list([Rle.offset_pair(*entry) for entry in entries])
        return around.child(
            Tag.INLINED_SUBROUTINE,
            (At.ABSTRACT_ORIGIN, Form.REF4, callee),
            (At.RANGES, Form.RNGLISTX, listed),
            (At.CALL_LINE, Form.DATA1, line),
        )

    both = call(split, 1, (4, 8), (0x48, 0x58))
    call(both, 2, (0x4C, 0x50))
    hot = call(split, 3, (0, 4))
    call(hot, 4, (0, 2))
    with built(dwarf) as symbols:
        assert functions(symbols.whole) == [(CODE, 0x10, "split"), (CODE + 0x40, 0x20, "split")]
        lines = {
            place: [frame[2] for frame in asked(symbols, CODE + place)]
            for place in (0, 2, 4, 8, 0x48, 0x4C, 0x50, 0x58)
        }
        assert lines == {
            0: [0, 4, 3],
            2: [0, 3],
            4: [0, 1],
            8: [0],
            0x48: [0, 1],
            0x4C: [0, 2, 1],
            0x50: [0, 1],
            0x58: [0],
        }
        counts = symbols.whole.functions.end_inline - symbols.whole.functions.first_inline
        assert counts.tolist() == [3, 2]


def test_deep_nesting() -> None:
    dwarf = DwarfBuilder(version=4)
    top = root(dwarf.unit())
    callee = top.child(Tag.SUBPROGRAM, (At.NAME, Form.STRING, "callee"))
    around = function(top, CODE, 8, name="f")
    for _ in range(1000):
        around = inlined(around.child(Tag.LEXICAL_BLOCK), callee, CODE, 8, 1)
    with built(dwarf) as symbols:
        assert len(symbols.lookup(CODE)) == 1001
    for _ in range(4000):
        around = inlined(around, callee, CODE, 8, 1)
    with built(dwarf) as symbols:
        assert len(symbols.lookup(CODE)) == 4097
        assert "nested too deeply" in symbols.problems[0].message


def test_the_file_of_a_call_may_be_unknown() -> None:
    for version, known in ((4, None), (5, "/src/first.c")):
        dwarf = DwarfBuilder(version=version)
        files = ["first.c", "second.c"]
        lines = dwarf.line_program(directories=["/src"], files=[(name, 0) for name in files])
        top = root(
            dwarf.unit(), (At.STMT_LIST, Form.SEC_OFFSET, dwarf.add_lines(lines)), (At.COMP_DIR, Form.STRING, "/src")
        )
        callee = top.child(Tag.SUBPROGRAM, (At.NAME, Form.STRING, "callee"))
        outer = function(top, CODE, 0x40, name="outer")
        inlined(outer, callee, CODE, 8, 1)
        inlined(outer, callee, CODE + 8, 8, 2, (At.CALL_FILE, Form.DATA1, 0))
        inlined(outer, callee, CODE + 16, 8, 3, (At.CALL_FILE, Form.DATA1, 1))
        with built(dwarf) as symbols:
            files_of_calls = [asked(symbols, CODE + place)[1][1] for place in (0, 8, 16)]
            assert files_of_calls == [None, known, "/src/second.c" if version == 5 else "/src/first.c"]
