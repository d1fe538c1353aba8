/*
 * A loaded module's .eh_frame by libFuzzer: tables built of it, and rules interpreted out of it.
 *
 *     clang-14 -g -O1 -D_GNU_SOURCE -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
 *         -I src/clew/native/unwind tests/fuzz/unwind_cfi_fuzz.c src/clew/native/unwind/{cfi,program,rule,expression}.c \
 *         src/clew/native/unwind/{layout,build,rows,pack,reach}.c -o unwind_cfi_fuzz && ./unwind_cfi_fuzz -max_len=4096 CORPUS
 *
 * An input is .eh_frame_hdr and, where that says, .eh_frame; both lie in one segment, which is also the code.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct clew_step steps[64];
    struct cfi_rule rule = {.steps = steps, .step_room = 64};
    if (size < 12)
        return 0;
    uint8_t *copy = malloc(size);
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    uint64_t at = (uint64_t)(uintptr_t)copy;
    struct layout layout = {.bias = at & ~4095ull, .loads = {{at, at + size, 1}}, .count = 1};
    struct built built;
    if (!clew_build(&layout, at, &built))
        munmap(built.bytes, built.size);
    for (uint64_t address = at; address < at + size; address += 1 + size / 16)
        clew_interpret(&layout, at, address, &rule);
    free(copy);
    return 0;
}
