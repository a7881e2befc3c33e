/* The outputs that were noted last, by address, to find those whose elements a later one repeats. */
#ifndef NODESCOPE_RECENT_OUTPUTS_H
#define NODESCOPE_RECENT_OUTPUTS_H

#include "array_layout.h"
#include "axes.h"

#define RECENT 64
#define SAMPLES 16

/* An output whose elements fill their memory, and where the record has a copy of them; if it is `held` or there is
   an `owner`, it has a `HeldOutput` or a digest instead. */
typedef struct {
    const char *data; /* in the program's memory */
    Py_ssize_t nbytes, place, nth;
    int code, order, held;
    PyObject *owner; /* a weak reference to the array that owns the memory, or NULL */
    uint64_t sample;
    long long step;
} Recent;

/* The order of a viewed array's elements. */
static int order_in(const Py_buffer *view) {
    return order_of(view->ndim, view->shape, view->strides, view->itemsize);
}

/* The place among the recent outputs of elements that fill their memory. */
static Recent *place_of(Recent *recent, const Py_buffer *view) {
    uint64_t address = (uint64_t)(uintptr_t)view->buf >> 4;
    return recent + (address * 0x9e3779b97f4a7c15u >> 32 & (RECENT - 1));
}

/* The earlier output with elements of this type in the same memory; NULL if there is none. */
static const Recent *earlier_in(Recent *recent, const Py_buffer *view, int code) {
    if (view->len < COMPARED || order_in(view) == SCATTERED) return NULL;
    const Recent *earlier = place_of(recent, view);
    int same = earlier->data == view->buf && earlier->nbytes == view->len && earlier->code == code;
    return same ? earlier : NULL;
}

/* A hash of a few elements. */
static uint64_t sample_of(const Py_buffer *view) {
    uint64_t mark = 0, word;
    Py_ssize_t last = view->len - 8, step = last / (SAMPLES - 1);
    for (int i = 0; i < SAMPLES; i++) {
        memcpy(&word, (const char *)view->buf + (i == SAMPLES - 1 ? last : i * step), 8);
        mark = (mark ^ word) * 0x9e3779b97f4a7c15u;
        mark ^= mark >> 29;
    }
    return mark;
}

/* The array that owns the memory of an array, if both are of this class, whose layout is known; else NULL. */
static PyObject *owner_of(PyObject *array, PyObject *class) {
    if ((PyObject *)Py_TYPE(array) != class) return NULL;
    PyObject *base = ARRAY_OF(array)->base;
    if (!base) return array;
    return (PyObject *)Py_TYPE(base) == class && !ARRAY_OF(base)->base ? base : NULL;
}

/* The earlier output whose elements an execution read and returned where they are, as a reshape or a
   transposition does; NULL if there is none. Nodescope's engine does not write to arrays, and programs are
   told not to write to those of tensors. The sample notices if most of an array was written nevertheless;
   the step, if executions in between were not noted. */
static const Recent *earlier_read(Recent *recent, PyObject *array, PyObject *class, const Py_buffer *view,
                                  int code, long long step, PyObject *const *inputs, Py_ssize_t reads) {
    const Recent *earlier = earlier_in(recent, view, code);
    if (!earlier || !earlier->owner || earlier->step != step) return NULL;
    PyObject *owner = PyWeakref_GetObject(earlier->owner);
    if (owner != owner_of(array, class)) return NULL;
    for (Py_ssize_t i = 0; i < reads; i++)
        if (owner_of(inputs[i], class) == owner && ARRAY_OF(inputs[i])->data == view->buf)
            return sample_of(view) == earlier->sample ? earlier : NULL;
    return NULL;
}

/* Set a digest's preview to the first elements. */
static void preview_digest(const Py_buffer *view, int code, Digest *digest) {
    Axes axes;
    Source source;
    Summary summary = {.size = view->len / view->itemsize};
    view_axes(view, &axes);
    describe(&source, view->buf, code, &axes);
    summary_preview(&source, &summary);
    memcpy(digest->preview, summary.preview, (size_t)summary.previewed * sizeof(double));
}

/* The digest of an output with the elements of an earlier one. `block`: the memory of the records. */
static void repeat_digest(const char *block, const Recent *earlier, const Py_buffer *view, int code,
                          Digest *digest) {
    memcpy(digest, block + earlier->place, sizeof *digest);
    /* the first elements are others if the axes are */
    if (earlier->order != IN_ORDER || order_in(view) != IN_ORDER) preview_digest(view, code, digest);
}

static void forget_recent(Recent *recent) {
    for (int i = 0; i < RECENT; i++) Py_XDECREF(recent[i].owner); /* runs no other code */
    memset(recent, 0, RECENT * sizeof *recent);
}

#endif
