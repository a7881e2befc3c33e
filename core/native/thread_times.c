/* How long a thread has been running or ready to run. Python would give the interpreter's lock up to open,
   read and close the file, and beside a program that computes get it back after 5 ms each time. */
#include "thread_times.h"

#ifdef __linux__
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* How long a thread was ready without a processor, in ns; 0 where the system does not report it. */
static long long ready_ns(long thread) {
    char text[96], path[64];
    unsigned long long running, ready = 0;
    snprintf(path, sizeof path, "/proc/self/task/%ld/schedstat", thread);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t bytes = read(file, text, sizeof text - 1);
    close(file);
    if (bytes <= 0) return 0;
    text[bytes] = 0;
    return sscanf(text, "%llu %llu", &running, &ready) == 2 ? (long long)ready : 0;
}

PyDoc_STRVAR(active_doc,
"active_ns(thread)\n--\n\n"
"How long a thread of this process, by its number in the system, has been running or ready to run, in\n"
"nanoseconds; None if it has ended.\n");

static PyObject *active_ns(PyObject *module, PyObject *number) {
    long thread = PyLong_AsLong(number);
    struct timespec ran;
    if (thread == -1 && PyErr_Occurred()) return NULL;
    /* The clock of a thread is addressed by its number, which is refused once the thread has ended;
       addressing it by identifier would then read freed memory. */
    if (clock_gettime((clockid_t)(~(unsigned)thread << 3 | 6), &ran) < 0) Py_RETURN_NONE;
    return PyLong_FromLongLong((long long)ran.tv_sec * 1000000000 + ran.tv_nsec + ready_ns(thread));
}

static PyMethodDef functions[] = {
    {"active_ns", active_ns, METH_O, active_doc},
    {NULL, NULL, 0, NULL},
};

int add_thread_times(PyObject *module) { return PyModule_AddFunctions(module, functions); }
#else
int add_thread_times(PyObject *module) { return 0; }
#endif
