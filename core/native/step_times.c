/* The C form of `nodescope.record.step_times.step_page.StepPage.executed`, and of what precedes it in
   `step_ledger`, for executions that follow one another. It keeps the interpreter's lock: getting it back may
   take longer. */
#include "step_times.h"

#include <stdint.h>
#include <string.h>

/* Columns of an execution, and the stop of a step that has none. */
enum { SEQ, NODE, STEP, START, DURATION, COLUMNS };
#define NONE (-1)

typedef struct {
    const int64_t *all;
    Py_ssize_t many;
    Py_buffer view;
} Numbers;

/* The steps of a page, in ascending order, and their stops; and the parts of nodes, NONE for others. */
typedef struct {
    Numbers rows, parts, numbers, stops;
    int64_t sealed, after; /* the last step of earlier pages; what is added to a part after its step */
} Book;

/* Take the int64 of a contiguous buffer, to be released; -1 with an exception set. */
static int take(PyObject *object, Numbers *numbers) {
    if (PyObject_GetBuffer(object, &numbers->view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0) return -1;
    const char *kind = numbers->view.format ? numbers->view.format : "B";
    numbers->all = numbers->view.buf;
    numbers->many = numbers->view.len / 8;
    if (numbers->view.itemsize == 8 && (!strcmp(kind, "l") || !strcmp(kind, "q")) &&
        (uintptr_t)numbers->all % 8 == 0)
        return 0;
    PyBuffer_Release(&numbers->view);
    PyErr_SetString(PyExc_ValueError, "step times are made of int64");
    return -1;
}

/* The place of a step on the page, or NONE. */
static Py_ssize_t place_of(const Book *book, int64_t step) {
    Py_ssize_t low = 0, high = book->numbers.many;
    while (low < high) {
        Py_ssize_t middle = low + (high - low) / 2;
        if (book->numbers.all[middle] < step) low = middle + 1;
        else high = middle;
    }
    return low < book->numbers.many && book->numbers.all[low] == step ? low : NONE;
}

/* Fill the latest end before each execution, and after the last; and places, columns and amounts of what is
   added. Returns the number of the latter; NONE if executions overlap out of order, or belong to a sealed step. */
static Py_ssize_t fill(const Book *book, int64_t cover, int64_t *covered, int64_t *additions) {
    const int64_t *row = book->rows.all, *end = row + book->rows.many;
    int64_t before = 0, step = 0;
    Py_ssize_t many = 0, place = NONE;
    for (*covered++ = cover; row < end; row += COLUMNS, *covered++ = cover) {
        int64_t start = row[START], stop = (int64_t)((uint64_t)start + (uint64_t)row[DURATION]);
        int64_t from = start > cover ? start : cover;
        if (row > book->rows.all && start <= before) return NONE;
        before = start;
        if (stop > cover) cover = stop;
        int64_t part = row[NODE] >= 0 && row[NODE] < book->parts.many ? book->parts.all[row[NODE]] : NONE;
        if (part == NONE) continue;
        if (row[STEP] <= book->sealed) return NONE;
        if (place == NONE || row[STEP] != step) place = place_of(book, step = row[STEP]);
        if (place == NONE) continue;
        if (book->stops.all[place] != NONE && start >= book->stops.all[place]) part += book->after;
        int64_t *last = additions + 3 * (many - 1), alone = stop > from ? stop - from : 0;
        if (many && last[0] == place && last[1] == part) last[2] += alone;
        else {
            int64_t addition[3] = {place, part, alone};
            memcpy(additions + 3 * many++, addition, sizeof addition);
        }
    }
    return many;
}

PyDoc_STRVAR(step_additions_doc,
"step_additions(rows, cover, parts, numbers, stops, sealed, after)\n--\n\n"
"What executions that follow one another add to the steps of a page.\n\n"
"Args:\n"
"    rows: Seq, node, step, start and duration of each execution, int64.\n"
"    cover: The latest end before them.\n"
"    parts: The part of each node, by its id; -1 for nodes that are no operations.\n"
"    numbers, stops: The steps of the page, ascending, and when they ended, or -1.\n"
"    sealed: The last step before the page.\n"
"    after: What is added to the part of executions after the end of their step.\n\n"
"Returns:\n"
"    Two bytes objects, int64: the latest end before each execution, and after the last; place, part and\n"
"    nanoseconds of each addition. None if the executions did not start one after the other, or if some\n"
"    belong to earlier steps.\n");

static PyObject *py_step_additions(PyObject *module, PyObject *arguments) {
    PyObject *objects[4], *covered = NULL, *additions = NULL, *all = NULL;
    long long cover, sealed, after;
    if (!PyArg_ParseTuple(arguments, "OLOOOLL", objects, &cover, objects + 1, objects + 2, objects + 3, &sealed,
                          &after))
        return NULL;
    Book book = {.sealed = sealed, .after = after};
    Numbers *numbers[] = {&book.rows, &book.parts, &book.numbers, &book.stops};
    int taken = 0;
    while (taken < 4 && take(objects[taken], numbers[taken]) == 0) taken++;
    if (taken == 4 && (book.rows.many % COLUMNS || book.stops.many != book.numbers.many))
        PyErr_SetString(PyExc_ValueError, "these are no executions, or no steps");
    else if (taken == 4) {
        Py_ssize_t rows = book.rows.many / COLUMNS, many = NONE;
        covered = PyBytes_FromStringAndSize(NULL, 8 * (rows + 1));
        int64_t *room = PyMem_Malloc(24 * (size_t)rows + 1);
        if (covered && room) many = fill(&book, cover, (int64_t *)PyBytes_AsString(covered), room);
        if (many != NONE && (additions = PyBytes_FromStringAndSize((const char *)room, 24 * many)))
            all = PyTuple_Pack(2, covered, additions);
        else if (covered && room && many == NONE) all = Py_NewRef(Py_None);
        else if (!room) PyErr_NoMemory();
        PyMem_Free(room);
    }
    while (taken) PyBuffer_Release(&numbers[--taken]->view);
    Py_XDECREF(covered);
    Py_XDECREF(additions);
    return all;
}

static PyMethodDef functions[] = {
    {"step_additions", py_step_additions, METH_VARARGS, step_additions_doc},
    {NULL, NULL, 0, NULL},
};

int add_step_times(PyObject *module) { return PyModule_AddFunctions(module, functions); }
