/* The axes of an array, and the order in which its elements lie in memory. */
#ifndef NODESCOPE_AXES_H
#define NODESCOPE_AXES_H

#include "memory.h"
#include "noted_records.h"

typedef struct {
    int dimensions; /* at most MOST_AXES */
    Py_ssize_t itemsize;
    Py_ssize_t shape[MOST_AXES], strides[MOST_AXES];
} Axes;

/* Axes from a record: `numbers` has the shape and then the strides. */
static inline void read_axes(Axes *axes, const int64_t *numbers, int dimensions, Py_ssize_t itemsize) {
    axes->dimensions = dimensions;
    axes->itemsize = itemsize;
    for (int axis = 0; axis < dimensions; axis++) {
        axes->shape[axis] = (Py_ssize_t)numbers[axis];
        axes->strides[axis] = (Py_ssize_t)numbers[dimensions + axis];
    }
}

/* Give axes the strides of an array in C order. */
static inline void put_in_order(Axes *axes) {
    Py_ssize_t row = axes->itemsize;
    for (int axis = axes->dimensions - 1; axis >= 0; axis--) {
        axes->strides[axis] = row;
        row *= axes->shape[axis];
    }
}

/* The order of elements: as in an array in C order; or turned, which fills the same memory with the axes in
   another order; or with gaps or repetitions. Axes of one element do not count. */
static inline int order_of(int dimensions, const Py_ssize_t *shape, const Py_ssize_t *strides,
                           Py_ssize_t itemsize) {
    Py_ssize_t filled = itemsize;
    int axis = dimensions - 1;
    for (; axis >= 0 && (shape[axis] == 1 || strides[axis] == filled); axis--) filled *= shape[axis];
    if (axis < 0) return IN_ORDER;
    unsigned found = 0; /* one bit per axis */
    filled = itemsize;
    for (int left = dimensions; left > 0; left--) {
        for (axis = dimensions - 1; axis >= 0; axis--)
            if (!(found >> axis & 1) && (shape[axis] == 1 || strides[axis] == filled)) break;
        if (axis < 0) return SCATTERED;
        found |= 1u << axis;
        filled *= shape[axis];
    }
    return TURNED;
}

/* The axes of a viewed array, of which there are at most MOST_AXES. */
static inline void view_axes(const Py_buffer *view, Axes *axes) {
    axes->dimensions = view->ndim;
    axes->itemsize = view->itemsize;
    for (int axis = 0; axis < view->ndim; axis++) {
        axes->shape[axis] = view->shape[axis];
        axes->strides[axis] = view->strides[axis];
    }
}

/* Write the strides of an array. Those of an array in C or Fortran order are written as if all its axes were
   longer than one, as in a buffer of NumPy's. */
static inline void strides_of(const Py_buffer *view, int64_t *strides) {
    int64_t row = view->itemsize, column = view->itemsize;
    int rows = 1, columns = 1;
    for (int axis = view->ndim - 1; axis >= 0; axis--) {
        rows &= view->shape[axis] == 1 || view->strides[axis] == row;
        strides[axis] = row;
        row *= view->shape[axis];
    }
    if (rows) return;
    for (int axis = 0; axis < view->ndim; axis++) {
        columns &= view->shape[axis] == 1 || view->strides[axis] == column;
        strides[axis] = column;
        column *= view->shape[axis];
    }
    for (int axis = 0; !columns && axis < view->ndim; axis++) strides[axis] = view->strides[axis];
}

/* Where the elements of an output lie, by its type and what takes their place in its record; NULL if that is not
   within the block, or refers to no array of this size. */
static inline const char *elements_at(const Block *block, int64_t type, int64_t offset, int64_t nbytes) {
    int64_t index, most = block->end - offset;
    if (offset < block->begin || offset > block->end) return NULL;
    if (!(type & HELD)) return nbytes <= most ? block->start + offset : NULL;
    if (most < (int64_t)sizeof(HeldOutput)) return NULL;
    memcpy(&index, block->start + offset, sizeof index);
    if (index < 0 || index >= block->many_held || block->held[index].nbytes != nbytes) return NULL;
    return block->held[index].data;
}

/* Describe elements to be summarised. `source` is not initialised: it has room for many dimensions. */
static inline void describe(Source *source, const char *data, int code, const Axes *axes) {
    source->data = data;
    source->code = (char)code;
    source->itemsize = (int)axes->itemsize;
    source->dimensions = axes->dimensions;
    for (int axis = 0; axis < axes->dimensions; axis++) {
        source->shape[axis] = axes->shape[axis];
        source->strides[axis] = axes->strides[axis];
    }
}

/* Fill a digest; 0 if float64 cannot represent the statistics. */
static inline int digest_elements(const char *data, int code, const Axes *axes, int64_t bytes, Digest *digest) {
    Source source;
    Summary summary;
    describe(&source, data, code, axes);
    if (summarise(&source, FLOAT_BINS, &summary)) return 0;
    take_summary(digest, &summary, bytes);
    take_histogram(digest->histogram, &summary, FLOAT_BINS);
    return 1;
}

#endif
