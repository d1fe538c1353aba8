#!/bin/sh
# The compiled core reads hostile bytes: no pointers, no addresses, no casts to pointers, bounds checks on. A forgotten
# check then raises IndexError; with a pointer it would corrupt memory.
cd "$(dirname "$0")/.." || exit
if grep -nE 'cython\.(pointer|address|p_|NULL)|<[A-Za-z_0-9 ]+\*+ *>|cast\(["'\''][^"'\'']*\*|boundscheck *[(=:] *False' \
    src/clew/native/*.py src/clew/native/*.pxd; then
    echo 'Raw pointers or unchecked access in the compiled core.' >&2
    exit 1
fi
