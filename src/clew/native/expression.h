/*
 * The expression machine of a step: DWARF 5, 2.5.1, on numbers of 64 bits, as clew.table.evaluate defines it, with a smaller
 * stack. It is a part of step.h, which includes it once for each of its own inclusions.
 *
 * A step of an expression is a function of its own, with its state behind a pointer, so that the kernel's verifier has to
 * follow it once, and not once for each turn of a loop.
 */

/* An operator of two numbers, `second` the lower one of the stack; not 0 if it has a result. */
static CLEW_INLINE int CLEW_FUNCTION(operate)(uint32_t kind, uint64_t second, uint64_t top, uint64_t *result) {
    int64_t left = (int64_t)second, right = (int64_t)top;
    uint64_t negative = left < 0 ? ~0ull : 0;
    switch (kind) {
    case CLEW_STEP_PLUS: second += top; break;
    case CLEW_STEP_MINUS: second -= top; break;
    case CLEW_STEP_MUL: second *= top; break;
    case CLEW_STEP_DIV: {
        if (!top)
            return 0;
        /* Of the magnitudes: the kernel's machine divides unsigned numbers only, and the most negative by -1 is itself. */
        uint64_t quotient = (left < 0 ? 0 - second : second) / (right < 0 ? 0 - top : top);
        second = (left < 0) != (right < 0) ? 0 - quotient : quotient;
        break;
    }
    case CLEW_STEP_MOD:
        if (!top)
            return 0;
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
    default: return 0;
    }
    *result = second;
    return 1;
}

static CLEW_INLINE int CLEW_FUNCTION(failed)(struct clew_numbers *e, int status) {
    e->status = status;
    return 1;
}

/* Does one step of an expression; not 0 where it ends. The table's check made sure of its steps, not of its stack. */
static CLEW_OUTLINE long CLEW_FUNCTION(evaluate_step)(CLEW_TURN turn, void *state) {
    const struct clew_evaluation *evaluation = state;
    const struct clew_place *place = evaluation->place;
    struct clew_numbers *e = evaluation->numbers;
    uint32_t depth = e->depth;
    (void)turn;
    if (e->next >= evaluation->count)
        return 1;
    struct clew_step step = CLEW_STEP(place->table, evaluation->first + e->next);
    e->next++;
    uint64_t value = (uint64_t)(int64_t)step.value;
    uint32_t reg = step.operand;
    CLEW_APART(reg);
    if (step.kind == CLEW_STEP_PUSH || step.kind == CLEW_STEP_REGISTER || step.kind == CLEW_STEP_PICK) {
        if (step.kind == CLEW_STEP_REGISTER) {
            if (reg >= CLEW_REGISTERS || !(place->frame->known >> reg & 1))
                return CLEW_FUNCTION(failed)(e, CLEW_UNKNOWN_REGISTER);
            value += place->frame->r[reg];
        } else if (step.kind == CLEW_STEP_PICK) {
            if (reg >= depth || depth - 1 - reg >= CLEW_EXPRESSION_DEPTH)
                return CLEW_FUNCTION(failed)(e, CLEW_BAD_RULE);
            value = e->stack[depth - 1 - reg];
        }
        if (depth >= CLEW_EXPRESSION_DEPTH)
            return CLEW_FUNCTION(failed)(e, CLEW_BAD_RULE);
        e->stack[depth] = value;
        e->depth = depth + 1;
        return 0;
    }
    if (step.kind == CLEW_STEP_SKIP) {
        e->next = (uint32_t)step.value;
        return 0;
    }
    if (depth < 1 || depth > CLEW_EXPRESSION_DEPTH)
        return CLEW_FUNCTION(failed)(e, CLEW_BAD_RULE);
    uint64_t top = e->stack[depth - 1];
    switch (step.kind) {
    case CLEW_STEP_HIGH: e->stack[depth - 1] = (top & 0xffffffffu) | value << 32; return 0;
    case CLEW_STEP_LOAD:
        if (reg < 1 || reg > 8 || !CLEW_LOAD(place->memory, top, reg, &value))
            return CLEW_FUNCTION(failed)(e, CLEW_UNREADABLE);
        e->stack[depth - 1] = value;
        return 0;
    case CLEW_STEP_BRANCH:
        e->depth = depth - 1;
        if (top)
            e->next = (uint32_t)step.value;
        return 0;
    case CLEW_STEP_DROP: e->depth = depth - 1; return 0;
    case CLEW_STEP_ABS: e->stack[depth - 1] = (int64_t)top < 0 ? 0 - top : top; return 0;
    case CLEW_STEP_NEG: e->stack[depth - 1] = 0 - top; return 0;
    case CLEW_STEP_NOT: e->stack[depth - 1] = ~top; return 0;
    }
    if (depth < 2)
        return CLEW_FUNCTION(failed)(e, CLEW_BAD_RULE);
    uint64_t second = e->stack[depth - 2];
    if (step.kind == CLEW_STEP_SWAP) {
        e->stack[depth - 1] = second;
        e->stack[depth - 2] = top;
        return 0;
    }
    if (step.kind == CLEW_STEP_ROT) {
        if (depth < 3)
            return CLEW_FUNCTION(failed)(e, CLEW_BAD_RULE);
        e->stack[depth - 1] = second;
        e->stack[depth - 2] = e->stack[depth - 3];
        e->stack[depth - 3] = top;
        return 0;
    }
    uint64_t result;
    if (!CLEW_FUNCTION(operate)(step.kind, second, top, &result))
        return CLEW_FUNCTION(failed)(e, CLEW_BAD_RULE);
    e->stack[depth - 2] = result;
    e->depth = depth - 1;
    return 0;
}

/*
 * What an expression of `count` steps computes, into `result`; CLEW_CALLED if it does. Unless it is the CFA's own, it begins
 * with the CFA on its stack.
 */
static CLEW_OUTLINE int CLEW_FUNCTION(evaluate)(const struct clew_place *place, uint32_t first, uint32_t count, int of_cfa,
                                                uint64_t *result) {
    struct clew_numbers *e = CLEW_NUMBERS();
    if (!e)
        return CLEW_BAD_RULE;
    struct clew_evaluation evaluation = {.place = place, .numbers = e, .first = first, .count = count};
    e->next = 0;
    e->status = CLEW_CALLED;
    e->stack[0] = place->cfa;
    e->depth = of_cfa ? 0 : 1;
    /* One more turn than there may be steps, to see the end. */
    CLEW_REPEAT(CLEW_EXPRESSION_FUEL + 1, CLEW_FUNCTION(evaluate_step), &evaluation);
    uint32_t depth = e->depth;
    if (e->status != CLEW_CALLED)
        return (int)e->status;
    if (e->next < count || depth < 1 || depth > CLEW_EXPRESSION_DEPTH)
        return CLEW_BAD_RULE;
    *result = e->stack[depth - 1];
    return CLEW_CALLED;
}
