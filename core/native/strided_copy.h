/* Copies the elements of an array of any strides in C order. */
#ifndef NODESCOPE_STRIDED_COPY_H
#define NODESCOPE_STRIDED_COPY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

#define TILE 16 /* elements; a tile of a transposed array lies in the processor's first cache */

typedef struct {
    const char *from;
    Py_ssize_t rows, columns, row_stride, column_stride; /* strides in bytes */
} Plane;

/* Copy the last two axes, tile by tile; `type` has the size of an element, which may be unaligned. */
#define COPY_PLANE(name, type)                                                                          \
    static void name(char *to, const Plane *plane) {                                                    \
        for (Py_ssize_t top = 0; top < plane->rows; top += TILE) {                                      \
            Py_ssize_t bottom = top + TILE < plane->rows ? top + TILE : plane->rows;                    \
            for (Py_ssize_t left = 0; left < plane->columns; left += TILE) {                            \
                Py_ssize_t right = left + TILE < plane->columns ? left + TILE : plane->columns;         \
                for (Py_ssize_t row = top; row < bottom; row++) {                                       \
                    const char *from = plane->from + row * plane->row_stride;                           \
                    char *into = to + (Py_ssize_t)sizeof(type) * row * plane->columns;                  \
                    for (Py_ssize_t column = left; column < right; column++) {                          \
                        type element;                                                                   \
                        memcpy(&element, from + column * plane->column_stride, sizeof element);         \
                        memcpy(into + (Py_ssize_t)sizeof element * column, &element, sizeof element);   \
                    }                                                                                   \
                }                                                                                       \
            }                                                                                           \
        }                                                                                               \
    }

COPY_PLANE(copy_plane_1, uint8_t)
COPY_PLANE(copy_plane_2, uint16_t)
COPY_PLANE(copy_plane_4, uint32_t)
COPY_PLANE(copy_plane_8, uint64_t)

/* Elements have 1, 2, 4 or 8 bytes: those of other sizes are not noted. */
static void copy_plane(char *to, const Plane *plane, Py_ssize_t itemsize) {
    if (itemsize == 1) copy_plane_1(to, plane);
    else if (itemsize == 2) copy_plane_2(to, plane);
    else if (itemsize == 4) copy_plane_4(to, plane);
    else copy_plane_8(to, plane);
}

/* Copy the elements from an axis on; returns where the next ones go. */
static char *copy_axes(char *to, const char *from, const Py_buffer *view, int axis) {
    int left = view->ndim - axis;
    if (left > 2) {
        for (Py_ssize_t i = 0; i < view->shape[axis]; i++)
            to = copy_axes(to, from + i * view->strides[axis], view, axis + 1);
        return to;
    }
    Plane plane = {from, left < 2 ? 1 : view->shape[axis], left < 1 ? 1 : view->shape[view->ndim - 1],
                   left < 2 ? 0 : view->strides[axis], left < 1 ? 0 : view->strides[view->ndim - 1]};
    copy_plane(to, &plane, view->itemsize);
    return to + plane.rows * plane.columns * view->itemsize;
}

/* Copy all elements; there must be room for `view->len` bytes. */
static void copy_in_order(char *to, const Py_buffer *view) { copy_axes(to, view->buf, view, 0); }

#endif
