/* The packed table's step as a program of the kernel: the table in blocks of 4 KiB, the frame in a map. For tests. */
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned long uintptr_t;

#define SEC(name) __attribute__((section(name), used))
static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*probe_read_user)(void *into, uint32_t size, const void *from) = (void *)112;

static long (*bpf_loop)(uint32_t times, void *function, void *state, uint64_t flags) = (void *)181;
#define CLEW_TURN uint64_t
#define CLEW_REPEAT(times, function, state) bpf_loop((times), (function), (state), 0)
#define CLEW_NO_STDINT
#define CLEW_REGISTERS 17
#include "packed.h"

#define BLOCK 4096
struct {
    int (*type)[2]; /* array */
    int (*max_entries)[64];
    int (*key_size)[4];
    int (*value_size)[BLOCK];
} blocks SEC(".maps");

struct parts {
    uint32_t segments, pages, buckets, rows, escapes, rules, cells, steps;
};

static __attribute__((always_inline)) void *record_at(uint64_t offset, uint32_t width) {
    uint32_t block = offset / BLOCK;
    uint8_t *bytes = map_lookup(&blocks, &block);
    return bytes ? bytes + (offset & (BLOCK - width)) : 0;
}
#define RECORD(type, table, part, number)                                                                                   \
    ({                                                                                                               \
        type record_ = {0};                                                                                          \
        const type *there_ = record_at((table)->header->part.offset + sizeof(type) * (uint64_t)(number), sizeof(type));     \
        if (there_)                                                                                                  \
            record_ = *there_;                                                                                       \
        record_;                                                                                                     \
    })
#define CLEW_SEGMENT(table, number) RECORD(struct clew_segment, table, segments, number)
#define CLEW_PAGE(table, number) RECORD(uint32_t, table, pages, number)
#define CLEW_BUCKET(table, number) RECORD(uint16_t, table, buckets, number)
#define CLEW_ROW(table, number) RECORD(uint32_t, table, rows, number)
#define CLEW_ESCAPE(table, number) RECORD(struct clew_escape, table, escapes, number)
#define CLEW_CELL(table, number) RECORD(struct clew_cell, table, cells, number)
#define CLEW_STEP(table, number) RECORD(struct clew_step, table, steps, number)
#define CLEW_RULE(table, number)                                                                                     \
    ((const struct clew_rule *)record_at((table)->header->rules.offset + 32 * (uint64_t)(number), 32))
struct {
    int (*type)[2];
    int (*max_entries)[1];
    int (*key_size)[4];
    int (*value_size)[144];
} scratch SEC(".maps");
#define CLEW_NUMBERS() ({ uint32_t zero_ = 0; (struct clew_numbers *)map_lookup(&scratch, &zero_); })
#define CLEW_LOAD(memory, address, size, into)                                                                       \
    ((void)(memory), *(into) = 0, probe_read_user((into), (size), (const void *)(uintptr_t)(address)) == 0)
#include "step.h"

struct walk {
    struct clew_frame frame;
    uint64_t bias, count, status;
    struct clew_packed_header header;
    uint64_t pcs[64];
};
struct {
    int (*type)[2];
    int (*max_entries)[1];
    int (*key_size)[4];
    int (*value_size)[sizeof(struct walk)];
} walks SEC(".maps");

struct state {
    struct walk *walk;
    int status;
};

static long one(uint64_t turn, void *argument) {
    struct state *state = argument;
    struct walk *walk = state->walk;
    struct clew_table table = {.segment_count = walk->header.segments.count, .escape_count = walk->header.escapes.count,
                               .header = &walk->header};
    state->status = clew_step(CLEW_X86_64, &table, walk->bias, &walk->frame, state->status == CLEW_INTERRUPTED, 0);
    if (state->status < 0 || turn >= 64)
        return 1;
    walk->pcs[turn] = walk->frame.r[CLEW_X86_64_PC];
    walk->count = turn + 1;
    return 0;
}

SEC("raw_tp/step")
int step(void *context) {
    uint32_t zero = 0;
    struct walk *walk = map_lookup(&walks, &zero);
    (void)context;
    if (!walk)
        return 0;
    struct state state = {.walk = walk, .status = (int)walk->status};
    bpf_loop(64, one, &state, 0);
    walk->status = state.status;
    return 0;
}
char _license[] SEC("license") = "Dual MIT/GPL";
