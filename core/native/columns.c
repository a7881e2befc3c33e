/* The C form of `nodescope.record.timed.packing.column`, and of what is used with it. The functions keep
   the interpreter's lock: columns are short, and getting the lock back may take milliseconds. */
#include "columns.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define DIFFERENCES 1
#define RUNS 2
#define KINDS 7

/* Encodings from narrow to wide, as in the module above. */
static const struct {
    char code;
    int bytes;
    int64_t least, most;
} kinds[KINDS] = {
    {'B', 1, 0, UINT8_MAX}, {'b', 1, INT8_MIN, INT8_MAX}, {'H', 2, 0, UINT16_MAX},
    {'h', 2, INT16_MIN, INT16_MAX}, {'I', 4, 0, UINT32_MAX}, {'i', 4, INT32_MIN, INT32_MAX},
    {'q', 8, INT64_MIN, INT64_MAX},
};

/* The int64 of a buffer. `made` holds them if they are not as in the buffer. */
typedef struct {
    Py_buffer view;
    const int64_t *all;
    int64_t *made;
    Py_ssize_t many;
} Numbers;

/* Take the int64 of a buffer with one dimension, to be released. Returns 0 if it has another type or is
   empty, or -1 with an exception set; then nothing is to be released. */
static int take(PyObject *object, int differences, Numbers *numbers) {
    Py_buffer *view = &numbers->view;
    if (PyObject_GetBuffer(object, view, PyBUF_RECORDS_RO) < 0) return -1;
    const char *kind = view->format ? view->format : "B", *from = view->buf;
    numbers->many = view->ndim == 1 ? view->shape[0] : 0;
    numbers->made = NULL;
    if (!numbers->many || view->itemsize != 8 || (strcmp(kind, "l") && strcmp(kind, "q"))) {
        PyBuffer_Release(view);
        return 0;
    }
    Py_ssize_t stride = view->strides[0], many = numbers->many;
    numbers->all = (const int64_t *)from;
    if (stride == 8 && !differences && (uintptr_t)from % 8 == 0) return 1;
    int64_t *made = numbers->made = PyMem_Malloc(8 * (size_t)many);
    if (!made) {
        PyErr_NoMemory();
        PyBuffer_Release(view);
        return -1;
    }
    numbers->all = made;
    for (Py_ssize_t i = 0; i < many; i++) memcpy(made + i, from + i * stride, 8);
    if (!differences) return 1;
    for (Py_ssize_t i = many - 1; i > 0; i--)
        made[i] = (int64_t)((uint64_t)made[i] - (uint64_t)made[i - 1]);
    made[0] = 0;
    return 1;
}

static void release(Numbers *numbers) {
    PyBuffer_Release(&numbers->view);
    PyMem_Free(numbers->made);
}

static void narrowed(const int64_t *numbers, Py_ssize_t many, int bytes, char *to) {
    switch (bytes) {
    case 1:
        for (Py_ssize_t i = 0; i < many; i++) to[i] = (char)numbers[i];
        break;
    case 2:
        for (Py_ssize_t i = 0; i < many; i++, to += 2) {
            uint16_t number = (uint16_t)numbers[i];
            memcpy(to, &number, 2);
        }
        break;
    case 4:
        for (Py_ssize_t i = 0; i < many; i++, to += 4) {
            uint32_t number = (uint32_t)numbers[i];
            memcpy(to, &number, 4);
        }
        break;
    default:
        memcpy(to, numbers, 8 * (size_t)many);
    }
}

static PyObject *encoded(const int64_t *numbers, Py_ssize_t many, int runs) {
    int64_t low = numbers[0], high = numbers[0];
    Py_ssize_t changes = 1;
    for (Py_ssize_t i = 0; i < many; i++) {
        low = numbers[i] < low ? numbers[i] : low;
        high = numbers[i] > high ? numbers[i] : high;
    }
    int kind = 0;
    while (low < kinds[kind].least || high > kinds[kind].most) kind++;
    if (runs)
        for (Py_ssize_t i = 1; i < many; i++) changes += numbers[i] != numbers[i - 1];
    int shorter = runs && 16 * changes < kinds[kind].bytes * many;
    PyObject *column = PyBytes_FromStringAndSize(
        NULL, 1 + (shorter ? 16 * changes : kinds[kind].bytes * many));
    if (!column) return NULL;
    char *to = PyBytes_AsString(column);
    if (!shorter) {
        *to = kinds[kind].code;
        narrowed(numbers, many, kinds[kind].bytes, to + 1);
        return column;
    }
    *to++ = 'r';
    for (Py_ssize_t i = 0, first = 0; i < many; i++) {
        if (i + 1 < many && numbers[i + 1] == numbers[i]) continue;
        int64_t pair[2] = {numbers[i], i + 1 - first};
        memcpy(to, pair, sizeof pair);
        to += sizeof pair;
        first = i + 1;
    }
    return column;
}

PyDoc_STRVAR(column_doc,
"column(numbers, mode)\n--\n\n"
"Encode int64 of one dimension; None for other numbers, or none.\n\n"
"Args:\n"
"    numbers: Any object with a buffer.\n"
"    mode: 1 to encode the difference of each number from the one before, plus 2 to encode runs of equal\n"
"        numbers if that is shorter.\n");

static PyObject *py_column(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "column takes numbers and a mode");
        return NULL;
    }
    long mode = PyLong_AsLong(arguments[1]);
    if (mode == -1 && PyErr_Occurred()) return NULL;
    Numbers numbers;
    int taken = take(arguments[0], !!(mode & DIFFERENCES), &numbers);
    if (taken <= 0) return taken ? NULL : Py_NewRef(Py_None);
    PyObject *column = encoded(numbers.all, numbers.many, !!(mode & RUNS));
    release(&numbers);
    return column;
}

/* Rows of int64 or uint32, of which one at a time is read. */
typedef struct {
    const char *all;
    Py_ssize_t rows, many, itemsize;
    int64_t *row;
} Rows;

static const int64_t *row_at(const Rows *rows, Py_ssize_t nth) {
    const char *from = rows->all + nth * rows->many * rows->itemsize;
    if (rows->itemsize == 8) memcpy(rows->row, from, 8 * (size_t)rows->many);
    else for (Py_ssize_t i = 0; i < rows->many; i++, from += 4) {
        uint32_t number;
        memcpy(&number, from, 4);
        rows->row[i] = number;
    }
    return rows->row;
}

/* The bytes that each number of a row needs. */
static int width_of(const int64_t *row, Py_ssize_t many) {
    uint64_t any = 0; /* a negative number sets the highest bit */
    for (Py_ssize_t i = 0; i < many; i++) any |= (uint64_t)row[i];
    return any <= UINT8_MAX ? 1 : any <= UINT16_MAX ? 2 : any <= UINT32_MAX ? 4 : 8;
}

static PyObject *encoded_rows(const Rows *rows) {
    Py_ssize_t bytes = 1 + rows->rows, many = rows->many;
    char *widths = PyMem_Malloc((size_t)rows->rows);
    if (!widths) return PyErr_NoMemory();
    for (Py_ssize_t nth = 0; nth < rows->rows; nth++)
        bytes += many * (widths[nth] = (char)width_of(row_at(rows, nth), many));
    PyObject *column = PyBytes_FromStringAndSize(NULL, bytes);
    if (column) {
        char *to = PyBytes_AsString(column);
        *to++ = 'w';
        memcpy(to, widths, (size_t)rows->rows);
        to += rows->rows;
        for (int width = 1; width <= 8; width *= 2)
            for (Py_ssize_t nth = 0; nth < rows->rows; nth++) {
                if (widths[nth] != width) continue;
                narrowed(row_at(rows, nth), many, width, to);
                to += many * width;
            }
    }
    PyMem_Free(widths);
    return column;
}

PyDoc_STRVAR(column_of_rows_doc,
"column_of_rows(rows)\n--\n\n"
"Encode rows of int64 or uint32, contiguous and in two dimensions, each as narrowly as it allows; None for\n"
"other numbers, or none.\n");

static PyObject *py_column_of_rows(PyObject *module, PyObject *object) {
    Py_buffer view;
    if (PyObject_GetBuffer(object, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0) return NULL;
    const char *kind = view.format ? view.format : "B";
    int whole = view.itemsize == 8 && (!strcmp(kind, "l") || !strcmp(kind, "q"));
    PyObject *column = NULL;
    if (view.len && view.ndim == 2 && (whole || (view.itemsize == 4 && !strcmp(kind, "I")))) {
        Rows rows = {view.buf, view.shape[0], view.shape[1], view.itemsize, NULL};
        if ((rows.row = PyMem_Malloc(8 * (size_t)rows.many))) column = encoded_rows(&rows);
        else PyErr_NoMemory();
        PyMem_Free(rows.row);
    } else column = Py_NewRef(Py_None);
    PyBuffer_Release(&view);
    return column;
}

typedef struct {
    int64_t number;
    Py_ssize_t place; /* index plus one; 0 in an empty entry */
} Entry;

typedef struct {
    int64_t number, count;
    Py_ssize_t before; /* the index in the order of appearance */
} Different;

static int in_order(const void *one, const void *other) {
    int64_t first = ((const Different *)one)->number, second = ((const Different *)other)->number;
    return (first > second) - (first < second);
}

/* Fill `places` with the index of each number among the distinct ones, and these; returns how many there
   are. `entries` has `room` empty entries, a power of two. */
static Py_ssize_t separate(const int64_t *numbers, Py_ssize_t many, Entry *entries, size_t room,
                           Different *distinct, int64_t *places) {
    Py_ssize_t known = 0;
    for (Py_ssize_t i = 0; i < many; i++) {
        size_t at = (size_t)((uint64_t)numbers[i] * 0x9e3779b97f4a7c15u >> 32) & (room - 1);
        while (entries[at].place && entries[at].number != numbers[i]) at = (at + 1) & (room - 1);
        if (!entries[at].place) {
            distinct[known] = (Different){numbers[i], 0, known};
            entries[at] = (Entry){numbers[i], ++known};
        }
        places[i] = entries[at].place - 1;
        distinct[places[i]].count++;
    }
    qsort(distinct, (size_t)known, sizeof *distinct, in_order);
    /* The entries are no longer needed: they take the index after sorting. */
    for (Py_ssize_t i = 0; i < known; i++) entries[distinct[i].before].place = i;
    for (Py_ssize_t i = 0; i < many; i++) places[i] = entries[places[i]].place;
    return known;
}

PyDoc_STRVAR(distinct_doc,
"distinct(numbers)\n--\n\n"
"The distinct numbers among int64 of one dimension, ascending; the index of each number among them; and\n"
"how often each occurs, all int64. None for other numbers, or none.\n");

static PyObject *py_distinct(PyObject *module, PyObject *object) {
    Numbers numbers;
    int taken = take(object, 0, &numbers);
    if (taken <= 0) return taken ? NULL : Py_NewRef(Py_None);
    Py_ssize_t many = numbers.many;
    size_t room = 16;
    while (room < 2 * (size_t)many) room *= 2;
    Entry *entries = PyMem_Calloc(room, sizeof *entries);
    Different *distinct = PyMem_Malloc((size_t)many * sizeof *distinct);
    PyObject *parts[3] = {NULL, PyBytes_FromStringAndSize(NULL, 8 * many), NULL}, *all = NULL;
    if (!entries || !distinct) PyErr_NoMemory();
    else if (parts[1]) {
        Py_ssize_t known = separate(numbers.all, many, entries, room, distinct,
                                    (int64_t *)PyBytes_AsString(parts[1]));
        parts[0] = PyBytes_FromStringAndSize(NULL, 8 * known);
        parts[2] = PyBytes_FromStringAndSize(NULL, 8 * known);
        if (parts[0] && parts[2]) {
            char *values = PyBytes_AsString(parts[0]), *counts = PyBytes_AsString(parts[2]);
            for (Py_ssize_t i = 0; i < known; i++) {
                memcpy(values + 8 * i, &distinct[i].number, 8);
                memcpy(counts + 8 * i, &distinct[i].count, 8);
            }
            all = PyTuple_Pack(3, parts[0], parts[1], parts[2]);
        }
    }
    for (int i = 0; i < 3; i++) Py_XDECREF(parts[i]);
    PyMem_Free(entries);
    PyMem_Free(distinct);
    release(&numbers);
    return all;
}

PyDoc_STRVAR(narrow_floats_doc,
"narrow_floats(numbers)\n--\n\n"
"Contiguous float64 as float32, after the byte 'f'; None if that changes one of them.\n");

static PyObject *py_narrow_floats(PyObject *module, PyObject *object) {
    Py_buffer view;
    if (PyObject_GetBuffer(object, &view, PyBUF_ND) < 0) return NULL;
    Py_ssize_t many = view.len / 8;
    PyObject *narrow = PyBytes_FromStringAndSize(NULL, 1 + 4 * many);
    int same = 1;
    if (narrow) {
        char *to = PyBytes_AsString(narrow);
        const char *from = view.buf;
        *to++ = 'f';
        for (Py_ssize_t i = 0; i < many; i++, to += 4, from += 8) {
            double number;
            memcpy(&number, from, 8);
            float rounded = (float)number;
            memcpy(to, &rounded, 4);
            same &= (double)rounded == number || number != number;
        }
    }
    PyBuffer_Release(&view);
    if (!narrow || same) return narrow;
    Py_DECREF(narrow);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"column", (PyCFunction)(void (*)(void))py_column, METH_FASTCALL, column_doc},
    {"column_of_rows", py_column_of_rows, METH_O, column_of_rows_doc},
    {"distinct", py_distinct, METH_O, distinct_doc},
    {"narrow_floats", py_narrow_floats, METH_O, narrow_floats_doc},
    {NULL, NULL, 0, NULL},
};

int add_columns(PyObject *module) { return PyModule_AddFunctions(module, functions); }
