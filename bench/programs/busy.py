"""Work whose stacks are deep in C: a comparison that Python calls from a sort that Python calls, some times over."""

import functools
import json
import random
import sys
import time


def compare(left: list[float], right: list[float]) -> int:
    return (left > right) - (left < right)


def nested(depth: int) -> list[list[float]]:
    items = [[random.random()] for _ in range(12)]

    def key(a: list[float], b: list[float]) -> int:
        if depth and random.random() < 0.2:
            nested(depth - 1)
        return compare(a, b)

    items.sort(key=functools.cmp_to_key(key))
    return items


end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    nested(5)
    json.dumps([{"a": number, "b": [1, 2, 3]} for number in range(100)])
