/* Noted executions in memory, one record each, which consists of int64 and of elements:

   size of the record in bytes; node, step, thread, start, end; number of inputs and of outputs; the
   identities of both; then for each output: value, type, number of dimensions, bytes of what follows,
   shape, strides, and the elements, padded to a multiple of eight bytes: as they lie in memory, or in C
   order if they are SCATTERED there. If its type is marked as DIGESTED, a `Digest` takes the place of the
   elements; if it is marked as HELD, a `HeldOutput` does, whose elements are in the program's memory; if it is
   marked as REPEATED, the number of an earlier output does, whose type and memory are the same, perhaps with
   other axes. Outputs are numbered from 0 on among the records that are taken together. */
#ifndef NODESCOPE_NOTED_RECORDS_H
#define NODESCOPE_NOTED_RECORDS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "summary.h"

#define MOST_OUTPUTS 4
#define MOST_AXES 8
#define HEAD 8       /* number of int64 in a record before the identities */
#define DIGESTED 256 /* added to a type */
#define REPEATED 512 /* added to a type */
#define HELD 1024    /* added to a type */
#define TYPES 255    /* a type without what is added to it */
#define COMPARED 64  /* bytes; smaller outputs are not compared with earlier ones */

/* The order of an array's elements, see `order_of` in axes.h. */
enum { TURNED = -1, SCATTERED = 0, IN_ORDER = 1 };

/* Arrays that moved between executions are beside the records, so many int64 each: the number of executions
   before, the value, and the identities of its array before and now. */
#define MOVE 4

/* The statistics of an output whose elements are not kept. Computing them while the elements are in the
   processor's caches takes little longer than the copy from which they would be computed later. */
typedef struct {
    double moments[5], preview[PREVIEW];
    int64_t bytes, finite, nan, inf, zero;
    uint32_t histogram[FLOAT_BINS]; /* noted outputs have fewer elements */
} Digest;

/* An output whose elements were not copied: the index of its memory among those that are held; a hash, which tells
   whether its elements are still the same; and their statistics. */
typedef struct {
    int64_t index;
    uint64_t hash; /* see memory_hash.h */
    Digest digest;
} HeldOutput;

/* Fill a histogram; with zeros if there is none. */
static inline void take_histogram(uint32_t *histogram, const Summary *summary, int bins) {
    for (int i = 0; i < bins; i++) histogram[i] = summary->finite ? (uint32_t)summary->histogram[i] : 0;
}

/* Fill a digest, except for its histogram. */
static inline void take_summary(Digest *digest, const Summary *summary, int64_t bytes) {
    const double moments[5] = {summary->low, summary->high, summary->mean, summary->std, summary->norm};
    memcpy(digest->moments, moments, sizeof moments);
    memset(digest->preview, 0, sizeof digest->preview);
    memcpy(digest->preview, summary->preview, (size_t)summary->previewed * sizeof(double));
    digest->bytes = bytes;
    digest->finite = summary->finite;
    digest->nan = summary->nan;
    digest->inf = summary->inf;
    digest->zero = summary->zero;
}

static inline Py_ssize_t padded(Py_ssize_t bytes) { return (bytes + 7) / 8 * 8; }

#endif
