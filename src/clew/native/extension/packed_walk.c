/* See packed_walk.h. The rules are those of clew.native.stepper: what is unusual in any way is left to others, untouched. */
#include "packed_walk.h"

#include <string.h>

static const struct module *module_at(const struct module *modules, size_t count, uint64_t address) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (modules[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low && address < modules[low - 1].end ? &modules[low - 1] : 0;
}

static inline int load(struct stack_copy *copy, uint64_t address, uint32_t size, uint64_t *into) {
    uint64_t offset = address - copy->start;
    if (offset > copy->size || copy->size - offset < size) {
        if (module_at(copy->modules, copy->count, address))
            copy->in_module = 1;
        return 0;
    }
    *into = 0;
    memcpy(into, copy->bytes + offset, size);
    return 1;
}

static inline const uint8_t *window(const struct stack_copy *copy, uint64_t address, uint64_t size) {
    uint64_t offset = address - copy->start;
    return offset > copy->size || copy->size - offset < size ? 0 : copy->bytes + offset;
}

#define CLEW_LOAD(memory, address, size, into) load((struct stack_copy *)(memory), (address), (size), (into))
#define CLEW_WINDOW(memory, address, size) window((struct stack_copy *)(memory), (address), (size))
#define CLEW_CODE_MASK (((struct stack_copy *)memory)->code_mask)
#include "../step.h"

/* Two addresses no farther apart may lie on one stack; as clew.walk.step.SAME_STACK. */
#define SAME_STACK ((uint64_t)1 << 26)

static int is_special(const struct file *file, uint64_t address) {
    size_t low = 0, high = file->specials;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (file->special_start[middle] <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low && address <= file->special_end[low - 1];
}

/* Fills `found` with what there is at an address of memory; negative if asking for the module failed. */
static int look_up(struct walker *walker, uint64_t address, struct clew_known *found) {
    size_t number = walker->recent;
    found->address = address;
    found->table = 0;
    if (number >= walker->count || address < walker->modules[number].start || address >= walker->modules[number].end) {
        const struct module *module = module_at(walker->modules, walker->count, address);
        if (!module)
            return 0;
        number = walker->recent = (size_t)(module - walker->modules);
    }
    struct module *module = &walker->modules[number];
    if (!module->asked && walker->ask(walker, number) < 0)
        return -1;
    found->owner = number;
    const struct file *file = module->file;
    if (!file)
        return 0;
    uint64_t inside = address - module->bias;
    uint32_t rule = clew_find(&file->table, inside);
    if (!rule || !file->plain[rule] || is_special(file, inside))
        return 0;
    found->table = &file->table;
    found->rule = &file->table.rules[rule];
    return 0;
}

/* Whether the word of the return address lies behind the end of the copy, on the same stack. */
static int behind_copy(int machine, const struct clew_known *found, const struct clew_frame *frame,
                       struct stack_copy *copy) {
    const uint32_t back = machine == CLEW_AARCH64 ? (uint32_t)CLEW_AARCH64_LR : (uint32_t)CLEW_X86_64_PC;
    struct clew_place place = {found->table, frame, copy, 0};
    if (!(found->rule->saved >> back & 1) || clew_cfa(machine, found->rule, &place) != CLEW_CALLED)
        return 0;
    uint64_t at = place.cfa - 8 * ((uint64_t)found->rule->base + found->rule->slot[CLEW_SLOT(back)]);
    uint64_t end = copy->start + copy->size;
    return at > end - 8 && at < end + SAME_STACK;
}

static inline int walk(int machine, struct walker *walker, const struct sample *sample, size_t limit,
                       struct frames *frames, int *in_call) {
    const uint32_t sp = CLEW_SP(machine), pc = CLEW_PC(machine);
    struct stack_copy copy = {sample->stack, sample->sp, sample->size, walker->code_mask,
                              walker->modules, walker->count, 0};
    struct clew_frame frame = {.known = 0};
    for (size_t i = 0; i < sample->words; i++)
        if (sample->slots[i] < CLEW_REGISTERS) {
            memcpy(&frame.r[sample->slots[i]], sample->registers + 8 * i, 8);
            frame.known |= CLEW_BIT(sample->slots[i]);
        }
    frame.known |= CLEW_BIT(pc);
    int restarted = sample->restarted && (sample->witness >= CLEW_REGISTERS || !(frame.known >> sample->witness & 1) ||
                                          frame.r[sample->witness] == frame.r[pc]);
    *in_call = restarted;
    if (!(frame.known >> sp & 1))
        return UNUSUAL;
    int interrupted = 1, reason;
    size_t count = 0;
    uint64_t highest = frame.r[sp];
    for (;;) {
        if (count >= limit) {
            reason = FULL;
            break;
        }
        uint64_t here = frame.r[pc], lookup = here - (interrupted ? 0 : 1);
        struct clew_known *found = clew_known_place(&walker->cache, lookup);
        if (found->address != lookup) {
            /* Who is asked for a module may walk with this walker, and that may need the same place. */
            struct clew_known fresh = {0};
            if (look_up(walker, lookup, &fresh) < 0)
                return -2;
            *found = fresh;
        }
        if (!found->table)
            return UNUSUAL;
        if (restarted) {
            /* Behind a system call at a function's end the pc is in the next one. */
            struct clew_known before = {0}, now = *found;
            if (look_up(walker, lookup - 1, &before) < 0)
                return -2;
            *found = now;
            if (before.table != found->table || before.rule != found->rule)
                return UNUSUAL;
            restarted = 0;
        }
        if (frames->used + count >= frames->room)
            return -1;
        struct clew_frame caller = frame;
        int status = clew_apply(machine, found->table, found->rule, &caller, &copy);
        if (copy.in_module)
            return UNUSUAL;
        if (status == CLEW_OUTERMOST || (status == CLEW_UNREADABLE && behind_copy(machine, found, &frame, &copy))) {
            frames->pc[frames->used + count] = here;
            frames->module[frames->used + count++] = (int32_t)found->owner;
            reason = status == CLEW_OUTERMOST ? OUTERMOST_FRAME : COPY_END;
            break;
        }
        if (status != CLEW_CALLED || !caller.r[pc] || caller.r[sp] < highest)
            return UNUSUAL;
        /* A link register keeps its value only until the function calls another. */
        if (caller.r[pc] == here && machine == CLEW_AARCH64 && !(found->rule->saved >> CLEW_AARCH64_LR & 1))
            return UNUSUAL;
        if (caller.r[sp] == highest && (!interrupted || caller.r[pc] == here))
            return UNUSUAL;
        frames->pc[frames->used + count] = here;
        frames->module[frames->used + count++] = (int32_t)found->owner;
        frame = caller;
        highest = frame.r[sp];
        interrupted = 0;
    }
    frames->used += count;
    return reason;
}

int clew_walk_sample(struct walker *walker, const struct sample *sample, size_t limit, struct frames *frames,
                     int *in_call) {
    if (walker->machine == CLEW_AARCH64)
        return walk(CLEW_AARCH64, walker, sample, limit, frames, in_call);
    return walk(CLEW_X86_64, walker, sample, limit, frames, in_call);
}
