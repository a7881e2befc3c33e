/* What the types of the core have in common. */
#ifndef NODESCOPE_OBJECTS_H
#define NODESCOPE_OBJECTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The deallocator of types that own nothing but what their `tp_clear` releases. */
static inline void dealloc_cleared(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    ((inquiry)PyType_GetSlot(type, Py_tp_clear))(object);
    PyObject_GC_Del(object);
    Py_DECREF(type);
}

/* Set a place to an interned name, once; -1 with an exception set. */
static inline int name(PyObject **place, const char *text) {
    return *place || (*place = PyUnicode_InternFromString(text)) ? 0 : -1;
}

#endif
