/* Statistics of an array, in two passes: extremes, sums and counts; then spread and histogram. */
#ifndef NODESCOPE_SUMMARY_H
#define NODESCOPE_SUMMARY_H

#include <stdint.h>

#define MOST_DIMENSIONS 64
#define MOST_BINS 256
#define PREVIEW 8

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#define VECTORISED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define VECTORISED
#endif

/* An array to be read. Strides are in bytes; `code` is NumPy's type character, or 'E' for bfloat16. */
typedef struct {
    const char *data;
    char code;
    int itemsize;
    int dimensions;
    int64_t shape[MOST_DIMENSIONS];
    int64_t strides[MOST_DIMENSIONS];
} Source;

/* Moments and histogram cover only finite elements; `finite` counts these. */
typedef struct {
    double low, high, mean, std, norm;
    int64_t size, finite, nan, inf, zero;
    uint64_t histogram[MOST_BINS];
    double preview[PREVIEW];
    int previewed;
} Summary;

/* Whether elements of a type can be read. */
int summary_reads(char code);

#define FLOAT_BINS 32

/* Fill a summary of contiguous float32, except its size and preview. Returns 0 if that is not possible:
   not all elements are finite, or the processor lacks the instructions. */
int summarise_floats(const float *items, int64_t size, Summary *summary);

/* Fill a summary of contiguous elements of one byte, of type `code`, of which there is at least one; except its
   size and preview. */
void summarise_bytes(const char *items, char code, int bins, Summary *summary);

/* Fill the preview of a summary: the first elements. */
void summary_preview(const Source *source, Summary *summary);

/* Fill a summary. Returns 0, or 1 if float64 would overflow or lose digits: the summary is then invalid.
 */
int summarise(const Source *source, int bins, Summary *summary);

#endif
