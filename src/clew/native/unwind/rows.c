/* Rows and rules while a table is being built; see rows.h. */
#include "rows.h"

#include <string.h>
#include <sys/mman.h>

/* Padding between functions ends at a multiple of this (as clew.table.normalise has it). */
#define PADDING 16
/* Rule numbers are 16 bits wide, and the last is an escape; what comes then is left without information. */
#define MOST_RULES 0xfff0u

void *store_add(struct store *store, size_t size, size_t count) {
    size_t need = store->used + size * count;
    if (!count)
        return NULL;
    if (need > store->room) {
        size_t room = store->room ? 2 * store->room : 1 << 16;
        while (room < need)
            room *= 2;
        void *bytes = store->room ? mremap(store->bytes, store->room, room, MREMAP_MAYMOVE)
                                  : mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (bytes == MAP_FAILED)
            return NULL;
        store->bytes = bytes;
        store->room = room;
    }
    void *added = store->bytes + store->used;
    store->used = need;
    return added;
}

void store_free(struct store *store) {
    if (store->room)
        munmap(store->bytes, store->room);
    memset(store, 0, sizeof *store);
}

static uint32_t mix(uint32_t hash, const void *bytes, size_t size) {
    const uint8_t *at = bytes;
    uint64_t state = hash + 0x9e3779b97f4a7c15ull, word;
    for (; size >= 8; at += 8, size -= 8) {
        memcpy(&word, at, 8);
        state = (state ^ word) * 0xff51afd7ed558ccdull;
        state ^= state >> 32;
    }
    return (uint32_t)state;
}

static int grow_table(struct rows *rows) {
    uint32_t room = rows->mask ? 2 * (rows->mask + 1) : 1024;
    uint32_t *table = mmap(NULL, room * sizeof *table, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED)
        return -1;
    memset(table, 0xff, room * sizeof *table);
    const struct rule_parts *parts = (const struct rule_parts *)rows->parts.bytes;
    for (uint32_t i = 0; i < rows->parts.used / sizeof *parts; i++) {
        uint32_t at = parts[i].hash & (room - 1);
        while (table[at] != ~0u)
            at = (at + 1) & (room - 1);
        table[at] = i;
    }
    if (rows->mask)
        munmap(rows->table, (rows->mask + 1) * sizeof *table);
    rows->table = table;
    rows->mask = room - 1;
    return 0;
}

static struct clew_cell moved(struct clew_cell cell, uint32_t steps) {
    if (cell.kind == CLEW_CELL_AT_EXPRESSION || cell.kind == CLEW_CELL_IS_EXPRESSION)
        cell.value += (int32_t)steps;
    return cell;
}

static int same_rule(const struct rows *rows, uint32_t number, const struct cfi_rule *rule) {
    const struct rule_parts *parts = (const struct rule_parts *)rows->parts.bytes + number;
    struct clew_rule stored = ((const struct clew_rule *)rows->rules.bytes)[number];
    if (parts->cells != rule->cell_count || parts->steps != rule->step_count)
        return 0;
    const struct clew_cell *cells = parts->cells ? (const struct clew_cell *)rows->cells.bytes + parts->cell : NULL;
    if (parts->cells)
        memset(stored.slot, 0, 4);
    if (memcmp(&stored, &rule->rule, sizeof stored))
        return 0;
    for (uint32_t i = 0; i < rule->cell_count; i++) {
        struct clew_cell cell = moved(rule->cells[i], parts->step);
        if (memcmp(&cell, &cells[i], sizeof cell))
            return 0;
    }
    return !rule->step_count ||
           !memcmp((const struct clew_step *)rows->steps.bytes + parts->step, rule->steps, rule->step_count * 8);
}

/* The number of a rule, which is added if it is new; ~0 if there is no memory. */
static uint32_t number_of(struct rows *rows, const struct cfi_rule *rule) {
    uint32_t hash = mix(0, &rule->rule, sizeof rule->rule);
    hash = mix(hash, rule->cells, rule->cell_count * sizeof rule->cells[0]);
    if (rule->step_count)
        hash = mix(hash, rule->steps, rule->step_count * sizeof rule->steps[0]);
    uint32_t at = hash & rows->mask, count = (uint32_t)(rows->parts.used / sizeof(struct rule_parts));
    const struct rule_parts *all = (const struct rule_parts *)rows->parts.bytes;
    for (; rows->table[at] != ~0u; at = (at + 1) & rows->mask)
        if (all[rows->table[at]].hash == hash && same_rule(rows, rows->table[at], rule))
            return rows->table[at];
    if (count >= MOST_RULES)
        return 0;
    uint32_t cell = (uint32_t)(rows->cells.used / 8), step = (uint32_t)(rows->steps.used / 8);
    struct clew_rule *stored = store_add(&rows->rules, sizeof *stored, 1);
    struct rule_parts *parts = store_add(&rows->parts, sizeof *parts, 1);
    struct clew_cell *cells = store_add(&rows->cells, 8, rule->cell_count);
    struct clew_step *steps = store_add(&rows->steps, 8, rule->step_count);
    if (!stored || !parts || (rule->cell_count && !cells) || (rule->step_count && !steps))
        return ~0u;
    *stored = rule->rule;
    *parts = (struct rule_parts){hash, cell, step, (uint16_t)rule->cell_count, (uint16_t)rule->step_count};
    if (rule->cell_count)
        memcpy(stored->slot, &cell, 4);
    for (uint32_t i = 0; i < rule->cell_count; i++)
        cells[i] = moved(rule->cells[i], step);
    if (rule->step_count)
        memcpy(steps, rule->steps, rule->step_count * 8);
    rows->table[at] = count;
    if (count > rows->mask / 2 && grow_table(rows))
        return ~0u;
    return count;
}

int rows_begin(struct rows *rows) {
    static const struct cfi_rule nothing; /* rule 0: no information */
    return grow_table(rows) || number_of(rows, &nothing) != 0 ? -1 : 0;
}

void rows_free(struct rows *rows) {
    store_free(&rows->rows);
    store_free(&rows->rules);
    store_free(&rows->parts);
    store_free(&rows->cells);
    store_free(&rows->steps);
    if (rows->mask)
        munmap(rows->table, (rows->mask + 1) * sizeof *rows->table);
}

int rows_add(struct rows *rows, uint64_t at, const struct cfi_rule *rule) {
    uint32_t number = number_of(rows, rule);
    struct row *row = number == ~0u ? NULL : store_add(&rows->rows, sizeof *row, 1);
    if (!row)
        return -1;
    *row = (struct row){(uint32_t)at, number};
    return 0;
}

void rows_normalise(struct rows *rows) {
    struct row *all = (struct row *)rows->rows.bytes;
    size_t count = rows->rows.used / sizeof *all, kept = 0;
    uint32_t gap = 0, before = 0, written = 0;
    int waiting = 0, first = 1;
    for (size_t i = 0; i < count; i++) {
        struct row row = all[i];
        if (i + 1 < count && all[i + 1].at == row.at)
            continue;
        if (row.rule == before && !first)
            continue;
        if (waiting) {
            waiting = 0;
            if (row.at - gap >= PADDING || row.at % PADDING) {
                all[kept++] = (struct row){gap, 0};
                written = 0;
            }
        }
        before = row.rule;
        if (!row.rule && !first) {
            gap = row.at;
            waiting = 1;
        } else if (first || row.rule != written) {
            all[kept++] = row;
            written = row.rule;
        }
        first = 0;
    }
    if (waiting)
        all[kept++] = (struct row){gap, 0};
    rows->rows.used = kept * sizeof *all;
}
