/* _dl_find_object for the engine of libgcc: part of the replay itself, since libgcc asks the program first.

   It finds the modules of a sample while one is unwound, and what this process has loaded otherwise. */
#define _GNU_SOURCE
#include "recording.h"

#include <dlfcn.h>

const struct space *replay_found_space;

int _dl_find_object(void *address, struct dl_find_object *result)
{
    static int (*of_libc)(void *, struct dl_find_object *);
    const struct module *module = replay_found_space ? recording_module(replay_found_space, (uint64_t)address) : NULL;
    if (!module) {
        if (!of_libc)
            of_libc = (int (*)(void *, struct dl_find_object *))dlsym(RTLD_NEXT, "_dl_find_object");
        return of_libc ? of_libc(address, result) : -1;
    }
    if (!module->object->eh_frame_hdr_bytes)
        return -1;
    result->dlfo_map_start = (void *)module->start;
    result->dlfo_map_end = (void *)module->end;
    result->dlfo_eh_frame = (void *)(module->object->eh_frame_hdr.start + module->bias);
    return 0;
}
