"""Look-up in the columns of a :class:`clew.symbols.SymbolMap`: which function, line and inlined call an address is in."""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.clew.native.cursor import WORD
    from cython.cimports.libc.stdint import int32_t, uint16_t, uint32_t, uint64_t
else:
    from clew.native.cursor import WORD

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
        self.has_discriminators = lines.discriminator is not None
        sources = (
            functions.name,
            lines.file,
            lines.line,
            lines.discriminator if self.has_discriminators else lines.line,
        )
        ranges = (
            inlines.range_address,
            inlines.range_size,
            inlines.first_range,
            inlines.depth,
            functions.first_inline,
            functions.end_inline,
        )
        order = np.lexsort((np.repeat(inlines.depth, np.diff(inlines.first_range)), inlines.range_address))
        if not cython.compiled:
            columns = tuple(memoryview(column) for column in columns)
            ranges = tuple(memoryview(column) for column in ranges)
            order = memoryview(order)
            sources = tuple(memoryview(column) for column in sources)
        self.name, self.line_file, self.line, self.discriminator = sources
        self.address, self.size, self.line_address, self.first_line, self.end_line, self.line_size = columns
        deepest = int(inlines.depth.max(initial=0))
        self.link(ranges[4], ranges[5], ranges[3], deepest)
        self.flatten(ranges[0], ranges[1], ranges[2], order, ranges[4], ranges[5])

    @cython.cfunc
    def link(
        self,
        first: cython.const[uint32_t][::1],
        end: cython.const[uint32_t][::1],
        depth: cython.const[uint16_t][::1],
        deepest: cython.size_t,
    ):
        """For each call the one around it, or -1 in the function itself; and which of its functions it belongs to, or -1.

        A function of several pieces counts as one, as long as they have the same calls.
        """
        self.above = full(depth.shape[0], -1, "i4")
        self.home = full(depth.shape[0], -1, "i4")
        # The last call at each depth, and which it was that came before the function.
        last: int32_t[::1] = full(deepest + 1, -1, "i4")
        f: cython.size_t
        i: cython.size_t
        d: cython.size_t
        for f in range(cython.cast(cython.size_t, first.shape[0])):
            if first[f] >= end[f] or self.home[first[f]] >= 0:
                continue
            for i in range(first[f], end[f]):
                self.home[i] = f
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
        begin: cython.const[uint32_t][::1],
        end: cython.const[uint32_t][::1],
    ):
        """Cuts the address space where the innermost call changes. Of two around an address the one that starts last is
        inside; of equal starts the deeper one. Only calls of the function at the address count: it may be inside another, or
        have taken its place.

        Args:
            start, size, first: the ranges of calls, and the first range of each call.
            order: the ranges by start, then depth.
            begin, end: the calls of functions.
        """
        count: cython.size_t = order.shape[0]
        functions: cython.size_t = self.address.shape[0]
        owners: int32_t[::1] = empty(count, "i4")
        # For each function with calls the range that began last, and below each range the one before it.
        top: int32_t[::1] = full(functions, -1, "i4")
        below: int32_t[::1] = empty(count, "i4")
        bound: uint64_t[::1] = empty(2 * (count + functions) + 1, "u8")
        owner: int32_t[::1] = empty(2 * (count + functions) + 1, "i4")
        i: cython.size_t
        r: cython.size_t
        k: cython.size_t = 0
        n: cython.size_t = 0
        f: cython.size_t
        home: int32_t
        here: int32_t
        at: uint64_t
        until: uint64_t
        stop: uint64_t
        for i in range(cython.cast(cython.size_t, first.shape[0]) - 1):
            for r in range(first[i], first[i + 1]):
                owners[r] = i
        for f in range(functions):
            at = self.address[f]
            stop = at + self.size[f]
            home = self.home[begin[f]] if begin[f] < end[f] else -1
            if home < 0:
                if n and owner[n - 1] >= 0:
                    bound[n] = at
                    owner[n] = -1
                    n += 1
                continue
            while at < stop:
                # What begins up to here, in whatever function.
                while k < count and start[order[k]] <= at:
                    r = order[k]
                    k += 1
                    here = self.home[owners[r]]
                    if here >= 0:
                        below[r] = top[here]
                        top[here] = r
                until = stop
                if k < count and start[order[k]] < stop:
                    until = start[order[k]]
                # What has ended does not come back.
                while top[home] >= 0 and start[top[home]] + size[top[home]] <= at:
                    top[home] = below[top[home]]
                here = -1
                if top[home] >= 0:
                    here = owners[top[home]]
                    if start[top[home]] + size[top[home]] < until:
                        until = start[top[home]] + size[top[home]]
                if not n or owner[n - 1] != here:
                    bound[n] = at
                    owner[n] = here
                    n += 1
                at = until
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

    def chains(self, addresses, frame, names, files, known, above, otherwise):
        """What many addresses (u8) stand for: for each a tuple of frames, the innermost first.

        Args:
            frame: the type of a frame, a NamedTuple of function, file, line, discriminator, whether it was inlined, and the
                offset in the function.
            names, files: what the columns refer to.
            known: what ``above`` gave before.
            above: gives for an inlined call its name, the frames of the calls around it, and file and line of the outermost.
            otherwise: gives the frames of an address that is in no function.
        """
        given: cython.const[uint64_t][::1] = addresses if cython.compiled else memoryview(addresses)
        i: cython.size_t
        at: uint64_t
        function: cython.Py_ssize_t
        line: cython.Py_ssize_t
        inline: cython.Py_ssize_t
        number: uint32_t
        source: uint32_t
        mark: uint32_t
        make = tuple.__new__
        # In the order of the addresses, what is looked at next mostly is near.
        sorting = np.argsort(addresses, kind="stable").astype("u4")
        order: cython.const[uint32_t][::1] = sorting if cython.compiled else memoryview(sorting)
        count: cython.size_t = order.shape[0]
        k: cython.size_t
        result: list = [None] * count
        for k in range(count):
            i = order[k]
            at = given[i]
            function = self.function_at(at)
            if function < 0:
                result[i] = otherwise(at)
                continue
            line = self.line_at(function, at)
            inline = self.inline_at(at)
            number = self.name[function]
            name = None if number == WORD else names[number]
            path = None
            source = mark = 0
            if line >= 0:
                number = self.line_file[line]
                path = None if number == WORD else files[number]
                source = self.line[line]
                if self.has_discriminators:
                    mark = self.discriminator[line]
            if inline < 0:
                result[i] = (make(frame, (name, path, source, mark, False, at - self.address[function])),)
            else:
                found = known.get(inline)
                called, calls, place = above(inline) if found is None else found
                leaf = make(frame, (called, path, source, mark, True, None))
                outer = make(frame, (name, place[0], place[1], 0, False, at - self.address[function]))
                result[i] = (leaf, *calls, outer) if calls else (leaf, outer)
        return result

    def callers(self):
        """For each inlined call the one around it, or -1 (i4)."""
        return np.asarray(self.above)
