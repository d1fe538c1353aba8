/* The packed table's look-up, check and step as functions of a shared object, for tests; memory is made up from addresses. */
#include <stddef.h>

#include "packed.h"

/* Every word of memory says something else; a third of it cannot be read. */
static int made_up(uint64_t address, uint32_t size, uint64_t *into) {
    if ((address >> 12) % 3 == 1)
        return 0;
    uint64_t value = 0;
    for (uint32_t i = 0; i < size; i++) {
        uint64_t byte = (address + i) * 0x9e3779b97f4a7c15ull;
        value |= (byte >> 56) << 8 * i;
    }
    *into = value;
    return 1;
}
#define CLEW_LOAD(memory, address, size, into) ((void)(memory), made_up((address), (size), (into)))
#include "packed_check.h"
#include "step.h"

/* The same with all of the words at hand at once. */
static uint8_t words[4096];
static const uint8_t *window(uint64_t address, uint64_t size) {
    if (size > sizeof words)
        return 0;
    for (uint64_t i = 0; i < size; i += 8) {
        uint64_t word;
        if (!made_up(address + i, 8, &word))
            return 0;
        __builtin_memcpy(&words[i], &word, 8);
    }
    return words;
}
#define CLEW_WINDOW(memory, address, size) window((address), (size))
#undef CLEW_PREFIX
#define CLEW_PREFIX clew_windowed_
#include "step.h"

int check(const void *bytes, size_t size, int checksum) {
    struct clew_table table;
    return clew_packed_open(bytes, size, checksum, &table);
}

int find(const void *bytes, size_t size, const uint64_t *address, uint32_t *rule, size_t count) {
    struct clew_table table;
    int problem = clew_packed_open(bytes, size, 1, &table);
    for (size_t i = 0; !problem && i < count; i++)
        rule[i] = clew_find(&table, address[i]);
    return problem;
}

int apply(const void *bytes, size_t size, uint32_t rule, struct clew_frame *frame, int windowed) {
    struct clew_table table;
    if (clew_packed_open(bytes, size, 1, &table))
        return -100;
    const struct clew_rule *record = &table.rules[rule];
    if (table.header->machine == CLEW_AARCH64)
        return windowed ? clew_windowed_apply(CLEW_AARCH64, &table, record, frame, 0)
                        : clew_apply(CLEW_AARCH64, &table, record, frame, 0);
    return windowed ? clew_windowed_apply(CLEW_X86_64, &table, record, frame, 0)
                    : clew_apply(CLEW_X86_64, &table, record, frame, 0);
}
