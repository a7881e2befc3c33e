/* Statistics of float32 without gaps, most of what a program of tensors holds; see summary.h.

   Sums are of differences from the mean of the first block, so that one pass gives the spread, too.
   Bins are compared with the places of a block, 32 at a time: counters in memory would wait for one
   another. The places themselves are computed as everywhere, in float64 without fused operations. */
#include "summary.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define WITH_AVX2 __attribute__((target("avx2,fma")))
#define BLOCK 4096      /* its places, 32 at a time, are counted in bytes */
#define AT_ONCE 32
#define FIRST 1024
/* If more than this part of the squares is due to the mean's distance, too few digits are left. */
#define CANCELLED 0.999

typedef struct {
    float low, high;
    double sum, squares;  /* of the differences */
    int64_t zero;
} Totals;

WITH_AVX2 static double added(__m256d lanes) {
    double parts[4];
    _mm256_storeu_pd(parts, lanes);
    return parts[0] + parts[1] + parts[2] + parts[3];
}

/* As if all were finite: they are if `squares` is. */
WITH_AVX2 static void total(const float *items, int64_t many, double shift, Totals *totals) {
    __m256 low = _mm256_set1_ps(INFINITY), high = _mm256_set1_ps(-INFINITY);
    __m256i zeros = _mm256_setzero_si256();
    __m256d shifts = _mm256_set1_pd(shift);
    __m256d sums[4], squares[4];
    for (int j = 0; j < 4; j++) sums[j] = squares[j] = _mm256_setzero_pd();
    int64_t whole = many - many % 16;
    for (int64_t i = 0; i < whole; i += 16) {
        for (int j = 0; j < 2; j++) {
            __m256 x = _mm256_loadu_ps(items + i + 8 * j);
            low = _mm256_min_ps(x, low);
            high = _mm256_max_ps(x, high);
            __m256 is_zero = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_EQ_OQ);
            zeros = _mm256_sub_epi32(zeros, _mm256_castps_si256(is_zero));
        }
        for (int j = 0; j < 4; j++) {
            __m256d x = _mm256_cvtps_pd(_mm_loadu_ps(items + i + 4 * j));
            x = _mm256_sub_pd(x, shifts);
            sums[j] = _mm256_add_pd(sums[j], x);
            squares[j] = _mm256_fmadd_pd(x, x, squares[j]);
        }
    }
    float lows[8], highs[8];
    int32_t counts[8];
    _mm256_storeu_ps(lows, low);
    _mm256_storeu_ps(highs, high);
    _mm256_storeu_si256((__m256i *)counts, zeros);
    for (int j = 0; j < 8; j++) {
        if (lows[j] < totals->low) totals->low = lows[j];
        if (highs[j] > totals->high) totals->high = highs[j];
        totals->zero += counts[j];
    }
    totals->sum += added(_mm256_add_pd(_mm256_add_pd(sums[0], sums[1]),
                                       _mm256_add_pd(sums[2], sums[3])));
    totals->squares += added(_mm256_add_pd(_mm256_add_pd(squares[0], squares[1]),
                                           _mm256_add_pd(squares[2], squares[3])));
    for (int64_t i = whole; i < many; i++) {
        double x = (double)items[i] - shift;
        if (items[i] < totals->low) totals->low = items[i];
        if (items[i] > totals->high) totals->high = items[i];
        totals->zero += items[i] == 0.0f;
        totals->sum += x;
        totals->squares += x * x;
    }
}

/* Two times four places, as int32. */
WITH_AVX2 static inline __m256i eight_places(const float *items, __m256d low, __m256d scale) {
    __m256d first = _mm256_sub_pd(_mm256_cvtps_pd(_mm_loadu_ps(items)), low);
    __m256d second = _mm256_sub_pd(_mm256_cvtps_pd(_mm_loadu_ps(items + 4)), low);
    __m128i places = _mm256_cvttpd_epi32(_mm256_mul_pd(first, scale));
    __m128i more = _mm256_cvttpd_epi32(_mm256_mul_pd(second, scale));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(places), more, 1);
}

/* The places of a block in any order, each at most 31; a multiple of AT_ONCE. */
WITH_AVX2 static void place(const float *items, int many, double low, double scale,
                            uint8_t *places) {
    __m256d lows = _mm256_set1_pd(low), scales = _mm256_set1_pd(scale);
    __m256i last = _mm256_set1_epi8(FLOAT_BINS - 1);
    for (int i = 0; i < many; i += AT_ONCE) {
        const float *from = items + i;
        __m256i a = _mm256_packs_epi32(eight_places(from, lows, scales),
                                       eight_places(from + 8, lows, scales));
        __m256i b = _mm256_packs_epi32(eight_places(from + 16, lows, scales),
                                       eight_places(from + 24, lows, scales));
        __m256i packed = _mm256_min_epu8(_mm256_packus_epi16(a, b), last);
        _mm256_storeu_si256((__m256i *)(places + i), packed);
    }
}

WITH_AVX2 static int64_t sum_of_bytes(__m256i bytes) {
    int64_t parts[4];
    _mm256_storeu_si256((__m256i *)parts, _mm256_sad_epu8(bytes, _mm256_setzero_si256()));
    return parts[0] + parts[1] + parts[2] + parts[3];
}

/* Count the places of a block, four bins at a time. */
WITH_AVX2 static void count(const uint8_t *places, int many, uint64_t *histogram) {
    for (int bin = 0; bin < FLOAT_BINS; bin += 4) {
        __m256i counts[4], bins[4];
        for (int j = 0; j < 4; j++) {
            counts[j] = _mm256_setzero_si256();
            bins[j] = _mm256_set1_epi8((char)(bin + j));
        }
        for (int i = 0; i < many; i += AT_ONCE) {
            __m256i some = _mm256_loadu_si256((const __m256i *)(places + i));
            for (int j = 0; j < 4; j++)
                counts[j] = _mm256_sub_epi8(counts[j], _mm256_cmpeq_epi8(some, bins[j]));
        }
        for (int j = 0; j < 4; j++) histogram[bin + j] += (uint64_t)sum_of_bytes(counts[j]);
    }
}

int summarise_floats(const float *items, int64_t size, Summary *summary) {
    Totals totals = {INFINITY, -INFINITY, 0.0, 0.0, 0};
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
    int64_t few = size < FIRST ? size : FIRST;
    total(items, few, 0.0, &totals);
    double shift = totals.sum / (double)few;
    if (!(totals.squares < INFINITY)) return 0;
    totals = (Totals){INFINITY, -INFINITY, 0.0, 0.0, 0};
    for (int64_t at = 0; at < size; at += 1 << 20)  /* zeros are counted in int32 */
        total(items + at, size - at < 1 << 20 ? size - at : 1 << 20, shift, &totals);
    if (!(totals.squares < INFINITY)) return 0;
    double number = (double)size, apart = totals.sum / number;
    if (totals.sum * apart > CANCELLED * totals.squares && totals.low != totals.high) return 0;
    /* Which of 0.0 and -0.0 is the extreme depends on the order: it is reported without a sign. */
    double low = summary->low = (double)totals.low + 0.0;
    double high = summary->high = (double)totals.high + 0.0;
    double mean = shift + apart;
    summary->mean = mean = mean < low ? low : mean > high ? high : mean;
    summary->finite = size;
    summary->zero = totals.zero;
    double spread = totals.squares - totals.sum * apart;
    summary->norm = sqrt(fmax(spread, 0.0) + number * mean * mean);
    if (low == high) {
        summary->norm = fabs(low) * sqrt(number);
        summary->histogram[0] = (uint64_t)size;
        return 1;
    }
    summary->std = sqrt(fmax(spread, 0.0) / number);
    uint8_t places[BLOCK];
    double scale = FLOAT_BINS / (high - low);
    int64_t whole = size - size % AT_ONCE;
    for (int64_t at = 0; at < whole; at += BLOCK) {
        int many = whole - at < BLOCK ? (int)(whole - at) : BLOCK;
        place(items + at, many, low, scale, places);
        count(places, many, summary->histogram);
    }
    for (int64_t i = whole; i < size; i++) {
        int bin = (int)(((double)items[i] - low) * scale);
        summary->histogram[bin < FLOAT_BINS ? bin : FLOAT_BINS - 1]++;
    }
    return 1;
}

#else
int summarise_floats(const float *items, int64_t size, Summary *summary) { return 0; }
#endif
