/* The memory of a sample, the same for every engine. */
#include "recording.h"

#include <string.h>

const struct module *recording_module(const struct space *space, uint64_t address)
{
    const struct module *modules = space->modules;
    size_t low = 0, high = space->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (modules[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < space->count && modules[low].start <= address ? &modules[low] : NULL;
}

static __attribute__((noinline)) const unsigned char *bytes_of_file(const struct space *space, uint64_t address, uint64_t size)
{
    const struct module *module = recording_module(space, address);
    if (!module)
        return NULL;
    const struct object *object = module->object;
    for (size_t i = 0; i < object->segment_count; i++) {
        const struct segment *segment = &object->segments[i];
        uint64_t at = address - module->bias - segment->start;
        if (size <= segment->size && at <= segment->size - size)
            return object->bytes + segment->offset + at;
    }
    return NULL;
}

const unsigned char *recording_bytes(const struct sample *sample, uint64_t address, uint64_t size)
{
    uint64_t offset = address - sample->stack_start;
    if (size <= sample->stack_size && offset <= sample->stack_size - size)
        return sample->stack + offset;
    return bytes_of_file(sample->space, address, size);
}

static __attribute__((noinline)) bool read_of_file(const struct space *space, uint64_t address, uint64_t *value)
{
    const unsigned char *bytes = bytes_of_file(space, address, sizeof *value);
    if (bytes)
        memcpy(value, bytes, sizeof *value);
    return bytes;
}

bool recording_read(void *argument, uint64_t address, uint64_t *value)
{
    const struct sample *sample = argument;
    uint64_t offset = address - sample->stack_start;
    /* What is in the stack's copy is read without anything else being called. */
    if (offset >= sample->stack_words)
        return read_of_file(sample->space, address, value);
    memcpy(value, sample->stack + offset, sizeof *value);
    return true;
}

int recording_outermost(const struct space *space, uint64_t address)
{
    const struct module *module = recording_module(space, address);
    if (!module)
        return 0;
    const struct object *object = module->object;
    for (size_t i = 0; i < object->outermost_count; i++)
        if (address - module->bias - object->outermost[i].start < object->outermost[i].end - object->outermost[i].start)
            return 1;
    return 0;
}
