/* Copies of outputs, and elements on their way into a file, take megabytes. The system clears memory one
   page at a time when it is first written, which takes longer than the copy if a page has 4 KiB. So a piece
   of memory is large and made of large pages, and some freed pieces are kept for later copies.

   In some virtual machines, large pages take longer than small ones: free memory was returned to the
   host, which gives it back in small pages, while the free memory that the system has kept is in pieces
   smaller than a large page. There, 268 MB took 600 ms in large pages and 90 ms in small ones; elsewhere
   13 to 30 ms in large ones. So the first use of a large page is timed, and after a slow one, the next
   pieces have small pages.

   The caller of these functions holds the interpreter's lock. */
#include "memory.h"

#include <stdint.h>
#include <stdlib.h>

#ifdef __linux__
#include <sys/mman.h>
#include <time.h>
#endif
#ifdef __GLIBC__
#include <malloc.h>
#endif

#define LARGE_PAGE (2 << 20)
#define PIECE (4 << 20)  /* bytes */
#define SMALL (1 << 19)  /* bytes; a smaller memory is allocated with exactly its size */
#define KEPT 16
#define SMALL_PIECES 32  /* after a slow page; 128 MiB */
#define SLOW_NS 1000000  /* a large page takes 0.1 ms, small pages of the same size 0.7 ms */

typedef struct {
    PyObject_HEAD
    char *start;
    Py_ssize_t size, room;
} Memory;

static PyTypeObject *memory_type;
static char *kept[KEPT];
static int many_kept;

#ifdef MADV_HUGEPAGE
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* since Linux 5.14; earlier systems refuse it, and provide single pages */
#endif

static int small_next; /* so many pieces get small pages before a large one is tried again */

static long long processor_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Choose the size of a piece's pages, and use the first large one, or all small ones. If the system does
   not take large ones, they are small. */
static void choose_pages(char *start) {
    if (small_next) {
        small_next--;
        madvise(start, PIECE, MADV_NOHUGEPAGE);
        madvise(start, PIECE, MADV_POPULATE_WRITE); /* takes a fifth less than page by page */
        return;
    }
    madvise(start, PIECE, MADV_HUGEPAGE);
    long long before = processor_ns();
    *(volatile char *)start = 0;
    if (processor_ns() - before > SLOW_NS) small_next = SMALL_PIECES;
}
#endif

static char *piece(void) {
    if (many_kept) return kept[--many_kept];
#ifdef MADV_HUGEPAGE
    char *all = mmap(NULL, PIECE + LARGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) return NULL;
    size_t before = (LARGE_PAGE - (uintptr_t)all % LARGE_PAGE) % LARGE_PAGE;
    if (before) munmap(all, before);
    munmap(all + before + PIECE, LARGE_PAGE - before);
    choose_pages(all + before);
    return all + before;
#else
    return malloc(PIECE);
#endif
}

static void free_piece(char *start) {
#ifdef MADV_HUGEPAGE
    munmap(start, PIECE);
#else
    free(start);
#endif
}

void release_memory(void) {
    while (many_kept) free_piece(kept[--many_kept]);
}

void give_back_memory(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

PyObject *new_memory(Py_ssize_t bytes) {
    Memory *self = (Memory *)PyType_GenericAlloc(memory_type, 0);
    if (!self) return NULL;
    int is_piece = bytes >= SMALL && bytes <= PIECE;
    self->start = is_piece ? piece() : malloc((size_t)(bytes ? bytes : 1));
    self->size = self->room = is_piece ? PIECE : bytes;
    if (self->start) return (PyObject *)self;
    Py_DECREF(self);
    return PyErr_NoMemory();
}

char *memory_of(PyObject *object, Py_ssize_t *size) {
    char *start = NULL;
    if (Py_TYPE(object) == memory_type) {
        *size = ((Memory *)object)->size;
        return ((Memory *)object)->start;
    }
    return PyBytes_AsStringAndSize(object, &start, size) < 0 ? NULL : start;
}

Block *blocks_in(PyObject *pieces) {
    Py_ssize_t count = PyTuple_Size(pieces);
    Block *blocks = PyMem_Calloc((size_t)count + 1, sizeof(Block));
    if (!blocks) return (Block *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *memory, *held = Py_None;
        Block *block = blocks + i;
        Py_ssize_t size;
        if (!PyArg_ParseTuple(PyTuple_GetItem(pieces, i), "Onn|O", &memory, &block->begin, &block->end, &held) ||
            !(block->start = memory_of(memory, &size)) || !(block->held = held_in(held, &block->many_held)))
            break;
        if (block->begin < 0 || block->begin > block->end || block->end > size) {
            PyErr_SetString(PyExc_ValueError, "this is no block of noted executions");
            break;
        }
    }
    if (!PyErr_Occurred()) return blocks;
    PyMem_Free(blocks);
    return NULL;
}

void cut_memory(PyObject *object, Py_ssize_t size) { ((Memory *)object)->size = size; }

static void memory_dealloc(PyObject *object) {
    Memory *self = (Memory *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->room != PIECE) free(self->start);
    else if (self->start && many_kept < KEPT) kept[many_kept++] = self->start;
    else if (self->start) free_piece(self->start);
    PyObject_Free(object);
    Py_DECREF(type);
}

static int memory_buffer(PyObject *object, Py_buffer *view, int flags) {
    Memory *self = (Memory *)object;
    return PyBuffer_FillInfo(view, object, self->start, self->size, 1, flags);
}

static Py_ssize_t memory_length(PyObject *object) { return ((Memory *)object)->size; }

PyDoc_STRVAR(memory_doc,
"Memory that the core has filled, as a read-only buffer.\n");

static PyType_Slot memory_slots[] = {
    {Py_tp_dealloc, memory_dealloc},
    {Py_bf_getbuffer, memory_buffer},
    {Py_sq_length, memory_length},
    {Py_tp_doc, (void *)memory_doc},
    {0, NULL},
};

static PyType_Spec memory_spec = {
    "nodescope.native._core.Memory", sizeof(Memory), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, memory_slots};

int add_memory(PyObject *module) {
    if (!memory_type) memory_type = (PyTypeObject *)PyType_FromSpec(&memory_spec);
    return memory_type ? PyModule_AddObjectRef(module, "Memory", (PyObject *)memory_type) : -1;
}
