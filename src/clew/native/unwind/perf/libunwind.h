/*
 * The part of libunwind's interface for other programs (libunwind 1.6, x86-64) that perf uses: layouts and numbers.
 */
#ifndef CLEW_PERF_LIBUNWIND_H
#define CLEW_PERF_LIBUNWIND_H

#include <stddef.h>
#include <stdint.h>

typedef uint64_t word_t;
typedef struct space *space_t;
typedef struct cursor cursor_t; /* 127 words, the caller's */

#define CURSOR_WORDS 127

enum { EUNSPEC = 1, EBADREG = 3, EINVALIDIP = 6, EBADFRAME = 7, EINVAL_ = 8, ENOINFO = 10 };
enum { FORMAT_REMOTE_TABLE = 2 };

struct proc_info {
    word_t start_ip, end_ip, lsda, handler, gp, flags;
    int format, unwind_info_size;
    void *unwind_info;
};

struct accessors {
    int (*find_proc_info)(space_t, word_t, struct proc_info *, int, void *);
    void (*put_unwind_info)(space_t, struct proc_info *, void *);
    int (*get_dyn_info_list_addr)(space_t, word_t *, void *);
    int (*access_mem)(space_t, word_t, word_t *, int, void *);
    int (*access_reg)(space_t, int, word_t *, int, void *);
    int (*access_fpreg)(space_t, int, void *, int, void *);
    int (*resume)(space_t, cursor_t *, void *);
    int (*get_proc_name)(space_t, word_t, char *, size_t, word_t *, void *);
};

/* A table of another program, as find_proc_info gives it to dwarf_search_unwind_table. */
struct dyn_info {
    struct dyn_info *next, *prev;
    word_t start_ip, end_ip, gp;
    int32_t format, pad;
    word_t load_offset;
    struct {
        word_t name_ptr, segbase, table_len, table_data;
    } table;
};

#endif
