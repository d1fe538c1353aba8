#!/bin/sh
# What clew does, on this machine's own C library and on a running process.
set -eu
cd "$(dirname "$0")/.."
clew=.venv/bin/clew

show() {
    printf '\n$ clew %s\n' "$*"
    "$clew" "$@"
}

# The library that this machine's programs run on, as awk itself has it mapped.
libc=$(awk '$6 ~ /\/(libc[.-]|ld-musl)/ { print $6; exit }' /proc/self/maps)

# A function whose rows are worth looking at; musl has no tables, and other libraries other functions.
place=qsort_r
"$clew" table "$libc" --function $place >/dev/null 2>&1 || place=qsort

echo "== One function of $libc: how each instruction's caller is found"
show table "$libc" --function $place

echo "== One address of it: its rule, and where the rule comes from"
show explain "$libc" $place+80

# A process that waits; the kernel says where (the last field), to its parent at least.
sleep 60 &
pid=$!
trap 'kill $pid 2>/dev/null' EXIT
address=
for _ in 1 2 3 4 5 6 7 8 9 10; do
    sleep 0.1
    read -r line <"/proc/$pid/syscall" 2>/dev/null || break
    case $line in
    running | '') ;;
    *) address=${line##* } && break ;;
    esac
done
# Where the kernel does not say it: any code of the same library will do.
if [ -z "$address" ]; then
    address=$(awk '$2 ~ /x/ && $6 ~ /\/(libc[.-]|ld-musl)/ { sub(/-.*/, "", $1); print "0x" $1; exit }' "/proc/$pid/maps")
fi

echo
echo "== The same in a running process: sleep, process $pid, which waits at $address"
show explain --pid "$pid" "$address"

echo
echo "== Its stack, and what made each frame: clew stack takes processes, cores, minidumps and perf.data"
show stack "$pid" || true
show stack --why "$pid" || true

echo
echo "== What the whole table is made of"
show stats "$libc"

echo
echo "Now yours: .venv/bin/clew stack PID; .venv/bin/clew --help"
