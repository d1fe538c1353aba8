/* Frame pointers: the least that a walk can cost, in programs that were built for it. */
#define _GNU_SOURCE
#include "walker.h"

#include <pthread.h>
#include <stdint.h>

static uint64_t stack_end;

static int open(const char **reason)
{
    pthread_attr_t attributes;
    void *address;
    size_t size;
    *reason = "the stack of this thread is not known";
    if (pthread_getattr_np(pthread_self(), &attributes) || pthread_attr_getstack(&attributes, &address, &size))
        return -1;
    pthread_attr_destroy(&attributes);
    stack_end = (uint64_t)address + size;
    return 0;
}

static int walk(void **pcs, int most)
{
    const uint64_t *frame = __builtin_frame_address(0);
    int count = 0;
    /* A record is the caller's frame pointer and the return address (System V ABI, AMD64, 3.2.2). */
    while (count < most && (uint64_t)frame <= stack_end - 16 && frame[1]) {
        pcs[count++] = (void *)frame[1];
        const uint64_t *next = (const uint64_t *)frame[0];
        if (next <= frame || (uint64_t)next & 7)
            break;
        frame = next;
    }
    return count;
}

const struct walker walkers[] = {
    {.name = "frame pointers", .open = open, .walk = walk, .frame_pointers = 1},
    {0},
};
