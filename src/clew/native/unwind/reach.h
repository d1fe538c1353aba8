/*
 * What memory a walk may read.
 *
 * A walk reads between `low` and `high`, a stretch of the stack that is known to be readable, and asks the kernel page by
 * page before it goes beyond. A thread remembers the stretch of its own stack, which nobody takes away while it runs; what
 * is known of other stacks (a signal's, a coroutine's) is forgotten when the walk ends.
 */
#ifndef CLEW_REACH_H
#define CLEW_REACH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define REACH_PAGE 4096ull

struct reach {
    uint64_t low, high;   /* [low, high) can be read */
    uint64_t other, stop; /* and [other, stop), which is somewhere else */
};

/* Whether the page around an address can be read, as the kernel says. Async-signal-safe. */
int clew_readable(uint64_t address);

/* Whether the kernel answers that question here: 0, or -1. */
int clew_readable_works(void);

/* Makes [address, address + size) part of what may be read, if it can be read. */
int clew_reach_out(struct reach *reach, uint64_t address, uint64_t size);

/* A pointer to bytes of the stack's stretch, or NULL. */
static inline const uint8_t *clew_reach_window(const struct reach *reach, uint64_t address, uint64_t size) {
    return address >= reach->low && address <= reach->high && size <= reach->high - address
               ? (const uint8_t *)(uintptr_t)address
               : NULL;
}

/* A word that is known to be readable. A sanitizer would ask whose it is, and may call it nobody's. */
#if defined __SANITIZE_ADDRESS__
#define REACH_SANITIZED 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define REACH_SANITIZED 1
#endif
#endif
#ifdef REACH_SANITIZED
typedef uint64_t __attribute__((may_alias, aligned(1))) reach_word_t;
__attribute__((noinline, unused, no_sanitize_address)) static uint64_t reach_word(uint64_t address) {
    return *(const volatile reach_word_t *)(uintptr_t)address;
}
#else
static inline uint64_t reach_word(uint64_t address) {
    uint64_t value;
    memcpy(&value, (const void *)(uintptr_t)address, 8);
    return value;
}
#endif

/* Reads `size` (1 to 8) bytes, filled up with zeroes; 0 if they cannot be read. */
static inline int clew_reach_load(struct reach *reach, uint64_t address, uint32_t size, uint64_t *into) {
    if (__builtin_expect(address < reach->low || address > reach->high - 8 || reach->high - reach->low < 8, 0) &&
        !clew_reach_out(reach, address, size))
        return 0;
    if (size == 8) {
        *into = reach_word(address);
    } else { /* the word around it is in the same page, or it straddles two that can be read */
        uint64_t around = address & ~7ull, shift = address & 7;
        uint64_t value = reach_word(around) >> 8 * shift;
        if (shift + size > 8)
            value |= reach_word(around + 8) << 8 * (8 - shift);
        *into = value & ((1ull << 8 * size) - 1);
    }
    return 1;
}

#endif
