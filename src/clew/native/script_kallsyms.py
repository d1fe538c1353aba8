"""Reads ``/proc/kallsyms`` and copies of it: ``ADDRESS TYPE NAME`` lines, with ``[module]`` behind a tab (``proc_kallsyms(5)``,
``kernel/kallsyms.c``)."""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.libc.stdint import uint64_t
else:
    uint64_t = cython.longlong

from clew.native.columns import empty


def kernel_symbols(text):
    """The symbols of code and data (types T, W, D, B, of either case), in the file's order.

    Args:
        text: the file's bytes.

    Returns:
        addresses (u8), and where in the bytes each name begins and ends (u8); a name ends at the tab before its module.
        Lines of another form are passed over.
    """
    data: cython.const[cython.uchar][::1] = text if cython.compiled else memoryview(text)
    at: cython.size_t = 0
    size: cython.size_t = data.shape[0]
    count: cython.size_t = 0
    digits: cython.int
    value: uint64_t
    byte: cython.uchar
    room: cython.size_t = text.count(b"\n") + 1
    address: uint64_t[::1] = empty(room, "u8")
    begin: uint64_t[::1] = empty(room, "u8")
    end: uint64_t[::1] = empty(room, "u8")
    while at < size:
        value = digits = 0
        while at < size and digits < 17:
            byte = data[at]
            if 0x30 <= byte <= 0x39:
                value = value << 4 | (byte - 0x30)
            elif 0x61 <= byte <= 0x66:
                value = value << 4 | (byte - 0x57)
            else:
                break
            digits += 1
            at += 1
        if 0 < digits < 17 and size - at > 3 and data[at] == 0x20 and data[at + 2] == 0x20:
            byte = data[at + 1] & 0xDF
            at += 3
            if (byte == 0x54 or byte == 0x57 or byte == 0x44 or byte == 0x42) and count < room:
                address[count] = value
                begin[count] = at
                while at < size and data[at] != 0x0A and data[at] != 0x09:
                    at += 1
                end[count] = at
                if begin[count] < at:
                    count += 1
        while at < size and data[at] != 0x0A:
            at += 1
        at += 1
    return np.asarray(address)[:count], np.asarray(begin)[:count], np.asarray(end)[:count]
