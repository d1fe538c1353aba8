"""Debugging information entries in the making, their abbreviations and the units they stand in (DWARF 5, 7.5).

:class:`~clew.testing.dwarf.DwarfBuilder` makes units; what is here is what one adds to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from clew.testing.cfi_instructions import fixed, sleb, uleb
from clew.testing.dwarf_constants import UnitType
from clew.testing.dwarf_forms import Form, FormEncoder
from clew.testing.dwarf_ranges import RangeList

#: References whose size depends on their value are padded to this many bytes, so that places are known before values.
_PADDED = 4

#: An attribute, its form and its value: what the form can say, an entry that is referred to, a list of ranges, or for
#: DW_FORM_indirect another form and its value.
Attribute = tuple[int, int, object]


@dataclass(eq=False)
class Die:
    """An entry. ``offset`` is in its section, None until the section is built."""

    unit: Unit
    tag: int
    attributes: list[Attribute]
    parent: Die | None = None
    children: list[Die] = field(default_factory=list)
    #: Whether it says that it has children; None: as it is. Entries that say so without any have an empty list of them.
    has_children: bool | None = None
    offset: int | None = None

    def child(self, tag: int, *attributes: Attribute, has_children: bool | None = None) -> Die:
        """Adds an entry below this one."""
        die = Die(self.unit, tag, list(attributes), self, has_children=has_children)
        self.children.append(die)
        return die

    def add(self, attribute: int, form: int, value: object) -> None:
        """Adds an attribute."""
        self.attributes.append((attribute, form, value))

    @property
    def parental(self) -> bool:
        """Whether its abbreviation says that it has children."""
        return bool(self.children) if self.has_children is None else self.has_children


class AbbrevTable:
    """Abbreviations, each once (DWARF 5, 7.5.3).

    Args:
        first, step: the code of the first, and by how much they grow.
    """

    def __init__(self, *, first: int = 1, step: int = 1) -> None:
        self.first = first
        self.step = step
        self._codes: dict[tuple[int, bool, tuple[tuple[int, int, int | None], ...]], int] = {}

    def code(self, die: Die) -> int:
        """The code of an entry's abbreviation, which is added if it is not there."""
        fields = []
        for attribute, form, value in die.attributes:
            constant = value if form == Form.IMPLICIT_CONST and isinstance(value, int) else None
            fields.append((attribute, form, constant))
        key = die.tag, die.parental, tuple(fields)
        return self._codes.setdefault(key, self.first + self.step * len(self._codes))

    def build(self) -> bytes:
        """The table's bytes, the zero at its end included."""
        data = b""
        for (tag, parental, fields), code in self._codes.items():
            data += uleb(code) + uleb(tag) + bytes((parental,))
            for attribute, form, constant in fields:
                data += uleb(attribute) + uleb(form) + (b"" if constant is None else sleb(constant))
            data += b"\0\0"
        return data + b"\0"


class Unit:
    """A unit in the making; made by :meth:`~clew.testing.dwarf.DwarfBuilder.unit`.

    Args:
        version, kind: of the header. Before version 5 only the section and ``dwo_id``, an attribute, tell kinds apart.
        forms: encodes its attributes.
        abbrevs: its abbreviations, which may be those of other units too.
        dwo_id: of skeleton and split units. signature, type_die: of type units.
        length, header_version: fields that shall be wrong.
        padding: zero bytes at its end.
    """

    def __init__(
        self,
        *,
        version: int,
        kind: int,
        forms: FormEncoder,
        abbrevs: AbbrevTable,
        dwo_id: int = 0,
        signature: int = 0,
        length: int | None = None,
        header_version: int | None = None,
        padding: int = 0,
    ) -> None:
        self.version = version
        self.kind = kind
        self.forms = forms
        self.abbrevs = abbrevs
        self.dwo_id = dwo_id
        self.signature = signature
        self.type_die: Die | None = None
        self.length = length
        self.header_version = header_version
        self.padding = padding
        self.abbrev_offset = 0
        self.offset: int | None = None
        self.dies: list[Die] = []
        self._patches: list[tuple[int, int, Die | RangeList]] = []

    def die(self, tag: int, *attributes: Attribute, has_children: bool | None = None) -> Die:
        """Adds an entry at the top; a unit should have one."""
        die = Die(self, tag, list(attributes), has_children=has_children)
        self.dies.append(die)
        return die

    @property
    def in_types(self) -> bool:
        """Whether it stands in ``.debug_types``, as type units of version 4 do."""
        return self.version < 5 and self.kind in (UnitType.TYPE, UnitType.SPLIT_TYPE)

    @property
    def header_size(self) -> int:
        """Bytes before the first entry."""
        width = self.forms.offset_size
        size = (12 if width == 8 else 4) + 2 + width + 1 + (self.version >= 5)
        if self.kind in (UnitType.TYPE, UnitType.SPLIT_TYPE) and (self.version >= 5 or self.in_types):
            return size + 8 + width
        if self.kind in (UnitType.SKELETON, UnitType.SPLIT_COMPILE) and self.version >= 5:
            return size + 8
        return size

    def place(self, offset: int) -> bytearray:
        """Its bytes at an offset of its section; references are still zero."""
        self.offset = offset
        self._patches = []
        data = bytearray(self.header_size)
        for die in self.dies:
            self._place_die(die, data)
        return data + bytes(self.padding)

    def finish(self, data: bytearray) -> bytes:
        """The same bytes with references and the header, once all units have their places."""
        assert self.offset is not None
        order = self.forms.byte_order
        for at, form, target in self._patches:
            value = target.offset
            if value is None:
                raise ValueError("an entry is referred to whose unit is not part of this")
            if isinstance(target, Die) and form not in (Form.REF_ADDR, Form.GNU_REF_ALT, Form.REF_SUP4, Form.REF_SUP8):
                value -= self.offset
            size = self.forms.size(form)
            piece = uleb(value, size=_PADDED) if size is None else fixed(value, size, order)
            data[at : at + len(piece)] = piece
        data[: self.header_size] = self._header(len(data))
        return bytes(data)

    def _header(self, size: int) -> bytes:
        order = self.forms.byte_order
        width = self.forms.offset_size
        length = size - (12 if width == 8 else 4) if self.length is None else self.length
        head = (b"\xff" * 4 if width == 8 else b"") + length.to_bytes(width, order)
        head += fixed(self.version if self.header_version is None else self.header_version, 2, order)
        abbrevs, address = fixed(self.abbrev_offset, width, order), bytes((self.forms.address_size,))
        head += bytes((self.kind,)) + address + abbrevs if self.version >= 5 else abbrevs + address
        if len(head) < self.header_size:
            if self.kind in (UnitType.SKELETON, UnitType.SPLIT_COMPILE):
                return head + fixed(self.dwo_id, 8, order)
            relative = 0
            if self.type_die is not None and self.type_die.offset is not None and self.offset is not None:
                relative = self.type_die.offset - self.offset
            head += fixed(self.signature, 8, order) + fixed(relative, width, order)
        return head

    def _place_die(self, die: Die, data: bytearray) -> None:
        assert self.offset is not None
        # Not recursive: chains of entries may be deep on purpose.
        pending: list[Die | None] = [die]
        while pending:
            next_ = pending.pop()
            if next_ is None:
                data.append(0)
                continue
            next_.offset = self.offset + len(data)
            data += uleb(self.abbrevs.code(next_))
            for _, form, value in next_.attributes:
                self._place_value(form, value, data)
            if next_.parental:
                pending.append(None)
                pending += reversed(next_.children)

    def _place_value(self, form: int, value: object, data: bytearray) -> None:
        if isinstance(value, tuple):
            form, value = value
            data += uleb(form)
        if isinstance(value, RangeList) and form == Form.RNGLISTX:
            value = value.index
        if isinstance(value, (Die, RangeList)):
            self._patches.append((len(data), form, value))
            data += bytes(self.forms.size(form) or _PADDED)
        elif isinstance(value, (int, str, bytes)):
            data += self.forms.encode(form, value)
        else:
            raise ValueError(f"{value!r} is nothing that form {form:#x} can say")


def sibling_attributes(dies: Sequence[Die], form: int = Form.REF4) -> None:
    """Gives entries the attribute ``DW_AT_sibling`` that leads to the next of them."""
    for die, following in pairwise(dies):
        die.attributes.insert(0, (0x01, form, following))
