/* libunwind's functions for other programs that perf uses: the walk of perf script and perf report, by clew's rules. */
#include <stdlib.h>
#include <string.h>

#include "space.h"

static int load(void *memory, uint64_t address, uint32_t size, uint64_t *into);

#define CLEW_LOAD(memory, address, size, into) load(memory, address, size, into)
#define CLEW_PREFIX clew_perf_
#define CLEW_REGISTERS 17
#include "../../step.h"

#define PUBLIC __attribute__((visibility("default")))
#define PC CLEW_X86_64_PC
#define SP CLEW_X86_64_SP

struct cursor {
    struct space *space;
    void *argument;
    struct clew_frame frame;
    int interrupted, over;
};

_Static_assert(sizeof(struct cursor) <= CURSOR_WORDS * sizeof(word_t), "a cursor has room");

static int load(void *memory, uint64_t address, uint32_t size, uint64_t *into) {
    const struct cursor *cursor = memory;
    word_t word;
    if (space_read(cursor->space, address, &word, cursor->argument))
        return 0;
    *into = size < 8 ? word & ((1ull << 8 * size) - 1) : word;
    return 1;
}

PUBLIC space_t _Ux86_64_create_addr_space(struct accessors *accessors, int byte_order) {
    struct space *space = byte_order == 0 || byte_order == 1234 ? calloc(1, sizeof *space) : NULL;
    if (space)
        space->accessors = *accessors;
    return space;
}

PUBLIC void _Ux86_64_destroy_addr_space(space_t space) {
    free(space);
}

/* It always remembers. */
PUBLIC int _Ux86_64_set_caching_policy(space_t space, int policy) {
    (void)space;
    (void)policy;
    return 0;
}

PUBLIC void _Ux86_64_flush_cache(space_t space, word_t low, word_t high) {
    for (int i = 0; i < SPACE_RULES; i++)
        if ((!low && !high) || (space->rules[i].address >= low && space->rules[i].address < high))
            space->rules[i].address = 0;
}

PUBLIC int _Ux86_64_init_remote(cursor_t *cursor, space_t space, void *argument) {
    memset(cursor, 0, sizeof *cursor);
    cursor->space = space;
    cursor->argument = argument;
    cursor->interrupted = 1;
    for (int i = 0; i < 17; i++) {
        word_t value;
        if (!space->accessors.access_reg(space, i, &value, 0, argument)) {
            cursor->frame.r[i] = value;
            cursor->frame.known |= CLEW_BIT(i);
        }
    }
    uint64_t needed = CLEW_BIT(PC) | CLEW_BIT(SP);
    return (cursor->frame.known & needed) == needed ? 0 : -EBADREG;
}

static const struct remembered *rule_of(cursor_t *cursor) {
    return space_rule(cursor->space, cursor->frame.r[PC] - !cursor->interrupted, cursor->argument);
}

PUBLIC int _Ux86_64_step(cursor_t *cursor) {
    if (cursor->over)
        return 0;
    const struct remembered *found = rule_of(cursor);
    cursor->over = 1;
    if (!found)
        return -ENOINFO;
    const struct clew_table table = {.cells = found->rule.cells, .steps = found->rule.steps};
    int status = clew_perf_leave(CLEW_X86_64, &table, &found->rule.rule, &cursor->frame, cursor->interrupted, cursor);
    if (status == CLEW_OUTERMOST || status == CLEW_NULL_RETURN)
        return 0;
    if (status < 0)
        return -EBADFRAME;
    cursor->over = 0;
    cursor->interrupted = status == CLEW_INTERRUPTED;
    return 1;
}

PUBLIC int _Ux86_64_get_reg(cursor_t *cursor, int number, word_t *value) {
    if (number < 0 || number > PC || !(cursor->frame.known >> number & 1))
        return -EBADREG;
    *value = cursor->frame.r[number];
    return 0;
}

/* Whether the frame is the kernel's for a signal: its pc is then no return address. */
PUBLIC int _Ux86_64_is_signal_frame(cursor_t *cursor) {
    const struct remembered *found = rule_of(cursor);
    return found && found->rule.rule.flags & CLEW_RULE_SIGNAL ? 1 : 0;
}
