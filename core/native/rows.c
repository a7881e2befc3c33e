/* Rows of statistics, filled from memory of another library; the caller ensures that it is valid. */
#include "rows.h"

#include <stdint.h>
#include <string.h>

#include "memory_hash.h"
#include "summary.h"

#define ROW_BINS 32
#define MOST_APART 4 /* most bytes from the first element to the last, per byte of elements */
#define SHORTEST 64 /* bytes; a hash of shorter pieces takes too long */
#define ALONE -1

typedef struct {
    double moments[5];
    int64_t finite, nan, inf, zero, previewed;
    uint64_t histogram[ROW_BINS];
    double preview[PREVIEW];
} Row;

/* Identifies the elements of a row's statistics, see `origin_of`; the version is -1 if unknown. A row
   keeps its statistics while its elements are the same: parameters from one evaluation to the next. */
typedef struct {
    int64_t version;
    uint64_t sum;
} Origin;

/* Fill a source from its layout: type, bytes per element, number of dimensions, shape, strides in bytes;
   0 if the layout is invalid. */
static int source_of(const int64_t *layout, Py_ssize_t bytes, const char *data, Source *source) {
    if (bytes < 24 || layout[2] < 0 || layout[2] > MOST_DIMENSIONS || bytes != 8 * (3 + 2 * layout[2]) ||
        !summary_reads((char)layout[0]))
        return 0;
    source->data = data;
    source->code = (char)layout[0];
    source->itemsize = (int)layout[1];
    source->dimensions = (int)layout[2];
    memcpy(source->shape, layout + 3, (size_t)(8 * layout[2]));
    memcpy(source->strides, layout + 3 + layout[2], (size_t)(8 * layout[2]));
    return 1;
}

static int64_t count_of(const Source *source) {
    int64_t count = 1;
    for (int axis = 0; axis < source->dimensions; axis++) count *= source->shape[axis];
    return count;
}

/* Memory in pieces of some bytes, with the same distance from each to the next. */
typedef struct {
    const char *data;
    int64_t bytes, many, apart;
} Pieces;

/* A hash of all bytes. */
static uint64_t sum_of(const Pieces *pieces) {
    MemoryHash hash;
    start_hash(&hash);
    for (int64_t piece = 0; piece < pieces->many; piece++)
        hash_piece(&hash, pieces->data + piece * pieces->apart, pieces->bytes);
    return finish_hash(&hash);
}

/* The elements of a source in the order of memory, the same for each order of its axes; 0 if they lie in
   another way, or in pieces that are too short. */
static int pieces_of(const Source *source, const char *first, Pieces *pieces) {
    int64_t sizes[MOST_DIMENSIONS], steps[MOST_DIMENSIONS];
    int axes = 0, inner = 0;
    for (int axis = 0; axis < source->dimensions; axis++) {
        int64_t size = source->shape[axis], step = source->strides[axis];
        if (size == 1) continue;
        if (step < 0) step = -step;
        int at = axes++;
        for (; at && steps[at - 1] > step; at--) {
            sizes[at] = sizes[at - 1];
            steps[at] = steps[at - 1];
        }
        sizes[at] = size;
        steps[at] = step;
    }
    *pieces = (Pieces){first, source->itemsize, 1, 0};
    for (; inner < axes && steps[inner] == pieces->bytes; inner++) pieces->bytes *= sizes[inner];
    if (inner == axes) return 1;
    if (pieces->bytes < SHORTEST || steps[inner] < pieces->bytes) return 0;
    pieces->apart = steps[inner];
    for (; inner < axes && steps[inner] == pieces->apart * pieces->many; inner++)
        pieces->many *= sizes[inner];
    return inner == axes;
}

/* The version and a hash of a source's elements, so that a write that was not counted is noticed.
   The version is -1 (unknown) if the elements lie far apart. */
static Origin origin_of(const Source *source, int64_t version, int64_t count) {
    int64_t first = 0, last = 0;
    for (int axis = 0; axis < source->dimensions; axis++) {
        int64_t reach = (source->shape[axis] - 1) * source->strides[axis];
        if (reach < 0) first += reach;
        else last += reach;
    }
    Pieces pieces;
    if (!pieces_of(source, source->data + first, &pieces)) {
        pieces = (Pieces){source->data + first, last - first + source->itemsize, 1, 0};
        if (pieces.bytes > MOST_APART * count * source->itemsize) return (Origin){-1, 0};
    }
    return (Origin){version, sum_of(&pieces)};
}

static int same_origin(const Origin *one, const Origin *other) {
    return one->version >= 0 && one->version == other->version && one->sum == other->sum;
}

static char *copied(char *to, const char *from, const Source *source, int axis) {
    if (axis == source->dimensions) {
        memcpy(to, from, (size_t)source->itemsize);
        return to + source->itemsize;
    }
    for (int64_t i = 0; i < source->shape[axis]; i++)
        to = copied(to, from + i * source->strides[axis], source, axis + 1);
    return to;
}

static void copy_elements(const Source *source, int64_t count, char *to) {
    int64_t row = source->itemsize;
    int in_order = 1;
    for (int axis = source->dimensions - 1; axis >= 0; axis--) {
        in_order &= source->shape[axis] == 1 || source->strides[axis] == row;
        row *= source->shape[axis];
    }
    if (in_order) memcpy(to, source->data, (size_t)(count * source->itemsize));
    else copied(to, source->data, source, 0);
}

static void fill(Row *row, const Summary *summary) {
    double moments[5] = {summary->low, summary->high, summary->mean, summary->std, summary->norm};
    memset(row, 0, sizeof *row);
    memcpy(row->moments, moments, sizeof moments);
    row->finite = summary->finite;
    row->nan = summary->nan;
    row->inf = summary->inf;
    row->zero = summary->zero;
    row->previewed = summary->previewed;
    memcpy(row->histogram, summary->histogram, sizeof row->histogram);
    memcpy(row->preview, summary->preview, (size_t)summary->previewed * sizeof(double));
}

PyDoc_STRVAR(fill_row_doc,
"fill_row(rows, place, same, origins, version, data, layout, copy)\n--\n\n"
"Fill a row with the statistics of elements in memory; False if float64 would overflow or lose\n"
"digits. Keeps the interpreter's lock.\n\n"
"Args:\n"
"    rows: The address of the rows.\n"
"    place: The index of the row to fill.\n"
"    same: The index of an earlier row of the same elements, in any order, whose statistics are used\n"
"        if the elements have not changed; -1 for none, -2 if later rows refer to this one. Unless it\n"
"        is -1, a row that was filled from such elements before, in the same layout, stays as it is.\n"
"    origins: The address of two 64-bit integers per row, which identify the elements of the row.\n"
"    version: The number of writes to the elements.\n"
"    data: The address of the elements.\n"
"    layout: Type, bytes per element, number of dimensions, shape, strides in bytes, as 64-bit\n"
"        integers.\n"
"    copy: The address to which the elements are copied, in index order; 0 for no copy.\n");

static PyObject *py_fill_row(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 8) {
        PyErr_SetString(PyExc_TypeError, "fill_row takes eight arguments");
        return NULL;
    }
    long long numbers[8] = {0};
    for (int i = 0; i < 8; i++)
        if (i != 6) numbers[i] = PyLong_AsLongLong(arguments[i]);
    char *layout;
    Py_ssize_t bytes;
    if (PyErr_Occurred() || PyBytes_AsStringAndSize(arguments[6], &layout, &bytes) < 0) return NULL;
    Row *rows = (Row *)(intptr_t)numbers[0], *row = rows + numbers[1];
    Origin *origins = (Origin *)(intptr_t)numbers[3];
    Source source;
    if (!source_of((const int64_t *)layout, bytes, (const char *)(intptr_t)numbers[5], &source)) {
        PyErr_SetString(PyExc_ValueError, "no layout of elements that are read");
        return NULL;
    }
    int64_t elements = count_of(&source);
    if (!elements) {
        memset(row, 0, sizeof *row);
        Py_RETURN_TRUE;
    }
    Origin origin = {-1, 0};
    if (numbers[2] != ALONE) origin = origin_of(&source, numbers[4], elements);
    Origin *own = origins + numbers[1];
    Summary summary;
    summary.size = elements;
    if (same_origin(own, &origin)) {
    } else if (numbers[2] >= 0 && same_origin(origins + numbers[2], &origin)) {
        *row = rows[numbers[2]];
        summary_preview(&source, &summary);
        memset(row->preview, 0, sizeof row->preview);
        memcpy(row->preview, summary.preview, (size_t)summary.previewed * sizeof(double));
        row->previewed = summary.previewed;
    } else {
        own->version = -1; /* as long as the row is not filled */
        if (summarise(&source, ROW_BINS, &summary)) Py_RETURN_FALSE;
        fill(row, &summary);
    }
    *own = origin;
    if (numbers[7]) copy_elements(&source, elements, (char *)(intptr_t)numbers[7]);
    Py_RETURN_TRUE;
}

static PyMethodDef methods[] = {
    {"fill_row", (PyCFunction)(void (*)(void))py_fill_row, METH_FASTCALL, fill_row_doc},
    {NULL, NULL, 0, NULL},
};

int add_rows(PyObject *module) { return PyModule_AddFunctions(module, methods); }
