/*
 * The expression machine of a step: DWARF 5, 2.5.1, on numbers of 64 bits, as clew.table.evaluate defines it, with a smaller
 * stack. It is a part of step.h, which includes it once for each of its own inclusions.
 */

/*
 * What an expression of `count` steps computes, into `result`; CLEW_CALLED if it does. Unless it is the CFA's own, it begins
 * with the CFA on its stack. The table's check made sure of its steps, not of its stack.
 */
static CLEW_OUTLINE int CLEW_FUNCTION(evaluate)(const struct clew_place *place, uint32_t first, uint32_t count, int of_cfa,
                                                uint64_t *result) {
    const struct clew_table *table = place->table;
    const struct clew_frame *frame = place->frame;
    uint64_t stack[CLEW_EXPRESSION_DEPTH];
    uint32_t depth = 0, next = 0;
    if (!of_cfa)
        stack[depth++] = place->cfa;
    for (int fuel = 0; fuel < CLEW_EXPRESSION_FUEL && next < count; fuel++) {
        struct clew_step step = CLEW_STEP(table, first + next);
        next++;
        uint64_t value = (uint64_t)(int64_t)step.value;
        uint32_t reg = step.operand;
        if (step.kind == CLEW_STEP_PUSH || step.kind == CLEW_STEP_REGISTER || step.kind == CLEW_STEP_PICK) {
            if (step.kind == CLEW_STEP_REGISTER) {
                if (reg >= CLEW_REGISTERS || !(frame->known >> reg & 1))
                    return CLEW_UNKNOWN_REGISTER;
                value += frame->r[reg];
            } else if (step.kind == CLEW_STEP_PICK) {
                if (reg >= depth || depth - 1 - reg >= CLEW_EXPRESSION_DEPTH)
                    return CLEW_BAD_RULE;
                value = stack[depth - 1 - reg];
            }
            if (depth >= CLEW_EXPRESSION_DEPTH)
                return CLEW_BAD_RULE;
            stack[depth++] = value;
            continue;
        }
        if (step.kind == CLEW_STEP_SKIP) {
            next = (uint32_t)step.value;
            continue;
        }
        if (depth < 1 || depth > CLEW_EXPRESSION_DEPTH)
            return CLEW_BAD_RULE;
        uint64_t top = stack[depth - 1];
        switch (step.kind) {
        case CLEW_STEP_HIGH: stack[depth - 1] = (top & 0xffffffffu) | value << 32; continue;
        case CLEW_STEP_LOAD:
            if (!CLEW_LOAD(place->memory, top, reg, &stack[depth - 1]))
                return CLEW_UNREADABLE;
            continue;
        case CLEW_STEP_BRANCH:
            depth--;
            if (top)
                next = (uint32_t)step.value;
            continue;
        case CLEW_STEP_DROP: depth--; continue;
        case CLEW_STEP_ABS: stack[depth - 1] = (int64_t)top < 0 ? 0 - top : top; continue;
        case CLEW_STEP_NEG: stack[depth - 1] = 0 - top; continue;
        case CLEW_STEP_NOT: stack[depth - 1] = ~top; continue;
        }
        if (depth < 2)
            return CLEW_BAD_RULE;
        uint64_t second = stack[depth - 2];
        if (step.kind == CLEW_STEP_SWAP) {
            stack[depth - 1] = second;
            stack[depth - 2] = top;
            continue;
        }
        if (step.kind == CLEW_STEP_ROT) {
            if (depth < 3)
                return CLEW_BAD_RULE;
            stack[depth - 1] = second;
            stack[depth - 2] = stack[depth - 3];
            stack[depth - 3] = top;
            continue;
        }
        depth--;
        int64_t left = (int64_t)second, right = (int64_t)top;
        uint64_t negative = left < 0 ? ~0ull : 0;
        switch (step.kind) {
        case CLEW_STEP_PLUS: second += top; break;
        case CLEW_STEP_MINUS: second -= top; break;
        case CLEW_STEP_MUL: second *= top; break;
        case CLEW_STEP_DIV: {
            if (!top)
                return CLEW_BAD_RULE;
            /* Of the magnitudes: the kernel's machine divides unsigned numbers only, and the most negative by -1 is itself. */
            uint64_t quotient = (left < 0 ? 0 - second : second) / (right < 0 ? 0 - top : top);
            second = (left < 0) != (right < 0) ? 0 - quotient : quotient;
            break;
        }
        case CLEW_STEP_MOD:
            if (!top)
                return CLEW_BAD_RULE;
            second %= top;
            break;
        case CLEW_STEP_AND: second &= top; break;
        case CLEW_STEP_OR: second |= top; break;
        case CLEW_STEP_XOR: second ^= top; break;
        case CLEW_STEP_SHL: second = top < 64 ? second << top : 0; break;
        case CLEW_STEP_SHR: second = top < 64 ? second >> top : 0; break;
        case CLEW_STEP_SHRA: second = top >= 64 ? negative : top ? second >> top | negative << (64 - top) : second; break;
        case CLEW_STEP_EQ: second = left == right; break;
        case CLEW_STEP_NE: second = left != right; break;
        case CLEW_STEP_GE: second = left >= right; break;
        case CLEW_STEP_GT: second = left > right; break;
        case CLEW_STEP_LE: second = left <= right; break;
        case CLEW_STEP_LT: second = left < right; break;
        default: return CLEW_BAD_RULE;
        }
        stack[depth - 1] = second;
    }
    if (next < count || depth < 1 || depth > CLEW_EXPRESSION_DEPTH)
        return CLEW_BAD_RULE;
    *result = stack[depth - 1];
    return CLEW_CALLED;
}
