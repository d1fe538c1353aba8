/* Tables from the cache: $XDG_CACHE_HOME/clew/tables/, by build id, as clew.write.packed lays it out. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../packed_check.h"
#include "modules.h"

/* The name of a build id's file; 0 if it does not fit. */
static int name_of(const uint8_t *id, uint32_t size, char *name, size_t room) {
    const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    int length = cache && cache[0] == '/' ? snprintf(name, room, "%s/clew/tables/", cache)
                 : home && home[0] == '/' ? snprintf(name, room, "%s/.cache/clew/tables/", home)
                                          : 0;
    if (length <= 0 || size < 2 || (size_t)length + 2 * size + sizeof "/.packed" > room)
        return 0;
    char *at = name + length;
    for (uint32_t i = 0; i < size; i++)
        at += sprintf(at, i == 1 ? "/%02x" : "%02x", id[i]);
    strcpy(at, ".packed");
    return 1;
}

/*
 * A file that somebody else can write is not believed: the check makes a hostile table harmless, not true. And one that is
 * written over while it is mapped would be read unchecked.
 */
static int trusted(int file, struct stat *status) {
    return !fstat(file, status) && S_ISREG(status->st_mode) && (status->st_uid == geteuid() || !status->st_uid) &&
           !(status->st_mode & (S_IWGRP | S_IWOTH)) && status->st_size > 0 && status->st_size < 1l << 32;
}

/*
 * Whether a table is of this very module: a build id is only a claim. `source` says what sections it was made of; it is
 * .eh_frame and nothing else, or what else there was is not in memory, and the table is as good as none.
 */
static int is_of(const struct clew_table *table, const struct module *module) {
    const struct clew_packed_header *header = table->header;
    const struct layout *layout = &module->layout;
    struct cfi_bytes bytes;
    uint64_t size = header->source >> 32;
    if (header->machine != CFI_MACHINE || header->build_id_size != layout->build_id_size ||
        memcmp(header->build_id, layout->build_id, layout->build_id_size))
        return 0;
    if (!header->source)
        return 1; /* whoever wrote it did not know */
    uint64_t eh_frame = clew_eh_frame(layout, (uint64_t)(uintptr_t)module->header);
    return eh_frame && !clew_layout_bytes(layout, eh_frame, &bytes) && size <= (uint64_t)(bytes.end - bytes.at) &&
           clew_crc(bytes.at, size) == (uint32_t)header->source;
}

int clew_cached_table(const struct module *module, struct clew_table *table) {
    char name[4096];
    struct stat status;
    int saved = errno, answer = -1;
    if (!module->layout.build_id || !name_of(module->layout.build_id, module->layout.build_id_size, name, sizeof name))
        return -1;
    int file = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); /* not to wait for who writes into a pipe */
    if (file < 0) {
        errno = saved;
        return -1;
    }
    if (trusted(file, &status)) {
        size_t bytes = (size_t)status.st_size;
        void *at = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0);
        if (at != MAP_FAILED) {
            if (clew_packed_open(at, bytes, 1, table) == CLEW_PACKED_SOUND && is_of(table, module))
                answer = 0;
            else
                munmap(at, bytes);
        }
    }
    close(file);
    errno = saved;
    return answer;
}
