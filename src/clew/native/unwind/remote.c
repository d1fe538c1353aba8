/* Steps of a walk through another program; see remote.h. */
#include "remote.h"

#include <stdlib.h>
#include <string.h>

#include "../packed_check.h"

struct remote_module {
    uint64_t start, end, bias;
    struct clew_table table;
};

struct clew_remote {
    int machine;
    clew_read_t read;
    void *argument;
    struct remote_module *modules; /* sorted by start */
    size_t count, room;
};

static int load(const clew_remote_t *remote, uint64_t address, uint32_t size, uint64_t *into) {
    uint64_t value = 0;
    if (remote->read(remote->argument, address, &value, size))
        return 0;
    *into = value;
    return 1;
}

#undef CLEW_LOAD
#undef CLEW_PREFIX
#undef CLEW_WINDOW
#define CLEW_LOAD(memory, address, size, into) load(memory, address, size, into)
#define CLEW_PREFIX clew_remote_table_
#include "../step.h"

int clew_remote_machine(const clew_remote_t *remote) {
    return remote ? remote->machine : CFI_MACHINE;
}

clew_remote_t *clew_remote_new(int machine, clew_read_t read, void *argument) {
    if ((machine != CLEW_X86_64 && machine != CLEW_AARCH64) || !read)
        return NULL;
    clew_remote_t *remote = calloc(1, sizeof *remote);
    if (remote) {
        remote->machine = machine;
        remote->read = read;
        remote->argument = argument;
    }
    return remote;
}

void clew_remote_free(clew_remote_t *remote) {
    if (remote)
        free(remote->modules);
    free(remote);
}

int clew_remote_module(clew_remote_t *remote, const void *table, size_t size, uint64_t start, uint64_t end, uint64_t bias) {
    struct remote_module module = {.start = start, .end = end, .bias = bias};
    if (!remote || !table || (uintptr_t)table % 32 || end <= start)
        return CLEW_REFUSED_ARGUMENT;
    if (clew_packed_open(table, size, 1, &module.table) != CLEW_PACKED_SOUND ||
        module.table.header->machine != remote->machine)
        return CLEW_REFUSED_TABLE;
    if (remote->count == remote->room) {
        size_t room = remote->room ? 2 * remote->room : 16;
        struct remote_module *modules = realloc(remote->modules, room * sizeof *modules);
        if (!modules)
            return CLEW_REFUSED_MEMORY;
        remote->modules = modules;
        remote->room = room;
    }
    size_t at = remote->count++;
    for (; at && remote->modules[at - 1].start > start; at--)
        remote->modules[at] = remote->modules[at - 1];
    remote->modules[at] = module;
    return 0;
}

static const struct remote_module *module_at(const clew_remote_t *remote, uint64_t address) {
    size_t low = 0, high = remote->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (remote->modules[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low && address < remote->modules[low - 1].end ? &remote->modules[low - 1] : NULL;
}

int clew_remote_step(const clew_remote_t *remote, struct clew_frame *frame, int interrupted) {
    uint64_t pc = frame->r[CLEW_PC(remote->machine)];
    const struct remote_module *module = module_at(remote, pc - (interrupted ? 0 : 1));
    if (!module)
        return WALK_NO_MODULE;
    if (remote->machine == CLEW_AARCH64)
        return clew_remote_table_step(CLEW_AARCH64, &module->table, module->bias, frame, interrupted, (void *)remote);
    return clew_remote_table_step(CLEW_X86_64, &module->table, module->bias, frame, interrupted, (void *)remote);
}
