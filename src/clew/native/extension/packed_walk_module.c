/* clew.native.packed_walk: samples walked by packed tables, as a module of Python (limited API of 3.11). */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "packed_walk.h"

/* A file's packed table, opened once for all processes that have it. */
enum { HELD = 4 };
typedef struct {
    PyObject_HEAD
    struct file file;
    Py_buffer held[HELD];
} File;

typedef struct {
    PyObject_HEAD
    PyObject *load; /* load(number) -> None or a File */
    PyTypeObject *file_type;
    struct walker *walker;
} Walker;

/* What the module keeps: its types. */
typedef struct {
    PyTypeObject *file, *walker;
} State;

static void file_dealloc(PyObject *object) {
    File *self = (File *)object;
    PyTypeObject *type = Py_TYPE(object);
    for (int i = 0; i < HELD; i++)
        if (self->held[i].obj)
            PyBuffer_Release(&self->held[i]);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyObject *file_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    static char *names[] = {"table", "plain", "special_start", "special_end", 0};
    PyObject *given[HELD];
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OOOO", names, &given[0], &given[1], &given[2], &given[3]))
        return 0;
    File *self = (File *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self)
        return 0;
    for (int i = 0; i < HELD; i++)
        if (PyObject_GetBuffer(given[i], &self->held[i], PyBUF_SIMPLE) < 0) {
            self->held[i].obj = 0;
            Py_DECREF(self);
            return 0;
        }
    struct file *file = &self->file;
    const Py_buffer *held = self->held;
    file->specials = (size_t)held[2].len / 8;
    file->plain = held[1].buf, file->special_start = held[2].buf, file->special_end = held[3].buf;
    /* What was checked must stay as it is. */
    if ((uintptr_t)held[0].buf % 8 || (uintptr_t)held[2].buf % 8 || (uintptr_t)held[3].buf % 8 ||
        held[3].len != held[2].len || !held[0].readonly || clew_packed_open(held[0].buf, (size_t)held[0].len, 1, &file->table) ||
        (size_t)held[1].len < file->table.header->rules.count) {
        PyErr_SetString(PyExc_ValueError, "this is no sound packed table, or what belongs to it does not fit");
        Py_DECREF(self);
        return 0;
    }
    return (PyObject *)self;
}

/* The walker of the object, so that who asks for a module finds the object. */
struct asking {
    struct walker walker;
    Walker *self;
};

static int ask(struct walker *walker, size_t number) {
    Walker *self = ((struct asking *)walker)->self;
    struct module *asked = &walker->modules[number];
    if (!self->load) { /* the collector has taken it */
        PyErr_SetString(PyExc_ReferenceError, "the walker is being collected");
        return -1;
    }
    PyObject *given = PyObject_CallFunction(self->load, "n", (Py_ssize_t)number);
    if (!given)
        return -1;
    if (asked->asked) { /* it was asked for meanwhile, by another thread or by load() itself: the first answer stays */
        Py_DECREF(given);
        return 0;
    }
    if (given == Py_None) {
        Py_DECREF(given);
    } else if (Py_IS_TYPE(given, self->file_type) && ((File *)given)->file.table.header->machine == walker->machine) {
        asked->held = given;
        asked->file = &((File *)given)->file;
    } else {
        Py_DECREF(given);
        PyErr_SetString(PyExc_TypeError, "load() has to give a PackedFile of this machine, or None");
        return -1;
    }
    asked->asked = 1;
    return 0;
}

/* load() may know who has the walker: a circle, which the garbage collector finds by this. The files know nobody. */
static int walker_traverse(PyObject *object, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((Walker *)object)->load);
    return 0;
}

static int walker_clear(PyObject *object) {
    Py_CLEAR(((Walker *)object)->load);
    return 0;
}

static void walker_dealloc(PyObject *object) {
    Walker *self = (Walker *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    if (self->walker) {
        for (size_t i = 0; i < self->walker->count; i++)
            Py_XDECREF((PyObject *)self->walker->modules[i].held);
        PyMem_Free(self->walker->modules);
        PyMem_Free(self->walker);
    }
    Py_XDECREF(self->load);
    Py_XDECREF((PyObject *)self->file_type);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

/* The elements of a buffer, or an error that names it. */
static const void *elements(PyObject *object, Py_buffer *view, size_t width, size_t count, int writable, const char *name) {
    if (PyObject_GetBuffer(object, view, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) < 0) {
        view->obj = 0;
        return 0;
    }
    if ((size_t)view->len < width * count || (uintptr_t)view->buf % width) {
        PyErr_Format(PyExc_ValueError, "%s has too few elements, or not of their size", name);
        return 0;
    }
    return view->buf;
}

static PyObject *walker_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    static char *names[] = {"machine", "code_mask", "load", "start", "end", "bias", 0};
    int machine;
    unsigned long long code_mask;
    PyObject *load, *columns[3];
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "iKOOOO", names, &machine, &code_mask, &load, &columns[0],
                                     &columns[1], &columns[2]))
        return 0;
    if (machine != CLEW_X86_64 && machine != CLEW_AARCH64) {
        PyErr_SetString(PyExc_ValueError, "there is no such machine");
        return 0;
    }
    Walker *self = (Walker *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self)
        return 0;
    Py_INCREF(load);
    self->load = load;
    State *state = PyType_GetModuleState(type);
    if (!state || !state->file) {
        Py_DECREF(self);
        return 0;
    }
    self->file_type = state->file;
    Py_INCREF((PyObject *)self->file_type);
    struct asking *asking = PyMem_Calloc(1, sizeof *asking);
    if (!asking) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    asking->self = self;
    struct walker *walker = self->walker = &asking->walker;
    walker->machine = machine;
    walker->code_mask = code_mask;
    walker->ask = ask;
    clew_known_forget(&walker->cache);
    Py_buffer views[3] = {{0}};
    const uint64_t *values[3];
    int good = 1;
    size_t count = 0;
    for (int i = 0; good && i < 3; i++) {
        values[i] = elements(columns[i], &views[i], 8, count, 0, names[3 + i]);
        good = values[i] != 0;
        if (good && !i)
            count = (size_t)views[0].len / 8;
    }
    if (good && !(walker->modules = PyMem_Calloc(count + 1, sizeof *walker->modules))) {
        PyErr_NoMemory();
        good = 0;
    }
    for (size_t i = 0; good && i < count; i++) {
        struct module *each = &walker->modules[i];
        each->start = values[0][i], each->end = values[1][i], each->bias = values[2][i];
        if (i && each->start < each[-1].end) {
            PyErr_SetString(PyExc_ValueError, "modules overlap, or are out of order");
            good = 0;
        }
    }
    walker->count = good ? count : 0;
    for (int i = 0; i < 3; i++)
        if (views[i].obj)
            PyBuffer_Release(&views[i]);
    if (good)
        return (PyObject *)self;
    Py_DECREF(self);
    return 0;
}

enum {
    BUFFER, WHICH, SP, STACK_OFFSET, STACK_SIZE, REGISTERS, RESTARTED, SLOTS, /* what is read */
    PC, MODULE, FIRST, SIZE, REASON, IN_CALL,                                 /* what is written */
    COLUMNS,
};

static PyObject *walker_walk(PyObject *object, PyObject *arguments) {
    static const size_t width[COLUMNS] = {1, 8, 8, 8, 4, 8, 1, 1, 8, 4, 4, 4, 1, 1};
    static const char *const names[COLUMNS] = {"buffer", "which", "sp", "stack_offset", "stack_size", "registers_offset",
                                               "restarted", "slots", "pc", "module", "first", "size", "reason", "in_call"};
    struct walker *walker = ((Walker *)object)->walker;
    PyObject *given[COLUMNS], *result = 0;
    Py_ssize_t begin, used, limit;
    int witness;
    if (!PyArg_ParseTuple(arguments, "OOOOOOOOOOOOOOinnn", &given[0], &given[1], &given[2], &given[3], &given[4], &given[5],
                          &given[6], &given[7], &given[8], &given[9], &given[10], &given[11], &given[12], &given[13],
                          &witness, &limit, &begin, &used))
        return 0;
    Py_buffer views[COLUMNS] = {{0}};
    int good = 1;
    for (int i = 0; good && i < COLUMNS; i++)
        good = elements(given[i], &views[i], width[i], 0, i >= PC, names[i]) != 0;
    size_t samples = good ? (size_t)views[SP].len / 8 : 0;
    static const int per_sample[] = {STACK_OFFSET, STACK_SIZE, REGISTERS, RESTARTED, FIRST, SIZE, REASON, IN_CALL};
    for (size_t i = 0; good && i < sizeof per_sample / sizeof *per_sample; i++)
        good = (size_t)views[per_sample[i]].len >= width[per_sample[i]] * samples;
    size_t room = good ? (size_t)views[PC].len / 8 : 0, bytes = (size_t)views[BUFFER].len;
    size_t count = (size_t)views[WHICH].len / 8, words = (size_t)views[SLOTS].len;
    if (good && ((size_t)views[MODULE].len < 4 * room || begin < 0 || used < 0 || (size_t)used > room || limit < 0))
        good = 0;
    if (!good && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "columns of samples have to be of one length");
    struct frames frames = {views[PC].buf, views[MODULE].buf, (size_t)used, room};
    size_t done = (size_t)begin;
    for (; good && done < count; done++) {
        int64_t index = ((const int64_t *)views[WHICH].buf)[done];
        uint64_t offset, size, registers;
        if (index < 0 || (uint64_t)index >= samples)
            goto outside;
        offset = ((const uint64_t *)views[STACK_OFFSET].buf)[index];
        size = ((const uint32_t *)views[STACK_SIZE].buf)[index];
        registers = ((const uint64_t *)views[REGISTERS].buf)[index];
        if (size > bytes || offset > bytes - size || 8 * words > bytes || registers > bytes - 8 * words)
            goto outside;
        struct sample sample = {
            .registers = (const uint8_t *)views[BUFFER].buf + registers,
            .slots = views[SLOTS].buf,
            .words = words,
            .stack = (const uint8_t *)views[BUFFER].buf + offset,
            .sp = ((const uint64_t *)views[SP].buf)[index],
            .size = size,
            .restarted = ((const uint8_t *)views[RESTARTED].buf)[index],
            .witness = (unsigned)witness,
        };
        int in_call = 0;
        size_t first = frames.used;
        int reason = clew_walk_sample(walker, &sample, (size_t)limit, &frames, &in_call);
        if (reason == -1)
            break;
        if (reason < 0)
            good = 0;
        ((uint8_t *)views[IN_CALL].buf)[index] = (uint8_t)in_call;
        ((uint8_t *)views[REASON].buf)[index] = reason < 0 ? UNUSUAL : (uint8_t)reason;
        ((uint32_t *)views[FIRST].buf)[index] = (uint32_t)first;
        ((uint32_t *)views[SIZE].buf)[index] = (uint32_t)(frames.used - first);
    }
    if (good)
        result = Py_BuildValue("nn", (Py_ssize_t)done, (Py_ssize_t)frames.used);
    goto out;
outside:
    PyErr_SetString(PyExc_IndexError, "a sample is outside of the buffer");
out:
    for (int i = 0; i < COLUMNS; i++)
        if (views[i].obj)
            PyBuffer_Release(&views[i]);
    return result;
}

PyDoc_STRVAR(walk_doc, "walk(buffer, which, sp, stack_offset, stack_size, registers_offset, restarted, slots, pc, module, first, "
                       "size, reason, in_call, witness, limit, begin, used)\n--\n\n"
                       "Walks the samples `which` from number `begin` on, while there is room for their frames behind the\n"
                       "`used` that there are: how many of them are done, and how many frames there are then.");
static PyMethodDef walker_methods[] = {{"walk", walker_walk, METH_VARARGS, walk_doc}, {0}};
PyDoc_STRVAR(walker_doc, "PackedWalker(machine, code_mask, load, start, end, bias)\n--\n\n"
                         "Walks samples of one process by the packed tables of its modules; load(number) gives one's.");
static PyType_Slot walker_slots[] = {{Py_tp_dealloc, walker_dealloc},
                                     {Py_tp_traverse, walker_traverse},
                                     {Py_tp_clear, walker_clear},
                                     {Py_tp_new, walker_new},
                                     {Py_tp_methods, walker_methods},
                                     {Py_tp_doc, (void *)walker_doc},
                                     {0, 0}};
static PyType_Spec walker_spec = {"clew.native.packed_walk.PackedWalker", sizeof(Walker), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                                  walker_slots};
PyDoc_STRVAR(file_doc, "PackedFile(table, plain, special_start, special_end)\n--\n\n"
                       "A packed table, checked; whether each of its rules may be applied; and intervals of addresses, both ends\n"
                       "included, whose frames are left to others. ValueError if the table is not sound, or may be written to.");
static PyType_Slot file_slots[] = {{Py_tp_dealloc, file_dealloc}, {Py_tp_new, file_new}, {Py_tp_doc, (void *)file_doc}, {0, 0}};
static PyType_Spec file_spec = {"clew.native.packed_walk.PackedFile", sizeof(File), 0, Py_TPFLAGS_DEFAULT, file_slots};

static int module_exec(PyObject *self) {
    State *state = PyModule_GetState(self);
    state->file = (PyTypeObject *)PyType_FromModuleAndSpec(self, &file_spec, 0);
    state->walker = (PyTypeObject *)PyType_FromModuleAndSpec(self, &walker_spec, 0);
    if (!state->file || !state->walker || PyModule_AddObjectRef(self, "PackedFile", (PyObject *)state->file) < 0)
        return -1;
    return PyModule_AddObjectRef(self, "PackedWalker", (PyObject *)state->walker);
}

static void module_free(void *self) {
    State *state = PyModule_GetState(self);
    Py_CLEAR(state->file);
    Py_CLEAR(state->walker);
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, 0}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "packed_walk", .m_doc = "Samples walked by packed tables.",
                             .m_size = sizeof(State), .m_slots = module_slots, .m_free = module_free};

PyMODINIT_FUNC PyInit_packed_walk(void) {
    return PyModuleDef_Init(&module);
}
