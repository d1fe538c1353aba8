/*
 * Whether a packed table is sound: everything that step.h takes for granted, checked once when the table is loaded.
 *
 * After clew_packed_open has said CLEW_PACKED_SOUND, no look-up of any address reads outside of the table, and no rule
 * names a register, cell or step that there is not. What it does not promise is that the rules are true.
 */
#ifndef CLEW_PACKED_CHECK_H
#define CLEW_PACKED_CHECK_H

#include <stddef.h>

#include "packed.h"

enum clew_packed_problem {
    CLEW_PACKED_SOUND = 0,
    CLEW_PACKED_SHORT,    /* there are fewer bytes than it says, or than a header has */
    CLEW_PACKED_MAGIC_BAD,
    CLEW_PACKED_VERSION_BAD,
    CLEW_PACKED_MACHINE_BAD,
    CLEW_PACKED_CHECKSUM_BAD,
    CLEW_PACKED_PART_BAD, /* a part is outside of the table, or not aligned */
    CLEW_PACKED_SEGMENT_BAD,
    CLEW_PACKED_PAGE_BAD,
    CLEW_PACKED_BUCKET_BAD,
    CLEW_PACKED_ROW_BAD,
    CLEW_PACKED_ESCAPE_BAD,
    CLEW_PACKED_RULE_BAD,
    CLEW_PACKED_CELL_BAD,
    CLEW_PACKED_STEP_BAD,
    CLEW_PACKED_PROBLEMS,
};

/* The four bits' tables of CRC-32 take eight bytes at a time ("slicing by 8", Kounavis and Berry, 2005). */
static void clew_crc_tables(uint32_t tables[8][256]) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
        tables[0][byte] = crc;
    }
    for (uint32_t byte = 0; byte < 256; byte++)
        for (int slice = 1; slice < 8; slice++)
            tables[slice][byte] = tables[slice - 1][byte] >> 8 ^ tables[0][tables[slice - 1][byte] & 0xff];
}

static uint32_t clew_crc(const uint8_t *bytes, size_t size) {
    uint32_t tables[8][256], crc = ~0u;
    clew_crc_tables(tables);
    for (; size >= 8; bytes += 8, size -= 8) {
        uint32_t low = crc ^ (bytes[0] | bytes[1] << 8 | bytes[2] << 16 | (uint32_t)bytes[3] << 24);
        crc = tables[7][low & 255] ^ tables[6][low >> 8 & 255] ^ tables[5][low >> 16 & 255] ^ tables[4][low >> 24] ^
              tables[3][bytes[4]] ^ tables[2][bytes[5]] ^ tables[1][bytes[6]] ^ tables[0][bytes[7]];
    }
    for (; size; bytes++, size--)
        crc = crc >> 8 ^ tables[0][(crc ^ *bytes) & 255];
    return ~crc;
}

static int clew_part_fits(const struct clew_packed_header *header, struct clew_part part, uint32_t width) {
    return part.offset % width == 0 && part.offset >= sizeof *header && part.offset <= header->size &&
           part.count <= (header->size - part.offset) / width;
}

static int clew_pages_sound(const struct clew_packed_header *h, const struct clew_table *t) {
    uint32_t page_number = 0, row = 0;
    uint64_t end = 0;
    if (h->segments.count > CLEW_SEGMENTS_MOST)
        return CLEW_PACKED_SEGMENT_BAD;
    for (uint32_t i = 0; i < h->segments.count; i++) {
        const struct clew_segment *s = &t->segments[i];
        uint64_t pages = (s->size >> CLEW_PAGE_BITS) + ((s->size & ((1 << CLEW_PAGE_BITS) - 1)) != 0);
        if (!s->size || s->start < end || s->start + s->size < s->start || s->page != page_number || s->pages != pages ||
            pages > h->pages.count - page_number)
            return CLEW_PACKED_SEGMENT_BAD;
        end = s->start + s->size;
        for (uint32_t p = 0; p < pages; p++, page_number++) {
            uint64_t left = s->size - ((uint64_t)p << CLEW_PAGE_BITS);
            uint32_t bytes = left < 1 << CLEW_PAGE_BITS ? (uint32_t)left : 1 << CLEW_PAGE_BITS;
            uint32_t buckets = (bytes + (1 << CLEW_BUCKET_BITS) - 1) >> CLEW_BUCKET_BITS;
            uint64_t bucket = (uint64_t)page_number * (CLEW_PAGE_BUCKETS + 1);
            if (t->pages[page_number] != row || bucket + buckets + 1 > h->buckets.count || row >= h->rows.count)
                return CLEW_PACKED_PAGE_BAD;
            const uint16_t *numbers = &t->buckets[bucket];
            const uint32_t *rows = &t->rows[row];
            uint32_t last = numbers[buckets];
            if (last + 1 + CLEW_ROW_PADDING > h->rows.count - row)
                return CLEW_PACKED_BUCKET_BAD;
            if (CLEW_ROW_START(rows[0]) != 0 || CLEW_ROW_START(rows[last]) >= bytes)
                return CLEW_PACKED_ROW_BAD;
            for (uint32_t r = 1; r <= last; r++)
                if (CLEW_ROW_START(rows[r]) <= CLEW_ROW_START(rows[r - 1]))
                    return CLEW_PACKED_ROW_BAD;
            for (uint32_t r = 1; r <= CLEW_ROW_PADDING; r++)
                if (rows[last + r] != (rows[last] | 0xffff0000u))
                    return CLEW_PACKED_ROW_BAD;
            /* A bucket's number is that of the last row that starts at or before its first byte. */
            for (uint32_t b = 0; b < buckets; b++) {
                uint32_t n = numbers[b];
                if (n > last || CLEW_ROW_START(rows[n]) > b << CLEW_BUCKET_BITS ||
                    (n < last && CLEW_ROW_START(rows[n + 1]) <= b << CLEW_BUCKET_BITS))
                    return CLEW_PACKED_BUCKET_BAD;
            }
            row += last + 1 + CLEW_ROW_PADDING;
        }
    }
    return page_number == h->pages.count && row == h->rows.count ? CLEW_PACKED_SOUND : CLEW_PACKED_PAGE_BAD;
}

static int clew_rules_sound(const struct clew_packed_header *h, const struct clew_table *t) {
    const uint32_t registers = CLEW_REGISTERS_OF(h->machine), possible = CLEW_SAVED(h->machine), sp = CLEW_SP(h->machine);
    uint32_t escaped = 0;
    for (uint32_t r = 0; r < h->rows.count; r++) {
        uint32_t rule = CLEW_ROW_RULE(t->rows[r]);
        if (rule >= h->rules.count && rule != CLEW_RULE_ESCAPED)
            return CLEW_PACKED_ROW_BAD;
        escaped += rule == CLEW_RULE_ESCAPED;
    }
    if (escaped != h->escapes.count)
        return CLEW_PACKED_ESCAPE_BAD;
    for (uint32_t e = 0; e < h->escapes.count; e++)
        if (t->escapes[e].row >= h->rows.count || t->escapes[e].rule >= h->rules.count ||
            (e && t->escapes[e].row <= t->escapes[e - 1].row))
            return CLEW_PACKED_ESCAPE_BAD;
    if (!h->rules.count || CLEW_CFA_KIND(&t->rules[0]) != CLEW_CFA_NONE)
        return CLEW_PACKED_RULE_BAD;
    for (uint32_t r = 0; r < h->rules.count; r++) {
        const struct clew_rule *rule = &t->rules[r];
        uint32_t kind = CLEW_CFA_KIND(rule), with_cells = rule->flags & CLEW_RULE_CELLS;
        if (CLEW_CFA_FROM(rule) >= registers || (kind == CLEW_CFA_EXPRESSION && !with_cells) ||
            (rule->flags >> CLEW_RULE_STUB_SHIFT && (kind != CLEW_CFA_REGISTER || h->machine != CLEW_X86_64)) ||
            rule->saved & ~possible || (with_cells && rule->saved) || (!with_cells && rule->same >> sp & 1))
            return CLEW_PACKED_RULE_BAD;
        for (uint32_t number = 0; number < 32; number++)
            if (rule->saved >> number & 1 && rule->slot[CLEW_SLOT(number)] > rule->slot[CLEW_SLOT(sp)])
                return CLEW_PACKED_RULE_BAD;
        if (with_cells) {
            uint32_t first = CLEW_FIRST_CELL(rule);
            uint32_t count = rule->slot[4];
            if (!count || count > CLEW_CELLS_MOST || first > h->cells.count || count > h->cells.count - first ||
                (t->cells[first].reg == CLEW_CELL_OF_CFA) != (kind == CLEW_CFA_EXPRESSION))
                return CLEW_PACKED_RULE_BAD;
            for (uint32_t c = 1; c < count; c++)
                if (t->cells[first + c].reg == CLEW_CELL_OF_CFA)
                    return CLEW_PACKED_RULE_BAD;
        }
    }
    for (uint32_t c = 0; c < h->cells.count; c++) {
        struct clew_cell cell = t->cells[c];
        int of_cfa = cell.reg == CLEW_CELL_OF_CFA;
        if ((cell.reg >= registers && !of_cfa) || !cell.kind || cell.kind > CLEW_CELL_BAD)
            return CLEW_PACKED_CELL_BAD;
        if (of_cfa && cell.kind != CLEW_CELL_IS_EXPRESSION && cell.kind != CLEW_CELL_BAD)
            return CLEW_PACKED_CELL_BAD;
        if ((cell.kind == CLEW_CELL_IN_REGISTER || cell.kind == CLEW_CELL_AT_REGISTER) && cell.other >= registers)
            return CLEW_PACKED_CELL_BAD;
        if (cell.kind == CLEW_CELL_AT_EXPRESSION || cell.kind == CLEW_CELL_IS_EXPRESSION) {
            if (cell.value < 0 || (uint32_t)cell.value > h->steps.count ||
                cell.other > h->steps.count - (uint32_t)cell.value || cell.other > CLEW_EXPRESSION_STEPS)
                return CLEW_PACKED_CELL_BAD;
            for (uint32_t s = 0; s < cell.other; s++) {
                struct clew_step step = t->steps[cell.value + s];
                if ((step.kind == CLEW_STEP_SKIP || step.kind == CLEW_STEP_BRANCH) &&
                    (step.value < 0 || step.value > cell.other))
                    return CLEW_PACKED_STEP_BAD;
            }
        }
    }
    for (uint32_t s = 0; s < h->steps.count; s++) {
        struct clew_step step = t->steps[s];
        if (!step.kind || step.kind >= CLEW_STEP_KINDS || (step.kind == CLEW_STEP_REGISTER && step.operand >= registers) ||
            (step.kind == CLEW_STEP_LOAD && (step.operand < 1 || step.operand > 8)))
            return CLEW_PACKED_STEP_BAD;
    }
    return CLEW_PACKED_SOUND;
}

/*
 * Opens a table at an address that is a multiple of 32, of which `size` bytes can be read: fills `table`, and says what is
 * wrong with it. The checksum tells accident, the other checks tell malice; without `checksum` only these are made.
 */
static __attribute__((unused)) int clew_packed_open(const void *bytes, size_t size, int checksum, struct clew_table *table) {
    const struct clew_packed_header *h = bytes;
    const uint8_t *base = bytes;
    if (size < sizeof *h)
        return CLEW_PACKED_SHORT;
    if (h->magic != CLEW_PACKED_MAGIC)
        return CLEW_PACKED_MAGIC_BAD;
    if (h->version != CLEW_PACKED_VERSION)
        return CLEW_PACKED_VERSION_BAD;
    if (h->machine != CLEW_X86_64 && h->machine != CLEW_AARCH64)
        return CLEW_PACKED_MACHINE_BAD;
    if (h->size > size || h->size < sizeof *h || h->build_id_size > sizeof h->build_id)
        return CLEW_PACKED_SHORT;
    if (checksum && clew_crc(base + 16, h->size - 16) != h->checksum)
        return CLEW_PACKED_CHECKSUM_BAD;
    if (!clew_part_fits(h, h->segments, 32) || !clew_part_fits(h, h->pages, 4) || !clew_part_fits(h, h->buckets, 2) ||
        !clew_part_fits(h, h->rows, 4) || !clew_part_fits(h, h->escapes, 8) || !clew_part_fits(h, h->rules, 32) ||
        !clew_part_fits(h, h->cells, 8) || !clew_part_fits(h, h->steps, 8))
        return CLEW_PACKED_PART_BAD;
    table->segments = (const void *)(base + h->segments.offset);
    table->pages = (const void *)(base + h->pages.offset);
    table->buckets = (const void *)(base + h->buckets.offset);
    table->rows = (const void *)(base + h->rows.offset);
    table->escapes = (const void *)(base + h->escapes.offset);
    table->rules = (const void *)(base + h->rules.offset);
    table->cells = (const void *)(base + h->cells.offset);
    table->steps = (const void *)(base + h->steps.offset);
    table->segment_count = h->segments.count;
    table->escape_count = h->escapes.count;
    table->header = h;
    int problem = clew_pages_sound(h, table);
    return problem ? problem : clew_rules_sound(h, table);
}

#endif
