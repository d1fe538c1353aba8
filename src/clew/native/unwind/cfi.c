/* Entries of .eh_frame and their programs; see cfi.h. */
#include "cfi.h"

#include <string.h>

uint64_t cfi_fixed(struct cfi_bytes *bytes, unsigned size) {
    uint64_t value = 0;
    if ((size_t)(bytes->end - bytes->at) < size) {
        bytes->bad = 1;
        bytes->at = bytes->end;
        return 0;
    }
    memcpy(&value, bytes->at, size); /* both machines are little-endian */
    bytes->at += size;
    return value;
}

uint64_t cfi_uleb(struct cfi_bytes *bytes) {
    uint64_t value = 0;
    unsigned shift = 0;
    for (;;) {
        if (bytes->at >= bytes->end) {
            bytes->bad = 1;
            return 0;
        }
        uint8_t byte = *bytes->at++;
        uint64_t bits = byte & 0x7f;
        if (shift < 64 ? (bits << shift) >> shift != bits : bits)
            bytes->bad = 1; /* more than 64 bits */
        else if (shift < 64)
            value |= bits << shift;
        if (!(byte & 0x80))
            return value;
        shift += shift < 64 ? 7 : 0;
    }
}

int64_t cfi_sleb(struct cfi_bytes *bytes) {
    uint64_t value = 0;
    unsigned shift = 0;
    for (;;) {
        if (bytes->at >= bytes->end) {
            bytes->bad = 1;
            return 0;
        }
        uint8_t byte = *bytes->at++;
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += shift < 64 ? 7 : 0;
        if (!(byte & 0x80)) {
            if (shift < 64 && byte & 0x40)
                value |= ~0ull << shift;
            return (int64_t)value;
        }
    }
}

uint64_t cfi_pointer(struct cfi_bytes *bytes, uint8_t encoding) {
    uint64_t field = (uint64_t)(uintptr_t)bytes->at + bytes->shift, value = 0;
    switch (encoding & 0x0f) {
    case 0x00:
    case 0x04:
    case 0x0c: value = cfi_fixed(bytes, 8); break;
    case 0x01: value = cfi_uleb(bytes); break;
    case 0x02: value = cfi_fixed(bytes, 2); break;
    case 0x03: value = cfi_fixed(bytes, 4); break;
    case 0x09: value = (uint64_t)cfi_sleb(bytes); break;
    case 0x0a: value = (uint64_t)(int64_t)(int16_t)cfi_fixed(bytes, 2); break;
    case 0x0b: value = (uint64_t)(int64_t)(int32_t)cfi_fixed(bytes, 4); break;
    default: bytes->bad = 1;
    }
    if ((encoding & 0x70) == 0x10)
        return value ? value + field : 0; /* 0 stays 0: there is none */
    if (encoding & 0x70)
        bytes->bad = 1;
    return value;
}

int cfi_entry(struct cfi_bytes *bytes, struct cfi_bytes *body, int *is_cie, const uint8_t **cie_at) {
    uint64_t length = cfi_fixed(bytes, 4);
    unsigned width = 4;
    if (bytes->bad)
        return CFI_BAD;
    if (length == 0)
        return CFI_END;
    if (length == 0xffffffffu) {
        length = cfi_fixed(bytes, 8);
        width = 8;
    }
    if (bytes->bad || length < width || length > (uint64_t)(bytes->end - bytes->at))
        return CFI_BAD;
    *body = *bytes;
    body->end = bytes->at + length;
    bytes->at = body->end;
    const uint8_t *field = body->at;
    uint64_t id = cfi_fixed(body, width);
    *is_cie = id == 0;
    /* Relative to the field itself, backwards; a CIE behind its FDE makes it negative. */
    int64_t back = width == 4 ? (int64_t)(int32_t)id : (int64_t)id;
    *cie_at = (const uint8_t *)((uintptr_t)field - (uintptr_t)back);
    return CFI_OK;
}

/* The augmentation's letters behind z (LSB 5, 10.6.1.1.1); after one that is unknown the data is passed over by its length. */
static int augmentation(struct cfi_bytes data, const uint8_t *letters, struct cfi_cie *cie) {
    int known = 1;
    for (; *letters; letters++) {
        if (*letters == 'S')
            cie->signal = 1;
        else if (*letters == 'B' || *letters == 'G')
            continue; /* AArch64: the key, and tagged memory; neither has data */
        else if (!known && *letters == 'R')
            return CFI_BAD;
        else if (!known)
            continue;
        else if (*letters == 'L')
            cie->lsda_encoding = (uint8_t)cfi_fixed(&data, 1);
        else if (*letters == 'R')
            cie->encoding = (uint8_t)cfi_fixed(&data, 1);
        else if (*letters == 'P') {
            cie->personality_encoding = (uint8_t)cfi_fixed(&data, 1);
            if (cie->personality_encoding != 0xff)
                cie->personality = cfi_pointer(&data, cie->personality_encoding & 0x7f);
        } else
            known = 0;
    }
    return data.bad ? CFI_BAD : CFI_OK;
}

int cfi_read_cie(struct cfi_bytes body, struct cfi_cie *cie) {
    memset(cie, 0, sizeof *cie);
    cie->lsda_encoding = cie->personality_encoding = 0xff;
    uint64_t version = cfi_fixed(&body, 1);
    if (version != 1 && version != 3 && version != 4)
        return CFI_BAD;
    const uint8_t *letters = body.at;
    while (cfi_fixed(&body, 1))
        ;
    if (body.bad)
        return CFI_BAD;
    if (letters[0] == 'e' && letters[1] == 'h' && !letters[2])
        cfi_fixed(&body, 8); /* gcc 2's exception table */
    else if (letters[0] && letters[0] != 'z')
        return CFI_BAD;
    if (version == 4 && (cfi_fixed(&body, 1) != 8 || cfi_fixed(&body, 1) != 0))
        return CFI_BAD;
    cie->code_alignment = cfi_uleb(&body);
    cie->data_alignment = cfi_sleb(&body);
    cie->return_column = version == 1 ? cfi_fixed(&body, 1) : cfi_uleb(&body);
    if (cie->code_alignment > 1 << 10 || cie->data_alignment <= -(1 << 20) || cie->data_alignment >= 1 << 20 ||
        cie->return_column > 0xffff)
        return CFI_BAD;
    if (letters[0] == 'z') {
        uint64_t length = cfi_uleb(&body);
        if (body.bad || length > (uint64_t)(body.end - body.at))
            return CFI_BAD;
        struct cfi_bytes data = body;
        data.end = body.at + length;
        cie->sized = 1;
        if (augmentation(data, letters + 1, cie) != CFI_OK)
            return CFI_BAD;
        body.at = data.end;
    }
    cie->program = body.at;
    cie->end = body.end;
    return body.bad ? CFI_BAD : CFI_OK;
}

int cfi_read_fde(struct cfi_bytes body, const struct cfi_cie *cie, struct cfi_fde *fde) {
    if (cie->encoding & 0x80)
        return CFI_BAD;
    fde->start = cfi_pointer(&body, cie->encoding);
    fde->size = cfi_pointer(&body, cie->encoding & 0x0f);
    fde->lsda = 0;
    if (cie->sized) {
        uint64_t length = cfi_uleb(&body);
        if (body.bad || length > (uint64_t)(body.end - body.at))
            return CFI_BAD;
        struct cfi_bytes data = body;
        data.end = body.at + length;
        if (cie->lsda_encoding != 0xff && length)
            fde->lsda = cfi_pointer(&data, cie->lsda_encoding & 0x7f);
        body.at += length;
    }
    fde->program = body.at;
    fde->end = body.end;
    return body.bad || fde->start + fde->size < fde->start ? CFI_BAD : CFI_OK;
}
