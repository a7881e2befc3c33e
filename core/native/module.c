/* nodescope.native._core: the work of recording for each array and each call, in C.

   Built against the limited API, so that one file serves all versions of Python from 3.11. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#include "calls.h"
#include "checksum.h"
#include "columns.h"
#include "elements.h"
#include "held.h"
#include "memory.h"
#include "noted_statistics.h"
#include "outputs.h"
#include "plain.h"
#include "pauses.h"
#include "polling_lock.h"
#include "pull.h"
#include "rows.h"
#include "step_times.h"
#include "summary.h"
#include "thread_times.h"
#include "times.h"
#include "writers.h"

/* The revision of the interface to Python; nodescope.native refuses a file with another one. */
#define REVISION 49

/* Below this number of elements, releasing the interpreter's lock costs more than it gains. */
#define GIVES_UP_THE_LOCK 16384

static PyObject *optional(const Summary *summary, double number) {
    if (!summary->finite) Py_RETURN_NONE;
    return PyFloat_FromDouble(number);
}

static PyObject *histogram_of(const Summary *summary, int bins, int packed) {
    if (!summary->finite) bins = 0;
    if (packed) return PyBytes_FromStringAndSize((const char *)summary->histogram, 8 * bins);
    PyObject *counts = PyTuple_New(bins);
    for (int i = 0; counts && i < bins; i++) {
        PyObject *count = PyLong_FromUnsignedLongLong(summary->histogram[i]);
        if (!count || PyTuple_SetItem(counts, i, count) < 0) Py_CLEAR(counts);
    }
    return counts;
}

static PyObject *preview_of(const Summary *summary, int packed) {
    if (packed)
        return PyBytes_FromStringAndSize((const char *)summary->preview, 8 * summary->previewed);
    PyObject *elements = PyTuple_New(summary->previewed);
    for (int i = 0; elements && i < summary->previewed; i++) {
        PyObject *element = PyFloat_FromDouble(summary->preview[i]);
        if (!element || PyTuple_SetItem(elements, i, element) < 0) Py_CLEAR(elements);
    }
    return elements;
}

static int source_of(const Py_buffer *view, int code, Source *source) {
    if (view->ndim > MOST_DIMENSIONS || !summary_reads((char)code)) {
        PyErr_SetString(PyExc_ValueError, "arrays of this type or of so many dimensions are not read");
        return -1;
    }
    source->data = view->buf;
    source->code = (char)code;
    source->itemsize = (int)view->itemsize;
    source->dimensions = view->ndim;
    for (int i = 0; i < view->ndim; i++) {
        source->shape[i] = view->shape[i];
        source->strides[i] = view->strides[i];
    }
    return 0;
}

PyDoc_STRVAR(summarise_doc,
"summarise(array, code, bins, packed)\n--\n\n"
"Statistics of a non-empty array: low, high, mean, std, norm, counts of NaN, Inf and zeros,\n"
"histogram, preview; None if float64 would overflow or lose digits.\n\n"
"Args:\n"
"    array: Any object with a buffer of numbers.\n"
"    code: NumPy's type character of its elements, as a number; 'E' stands for bfloat16.\n"
"    bins: The number of bins of the histogram, at most 256.\n"
"    packed: Whether histogram and preview are bytes (uint64, float64) or tuples.\n");

static PyObject *py_summarise(PyObject *module, PyObject *arguments) {
    PyObject *array;
    int code, bins, packed;
    Py_buffer view;
    Source source;
    Summary summary;
    int unsafe;
    if (!PyArg_ParseTuple(arguments, "Oiip", &array, &code, &bins, &packed)) return NULL;
    if (bins < 1 || bins > MOST_BINS) {
        PyErr_Format(PyExc_ValueError, "a histogram has 1 to %d bins", MOST_BINS);
        return NULL;
    }
    if (PyObject_GetBuffer(array, &view, PyBUF_STRIDED_RO) < 0) return NULL;
    if (source_of(&view, code, &source) < 0) {
        PyBuffer_Release(&view);
        return NULL;
    }
    if (view.len >= GIVES_UP_THE_LOCK * view.itemsize) {
        Py_BEGIN_ALLOW_THREADS
        unsafe = summarise(&source, bins, &summary);
        Py_END_ALLOW_THREADS
    } else {
        unsafe = summarise(&source, bins, &summary);
    }
    PyBuffer_Release(&view);
    if (unsafe) Py_RETURN_NONE;
    return Py_BuildValue("(NNNNNLLLNN)",
        optional(&summary, summary.low), optional(&summary, summary.high),
        optional(&summary, summary.mean), optional(&summary, summary.std),
        optional(&summary, summary.norm), (long long)summary.nan, (long long)summary.inf,
        (long long)summary.zero, histogram_of(&summary, bins, packed), preview_of(&summary, packed));
}

PyDoc_STRVAR(identities_doc,
"identities(first, second)\n--\n\n"
"The `id` of each item of two tuples, as uint64 in native byte order; no bytes if one is not a\n"
"tuple.\n");

static PyObject *py_identities(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "identities takes two tuples");
        return NULL;
    }
    if (!PyTuple_Check(arguments[0]) || !PyTuple_Check(arguments[1]))
        return PyBytes_FromStringAndSize(NULL, 0);
    Py_ssize_t sizes[2] = {PyTuple_Size(arguments[0]), PyTuple_Size(arguments[1])};
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, 8 * (sizes[0] + sizes[1]));
    if (!bytes) return NULL;
    char *place = PyBytes_AsString(bytes);
    for (int which = 0; which < 2; which++) {
        for (Py_ssize_t i = 0; i < sizes[which]; i++, place += 8) {
            unsigned long long identity =
                (unsigned long long)(uintptr_t)PyTuple_GetItem(arguments[which], i);
            memcpy(place, &identity, 8);
        }
    }
    return bytes;
}

/* Statistics for separately compiled libraries, which call this through a capsule, such as PyTorch's
   native tap (`FloatStatistics`). Fills low, high, mean, std and norm, the number of zeros, and 32 bins;
   see summarise_floats. */
static int float_statistics(const float *items, int64_t size, double *moments, int64_t *zero,
                            uint64_t *histogram) {
    Summary summary;
    memset(&summary, 0, sizeof summary);
    if (!summarise_floats(items, size, &summary)) return 0;
    double all[] = {summary.low, summary.high, summary.mean, summary.std, summary.norm};
    memcpy(moments, all, sizeof all);
    *zero = summary.zero;
    memcpy(histogram, summary.histogram, FLOAT_BINS * sizeof *histogram);
    return 1;
}

static int add_float_statistics(PyObject *module) {
    PyObject *capsule = PyCapsule_New((void *)float_statistics, "nodescope.float_statistics", NULL);
    int status = capsule ? PyModule_AddObjectRef(module, "float_statistics", capsule) : -1;
    Py_XDECREF(capsule);
    return status;
}

static PyMethodDef methods[] = {
    {"identities", (PyCFunction)(void (*)(void))py_identities, METH_FASTCALL, identities_doc},
    {"summarise", py_summarise, METH_VARARGS, summarise_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "nodescope.native._core",
    .m_doc = "What recording does for each array and each call.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__core(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module && PyModule_AddIntConstant(module, "REVISION", REVISION) < 0) Py_CLEAR(module);
    if (module && (add_memory(module) < 0 || add_held(module) < 0 || add_times(module) < 0 || add_outputs(module) < 0 ||
                   add_noted_statistics(module) < 0 || add_elements(module) < 0 ||
                   add_plain(module) < 0 || add_pull(module) < 0 || add_calls(module) < 0 ||
                   add_rows(module) < 0 || add_step_times(module) < 0 || add_writers(module) < 0 || add_checksum(module) < 0 ||
                   add_columns(module) < 0 || add_polling_lock(module) < 0 ||
                   add_pauses(module) < 0 || add_thread_times(module) < 0 ||
                   add_float_statistics(module) < 0))
        Py_CLEAR(module);
    return module;
}
