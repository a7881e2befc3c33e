/* Code shared by the statistics of float32 in vectors of 256 and of 512 bits; see summary_float.c. */
#ifndef NODESCOPE_SUMMARY_FLOAT_H
#define NODESCOPE_SUMMARY_FLOAT_H

#include "summary.h"

#include <math.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define WITH_AVX2 __attribute__((target("avx2,fma")))
#define INLINED inline __attribute__((always_inline))
#define PARTS 32

typedef struct {
    float low, high;
    double sum, squares;  /* of the differences from the shift */
    int64_t zero;
} Totals;

/* Add the totals of items. All processors compute the same bits, as sums have the same parts whatever the vector
   size: part j of 32 has the squares of items j, j + 32, j + 64 and so on; part j of 16 has the items j and
   j + 16 of each 32, which are added to each other first. */
typedef void (*Total)(const float *items, int64_t many, double shift, Totals *totals);

/* Count the items in each bin; their number is a multiple of sixteen. The last bin gets all items that
   are in no other bin. */
typedef void (*Count)(const float *items, int64_t size, double low, double scale,
                      uint64_t *histogram);

WITH_AVX2 static inline double added_parts(__m256d first, __m256d second, __m256d third,
                                           __m256d fourth) {
    double parts[4];
    _mm256_storeu_pd(parts, _mm256_add_pd(_mm256_add_pd(first, second),
                                          _mm256_add_pd(third, fourth)));
    return parts[0] + parts[1] + parts[2] + parts[3];
}

/* Add the totals of items one by one, in order. */
static inline void total_singly(const float *items, int64_t many, double shift, Totals *totals) {
    for (int64_t i = 0; i < many; i++) {
        double x = (double)items[i] - shift;
        if (items[i] < totals->low) totals->low = items[i];
        if (items[i] > totals->high) totals->high = items[i];
        totals->zero += items[i] == 0.0f;
        totals->sum += x;
        totals->squares += x * x;
    }
}

/* Counters of how often each bit is set, over vectors of 32-bit words: level k holds bit k of the counts
   of all positions. Adding vectors in pairs takes few operations, and no counters in memory. */
#define LEVELS 10
#define FULL ((1 << LEVELS) - 1)

/* Read the counts of five levels; a count is at most 8 * 31. */
WITH_AVX2 static inline void read_levels(const __m256i *levels, uint8_t *counts) {
    const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1,
                                            2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    __m256i total = _mm256_setzero_si256();
    for (int level = 4; level >= 0; level--) {
        int32_t words[8];
        _mm256_storeu_si256((__m256i *)words, levels[level]);
        total = _mm256_add_epi8(total, total);
        for (int j = 0; j < 8; j++) {
            __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(words[j]), spread);
            __m256i is_set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
            total = _mm256_sub_epi8(total, is_set);
        }
    }
    _mm256_storeu_si256((__m256i *)counts, total);
}

/* Offsets for computing bins in float32: a margin below and above the exact offset, to allow for
   rounding. */
typedef struct {
    float scale, under, over; /* `over` is NaN if the margin is not small: its bins differ from all others */
} Rough;

static inline Rough rough_of(double low, double scale) {
    double offset = -low * scale, size = offset < 0 ? -offset : offset;
    double margin = (size + 2 * FLOAT_BINS) * 0x1p-21;
    if (!(margin < 0.01 && scale < 1e30)) return (Rough){0.0f, 0.0f, NAN};
    return (Rough){(float)scale, (float)(offset - margin), (float)(offset + margin)};
}

/* `Total` and `Count` with vectors of 512 bits. */
void total_wide(const float *items, int64_t many, double shift, Totals *totals);
void count_wide(const float *items, int64_t size, double low, double scale, uint64_t *histogram);

#endif
#endif
