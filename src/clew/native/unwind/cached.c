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

int clew_cached_table(const uint8_t *id, uint32_t size, struct clew_table *table) {
    char name[4096];
    struct stat status;
    int saved = errno, answer = -1;
    if (!name_of(id, size, name, sizeof name))
        return -1;
    int file = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) {
        errno = saved;
        return -1;
    }
    if (trusted(file, &status)) {
        size_t bytes = (size_t)status.st_size;
        void *at = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0);
        if (at != MAP_FAILED) {
            int problem = clew_packed_open(at, bytes, 1, table);
            if (problem == CLEW_PACKED_SOUND && table->header->machine == CFI_MACHINE &&
                table->header->build_id_size == size && !memcmp(table->header->build_id, id, size))
                answer = 0;
            else
                munmap(at, bytes);
        }
    }
    close(file);
    errno = saved;
    return answer;
}
