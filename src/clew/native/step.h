/*
 * A step: from a frame to its caller, by a packed table that packed_check.h found sound.
 *
 * Whoever includes this says how memory of the program being unwound is read, and may say how the table is:
 *
 *     CLEW_LOAD(memory, address, size, into)   reads `size` (1 to 8) bytes at `address` into the uint64_t at `into`, filled up
 *                                              with zeroes; not 0 if they could be read. `memory` is passed through.
 *     CLEW_WINDOW(memory, address, size)       a pointer to so many bytes, if all of them are at hand at once, or 0; it need
 *                                              not be defined.
 *     CLEW_SEGMENT, CLEW_PAGE, CLEW_BUCKET, CLEW_ROW, CLEW_ESCAPE, CLEW_RULE, CLEW_CELL, CLEW_STEP (table, number)
 *                                              a record of the table; by default from the pointers of struct clew_table.
 *     CLEW_PREFIX                              what the functions' names begin with; `clew_` by default. The header may be
 *                                              included more than once, with other macros.
 *
 * The kernel's verifier is the strictest reader: no function pointers, no recursion, loops with a bound that can be seen, a
 * small stack, no library. `machine` is a constant wherever a function is called, and the compiler drops the other one.
 */
#ifndef CLEW_STEP_H
#define CLEW_STEP_H

#include "frame.h"

#define CLEW_INLINE inline __attribute__((always_inline, unused))
#ifndef CLEW_OUTLINE
#define CLEW_OUTLINE __attribute__((noinline, unused))
#endif

#define CLEW_LESS(a, b) ((a) < (b) ? (a) : (b))
/* Keeps the compiler from making one long chain of comparisons that stand side by side. */
#define CLEW_APART(value) __asm__("" : "+r"(value))

/* The bits of a code pointer that may be an authentication code (Linux, 48-bit addresses); bit 55 says what they were. */
#ifndef CLEW_CODE_MASK
#define CLEW_CODE_MASK 0x007f000000000000ull
#endif

/* Takes a register from among `words`, or from where it is if it is not there: without a branch, which would be mispredicted. */
#define CLEW_TAKE(number)                                                                                            \
    {                                                                                                                \
        uint64_t there = (uint64_t)(uintptr_t)words + 8 * (farthest - rule->slot[CLEW_SLOT(number)]);                \
        uint64_t here = (uint64_t)(uintptr_t)&frame->r[number];                                                      \
        here ^= (here ^ there) & (0 - (uint64_t)(saved >> (number) & 1));                                            \
        __builtin_memcpy(&frame->r[number], (const void *)(uintptr_t)here, 8);                                       \
    }

/* Loads a register by itself. */
#define CLEW_LOAD_SAVED(number)                                                                                      \
    if (saved >> (number) & 1 &&                                                                                     \
        CLEW_LOAD(memory, cfa - 8 * ((uint64_t)rule->base + rule->slot[CLEW_SLOT(number)]), 8, &frame->r[number]))   \
        known |= CLEW_BIT(number);

/* What an evaluation needs: in one place, since the kernel's functions take five arguments at most. */
struct clew_place {
    const struct clew_table *table;
    const struct clew_frame *frame;
    void *memory;
    uint64_t cfa;
};

/* A search among the escapes. */
struct clew_search {
    const struct clew_table *table;
    uint64_t row;
    uint32_t low, high, rule;
};

/* An expression that is being computed: its next step, why it failed if it did, and its stack. */
struct clew_numbers {
    uint32_t next, depth;
    int64_t status;
    uint64_t stack[CLEW_EXPRESSION_DEPTH];
};

/* Where these are kept. The kernel's are in a map: of what is there the verifier expects any value, and is soon done with it. */
#ifndef CLEW_NUMBERS
#define CLEW_NUMBERS() (&(struct clew_numbers){0})
#endif

struct clew_evaluation {
    const struct clew_place *place;
    struct clew_numbers *numbers;
    uint32_t first, count;
};

/* Values of the caller, before they replace the callee's: a bit for each register that the rule names, and that was got. */
struct clew_fresh {
    const struct clew_place *place;
    const struct clew_rule *rule;
    uint64_t named, got;
    uint32_t back; /* the register of the return address */
    int32_t status; /* why the return address could not be had */
    uint64_t r[CLEW_REGISTERS];
};

/* Calls a function with a number and a state until it does not say 0, but so many times at most. The kernel has bpf_loop. */
#ifndef CLEW_REPEAT
#define CLEW_TURN uint64_t
#define CLEW_REPEAT(times, function, state)                                                                          \
    for (uint64_t turn_ = 0; turn_ < (times) && !(function)(turn_, (state)); turn_++) {                              \
    }
#endif

#endif /* CLEW_STEP_H */

#ifndef CLEW_PREFIX
#define CLEW_PREFIX clew_
#endif
#undef CLEW_PASTE_
#undef CLEW_PASTE
#undef CLEW_FUNCTION
#define CLEW_PASTE_(a, b) a##b
#define CLEW_PASTE(a, b) CLEW_PASTE_(a, b)
#define CLEW_FUNCTION(name) CLEW_PASTE(CLEW_PREFIX, name)

#ifndef CLEW_SEGMENT
#define CLEW_SEGMENT(table, number) ((table)->segments[number])
#define CLEW_PAGE(table, number) ((table)->pages[number])
#define CLEW_BUCKET(table, number) ((table)->buckets[number])
#define CLEW_ROW(table, number) ((table)->rows[number])
#define CLEW_ESCAPE(table, number) ((table)->escapes[number])
#define CLEW_RULE(table, number) (&(table)->rules[number])
#define CLEW_CELL(table, number) ((table)->cells[number])
#define CLEW_STEP(table, number) ((table)->steps[number])
#endif

/* Halves what is left of a search among the escapes; not 0 where it ends. */
static CLEW_OUTLINE long CLEW_FUNCTION(halve)(CLEW_TURN turn, void *state) {
    struct clew_search *search = state;
    (void)turn;
    if (search->low >= search->high)
        return 1;
    uint32_t middle = search->low + (search->high - search->low) / 2;
    struct clew_escape escape = CLEW_ESCAPE(search->table, middle);
    if (escape.row == search->row) {
        search->rule = escape.rule;
        return 1;
    }
    if (escape.row < search->row)
        search->low = middle + 1;
    else
        search->high = middle;
    return 0;
}

/* The rule of a row whose own number stands among the escapes, or 0. It is `row` or one of those behind it. */
static CLEW_OUTLINE uint32_t CLEW_FUNCTION(escaped)(const struct clew_table *table, uint64_t row, uint32_t contents) {
    for (int turn = 0; turn < CLEW_ROW_PADDING && CLEW_ROW(table, row) != contents; turn++)
        row++;
    struct clew_search search = {.table = table, .row = row, .high = table->escape_count};
    CLEW_REPEAT(33, CLEW_FUNCTION(halve), &search);
    return search.rule;
}

/* The lesser distance of two rows from an address. */
static CLEW_INLINE uint32_t CLEW_FUNCTION(nearer)(uint32_t key, uint32_t one, uint32_t other) {
    uint32_t a = key - one, b = key - other, least = CLEW_LESS(a, b);
    CLEW_APART(least);
    return least;
}

/*
 * The number of the rule at an address of the file; 0 where there is none.
 *
 * Among the n + 1 rows of a bucket the one that starts last, but not behind the address, is found without a branch that
 * depends on it: halving until eight are left, then taking the one whose distance from the address is least. A row that
 * starts behind it has a huge one, since it is less than nothing. So have the rows behind the bucket; and the padding behind
 * a page has the last row's rule.
 */
static CLEW_INLINE uint32_t CLEW_FUNCTION(find)(const struct clew_table *table, uint64_t address) {
    for (uint32_t number = 0; number < CLEW_SEGMENTS_MOST && number < table->segment_count; number++) {
        const struct clew_segment segment = CLEW_SEGMENT(table, number);
        uint64_t offset = address - segment.start;
        if (offset >= segment.size)
            continue;
        uint32_t page = segment.page + (uint32_t)(offset >> CLEW_PAGE_BITS);
        uint32_t at = offset & ((1 << CLEW_PAGE_BITS) - 1);
        /* page * (CLEW_PAGE_BUCKETS + 1) + (at >> CLEW_BUCKET_BITS), sooner known. */
        uint32_t bucket = (segment.page << (CLEW_PAGE_BITS - CLEW_BUCKET_BITS)) +
                          (uint32_t)(offset >> CLEW_BUCKET_BITS) + page;
        uint32_t first = CLEW_BUCKET(table, bucket);
        uint32_t left = CLEW_BUCKET(table, bucket + 1) - first;
        uint64_t row = CLEW_PAGE(table, page) + first;
        /* As large as a row can be that starts at the address or before it. */
        const uint32_t key = at << 16 | 0xffff;
        for (int turn = 0; turn < 5 && left > CLEW_ROW_PADDING; turn++) {
            uint32_t half = left >> 1;
            row += CLEW_ROW(table, row + half) <= key ? half : 0;
            left -= half;
        }
        uint32_t a = CLEW_FUNCTION(nearer)(key, CLEW_ROW(table, row), CLEW_ROW(table, row + 1));
        uint32_t b = CLEW_FUNCTION(nearer)(key, CLEW_ROW(table, row + 2), CLEW_ROW(table, row + 3));
        uint32_t c = CLEW_FUNCTION(nearer)(key, CLEW_ROW(table, row + 4), CLEW_ROW(table, row + 5));
        uint32_t d = CLEW_FUNCTION(nearer)(key, CLEW_ROW(table, row + 6), CLEW_ROW(table, row + 7));
        uint32_t nearest = key - CLEW_ROW(table, row + 8);
        a = CLEW_LESS(a, b);
        c = CLEW_LESS(c, d);
        CLEW_APART(a);
        CLEW_APART(c);
        c = CLEW_LESS(c, nearest);
        nearest = CLEW_LESS(a, c);
        uint32_t rule = CLEW_ROW_RULE(key - nearest);
        return rule != CLEW_RULE_ESCAPED ? rule : CLEW_FUNCTION(escaped)(table, row, key - nearest);
    }
    return 0;
}

#include "expression.h"

/* The CFA of a frame by a rule, into `place->cfa`. */
static CLEW_INLINE int CLEW_FUNCTION(cfa)(int machine, const struct clew_rule *rule, struct clew_place *place) {
    const struct clew_frame *frame = place->frame;
    uint32_t kind = CLEW_CFA_KIND(rule), from = CLEW_CFA_FROM(rule);
    if (kind == CLEW_CFA_NONE)
        return CLEW_NO_ROW;
    if (kind == CLEW_CFA_EXPRESSION) {
        struct clew_cell cell = CLEW_CELL(place->table, CLEW_FIRST_CELL(rule));
        if (cell.kind != CLEW_CELL_IS_EXPRESSION)
            return CLEW_BAD_RULE;
        return CLEW_FUNCTION(evaluate)(place, (uint32_t)cell.value, cell.other, 1, &place->cfa);
    }
    if (from >= CLEW_REGISTERS || !(frame->known >> from & 1))
        return CLEW_UNKNOWN_REGISTER;
    uint64_t cfa = frame->r[from] + (uint64_t)(int64_t)rule->cfa_offset;
    if (kind == CLEW_CFA_LOADED)
        return CLEW_LOAD(place->memory, cfa, 8, &place->cfa) ? CLEW_CALLED : CLEW_UNREADABLE;
    uint32_t stub = rule->flags >> CLEW_RULE_STUB_SHIFT;
    if (stub && (frame->r[CLEW_PC(machine)] & 15) >= stub)
        cfa += 8;
    place->cfa = cfa;
    return CLEW_CALLED;
}

/* The value that a cell gives, into `result`. All of them are of the old frame. */
static CLEW_INLINE int CLEW_FUNCTION(cell_value)(const struct clew_place *place, struct clew_cell cell, uint64_t *result) {
    uint64_t value = (uint64_t)(int64_t)cell.value, address = place->cfa + value;
    uint32_t other = cell.other;
    int status;
    switch (cell.kind) {
    case CLEW_CELL_CFA_PLUS: *result = address; return CLEW_CALLED;
    case CLEW_CELL_AT_CFA: break;
    case CLEW_CELL_IN_REGISTER:
    case CLEW_CELL_AT_REGISTER:
        CLEW_APART(other);
        if (other >= CLEW_REGISTERS || !(place->frame->known >> other & 1))
            return CLEW_UNKNOWN_REGISTER;
        *result = address = place->frame->r[other] + value;
        if (cell.kind == CLEW_CELL_IN_REGISTER)
            return CLEW_CALLED;
        break;
    case CLEW_CELL_AT_EXPRESSION:
    case CLEW_CELL_IS_EXPRESSION:
        status = CLEW_FUNCTION(evaluate)(place, (uint32_t)cell.value, cell.other, 0, &address);
        if (status != CLEW_CALLED)
            return status;
        *result = address;
        if (cell.kind == CLEW_CELL_IS_EXPRESSION)
            return CLEW_CALLED;
        break;
    default: return CLEW_BAD_RULE;
    }
    return CLEW_LOAD(place->memory, address, 8, result) ? CLEW_CALLED : CLEW_UNREADABLE;
}

/*
 * A register that the rule names in a cell. One that cannot be had is unknown; only why the return address cannot is told:
 * that is the register `back`, or on AArch64 the pc, two numbers behind it, if the rule names that as well.
 */
static CLEW_OUTLINE long CLEW_FUNCTION(cell)(CLEW_TURN number, void *state) {
    struct clew_fresh *fresh = state;
    if (number >= fresh->rule->slot[4])
        return 1;
    struct clew_cell cell = CLEW_CELL(fresh->place->table, CLEW_FIRST_CELL(fresh->rule) + (uint32_t)number);
    uint32_t reg = cell.reg;
    CLEW_APART(reg); /* the verifier has to see that what is compared is what is used */
    if (reg >= CLEW_REGISTERS)
        return 0; /* the CFA's own */
    uint64_t value = 0;
    int status = CLEW_FUNCTION(cell_value)(fresh->place, cell, &value);
    fresh->named |= CLEW_BIT(reg);
    if (status == CLEW_CALLED) {
        fresh->r[reg] = value;
        fresh->got |= CLEW_BIT(reg);
    }
    if (reg == fresh->back || reg == fresh->back + 2)
        fresh->status = status;
    return 0;
}

/*
 * Leaves the frame by a rule: its registers become the caller's. If it cannot, the frame is as it was.
 *
 * Not checked here is that the stack goes on: see CLEW_FUNCTION(step).
 */
static CLEW_INLINE int CLEW_FUNCTION(apply)(int machine, const struct clew_table *table, const struct clew_rule *rule,
                                            struct clew_frame *frame, void *memory) {
    const uint32_t sp = CLEW_SP(machine), pc = CLEW_PC(machine);
    const uint32_t back = machine == CLEW_AARCH64 ? (uint32_t)CLEW_AARCH64_LR : pc;
    struct clew_place place = {table, frame, memory, 0};
    uint64_t target, known;
    if (rule->flags & CLEW_RULE_OUTERMOST)
        return CLEW_OUTERMOST;
    int status = CLEW_FUNCTION(cfa)(machine, rule, &place);
    if (status != CLEW_CALLED)
        return status;
    const uint64_t cfa = place.cfa;
    if (rule->flags & CLEW_RULE_CELLS) {
        struct clew_fresh fresh = {.place = &place, .rule = rule, .back = back};
        CLEW_REPEAT(CLEW_CELLS_MOST, CLEW_FUNCTION(cell), &fresh);
        if (fresh.status != CLEW_CALLED)
            return fresh.status;
        const uint64_t got = fresh.got, named = fresh.named;
        known = (frame->known & rule->same & ~named) | got;
        if (got >> pc & 1)
            target = fresh.r[pc];
        else if (got >> back & 1)
            target = fresh.r[back];
        else if (known >> back & 1)
            target = frame->r[back];
        else
            return CLEW_UNKNOWN_REGISTER;
        for (uint32_t number = 0; number < CLEW_REGISTERS; number++)
            if (got >> number & 1)
                frame->r[number] = fresh.r[number];
        if (!((named | rule->same) >> sp & 1)) {
            frame->r[sp] = cfa;
            known |= CLEW_BIT(sp);
        }
    } else {
        const uint32_t saved = rule->saved;
        const uint64_t keep = frame->known & rule->same;
        known = keep;
        const uint8_t *words = 0;
#ifdef CLEW_WINDOW
        /* All of them at once: the words from the farthest one to the nearest. */
        const uint64_t farthest = rule->slot[CLEW_SLOT(sp)];
        if (saved)
            words = CLEW_WINDOW(memory, cfa - 8 * (rule->base + farthest), 8 * (farthest + 1));
#endif
        if (saved >> back & 1) {
            uint64_t at = cfa - 8 * ((uint64_t)rule->base + rule->slot[CLEW_SLOT(back)]);
            if (!CLEW_LOAD(memory, at, 8, &target))
                return CLEW_UNREADABLE;
        } else if (keep >> back & 1) {
            target = frame->r[back];
        } else {
            return CLEW_UNKNOWN_REGISTER;
        }
#ifdef CLEW_WINDOW
        if (words) {
            CLEW_EACH_SAVED(machine, CLEW_TAKE)
            known |= saved;
        }
#endif
        if (!words) {
            CLEW_EACH_SAVED(machine, CLEW_LOAD_SAVED)
        }
        if (machine == CLEW_AARCH64) {
            frame->r[back] = target;
            known |= CLEW_BIT(back);
        }
        frame->r[sp] = cfa;
        known |= CLEW_BIT(sp);
    }
    if (machine == CLEW_AARCH64 && rule->flags & (CLEW_RULE_SIGNED | CLEW_RULE_SIGNAL))
        target = target >> 55 & 1 ? target | CLEW_CODE_MASK : target & ~CLEW_CODE_MASK;
    frame->r[pc] = target;
    frame->known = known | CLEW_BIT(pc);
    return rule->flags & CLEW_RULE_SIGNAL ? CLEW_INTERRUPTED : CLEW_CALLED;
}

/*
 * Leaves the frame by a rule, checked: makes sure that the stack goes on.
 *
 * `interrupted`: whether the frame's pc was interrupted rather than called from. A caller lies above its callee; only below
 * an interrupted frame, which may have no stack of its own, may both have the same stack pointer, and an interrupted program
 * may have another stack altogether.
 */
static CLEW_INLINE int CLEW_FUNCTION(leave)(int machine, const struct clew_table *table, const struct clew_rule *rule,
                                            struct clew_frame *frame, int interrupted, void *memory) {
    const uint32_t sp = CLEW_SP(machine), pc = CLEW_PC(machine);
    uint64_t old_pc = frame->r[pc], old_sp = frame->r[sp];
    int status = CLEW_FUNCTION(apply)(machine, table, rule, frame, memory);
    if (status < 0)
        return status;
    if (!frame->r[pc] && status != CLEW_INTERRUPTED) /* what called through a null pointer was interrupted there */
        return CLEW_NULL_RETURN;
    if (status == CLEW_INTERRUPTED)
        return frame->r[pc] == old_pc && frame->r[sp] == old_sp ? CLEW_NO_PROGRESS : status;
    if (frame->r[sp] < old_sp || (frame->r[sp] == old_sp && (!interrupted || frame->r[pc] == old_pc)))
        return CLEW_NO_PROGRESS;
    return status;
}

/* One step: looks the pc up, and leaves the frame by its rule. `bias`: what the file's addresses are moved by. */
static CLEW_INLINE int CLEW_FUNCTION(step)(int machine, const struct clew_table *table, uint64_t bias,
                                           struct clew_frame *frame, int interrupted, void *memory) {
    uint32_t number = CLEW_FUNCTION(find)(table, frame->r[CLEW_PC(machine)] - bias - (interrupted ? 0 : 1));
    const struct clew_rule *rule = CLEW_RULE(table, number);
    if (!rule)
        return CLEW_NO_ROW; /* a table in the kernel's maps may fail to be found */
    return CLEW_FUNCTION(leave)(machine, table, rule, frame, interrupted, memory);
}
