/* What `clew compile` makes of a file: the paper's tree with the paper's context, and functions with every register. Memory is
   loaded as it is. */
#include "lookup.h"

#include <dlfcn.h>
#include <stdlib.h>

/* As in the sources that clew writes. */
typedef struct {
    uint8_t flags;
    uintptr_t rip, rsp, rbp, rbx;
} unwind_context_t;

struct clew_frame {
    uint64_t known;
    uint64_t r[17];
};

typedef unwind_context_t paper_function(unwind_context_t context, uintptr_t pc);
typedef int full_function(struct clew_frame *frame, uintptr_t pc);

enum { RIP = 16 };

/* A function is handed on by a pointer to it, since C has no way from a function's pointer to void *. */
static void *open_function(const char *path, const char *symbol, const char **reason)
{
    void *library = path[0] ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    void **function = malloc(sizeof *function);
    *reason = path[0] ? "it cannot be loaded" : "not built";
    *function = library ? dlsym(library, symbol) : NULL;
    return *function ? function : NULL;
}

static void *open_tree(const struct lookup_input *input, const char **reason)
{
    return open_function(input->tree, "_eh_elf", reason);
}

static void *open_paper_tree(const struct lookup_input *input, const char **reason)
{
    return open_function(input->paper_tree, "_eh_elf", reason);
}

static void *open_c(const struct lookup_input *input, const char **reason)
{
    return open_function(input->compiled_c, "clew_unwind", reason);
}

static void *open_assembler(const struct lookup_input *input, const char **reason)
{
    return open_function(input->compiled_asm, "clew_unwind", reason);
}

static inline struct lookup_result paper_step(const void *self, const struct lookup_input *input, uint64_t address)
{
    paper_function *function = *(paper_function *const *)self;
    unwind_context_t out = function((unwind_context_t){15, 0, input->stack, input->stack, input->stack}, address);
    return (struct lookup_result){out.rip, out.rsp, out.rbp};
}

static inline struct lookup_result full_step(const void *self, const struct lookup_input *input, uint64_t address)
{
    full_function *function = *(full_function *const *)self;
    struct clew_frame frame;
    frame.known = (UINT64_C(1) << 17) - 1;
    frame.r[LOOKUP_RBX] = frame.r[LOOKUP_RBP] = frame.r[LOOKUP_RSP] = input->stack;
    frame.r[RIP] = address;
    function(&frame, address);
    return (struct lookup_result){frame.r[RIP], frame.r[LOOKUP_RSP], frame.r[LOOKUP_RBP]};
}

LOOKUP_FUNCTIONS(paper, paper_step)
LOOKUP_FUNCTIONS(full, full_step)

const struct lookup lookups[] = {
    {.name = "the paper's if/else tree", .open = open_paper_tree, .run = paper_run, .run_apart = paper_run_apart, .one = paper_one},
    {.name = "clew's tree in the paper's form", .open = open_tree, .run = paper_run, .run_apart = paper_run_apart, .one = paper_one},
    {.name = "clew C backend", .open = open_c, .run = full_run, .run_apart = full_run_apart, .one = full_one},
    {.name = "clew asm backend", .open = open_assembler, .run = full_run, .run_apart = full_run_apart, .one = full_one},
    {0},
};
