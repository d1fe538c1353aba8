/* Program headers, and the search for an FDE; see layout.h. */
#include "layout.h"

#include <string.h>

#include "reach.h"

static void notes(struct layout *layout, struct cfi_bytes bytes) {
    while (bytes.end - bytes.at >= 12) {
        uint32_t name = (uint32_t)cfi_fixed(&bytes, 4), size = (uint32_t)cfi_fixed(&bytes, 4);
        uint32_t type = (uint32_t)cfi_fixed(&bytes, 4);
        uint64_t padded = ((uint64_t)name + 3) & ~3ull, whole = padded + (((uint64_t)size + 3) & ~3ull);
        if (whole > (uint64_t)(bytes.end - bytes.at))
            return;
        if (type == NT_GNU_BUILD_ID && name == 4 && !memcmp(bytes.at, "GNU", 4) && size && size <= 32) {
            layout->build_id = bytes.at + padded;
            layout->build_id_size = size;
            return;
        }
        bytes.at += whole;
    }
}

void clew_layout(struct layout *layout, const Elf64_Phdr *headers, unsigned count, uint64_t bias) {
    memset(layout, 0, sizeof *layout);
    layout->bias = bias;
    for (unsigned i = 0; i < count && layout->count < LAYOUT_MOST; i++) {
        const Elf64_Phdr *header = &headers[i];
        uint64_t low = header->p_vaddr + bias, high = low + header->p_memsz;
        /* A segment that cannot be read has no tables in it, and its code is never looked at. */
        if (header->p_type == PT_LOAD && header->p_memsz && high > low)
            layout->loads[layout->count++] =
                (struct layout_load){low, high, header->p_flags & PF_R ? (header->p_flags & PF_X) != 0 : 2};
    }
    for (unsigned i = 0; i < count && !layout->build_id; i++) {
        struct cfi_bytes bytes;
        if (headers[i].p_type != PT_NOTE || clew_layout_bytes(layout, headers[i].p_vaddr + bias, &bytes))
            continue;
        if ((uint64_t)(bytes.end - bytes.at) > headers[i].p_memsz)
            bytes.end = bytes.at + headers[i].p_memsz;
        notes(layout, bytes);
    }
}

int clew_layout_at(struct layout *layout, uint64_t map_start, uint64_t map_end) {
    const Elf64_Ehdr *elf = (const Elf64_Ehdr *)(uintptr_t)map_start;
    if (map_end - map_start < 4096 || !clew_readable(map_start) || memcmp(elf->e_ident, ELFMAG, SELFMAG) ||
        elf->e_phentsize != sizeof(Elf64_Phdr) || elf->e_phoff > 4096 || elf->e_phoff & 7 ||
        elf->e_phnum > (4096 - elf->e_phoff) / sizeof(Elf64_Phdr))
        return -1;
    const Elf64_Phdr *headers = (const Elf64_Phdr *)(uintptr_t)(map_start + elf->e_phoff);
    uint64_t lowest = ~0ull;
    for (unsigned i = 0; i < elf->e_phnum; i++)
        if (headers[i].p_type == PT_LOAD && headers[i].p_vaddr < lowest)
            lowest = headers[i].p_vaddr;
    if (lowest == ~0ull)
        return -1;
    clew_layout(layout, headers, elf->e_phnum, map_start - (lowest & ~4095ull));
    for (int i = 0; i < layout->count; i++)
        if (layout->loads[i].low < map_start || layout->loads[i].high > map_end)
            return -1;
    return 0;
}

int clew_layout_bytes(const struct layout *layout, uint64_t address, struct cfi_bytes *bytes) {
    for (int i = 0; i < layout->count; i++) {
        const struct layout_load *load = &layout->loads[i];
        if (address < load->low || address >= load->high || load->executable == 2)
            continue;
        *bytes = (struct cfi_bytes){(const uint8_t *)(uintptr_t)address, (const uint8_t *)(uintptr_t)load->high, 0, 0};
        return 0;
    }
    return -1;
}

/* The header's fixed fields (LSB 5, 10.6.2); `bytes` then stands at its table. */
static int header_fields(const struct layout *layout, uint64_t header, struct cfi_bytes *bytes, uint64_t *eh_frame,
                         uint64_t *count, int *sorted) {
    if (clew_layout_bytes(layout, header, bytes))
        return -1;
    uint8_t version = (uint8_t)cfi_fixed(bytes, 1), frame = (uint8_t)cfi_fixed(bytes, 1);
    uint8_t counted = (uint8_t)cfi_fixed(bytes, 1), table = (uint8_t)cfi_fixed(bytes, 1);
    if (version != 1 || frame == 0xff || frame & 0x80)
        return -1;
    *eh_frame = cfi_pointer(bytes, frame);
    *count = counted == 0xff ? 0 : cfi_pointer(bytes, counted & 0x0f);
    *sorted = table == 0x3b && *count <= (uint64_t)(bytes->end - bytes->at) / 8; /* datarel sdata4 */
    return bytes->bad ? -1 : 0;
}

uint64_t clew_eh_frame(const struct layout *layout, uint64_t header) {
    struct cfi_bytes bytes;
    uint64_t eh_frame, count;
    int sorted;
    return header_fields(layout, header, &bytes, &eh_frame, &count, &sorted) ? 0 : eh_frame;
}

static int32_t word(const uint8_t *at) {
    int32_t value;
    memcpy(&value, at, 4);
    return value;
}

/* Reads the entry at an address, which has to be an FDE, with its CIE. */
static int entry_at(const struct layout *layout, uint64_t at, struct cfi_cie *cie, struct cfi_fde *fde) {
    struct cfi_bytes bytes, body, cie_body;
    const uint8_t *cie_at, *unused;
    int is_cie;
    if (clew_layout_bytes(layout, at, &bytes) || cfi_entry(&bytes, &body, &is_cie, &cie_at) != CFI_OK || is_cie)
        return CFI_BAD;
    if (clew_layout_bytes(layout, (uint64_t)(uintptr_t)cie_at, &bytes) ||
        cfi_entry(&bytes, &cie_body, &is_cie, &unused) != CFI_OK || !is_cie || cfi_read_cie(cie_body, cie) != CFI_OK)
        return CFI_BAD;
    return cfi_read_fde(body, cie, fde);
}

int clew_find_fde(const struct layout *layout, uint64_t header, uint64_t address, struct cfi_cie *cie, struct cfi_fde *fde) {
    struct cfi_bytes bytes;
    uint64_t eh_frame, count;
    int sorted;
    if (header_fields(layout, header, &bytes, &eh_frame, &count, &sorted) || !sorted)
        return CFI_BAD;
    int64_t wanted = (int64_t)(address - header);
    uint64_t low = 0, high = count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (word(bytes.at + 8 * middle) <= wanted)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return CFI_END;
    int status = entry_at(layout, header + (uint64_t)(int64_t)word(bytes.at + 8 * (low - 1) + 4), cie, fde);
    if (status != CFI_OK)
        return status;
    return address - fde->start < fde->size ? CFI_OK : CFI_END;
}

int clew_interpret(const struct layout *layout, uint64_t header, uint64_t address, struct cfi_rule *rule) {
    struct cfi_machine machine;
    struct cfi_cie cie;
    struct cfi_fde fde;
    int status = clew_find_fde(layout, header, address, &cie, &fde);
    if (status != CFI_OK)
        return status;
    status = cfi_begin(&machine, &cie, &fde, 0);
    while (status == CFI_OK && machine.location <= address)
        status = cfi_next(&machine);
    /* CFI_OK: the location moved beyond the address. cfi_next's row is the one before it moved. */
    if (status == CFI_BAD)
        return CFI_BAD;
    cfi_rule_of(&machine.row, &cie, rule);
    return CFI_OK;
}
