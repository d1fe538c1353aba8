"""Look-up in the columns of a :class:`clew.symbols.SymbolMap`: which function, line and inlined call an address is in."""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.libc.stdint import int32_t, uint16_t, uint32_t, uint64_t
else:
    uint64_t = uint32_t = uint16_t = int32_t = cython.longlong

from clew.native.columns import empty, full


@cython.cclass
class SymbolIndex:
    """Finds functions, lines and the innermost inlined calls.

    Args:
        functions, lines, inlines: the parts of the map.
    """

    def __init__(self, functions, lines, inlines):
        columns = (
            functions.address,
            functions.size,
            lines.address,
            functions.first_line,
            functions.end_line,
            lines.size,
        )
        ranges = (inlines.range_address, inlines.range_size, inlines.first_range, inlines.depth)
        order = np.lexsort((np.repeat(inlines.depth, np.diff(inlines.first_range)), inlines.range_address))
        if not cython.compiled:
            columns = tuple(memoryview(column) for column in columns)
            ranges = tuple(memoryview(column) for column in ranges)
            order = memoryview(order)
        self.address, self.size, self.line_address, self.first_line, self.end_line, self.line_size = columns
        self.link(functions, ranges[3])
        self.flatten(ranges[0], ranges[1], ranges[2], order)

    @cython.cfunc
    def link(self, functions: object, depth: cython.const[uint16_t][::1]):
        """For each call the one around it, or -1 in the function itself."""
        starts = functions.first_inline if cython.compiled else memoryview(functions.first_inline)
        ends = functions.end_inline if cython.compiled else memoryview(functions.end_inline)
        first: cython.const[uint32_t][::1] = starts
        end: cython.const[uint32_t][::1] = ends
        self.above = empty(depth.shape[0], "i4")
        # The last call at each depth, and which it was that came before the function.
        last: int32_t[::1] = full(1 << 16, -1, "i4")
        f: cython.size_t
        i: cython.size_t
        d: cython.size_t
        for f in range(cython.cast(cython.size_t, first.shape[0])):
            for i in range(first[f], end[f]):
                d = depth[i]
                last[d] = i
                # A depth that skips one has nobody around it.
                self.above[i] = (
                    -1 if d == 0 or i == first[f] or last[d - 1] < cython.cast(int32_t, first[f]) else last[d - 1]
                )

    @cython.cfunc
    def flatten(
        self,
        start: cython.const[uint64_t][::1],
        size: cython.const[uint64_t][::1],
        first: cython.const[uint32_t][::1],
        order: cython.const[cython.Py_ssize_t][::1],
    ):
        """Cuts the address space where the innermost call changes. Of two around an address the one that starts last is
        inside; of equal starts the deeper one."""
        count: cython.size_t = order.shape[0]
        owners: int32_t[::1] = empty(count, "i4")
        stack: uint32_t[::1] = empty(count + 1, "u4")
        bound: uint64_t[::1] = empty(2 * count + 1, "u8")
        owner: int32_t[::1] = empty(2 * count + 1, "i4")
        i: cython.size_t
        r: cython.size_t
        n: cython.size_t = 0
        depth: cython.size_t = 0
        at: uint64_t
        for i in range(cython.cast(cython.size_t, first.shape[0]) - 1):
            for r in range(first[i], first[i + 1]):
                owners[r] = i
        for i in range(count + 1):
            while depth and (i == count or start[stack[depth - 1]] + size[stack[depth - 1]] <= start[order[i]]):
                at = start[stack[depth - 1]] + size[stack[depth - 1]]
                depth -= 1
                while depth and start[stack[depth - 1]] + size[stack[depth - 1]] <= at:
                    depth -= 1
                bound[n] = at
                owner[n] = owners[stack[depth - 1]] if depth else -1
                n += 1
            if i == count:
                break
            r = order[i]
            if n and bound[n - 1] == start[r]:
                n -= 1
            bound[n] = start[r]
            owner[n] = owners[r]
            n += 1
            stack[depth] = r
            depth += 1
        self.bound = np.array(bound[:n]) if cython.compiled else memoryview(np.array(bound[:n], "u8"))
        self.owner = np.array(owner[:n]) if cython.compiled else memoryview(np.array(owner[:n], "i4"))

    @cython.cfunc
    @cython.exceptval(check=False)
    def function_at(self, address: uint64_t) -> cython.Py_ssize_t:
        """The function at an address, or -1."""
        low: cython.size_t = 0
        high: cython.size_t = self.address.shape[0]
        middle: cython.size_t
        while low < high:
            middle = (low + high) // 2
            if self.address[middle] <= address:
                low = middle + 1
            else:
                high = middle
        if low == 0 or address - self.address[low - 1] >= self.size[low - 1]:
            return -1
        return cython.cast(cython.Py_ssize_t, low) - 1

    @cython.cfunc
    @cython.exceptval(check=False)
    def line_at(self, function: cython.size_t, address: uint64_t) -> cython.Py_ssize_t:
        """The line of a function at an address, or -1."""
        first: cython.size_t = self.first_line[function]
        low: cython.size_t = first
        high: cython.size_t = self.end_line[function]
        middle: cython.size_t
        while low < high:
            middle = (low + high) // 2
            if self.line_address[middle] <= address:
                low = middle + 1
            else:
                high = middle
        if low == first or address - self.line_address[low - 1] >= self.line_size[low - 1]:
            return -1
        return cython.cast(cython.Py_ssize_t, low) - 1

    @cython.cfunc
    @cython.exceptval(check=False)
    def inline_at(self, address: uint64_t) -> cython.Py_ssize_t:
        """The innermost inlined call at an address, or -1."""
        low: cython.size_t = 0
        high: cython.size_t = self.bound.shape[0]
        middle: cython.size_t
        while low < high:
            middle = (low + high) // 2
            if self.bound[middle] <= address:
                low = middle + 1
            else:
                high = middle
        return self.owner[low - 1] if low else -1

    def find(self, address):
        """The function, line and innermost inlined call at an address; -1 for none."""
        at: uint64_t = address
        function: cython.Py_ssize_t = self.function_at(at)
        if function < 0:
            return -1, -1, -1
        return function, self.line_at(function, at), self.inline_at(at)

    def find_many(self, addresses):
        """The same for many addresses (u8): three columns (i4)."""
        given: cython.const[uint64_t][::1] = addresses if cython.compiled else memoryview(addresses)
        count: cython.size_t = given.shape[0]
        results = [empty(count, "i4"), empty(count, "i4"), empty(count, "i4")]
        functions: int32_t[::1] = results[0]
        lines: int32_t[::1] = results[1]
        inlines: int32_t[::1] = results[2]
        i: cython.size_t
        function: cython.Py_ssize_t
        for i in range(count):
            function = self.function_at(given[i])
            functions[i] = function
            lines[i] = self.line_at(function, given[i]) if function >= 0 else -1
            inlines[i] = self.inline_at(given[i]) if function >= 0 else -1
        return tuple(np.asarray(result) for result in results)

    def callers(self):
        """For each inlined call the one around it, or -1 (i4)."""
        return np.asarray(self.above)
