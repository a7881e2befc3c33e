/* The cursors of a thread, found as in `Emitter.cursor`. Included only by calls.c. */
#ifndef NODESCOPE_CALL_CURSORS_H
#define NODESCOPE_CALL_CURSORS_H

/* Restart the counts of a cursor, as in `Cursor.restart`; -1 with an exception set. */
static int restart(Calls *calls, PyObject *cursor, PyObject *step) {
    PyObject *slots = SLOT(cursor, calls->offset[CURSOR_SLOTS]), *count;
    Py_ssize_t at = 0;
    keep(&SLOT(cursor, calls->offset[CURSOR_STEP]), step);
    while (slots && PyDict_Next(slots, &at, NULL, &count))
        if (PyList_SetItem(count, 0, Py_NewRef(calls->zero)) < 0) return -1;
    return 0;
}

/* Make a cursor the thread's, and restart it if it counts in another step; NULL with an exception set. */
static PyObject *taken(Calls *calls, PyObject *state, PyObject *cursor, PyObject *step) {
    if (SLOT(cursor, calls->offset[CURSOR_STEP]) != step && restart(calls, cursor, step) < 0) return NULL;
    keep(&SLOT(state, calls->offset[STATE_CURSOR]), cursor);
    return cursor;
}

/* The thread's cursor for its scope and phase outside of loops, borrowed; restarted if it counts in
   another step. NULL if the thread has none, or with an exception set. */
static PyObject *known_cursor(Calls *calls, PyObject *state, PyObject *step) {
    PyObject *scope = SLOT(state, calls->offset[STATE_SCOPE]);
    PyObject *phase = SLOT(state, calls->offset[STATE_PHASE]);
    PyObject *cursors = SLOT(state, calls->offset[STATE_CURSORS]);
    PyObject *key = scope && phase && cursors ? PyTuple_Pack(3, scope, phase, calls->zero) : NULL;
    PyObject *cursor = key ? PyDict_GetItemWithError(cursors, key) : NULL;
    Py_XDECREF(key);
    if (!cursor || (PyObject *)Py_TYPE(cursor) != calls->object[CURSOR_TYPE] ||
        SLOT(cursor, calls->offset[CURSOR_OWNER]) != calls->object[IDENTITY])
        return NULL;
    return taken(calls, state, cursor, step);
}

#endif
