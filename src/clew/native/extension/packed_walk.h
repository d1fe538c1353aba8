/* Walks copied stacks by packed tables: what clew.native.packed_walk does, without Python. */
#ifndef CLEW_PACKED_WALK_H
#define CLEW_PACKED_WALK_H

#include <stddef.h>
#include <stdint.h>

#include "../packed.h"
#include "../packed_check.h"
#define CLEW_RULE_CACHE_BITS 11
#include "../rule_cache.h"

/* Why a walk came back; the numbers of clew.native.stepper. */
enum { UNUSUAL = 0, OUTERMOST_FRAME = 1, FULL = 2, COPY_END = 3 };

/* A file's packed table, found sound, and what of it may be used. */
struct file {
    struct clew_table table;
    const uint8_t *plain;          /* for each rule: whether it may be applied here */
    const uint64_t *special_start; /* addresses whose frames are left to others, in order */
    const uint64_t *special_end;
    size_t specials;
};

/* A module: its file once somebody has asked for it, or none. */
struct module {
    uint64_t start, end, bias;
    const struct file *file;
    int asked;
    void *held; /* what keeps the file alive */
};

/* A copy of a stack, and what else a load has to know. */
struct stack_copy {
    const uint8_t *bytes;
    uint64_t start, size, code_mask;
    const struct module *modules;
    size_t count;
    int in_module; /* set if a load hit a module, whose memory somebody else may read */
};

struct frames {
    uint64_t *pc;
    int32_t *module;
    size_t used, room;
};

struct walker;
/* Asks for a module's table; negative if that failed. */
typedef int ask_module(struct walker *walker, size_t number);

struct walker {
    int machine;
    uint64_t code_mask;
    size_t count;
    struct module *modules;
    size_t recent;
    ask_module *ask;
    struct clew_rule_cache cache; /* `owner` is the module's number */
};

/* A sample: where its registers are, which words of them, its stack. */
struct sample {
    const uint8_t *registers;
    const uint8_t *slots; /* for each word its register, or 255 */
    size_t words;
    const uint8_t *stack;
    uint64_t sp, size;
    int restarted; /* whether a system call may stand before the pc */
    unsigned witness; /* the register in which such a call leaves the pc, or 255 */
};

/*
 * Walks one sample, adding its frames to `frames`, at most `limit`: why it ended; -1 if there is no more room, and then
 * nothing was added; -2 if asking for a module failed.
 */
int clew_walk_sample(struct walker *walker, const struct sample *sample, size_t limit, struct frames *frames,
                     int *in_call);

#endif
