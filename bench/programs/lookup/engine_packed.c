/* clew's packed table and step.h: every integer register, bounds of the memory checked, and that the stack goes on. */
#include "lookup.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define CLEW_REGISTERS 17
#define CLEW_WINDOW(memory, address, size) window(memory, address, size)
#define CLEW_LOAD(memory, address, size, into) load(memory, address, size, into)

static inline const unsigned char *window(const void *memory, uint64_t address, uint64_t size)
{
    const struct lookup_input *input = memory;
    uint64_t offset = address - input->low, room = input->high - input->low;
    return size <= room && offset <= room - size ? (const unsigned char *)address : NULL;
}

static inline int load(const void *memory, uint64_t address, unsigned size, uint64_t *value)
{
    const unsigned char *bytes = window(memory, address, size);
    if (!bytes)
        return 0;
    *value = 0;
    __builtin_memcpy(value, bytes, size);
    return 1;
}

#include "step.h"

#include "packed_check.h"

static void *open_table(const struct lookup_input *input, const char **reason)
{
    struct stat status;
    struct clew_table *table = calloc(1, sizeof *table);
    int descriptor = input->packed[0] ? open(input->packed, O_RDONLY | O_CLOEXEC) : -1;
    *reason = "there is no packed table";
    if (descriptor < 0 || fstat(descriptor, &status))
        return NULL;
    void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, descriptor, 0);
    close(descriptor);
    *reason = "its packed table is not sound";
    return bytes == MAP_FAILED || clew_packed_open(bytes, (size_t)status.st_size, 1, table) ? NULL : table;
}

static inline __attribute__((always_inline)) struct lookup_result step(const void *self, const struct lookup_input *input,
                                                                       uint64_t address)
{
    struct clew_frame frame;
    frame.known = (UINT64_C(1) << CLEW_REGISTERS) - 1;
    frame.r[LOOKUP_RBX] = frame.r[LOOKUP_RBP] = frame.r[LOOKUP_RSP] = input->stack;
    frame.r[CLEW_X86_64_PC] = address;
    /* As a pc that was interrupted: the address is looked up as it is. */
    clew_step(CLEW_X86_64, self, 0, &frame, 1, (void *)input);
    return (struct lookup_result){frame.r[CLEW_X86_64_PC], frame.r[LOOKUP_RSP], frame.r[LOOKUP_RBP]};
}

LOOKUP_FUNCTIONS(packed, step)

const struct lookup lookups[] = {
    {.name = "clew packed table", .open = open_table, .run = packed_run, .run_apart = packed_run_apart, .one = packed_one},
    {0},
};
