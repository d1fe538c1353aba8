/* Rows into the pages, buckets and rows of a packed table (packed.h). */
#include <string.h>
#include <sys/mman.h>

#include "../packed_check.h"
#include "rows.h"

#define PAGE (1u << CLEW_PAGE_BITS)
#define BUCKETS (CLEW_PAGE_BUCKETS + 1u)
/* More code than any module has; its index would have eight megabytes. */
#define MOST_CODE (1ull << 30)

struct piece {
    uint32_t low, high; /* from the base */
};

struct packer {
    const struct row *rows;
    size_t count;
    uint32_t *pages;
    uint16_t *buckets;
    uint32_t *packed;
    uint32_t page, row;
};

static void put(struct packer *p, uint32_t at, uint32_t rule) {
    p->packed[p->row++] = at << 16 | rule;
}

/* One page; `next` is the first row that starts behind its start, or later. The same for the next page is the answer. */
static size_t pack_page(struct packer *p, size_t next, uint32_t low, uint32_t size) {
    uint32_t buckets = (size + (1 << CLEW_BUCKET_BITS) - 1) >> CLEW_BUCKET_BITS, bucket = 0, count = 0;
    uint16_t *numbers = &p->buckets[(size_t)p->page * BUCKETS];
    p->pages[p->page++] = p->row;
    while (next < p->count && p->rows[next].at <= low)
        next++;
    uint32_t rule = next ? p->rows[next - 1].rule : 0;
    put(p, 0, rule);
    for (; next < p->count && p->rows[next].at - low < size; next++) {
        uint32_t at = p->rows[next].at - low;
        for (; bucket < buckets && bucket << CLEW_BUCKET_BITS < at; bucket++)
            numbers[bucket] = (uint16_t)count;
        if (p->rows[next].rule == rule)
            continue;
        rule = p->rows[next].rule;
        put(p, at, rule);
        count++;
    }
    for (; bucket < BUCKETS; bucket++)
        numbers[bucket] = (uint16_t)count;
    for (int i = 0; i < CLEW_ROW_PADDING; i++)
        put(p, 0xffff, rule);
    return next;
}

/* The code's segments, as far as there are rows. How many bytes they have. */
static uint64_t pieces_of(const struct rows *rows, const struct layout *layout, struct piece *pieces, int *count) {
    const struct row *all = (const struct row *)rows->rows.bytes;
    size_t most = rows->rows.used / sizeof *all;
    uint64_t total = 0, low, high, begin = all[0].at, end = all[most - 1].at, done = 0;
    if (!all[0].rule && most > 1)
        begin = all[1].at;
    *count = 0;
    for (;;) { /* by rising addresses */
        const struct layout_load *best = NULL;
        for (int i = 0; i < layout->count; i++)
            if (layout->loads[i].executable && layout->loads[i].high - rows->base > done &&
                (!best || layout->loads[i].low < best->low))
                best = &layout->loads[i];
        if (!best)
            return total;
        low = best->low - rows->base;
        high = best->high - rows->base;
        low = low < done ? done : low;
        done = high;
        low = low < begin ? begin : low;
        high = high > end ? end : high;
        if (low < high) {
            pieces[(*count)++] = (struct piece){(uint32_t)low, (uint32_t)high};
            total += high - low;
        }
    }
}

static struct clew_part part(uint64_t *size, uint64_t count, uint32_t width) {
    struct clew_part made = {(uint32_t)*size, (uint32_t)count};
    *size = (*size + count * width + 31) & ~31ull;
    return made;
}

int rows_pack(const struct rows *rows, const struct layout *layout, struct built *built) {
    struct piece pieces[LAYOUT_MOST];
    int count;
    if (!rows->rows.used)
        return -1;
    uint64_t code = pieces_of(rows, layout, pieces, &count), pages = 0;
    if (!count || code > MOST_CODE)
        return -1;
    for (int i = 0; i < count; i++) {
        pages += ((uint64_t)pieces[i].high - pieces[i].low + PAGE - 1) >> CLEW_PAGE_BITS;
    }
    struct packer p = {.rows = (const struct row *)rows->rows.bytes, .count = rows->rows.used / sizeof(struct row)};
    struct clew_packed_header head = {.magic = CLEW_PACKED_MAGIC, .version = CLEW_PACKED_VERSION, .machine = CFI_MACHINE};
    uint64_t size = sizeof head;
    head.segments = part(&size, (uint64_t)count, sizeof(struct clew_segment));
    head.pages = part(&size, pages, 4);
    head.buckets = part(&size, pages * BUCKETS, 2);
    head.escapes = part(&size, 0, 8);
    head.rules = part(&size, rows->rules.used / 32, 32);
    head.cells = part(&size, rows->cells.used / 8, 8);
    head.steps = part(&size, rows->steps.used / 8, 8);
    head.rows = part(&size, p.count + pages * (1 + CLEW_ROW_PADDING), 4); /* at most */
    if (size > UINT32_MAX)
        return -1;
    uint8_t *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED)
        return -1;
    struct clew_segment *segments = (struct clew_segment *)(bytes + head.segments.offset);
    p.pages = (uint32_t *)(bytes + head.pages.offset);
    p.buckets = (uint16_t *)(bytes + head.buckets.offset);
    p.packed = (uint32_t *)(bytes + head.rows.offset);
    size_t next = 0;
    for (int i = 0; i < count; i++) {
        uint32_t first = p.page, low = pieces[i].low;
        for (; low < pieces[i].high; low += PAGE) {
            uint32_t left = pieces[i].high - low;
            next = pack_page(&p, next, low, left < PAGE ? left : PAGE);
            if (left < PAGE)
                break;
        }
        segments[i] = (struct clew_segment){pieces[i].low + rows->base - layout->bias, pieces[i].high - pieces[i].low,
                                            first, p.page - first, 0};
    }
    memcpy(bytes + head.rules.offset, rows->rules.bytes, rows->rules.used);
    if (rows->cells.used)
        memcpy(bytes + head.cells.offset, rows->cells.bytes, rows->cells.used);
    if (rows->steps.used)
        memcpy(bytes + head.steps.offset, rows->steps.bytes, rows->steps.used);
    head.rows.count = p.row;
    head.size = head.rows.offset + 4ull * p.row;
    if (layout->build_id) {
        head.build_id_size = (uint8_t)layout->build_id_size;
        memcpy(head.build_id, layout->build_id, layout->build_id_size);
    }
    memcpy(bytes, &head, sizeof head);
    built->bytes = bytes;
    built->size = size;
    /* What was just made is checked like a file: step.h trusts nothing else. */
    if (clew_packed_open(bytes, size, 0, &built->table) == CLEW_PACKED_SOUND) {
        uint64_t used = (head.size + 4095) & ~4095ull;
        if (used < size)
            munmap(bytes + used, size - used);
        built->size = used < size ? used : size;
        mprotect(bytes, built->size, PROT_READ);
        return 0;
    }
    munmap(bytes, size);
    return -1;
}
