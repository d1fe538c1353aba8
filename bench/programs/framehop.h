/* framehop for C: peers/framehop, where all of this is described. */
#ifndef FRAMEHOP_H
#define FRAMEHOP_H

#include <stdbool.h>
#include <stdint.h>

struct framehop_module {
    uint64_t start, end, bias;
    uint64_t code_start, code_end;
    uint64_t eh_frame_start, eh_frame_end;
    const unsigned char *eh_frame;
    uint64_t eh_frame_hdr_start, eh_frame_hdr_end;
    const unsigned char *eh_frame_hdr;
};

typedef bool framehop_read(void *argument, uint64_t address, uint64_t *value);

void *framehop_new(void);
void framehop_add(void *space, const struct framehop_module *module);
int framehop_walk(void *space, uint64_t pc, uint64_t sp, uint64_t bp, framehop_read *read, void *argument, uint64_t *pcs,
                  int most, int *failed);
int framehop_walk_own(void *space, uint64_t pc, uint64_t sp, uint64_t bp, uint64_t stack_end, uint64_t *pcs, int most,
                      int *failed);

#endif
