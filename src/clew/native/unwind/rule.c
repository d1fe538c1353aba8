/* Rows as packed rules: the short form where it says everything, cells elsewhere (packed.h). */
#include <string.h>

#include "cfi.h"

#define FARTHEST 0xffff

static int fits(int64_t value) {
    return value >= INT32_MIN && value <= INT32_MAX;
}

/* The short form; 0 if it cannot say everything. */
static int plain(const struct cfi_row *row, const struct cfi_cie *cie, struct clew_rule *rule) {
    uint32_t saved = 0, same = CFI_DEFAULT_SAME;
    int64_t nearest = FARTHEST + 1, farthest = 0;
    if (row->cfa_kind != CFI_CFA_REGISTER || cie->return_column != CFI_RETURN || row->cfa_register >= CFI_REGISTERS ||
        !fits(row->cfa_value))
        return 0;
    for (uint32_t number = 0; number < CFI_REGISTERS; number++) {
        int64_t value = row->value[number];
        switch (row->kind[number]) {
        case CFI_UNNAMED: continue;
        case CFI_AT_CFA:
            if (number >= 32 || !(CLEW_SAVED(CFI_MACHINE) >> number & 1) || value & 7 || value >= 0 || value < -8 * FARTHEST)
                return 0;
            saved |= 1u << number;
            same &= ~(1u << number);
            value = -(value >> 3);
            nearest = value < nearest ? value : nearest;
            farthest = value > farthest ? value : farthest;
            break;
        case CFI_SAME:
            if (number == CFI_SP)
                return 0;
            if (number < 32)
                same |= 1u << number;
            break;
        case CFI_UNDEFINED:
            if (number == CFI_SP)
                return 0;
            if (number < 32)
                same &= ~(1u << number);
            if (number == CFI_RETURN)
                rule->flags |= CLEW_RULE_OUTERMOST;
            break;
        default: return 0;
        }
    }
    if (saved) {
        if (farthest - nearest > 255)
            return 0;
        rule->base = (uint16_t)nearest;
        rule->slot[CLEW_SLOT(CFI_SP)] = (uint8_t)(farthest - nearest);
        for (uint32_t number = 0; number < 32 && number < CFI_REGISTERS; number++)
            if (saved >> number & 1)
                rule->slot[CLEW_SLOT(number)] = (uint8_t)(-(row->value[number] >> 3) - nearest);
    }
    rule->cfa = (uint8_t)(CLEW_CFA_REGISTER << 6 | row->cfa_register);
    rule->cfa_offset = (int32_t)row->cfa_value;
    rule->saved = saved;
    rule->same = same;
    return 1;
}

static struct clew_cell cell_of(uint32_t number, int kind, const int64_t *value, struct cfi_rule *rule) {
    struct clew_cell cell = {(uint8_t)number, CLEW_CELL_BAD, 0, 0};
    switch (kind) {
    case CFI_AT_CFA:
    case CFI_CFA_PLUS:
        if (fits(*value)) {
            cell.kind = kind == CFI_AT_CFA ? CLEW_CELL_AT_CFA : CLEW_CELL_CFA_PLUS;
            cell.value = (int32_t)*value;
        }
        break;
    case CFI_IN_REGISTER:
        if (*value >= 0 && *value < CFI_REGISTERS) {
            cell.kind = CLEW_CELL_IN_REGISTER;
            cell.other = (uint16_t)*value;
        }
        break;
    case CFI_AT_EXPRESSION:
    case CFI_IS_EXPRESSION:
        cell.kind = kind == CFI_AT_EXPRESSION ? CLEW_CELL_AT_EXPRESSION : CLEW_CELL_IS_EXPRESSION;
        cfi_expression((const uint8_t *)(uintptr_t)*value, rule, &cell);
    }
    return cell;
}

static void add(struct cfi_rule *rule, struct clew_cell cell) {
    if (rule->cell_count < CFI_CELLS)
        rule->cells[rule->cell_count++] = cell;
}

/* Where the CFA is, in a rule with cells. */
static void cfa(const struct cfi_row *row, struct cfi_rule *rule) {
    struct clew_cell cell = {CLEW_CELL_OF_CFA, CLEW_CELL_BAD, 0, 0};
    if (row->cfa_kind == CFI_CFA_REGISTER && row->cfa_register < CFI_REGISTERS && fits(row->cfa_value)) {
        rule->rule.cfa = (uint8_t)(CLEW_CFA_REGISTER << 6 | row->cfa_register);
        rule->rule.cfa_offset = (int32_t)row->cfa_value;
        return;
    }
    if (row->cfa_kind == CFI_CFA_EXPRESSION) {
        const uint8_t *block = (const uint8_t *)(uintptr_t)row->cfa_value;
        if (cfi_short_cfa(block, &rule->rule))
            return;
        cell.kind = CLEW_CELL_IS_EXPRESSION;
        cfi_expression(block, rule, &cell);
    }
    rule->rule.cfa = CLEW_CFA_EXPRESSION << 6;
    add(rule, cell);
}

static void celled(const struct cfi_row *row, const struct cfi_cie *cie, struct cfi_rule *rule) {
    uint32_t same = CFI_DEFAULT_SAME;
    cfa(row, rule);
    for (uint32_t number = 0; number < CFI_REGISTERS; number++) {
        int kind = row->kind[number];
        if (kind == CFI_UNNAMED)
            continue;
        if (number < 32)
            same = kind == CFI_SAME ? same | 1u << number : same & ~(1u << number);
        if (kind == CFI_UNDEFINED && number == CFI_SP)
            add(rule, (struct clew_cell){(uint8_t)number, CLEW_CELL_BAD, 0, 0}); /* so that it is not taken for the CFA */
        else if (kind != CFI_SAME && kind != CFI_UNDEFINED)
            add(rule, cell_of(number, kind, &row->value[number], rule));
    }
    uint64_t column = cie->return_column;
    int kind = column < CFI_REGISTERS ? row->kind[column] : CFI_UNNAMED;
    if (kind == CFI_UNDEFINED)
        rule->rule.flags |= CLEW_RULE_OUTERMOST;
    else if (column != CFI_RETURN) {
        int64_t itself = (int64_t)column;
        if (kind == CFI_UNNAMED || kind == CFI_SAME)
            add(rule, cell_of(CFI_PC, CFI_IN_REGISTER, &itself, rule));
        else
            add(rule, cell_of(CFI_PC, kind, &row->value[column], rule));
    }
    rule->rule.same = same;
    if (!rule->cell_count && CFI_SP < 32 && same >> CFI_SP & 1) { /* which needs a cell, to be none of the CFA's */
        int64_t itself = CFI_SP;
        add(rule, cell_of(CFI_SP, CFI_IN_REGISTER, &itself, rule));
    }
    if (!rule->cell_count)
        return;
    rule->rule.flags |= CLEW_RULE_CELLS;
    rule->rule.slot[4] = (uint8_t)rule->cell_count;
}

void cfi_rule_of(const struct cfi_row *row, const struct cfi_cie *cie, struct cfi_rule *rule) {
    uint8_t flags = (uint8_t)((cie->signal ? CLEW_RULE_SIGNAL : 0) | (row->is_signed ? CLEW_RULE_SIGNED : 0));
    rule->cell_count = rule->step_count = 0;
    memset(&rule->rule, 0, sizeof rule->rule);
    if (!plain(row, cie, &rule->rule)) {
        memset(&rule->rule, 0, sizeof rule->rule);
        celled(row, cie, rule);
    }
    rule->rule.flags |= flags;
}
