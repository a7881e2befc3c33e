/* The calls of a step, in the order in which they recur. Included only by calls.c.

   What a call needs of its node is in one record, and the records of calls that follow each other are
   neighbours, so the processor fetches them ahead. To find the node otherwise takes a dozen objects that
   have left the processor's caches since the last step.

   Invariant: a record is used only while no entry has been defined, redefined or moved since it was written:
   the `Identity` replaces its token `changed` each time. */
#ifndef NODESCOPE_CALL_SEQUENCE_H
#define NODESCOPE_CALL_SEQUENCE_H

#define MOST_RECORDS 65536
#define UNKNOWN 255 /* in place of the number of attributes */

/* Note whether entries have changed since records of this revision were written. */
static void notice_changes(Calls *calls) {
    PyObject *token = SLOT(calls->object[IDENTITY], calls->offset[IDENTITY_CHANGED]);
    if (token == calls->object[CHANGED]) return;
    keep(&calls->object[CHANGED], token);
    calls->revision++;
}

/* The record of the call that is expected next; NULL if there is none. */
static Record *next_record(Calls *calls) {
    notice_changes(calls);
    if (calls->next >= calls->records) return NULL;
    Record *record = &calls->record[calls->next];
    return record->revision == calls->revision ? record : NULL;
}

/* The cursor of the thread's place outside of loops if a call is expected there, borrowed; else NULL. */
static PyObject *expected_cursor(Calls *calls, PyObject *state) {
    const Py_ssize_t *offset = calls->offset;
    Record *record = next_record(calls);
    return record && record->object[OF_SCOPE] == SLOT(state, offset[STATE_SCOPE]) &&
                   record->object[OF_PHASE] == SLOT(state, offset[STATE_PHASE]) &&
                   record->object[OF_CURSORS] == SLOT(state, offset[STATE_CURSORS])
               ? record->object[OF_CURSOR] : NULL;
}

/* Whether two attributes or scalars are the same object, or of the same type and equal; 0 also if a
   comparison might run code of the program. */
static int is_alike(PyObject *one, PyObject *other) {
    if (one == other) return 1;
    if (Py_TYPE(one) != Py_TYPE(other)) return 0;
    if (PyLong_CheckExact(one) || PyFloat_CheckExact(one) || PyUnicode_CheckExact(one))
        return PyObject_RichCompareBool(one, other, Py_EQ) == 1;
    if (!PyTuple_CheckExact(one)) return 0;
    Py_ssize_t i = 0, many = PyTuple_Size(one);
    if (many != PyTuple_Size(other)) return 0;
    while (i < many && is_alike(PyTuple_GetItem(one, i), PyTuple_GetItem(other, i))) i++;
    return i == many;
}

/* Whether a call has the tensors of a record. `ids`: their value ids. */
static int has_tensors(Calls *calls, const Record *record, PyObject *const *inputs, Py_ssize_t count,
                       PyObject *const *ids) {
    for (Py_ssize_t i = 0, tensor = 0; i < count; i++) {
        int is_tensor = (PyObject *)Py_TYPE(inputs[i]) == calls->object[TENSOR];
        if (is_tensor != (record->tensors >> i & 1)) return 0;
        if (is_tensor && record->input[i] != ids[tensor++]) return 0;
    }
    return 1;
}

/* Whether a call has the scalars and attributes of a record; 0 also if they cannot be compared here. */
static int has_attributes(Calls *calls, const Record *record, PyObject *const *inputs, Py_ssize_t count,
                          PyObject *attrs) {
    if (record->attrs == UNKNOWN) return 0;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!(record->tensors >> i & 1) && !is_alike(record->input[i], inputs[i])) return 0;
    if (attrs == calls->object[NO_ATTRS]) return record->attrs == 0;
    if (PyDict_Size(attrs) != record->attrs) return 0;
    Py_ssize_t at = 0;
    PyObject *name, *attr;
    for (int i = 0; PyDict_Next(attrs, &at, &name, &attr); i++)
        if (record->name[i] != name || !is_alike(record->attr[i], attr)) return 0;
    return 1;
}

/* The record of a call if it is the one that was expected, whatever its scalars and attributes; else NULL. */
static Record *recurring(Calls *calls, Operation *operation, PyObject *cursor, PyObject *const *inputs,
                         Py_ssize_t count, PyObject *const *ids) {
    Record *record = next_record(calls);
    if (!record || record->operation != operation || record->object[OF_CURSOR] != cursor ||
        record->count != count || !has_tensors(calls, record, inputs, count, ids))
        return NULL;
    if (PyLong_AsSsize_t(PyList_GetItem(record->object[OF_SLOT], 0)) != record->nth) return NULL;
    calls->next++;
    return record;
}

/* The place of an entry's record, a new one if it has none; -1 if there are too many, or without memory. */
static Py_ssize_t place_of_record(Calls *calls, PyObject *entry) {
    PyObject **known = &SLOT(entry, calls->offset[ENTRY_PLACE]);
    Py_ssize_t place = *known && PyLong_CheckExact(*known) ? PyLong_AsSsize_t(*known) : -1;
    if (place >= 0 && place < calls->records && calls->record[place].object[OF_ENTRY] == entry) return place;
    if (calls->records == MOST_RECORDS) return -1;
    if (calls->records == calls->room) {
        Py_ssize_t room = calls->room ? 2 * calls->room : 64;
        Record *moved = PyMem_Realloc(calls->record, (size_t)room * sizeof(Record));
        if (!moved) return -1;
        memset(moved + calls->room, 0, (size_t)(room - calls->room) * sizeof(Record));
        calls->record = moved;
        calls->room = room;
    }
    PyObject *number = PyLong_FromSsize_t(calls->records);
    if (!number) {
        PyErr_Clear();
        return -1;
    }
    keep(known, number);
    Py_DECREF(number);
    return calls->records++;
}

/* Write the scalars and attributes of the node's definition, in the order of this call; 0 if it has others
   or too many. */
static int write_attributes(Calls *calls, Record *record, PyObject *entry, Py_ssize_t count,
                            PyObject *attrs) {
    PyObject *given = SLOT(entry, calls->offset[ENTRY_GIVEN]), *name, *attr;
    Py_ssize_t many = attrs == calls->object[NO_ATTRS] ? 0 : PyDict_Size(attrs), scalar = 0, at = 0;
    if (!many && record->tensors + 1 == 1 << count) return 1;
    if (many > FEW_ATTRS || !given || !PyTuple_Check(given) || PyTuple_Size(given) != 2) return 0;
    PyObject *before = PyTuple_GetItem(given, 0), *scalars = PyTuple_GetItem(given, 1);
    if (!PyTuple_Check(scalars) || !PyDict_Check(before) || PyDict_Size(before) != many) return 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (record->tensors >> i & 1) continue;
        if (scalar == PyTuple_Size(scalars)) return 0;
        record->input[i] = Py_NewRef(PyTuple_GetItem(PyTuple_GetItem(scalars, scalar++), 1));
    }
    if (scalar != PyTuple_Size(scalars)) return 0;
    for (; many && PyDict_Next(attrs, &at, &name, &attr); record->attrs++) {
        if (!(attr = PyDict_GetItemWithError(before, name))) return 0;
        record->name[record->attrs] = Py_NewRef(name);
        record->attr[record->attrs] = Py_NewRef(attr);
    }
    return 1;
}

/* Write the record of a call whose entry was found, and expect the call after it next. */
static void note_recurring(Calls *calls, Operation *operation, PyObject *state, PyObject *cursor,
                           PyObject *slot, PyObject *entry, Py_ssize_t nth, PyObject *const *inputs,
                           Py_ssize_t count, PyObject *const *ids, PyObject *attrs) {
    const Py_ssize_t *offset = calls->offset;
    PyObject *label = SLOT(cursor, offset[CURSOR_LABEL]);
    PyObject *place[] = {SLOT(state, offset[STATE_CURSORS]), SLOT(state, offset[STATE_SCOPE]),
                         SLOT(state, offset[STATE_PHASE]), cursor, slot, entry,
                         value_of(calls, operation->outputs, entry)};
    if (count > FEW_INPUTS || !place[OF_CURSORS] || !place[OF_SCOPE] || !place[OF_PHASE] || !label ||
        PyUnicode_GetLength(label) != 0)
        return;
    long long id = PyLong_AsLongLong(SLOT(entry, offset[ENTRY_ID]));
    Py_ssize_t at = place_of_record(calls, entry);
    if (at < 0) return;
    Record before = calls->record[at], *record = &calls->record[at];
    memset(record, 0, sizeof(Record));
    for (int i = 0; i < OF; i++) record->object[i] = Py_NewRef(place[i]);
    record->operation = operation;
    record->id = id;
    record->nth = nth;
    record->count = (unsigned char)count;
    record->loose = SLOT(entry, offset[ENTRY_LOOSE]) != Py_False;
    for (Py_ssize_t i = 0, tensor = 0; i < count; i++) {
        if ((PyObject *)Py_TYPE(inputs[i]) != calls->object[TENSOR]) continue;
        record->tensors |= (unsigned char)(1 << i);
        record->input[i] = Py_NewRef(ids[tensor++]);
    }
    notice_changes(calls);
    if (!write_attributes(calls, record, entry, count, attrs)) record->attrs = UNKNOWN;
    record->revision = calls->revision;
    PyErr_Clear();
    calls->next = at + 1;
    clear_record(&before); /* last, as it may run code of the program */
}

#endif
