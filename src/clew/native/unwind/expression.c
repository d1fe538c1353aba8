/* DWARF expressions (DWARF 5, 2.5.1) as the steps of packed.h; one operator is one step, or none, or two. */
#include <string.h>

#include "cfi.h"

/* An expression may be this long; branches need to know where each of its bytes went. */
#define LONGEST 192

struct translation {
    struct cfi_rule *rule;
    struct cfi_bytes bytes;
    const uint8_t *begin;
    uint32_t first;              /* of its steps */
    uint16_t step_at[LONGEST + 1]; /* which step the byte there begins; ~0 in the middle of an operator */
    int bad;
};

static void step(struct translation *t, int kind, uint64_t operand, int64_t value) {
    struct cfi_rule *rule = t->rule;
    if (rule->step_count >= rule->step_room || rule->step_count - t->first >= CLEW_EXPRESSION_STEPS || value < INT32_MIN ||
        value > INT32_MAX || operand > 255) {
        t->bad = 1;
        return;
    }
    rule->steps[rule->step_count++] = (struct clew_step){(uint8_t)kind, (uint8_t)operand, 0, (int32_t)value};
}

static void push(struct translation *t, uint64_t value) {
    step(t, CLEW_STEP_PUSH, 0, (int32_t)value);
    if ((uint64_t)(int64_t)(int32_t)value != value)
        step(t, CLEW_STEP_HIGH, 0, (int32_t)(value >> 32));
}

static void of_register(struct translation *t, uint64_t number, int64_t offset) {
    if (number >= CFI_REGISTERS) {
        t->bad = 1;
    } else if (offset >= INT32_MIN && offset <= INT32_MAX) {
        step(t, CLEW_STEP_REGISTER, number, offset);
    } else {
        step(t, CLEW_STEP_REGISTER, number, 0);
        push(t, (uint64_t)offset);
        step(t, CLEW_STEP_PLUS, 0, 0);
    }
}

/* A branch: its target is a byte for now, and becomes a step when all bytes are known. */
static void branch(struct translation *t, int kind) {
    int16_t distance = (int16_t)cfi_fixed(&t->bytes, 2);
    step(t, kind, 0, t->bytes.at - t->begin + distance);
}

/* Operators without operands, 0x13 on. */
static const uint8_t plain[0x2f - 0x13] = {
    [0x13 - 0x13] = CLEW_STEP_DROP,  [0x16 - 0x13] = CLEW_STEP_SWAP, [0x17 - 0x13] = CLEW_STEP_ROT,
    [0x19 - 0x13] = CLEW_STEP_ABS,   [0x1a - 0x13] = CLEW_STEP_AND,  [0x1b - 0x13] = CLEW_STEP_DIV,
    [0x1c - 0x13] = CLEW_STEP_MINUS, [0x1d - 0x13] = CLEW_STEP_MOD,  [0x1e - 0x13] = CLEW_STEP_MUL,
    [0x1f - 0x13] = CLEW_STEP_NEG,   [0x20 - 0x13] = CLEW_STEP_NOT,  [0x21 - 0x13] = CLEW_STEP_OR,
    [0x22 - 0x13] = CLEW_STEP_PLUS,  [0x24 - 0x13] = CLEW_STEP_SHL,  [0x25 - 0x13] = CLEW_STEP_SHR,
    [0x26 - 0x13] = CLEW_STEP_SHRA,  [0x27 - 0x13] = CLEW_STEP_XOR,  [0x29 - 0x13] = CLEW_STEP_EQ,
    [0x2a - 0x13] = CLEW_STEP_GE,    [0x2b - 0x13] = CLEW_STEP_GT,   [0x2c - 0x13] = CLEW_STEP_LE,
    [0x2d - 0x13] = CLEW_STEP_LT,    [0x2e - 0x13] = CLEW_STEP_NE,
};

static void constant(struct translation *t, uint8_t opcode) {
    struct cfi_bytes *bytes = &t->bytes;
    switch (opcode) {
    case 0x03:
    case 0x0e:
    case 0x0f: push(t, cfi_fixed(bytes, 8)); break; /* addr, const8u, const8s */
    case 0x08: push(t, cfi_fixed(bytes, 1)); break;
    case 0x09: push(t, (uint64_t)(int64_t)(int8_t)cfi_fixed(bytes, 1)); break;
    case 0x0a: push(t, cfi_fixed(bytes, 2)); break;
    case 0x0b: push(t, (uint64_t)(int64_t)(int16_t)cfi_fixed(bytes, 2)); break;
    case 0x0c: push(t, cfi_fixed(bytes, 4)); break;
    case 0x0d: push(t, (uint64_t)(int64_t)(int32_t)cfi_fixed(bytes, 4)); break;
    case 0x10: push(t, cfi_uleb(bytes)); break;
    default: push(t, (uint64_t)cfi_sleb(bytes)); /* 0x11 */
    }
}

static void operate(struct translation *t, uint8_t opcode) {
    struct cfi_bytes *bytes = &t->bytes;
    uint64_t number;
    if (opcode >= 0x30 && opcode < 0x50) {
        push(t, opcode - 0x30); /* lit0 to lit31 */
    } else if (opcode >= 0x70 && opcode < 0x90) {
        of_register(t, opcode - 0x70, cfi_sleb(bytes)); /* breg0 to breg31 */
    } else if (opcode == 0x03 || (opcode >= 0x08 && opcode <= 0x11)) {
        constant(t, opcode);
    } else if (opcode >= 0x13 && opcode < 0x2f && plain[opcode - 0x13]) {
        step(t, plain[opcode - 0x13], 0, 0);
    } else {
        switch (opcode) {
        case 0x06: step(t, CLEW_STEP_LOAD, 8, 0); break;
        case 0x12: step(t, CLEW_STEP_PICK, 0, 0); break; /* dup */
        case 0x14: step(t, CLEW_STEP_PICK, 1, 0); break; /* over */
        case 0x15: step(t, CLEW_STEP_PICK, cfi_fixed(bytes, 1), 0); break;
        case 0x23: /* plus_uconst */
            push(t, cfi_uleb(bytes));
            step(t, CLEW_STEP_PLUS, 0, 0);
            break;
        case 0x28: branch(t, CLEW_STEP_BRANCH); break;
        case 0x2f: branch(t, CLEW_STEP_SKIP); break;
        case 0x92: /* bregx */
            number = cfi_uleb(bytes);
            of_register(t, number, cfi_sleb(bytes));
            break;
        case 0x94: /* deref_size */
            number = cfi_fixed(bytes, 1);
            t->bad |= number < 1 || number > 8;
            step(t, CLEW_STEP_LOAD, number, 0);
            break;
        case 0x96: break; /* nop */
        default: t->bad = 1;
        }
    }
}

/* The bytes of the expression whose length stands at `block`; the program's reader made sure that they are there. */
static struct cfi_bytes inside(const uint8_t *block) {
    struct cfi_bytes bytes = {block, block + 10, 0, 0};
    uint64_t length = cfi_uleb(&bytes);
    bytes.end = bytes.at + length;
    return bytes;
}

void cfi_expression(const uint8_t *block, struct cfi_rule *rule, struct clew_cell *cell) {
    struct translation t = {.rule = rule, .bytes = inside(block), .first = rule->step_count};
    size_t length = (size_t)(t.bytes.end - t.bytes.at);
    t.begin = t.bytes.at;
    t.bad = length > LONGEST;
    if (!t.bad)
        memset(t.step_at, 0xff, sizeof t.step_at);
    while (!t.bad && !t.bytes.bad && t.bytes.at < t.bytes.end) {
        t.step_at[t.bytes.at - t.begin] = (uint16_t)(rule->step_count - t.first);
        operate(&t, *t.bytes.at++);
    }
    if (!t.bad && !t.bytes.bad)
        t.step_at[length] = (uint16_t)(rule->step_count - t.first);
    for (uint32_t i = t.first; i < rule->step_count && !t.bad && !t.bytes.bad; i++) {
        struct clew_step *s = &rule->steps[i];
        if (s->kind != CLEW_STEP_SKIP && s->kind != CLEW_STEP_BRANCH)
            continue;
        if (s->value < 0 || (size_t)s->value > length || t.step_at[s->value] == 0xffff)
            t.bad = 1;
        else
            s->value = t.step_at[s->value];
    }
    struct clew_step *only = &rule->steps[t.first];
    uint32_t count = rule->step_count - t.first;
    if (t.bad || t.bytes.bad) {
        cell->kind = CLEW_CELL_BAD;
        rule->step_count = t.first;
    } else if (cell->kind == CLEW_CELL_AT_EXPRESSION && count == 1 && only->kind == CLEW_STEP_REGISTER) {
        cell->kind = CLEW_CELL_AT_REGISTER; /* what a signal frame's registers are */
        cell->other = only->operand;
        cell->value = only->value;
        rule->step_count = t.first;
    } else {
        cell->value = (int32_t)t.first;
        cell->other = (uint16_t)count;
    }
}

int cfi_short_cfa(const uint8_t *block, struct clew_rule *rule) {
    struct cfi_bytes bytes = inside(block);
    uint8_t first = (uint8_t)cfi_fixed(&bytes, 1);
    if (first < 0x70 || first >= 0x70 + 32 || first - 0x70 >= CFI_REGISTERS)
        return 0;
    int64_t offset = cfi_sleb(&bytes);
    if (bytes.bad || offset < INT32_MIN || offset > INT32_MAX)
        return 0;
    if (bytes.end - bytes.at == 1 && *bytes.at == 0x06) { /* breg, deref: a frame whose stack was realigned */
        rule->cfa = (uint8_t)(CLEW_CFA_LOADED << 6 | (first - 0x70));
        rule->cfa_offset = (int32_t)offset;
        return 1;
    }
#ifdef __x86_64__
    /* breg7 8, breg16 0, lit15, and, lit, ge, lit3, shl, plus: a stub of the PLT, see packed.h. */
    static const uint8_t head[] = {0x80, 0x00, 0x3f, 0x1a}, tail[] = {0x2a, 0x33, 0x24, 0x22};
    if (first == 0x77 && offset == 8 && bytes.end - bytes.at == 9 && !memcmp(bytes.at, head, 4) &&
        !memcmp(bytes.at + 5, tail, 4) && bytes.at[4] > 0x30 && bytes.at[4] < 0x40) {
        rule->cfa = CLEW_CFA_REGISTER << 6 | 7;
        rule->cfa_offset = 8;
        rule->flags |= (uint8_t)((bytes.at[4] - 0x30) << CLEW_RULE_STUB_SHIFT);
        return 1;
    }
#endif
    return 0;
}
