/* elfutils' libdwfl: a Dwfl for each process, opened once, as perf has done since Linux 6.13; its modules are read from their
   files, the stack through recording_read. */
#include "engine.h"

#include <elfutils/libdwfl.h>
#include <stdlib.h>

enum { THREAD = 1 };

/* What libdwfl's functions are called with: the sample whose turn it is, and where its frames go. */
struct process {
    Dwfl *dwfl;
    const struct sample *sample;
    uint64_t *pcs;
    int count, most;
};

struct processes {
    const struct recording *recording;
    struct process each[];
};

static pid_t next_thread(Dwfl *dwfl, void *process, void **thread)
{
    *thread = process;
    return THREAD;
}

static bool get_thread(Dwfl *dwfl, pid_t number, void *process, void **thread)
{
    *thread = process;
    return true;
}

static bool memory_read(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *result, void *process)
{
    return recording_read((void *)((struct process *)process)->sample, address, result);
}

static bool set_initial_registers(Dwfl_Thread *thread, void *process)
{
    const uint64_t *registers = ((struct process *)process)->sample->registers;
    return dwfl_thread_state_registers(thread, 0, REGISTERS, registers);
}

static const Dwfl_Thread_Callbacks thread_callbacks = {
    .next_thread = next_thread,
    .get_thread = get_thread,
    .memory_read = memory_read,
    .set_initial_registers = set_initial_registers,
};

/* Nobody else looks for separate files with debug information. */
static int no_debuginfo(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base, const char *file, const char *link,
                        GElf_Word crc, char **debug)
{
    return -1;
}

static int no_elf(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base, char **file, Elf **elf)
{
    return -1;
}

static const Dwfl_Callbacks callbacks = {.find_elf = no_elf, .find_debuginfo = no_debuginfo};

static void *open(const struct recording *recording, const char **reason)
{
    struct processes *processes = calloc(1, sizeof *processes + recording->space_count * sizeof processes->each[0]);
    processes->recording = recording;
    for (size_t i = 0; i < recording->space_count; i++) {
        const struct space *space = &recording->spaces[i];
        struct process *process = &processes->each[i];
        Elf *machine = NULL;
        GElf_Addr bias;
        process->dwfl = dwfl_begin(&callbacks);
        for (size_t k = 0; k < space->count; k++) {
            const struct module *module = &space->modules[k];
            Dwfl_Module *added = dwfl_report_elf(process->dwfl, module->object->path, module->object->path, -1, module->bias, false);
            if (added && !machine)
                machine = dwfl_module_getelf(added, &bias);
        }
        dwfl_report_end(process->dwfl, NULL, NULL);
        if (space->count && !dwfl_attach_state(process->dwfl, machine, THREAD, &thread_callbacks, process)) {
            *reason = dwfl_errmsg(-1);
            return NULL;
        }
    }
    return processes;
}

static int on_frame(Dwfl_Frame *frame, void *argument)
{
    struct process *process = argument;
    Dwarf_Addr pc;
    bool activation;
    if (!dwfl_frame_pc(frame, &pc, &activation))
        return -1;
    process->pcs[process->count++] = pc;
    return process->count < process->most ? DWARF_CB_OK : DWARF_CB_ABORT;
}

static int unwind(void *self, const struct sample *sample, uint64_t *pcs, int most, enum ending *ending)
{
    struct processes *processes = self;
    struct process *process = &processes->each[sample->space - processes->recording->spaces];
    process->sample = sample;
    process->pcs = pcs;
    process->count = 0;
    process->most = most;
    *ending = dwfl_getthread_frames(process->dwfl, THREAD, on_frame, process) ? FAILED : ENDED;
    return process->count;
}

const struct engine engines[] = {
    {.name = "elfutils libdwfl", .open = open, .unwind = unwind},
    {0},
};
