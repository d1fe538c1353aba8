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

echo "== The unwind table of $libc"
show stats "$libc"

echo
echo "== One function of it: how each instruction's caller is found"
show table "$libc" --function qsort

echo
echo "== One address: its rule, and where the rule comes from"
show explain "$libc" qsort+4

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
