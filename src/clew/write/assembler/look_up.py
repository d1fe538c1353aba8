"""The look-up: from an address to its body, by the tables of :mod:`clew.write.assembler.pages`."""

from __future__ import annotations

from dataclasses import dataclass

from clew.write.assembler.code import Code
from clew.write.assembler.operands import R8, R9, R10, R11, RAX, RSI, At, fits32
from clew.write.assembler.pages import Pages, Segment


@dataclass(slots=True)
class LookUp:
    """Writes look-ups.

    Attributes:
        code: where to.
        tables: what is searched.
        targets: how far the targets are behind the lows.
        shift, size: what a target is (:class:`clew.write.assembler.function.Assembled`).
    """

    code: Code
    tables: Pages
    targets: int
    shift: int
    size: int

    def write(self) -> None:
        """From the address in rsi to its body. rdi, rdx and rcx, which hold parameters, stay."""
        if self.tables.segments:
            self._segments()
            self._page()
        else:
            self.code.jump("body_0")

    def _segments(self) -> None:
        code, segments = self.code, self.tables.segments

        def search(low: int, high: int) -> None:
            if high - low == 1:
                self._segment(segments[low], low, high == len(segments) and low == 0)
                return
            middle = (low + high) // 2
            code.constant(RAX, segments[middle].start)
            code.arithmetic("cmp", RSI, RAX)
            code.jump_if("ae", f"from_{middle}")
            search(low, middle)
            code.label(f"from_{middle}")
            search(middle, high)

        # Below a single segment there is no row, as behind it: one comparison finds both.
        if segments[0].start and (len(segments) > 1 or segments[0].after):
            code.constant(RAX, segments[0].start)
            code.arithmetic("cmp", RSI, RAX)
            code.jump_if("b", "body_0")
        search(0, len(segments))

    def _segment(self, segment: Segment, number: int, last: bool) -> None:
        """From an address at or behind a segment's start to the search in its page."""
        code = self.code
        if fits32(-segment.start):
            code.address(RAX, At(RSI, -segment.start))
        else:
            code.constant(RAX, -segment.start)
            code.arithmetic("add", RAX, RSI)
        code.immediate("cmp", RAX, segment.end - segment.start)
        code.jump_if("ae", f"body_{segment.after}")
        code.address_of(R11, f"pages_{number}")
        if not last:
            code.jump("in_page")

    def _page(self) -> None:
        code = self.code
        code.label("in_page")
        code.remark("rax: from the start of the segment; r11: its pages")
        code.move32(R10, RAX)
        code.shift("shr", R10, 8, wide=False)
        code.load32(R8, At(R11, 0, R10, 4))
        code.load32(R10, At(R11, 4, R10, 4))
        code.arithmetic32("sub", R10, R8)
        code.address_of(R9, "lows")
        code.remark("the low byte of the address, sixteen times")
        code.raw(b"\x66\x0f\x6e\xc0", "movd xmm0, eax")
        code.raw(b"\x66\x0f\x60\xc0", "punpcklbw xmm0, xmm0")
        code.raw(b"\xf2\x0f\x70\xc0\x00", "pshuflw xmm0, xmm0, 0")
        code.raw(b"\x66\x0f\x70\xc0\x00", "pshufd xmm0, xmm0, 0")
        code.immediate("cmp", R10, 16, wide=False)
        code.jump_if("a", "long_page")
        code.remark("one bit for each row that begins at or before it, and for all that are not the page's")
        code.raw(b"\xf3\x43\x0f\x6f\x0c\x01", "movdqu xmm1, [r9+r8]")
        self._compare()
        code.unary("not", RAX, wide=False)
        code.raw(b"\x44\x0f\xab\xd0", "bts eax, r10d")
        self._first_bit()
        code.label("found")
        code.arithmetic32("add", RAX, R8)
        target = At(R9, self.targets, RAX, self.size)
        if self.size == 2:
            code.load_small(RAX, target, 2)
        else:
            code.load32(RAX, target)
        if self.shift:
            code.shift("shl", RAX, self.shift, wide=False)
        code.address_of(RSI, "bodies")
        code.arithmetic("add", RAX, RSI)
        code.jump_to(RAX)
        code.label("long_page")
        code.address(RSI, At(R9, 0, R8))
        code.constant(R11, 0)
        code.label("sixteen_more")
        code.raw(b"\xf3\x42\x0f\x6f\x0c\x1e", "movdqu xmm1, [rsi+r11]")
        self._compare()
        code.immediate("cmp", RAX, 0xFFFF, wide=False)
        code.hop_if("ne", "not_all")
        code.immediate("add", R11, 16, wide=False)
        code.arithmetic32("cmp", R11, R10)
        code.hop_if("b", "sixteen_more")
        code.label("not_all")
        code.unary("not", RAX, wide=False)
        self._first_bit()
        code.arithmetic32("add", RAX, R11)
        code.remark("rows of the next page do not count")
        code.arithmetic("cmp", RAX, R10)
        code.move_if("a", RAX, R10)
        code.jump("found")

    def _first_bit(self) -> None:
        """The number of the lowest bit in eax. Machines without tzcnt run it as bsf, which differs for 0 only; there is a bit."""
        self.code.raw(b"\xf3\x0f\xbc\xc0", "tzcnt eax, eax")

    def _compare(self) -> None:
        """One bit in eax for each of the sixteen bytes in xmm1 that is not above the one in xmm0."""
        self.code.raw(b"\x66\x0f\xde\xc8", "pmaxub xmm1, xmm0")
        self.code.raw(b"\x66\x0f\x74\xc8", "pcmpeqb xmm1, xmm0")
        self.code.raw(b"\x66\x0f\xd7\xc1", "pmovmskb eax, xmm1")
