/* Which outputs are held instead of copied: large ones of nodescope's engine, which never writes to arrays. Their
   hash tells later whether somebody else did. Included only by outputs.c. */
#ifndef NODESCOPE_HELD_OUTPUTS_H
#define NODESCOPE_HELD_OUTPUTS_H

#include "recent_outputs.h"

#define LEAST_HELD 16384 /* bytes; smaller outputs are copied faster than their memory is replaced */

static Py_ssize_t bytes_in(PyObject *array, Py_ssize_t itemsize) {
    for (int axis = 0; axis < ARRAY_OF(array)->dimensions; axis++) itemsize *= ARRAY_OF(array)->shape[axis];
    return itemsize;
}

/* The array that owns an output's memory, if the output can be held: it is that array, or a view of most of it, to
   which nothing else refers. Else NULL: the program may write to the array of a parameter, for example; or somebody
   waits for the array's end. */
static PyObject *held_owner(PyObject *array, PyObject *class, const Py_buffer *view) {
    PyObject *owner = owner_of(array, class);
    if (owner && ARRAY_OF(owner)->weak_references) return NULL;
    if (!owner || owner == array) return owner;
    int most = ARRAY_OF(owner)->dtype == ARRAY_OF(array)->dtype &&
               bytes_in(owner, view->itemsize) <= 2 * view->len;
    return most && Py_REFCNT(owner) == 1 ? owner : NULL;
}

/* The statistics of an output that is held; 0 if float64 cannot represent them. */
static int digest_held(const Py_buffer *view, int code, Digest *digest) {
    Axes axes;
    int64_t sizes[2 * MOST_AXES];
    for (int axis = 0; axis < view->ndim; axis++) sizes[axis] = view->shape[axis];
    strides_of(view, sizes + view->ndim);
    read_axes(&axes, sizes, view->ndim, view->itemsize);
    return digest_elements(view->buf, code, &axes, view->len, digest);
}

#endif
