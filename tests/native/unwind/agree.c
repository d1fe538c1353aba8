/* Frames of every kind: recursion, alloca, a realigned stack, registers saved and not. glibc's backtrace() is the judge. */
#include "check.h"

#include <alloca.h>

static volatile int sink;
static int frames;

__attribute__((noinline)) static int leaf(void) {
    frames = agree();
    return frames;
}

__attribute__((noinline)) static int recurse(int depth) {
    int result = depth ? recurse(depth - 1) + 1 : leaf();
    sink++; /* no tail call */
    return result;
}

__attribute__((noinline)) static int dynamic(int size) {
    char *room = alloca((size_t)size);
    memset(room, size, (size_t)size);
    sink = room[size / 2];
    return leaf() + room[0];
}

/* Locals that want more alignment than the stack has, and a size that is known late: the CFA is loaded from a slot. */
__attribute__((noinline)) static int realigned(int size) {
    _Alignas(128) char wide[256];
    char *room = alloca((size_t)size);
    memset(wide, size, sizeof wide);
    memset(room, size, (size_t)size);
    sink = wide[7] + room[size - 1];
    return leaf() + dynamic(size) + wide[3];
}

__attribute__((noinline)) static int busy(int a, int b, int c, int d) {
    int e = sink, f = sink + 1, g = sink + 2, h = sink + 3;
    int result = leaf() + realigned(a + 40);
    return result + a * b + c * d + e * f + g * h;
}

static int compare(const void *a, const void *b) {
    sink += leaf();
    return *(const int *)a - *(const int *)b;
}

int main(void) {
    prepare();
    for (int turn = 0; turn < 20; turn++) {
        leaf();
        recurse(turn * 15);
        CHECK(frames > turn * 15 || turn == 0);
        dynamic(100 + turn * 700);
        realigned(50 + turn);
        busy(turn, 2, 3, 4);
        int numbers[] = {3, 1, 2};
        qsort(numbers, 3, sizeof numbers[0], compare); /* through libc */
    }
    CHECK(clew_backtrace_end() == CLEW_END_ENTRY);

    /* A buffer that is too small, and none. */
    void *few[3];
    CHECK(clew_backtrace(few, 2) == 2 && clew_backtrace_end() == CLEW_END_NONE);
    CHECK(clew_backtrace(few, 0) == 0);

    /* Step by step: as many frames, and the same. */
    void *pcs[MOST];
    clew_context_t context;
    clew_cursor_t cursor;
    int count = clew_backtrace(pcs, MOST), steps = 0, result;
    CHECK(clew_getcontext(&context) == 0 && clew_local_init(&cursor, &context) == 0);
    do {
        CHECK(steps == 0 || pcs[steps] == (void *)clew_get_pc(&cursor));
        steps++;
    } while ((result = clew_step(&cursor)) == 1);
    CHECK(result == 0 && steps == count && clew_end_reason(&cursor) == CLEW_END_ENTRY);
    CHECK(clew_step(&cursor) == 0);
    uint64_t value;
    CHECK(clew_get_reg(&cursor, -1, &value) == -1 && clew_get_reg(&cursor, 99, &value) == -1);
    puts("ok");
    return 0;
}
