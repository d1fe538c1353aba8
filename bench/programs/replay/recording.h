/* What is unwound: samples of a program, each its registers and a copy of its stack, and the files that were mapped.

   bench/paper_export.py writes it, once for a recording; load.c maps it. Registers have their DWARF numbers, r[16] is rip. */
#ifndef RECORDING_H
#define RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REGISTERS = 17, RBP = 6, RSP = 7, RIP = 16 };

/* Addresses of the file from start on, size bytes of them, which nothing can write to and which are at offset in the file. */
struct segment {
    uint64_t start, size, offset;
};

/* Addresses, the last not included. */
struct range {
    uint64_t start, end;
};

/* A file, in its own addresses. */
struct object {
    size_t number; /* among the objects */
    const char *path;
    const unsigned char *bytes; /* the file, mapped */
    size_t size;
    struct range span; /* all that it loads */
    struct range code; /* from the first executable segment to the end of the last */
    struct range eh_frame, eh_frame_hdr;
    const unsigned char *eh_frame_bytes, *eh_frame_hdr_bytes;
    const struct segment *segments; /* sorted; what is not here can be written to, or is no part of the file */
    size_t segment_count;
    const struct range *outermost; /* where .eh_frame calls the return address undefined: nothing called this code; sorted */
    size_t outermost_count;
    const char *compiled_c, *compiled_asm, *packed; /* what clew made of the file: paths, or "" */
    const char *paper_c, *paper_asm; /* with the paper's context */
};

/* An object in a process: its addresses and bias, to be added to those of the file. */
struct module {
    uint64_t start, end, bias;
    const struct object *object;
};

/* A process, as long as the same files were mapped; modules are sorted and do not overlap. */
struct space {
    const struct module *modules;
    size_t count;
};

struct sample {
    const struct space *space;
    uint64_t registers[REGISTERS];
    uint64_t stack_start, stack_size;
    uint64_t stack_words; /* at how many offsets of the stack a whole word begins */
    const unsigned char *stack;
};

struct recording {
    const struct object *objects;
    const struct space *spaces;
    const struct sample *samples;
    size_t object_count, space_count, sample_count;
};

/* Maps a recording and its objects; says what is wrong and exits where it cannot. */
struct recording *recording_open(const char *path);

/* The module that an address is in, or NULL. */
const struct module *recording_module(const struct space *space, uint64_t address);

/* The bytes at an address, in the stack's copy or in a file; NULL where not all of them are known.

   This is how every engine but libgcc reads memory: word by word where its interface is such, through recording_read. */
const unsigned char *recording_bytes(const struct sample *sample, uint64_t address, uint64_t size);

/* The word at an address, of a struct sample; false where it is not known. */
bool recording_read(void *sample, uint64_t address, uint64_t *value);

/* Whether nothing called the code at an address, which is looked up as it is. */
int recording_outermost(const struct space *space, uint64_t address);

#endif
