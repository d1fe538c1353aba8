/* What an engine of the look-up benchmark is: a shared object whose `lookups` has one or more of these, an empty name behind the
   last. It looks addresses up and makes one step at each. */
#ifndef LOOKUP_H
#define LOOKUP_H

#include <stddef.h>
#include <stdint.h>

/* A row as profilers in the kernel lay it out: 16 bytes. */
struct lookup_row {
    uint64_t start;
    uint8_t cfa;         /* the DWARF number of the register that the CFA stands on; 0 where there is no such */
    uint8_t saves_rbp;   /* whether rbp is at CFA + rbp_offset */
    int16_t rbp_offset;
    int32_t cfa_offset;
};

enum { LOOKUP_RBX = 3, LOOKUP_RBP = 6, LOOKUP_RSP = 7 };

/* What is looked up: `count` addresses of the file. The registers are all `stack`, the middle of the memory from `low` to `high`. */
struct lookup_input {
    const struct lookup_row *rows;
    size_t row_count;
    const uint64_t *addresses;
    size_t count;
    uint64_t low, high, stack;
    const char *packed, *tree, *paper_tree, *compiled_c, *compiled_asm; /* files that clew made; "" where there is none */
};

/* What a step makes of the registers. */
struct lookup_result {
    uint64_t rip, rsp, rbp;
};

struct lookup {
    const char *name;
    /* What the others get as self; or NULL, and *reason says why not. */
    void *(*open)(const struct lookup_input *input, const char **reason);
    /* All addresses, one behind the other: each has the return address that came out of the step before added, which is 0, so
       that it cannot begin before that has ended. Returns something of all results. */
    uint64_t (*run)(const void *self, const struct lookup_input *input);
    /* The same, but that no step waits for another: as when many samples are resolved. */
    uint64_t (*run_apart)(const void *self, const struct lookup_input *input);
    /* One address. */
    struct lookup_result (*one)(const void *self, const struct lookup_input *input, uint64_t address);
};

extern const struct lookup lookups[];

/* Defines run, run_apart and one of an engine by its step, a function that is expanded in all:
   struct lookup_result step(const void *self, const struct lookup_input *input, uint64_t address). */
#define LOOKUP_FUNCTIONS(name, step)                                                                                             \
    static uint64_t name##_run(const void *self, const struct lookup_input *input)                                              \
    {                                                                                                                            \
        uint64_t sum = 0, before = 0;                                                                                            \
        for (size_t i = 0; i < input->count; i++) {                                                                              \
            struct lookup_result result = step(self, input, input->addresses[i] + before);                                      \
            before = result.rip;                                                                                                 \
            sum += result.rsp;                                                                                                   \
        }                                                                                                                        \
        return sum;                                                                                                              \
    }                                                                                                                            \
    static uint64_t name##_run_apart(const void *self, const struct lookup_input *input)                                         \
    {                                                                                                                            \
        uint64_t sum = 0;                                                                                                        \
        for (size_t i = 0; i < input->count; i++) {                                                                              \
            struct lookup_result result = step(self, input, input->addresses[i]);                                                \
            sum += result.rsp + result.rip;                                                                                      \
        }                                                                                                                        \
        return sum;                                                                                                              \
    }                                                                                                                            \
    static struct lookup_result name##_one(const void *self, const struct lookup_input *input, uint64_t address)                \
    {                                                                                                                            \
        return step(self, input, address);                                                                                       \
    }

#endif
