/*
 * Packed tables by libFuzzer: whatever clew_packed_open finds sound can be looked up at every address, and stepped with.
 *
 *     clang-14 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -I src/clew/native \
 *         tests/fuzz/packed_fuzz.c -o packed_fuzz && ./packed_fuzz -max_len=16384 CORPUS
 *
 * An input is 16 bytes, which choose the registers, and a table. Seeds: `packed_fuzz_seeds.py CORPUS`.
 */
#include <stdlib.h>
#include <string.h>

/* Expressions may loop; here as long as it takes to find out. */
#define CLEW_EXPRESSION_FUEL 200

#include "packed_check.h"

static const uint8_t *memory;
static size_t memory_size;

/* The other program's memory is the input itself, from address 4096 on. */
static int load(void *unused, uint64_t address, uint32_t size, uint64_t *into) {
    (void)unused;
    if (size < 1 || size > 8)
        abort();
    if (address < 4096 || address - 4096 > memory_size || size > memory_size - (address - 4096))
        return 0;
    *into = 0;
    memcpy(into, memory + (address - 4096), size);
    return 1;
}

#define CLEW_LOAD(memory, address, size, into) load(memory, address, size, into)
#include "step.h"

static uint64_t next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static void walk(const struct clew_table *table, int machine, uint64_t address, uint64_t *state) {
    struct clew_frame frame;
    int status = CLEW_INTERRUPTED;
    frame.known = next(state) | next(state);
    for (int i = 0; i < CLEW_REGISTERS; i++)
        frame.r[i] = next(state) % 4 ? 4096 + next(state) % (memory_size + 64) : next(state);
    frame.r[machine == CLEW_AARCH64 ? CLEW_AARCH64_PC : CLEW_X86_64_PC] = address;
    for (int i = 0; i < 8 && status >= 0; i++) {
        if (machine == CLEW_AARCH64)
            status = clew_step(CLEW_AARCH64, table, 0, &frame, status == CLEW_INTERRUPTED, NULL);
        else
            status = clew_step(CLEW_X86_64, table, 0, &frame, status == CLEW_INTERRUPTED, NULL);
        if (status < CLEW_NULL_RETURN || status > CLEW_INTERRUPTED)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct clew_table table;
    uint64_t state;
    if (size < 16)
        return 0;
    memcpy(&state, data, 8);
    state |= 1;
    size_t bytes = size - 16;
    /* As much as there is, so that a sanitizer sees what is read behind it. */
    uint8_t *copy = aligned_alloc(32, (bytes + 31) & ~(size_t)31);
    if (!bytes || !copy) {
        free(copy);
        return 0;
    }
    memcpy(copy, data + 16, bytes);
    memory = data;
    memory_size = size;
    if (data[8] % 64 == 1) /* what the checksum is of, now and then: it takes most of the time */
        clew_packed_open(copy, bytes, 1, &table);
    if (clew_packed_open(copy, bytes, 0, &table) == CLEW_PACKED_SOUND) {
        for (uint32_t i = 0; i < table.segment_count; i++) {
            const struct clew_segment *segment = &table.segments[i];
            uint64_t edges[] = {segment->start, segment->start + segment->size - 1, segment->start + segment->size};
            for (int k = 0; k < 3; k++)
                walk(&table, table.header->machine, edges[k], &state);
            for (int k = 0; k < 16; k++)
                walk(&table, table.header->machine, segment->start + next(&state) % segment->size, &state);
        }
        walk(&table, table.header->machine, next(&state), &state);
    }
    free(copy);
    return 0;
}
