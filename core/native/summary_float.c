/* Statistics of contiguous float32, the most frequent case; see summary.h.

   One pass yields sums and squares; if the mean is large beside the spread, it is repeated with the
   differences from the mean, as too few digits of the spread would be left.
   For the histogram, each item becomes a word in which the bit of its bin is set, and the words are
   added up position by position with bitwise operations (Harley and Seal), because counters in memory
   would wait for one another. Bins are computed as elsewhere, in float64 without fused operations. */
#include "summary_float.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)

#define FEW 96          /* up to this number, items are counted one by one */
#define MANY 512        /* from this number on, wide vectors are used: reading their counts takes longer */
/* If more than this fraction of the squares is due to the mean, too few digits of the spread are left. */
#define CANCELLED 0.8
#define AT_ONCE (1 << 16) /* items that are added up in the same parts: few, so that rounding stays small */

/* Totals on the assumption that all items are finite; they are valid if `squares` is finite. */
WITH_AVX2 static void total(const float *items, int64_t many, double shift, Totals *totals) {
    __m256 low = _mm256_set1_ps(INFINITY), high = _mm256_set1_ps(-INFINITY);
    __m256i zeros = _mm256_setzero_si256();
    __m256d shifts = _mm256_set1_pd(shift);
    __m256d sums[4], squares[8];
    for (int j = 0; j < 4; j++) sums[j] = _mm256_setzero_pd();
    for (int j = 0; j < 8; j++) squares[j] = _mm256_setzero_pd();
    int64_t whole = many - many % PARTS;
    for (int64_t i = 0; i < whole; i += PARTS) {
        for (int j = 0; j < 4; j++) {
            __m256 x = _mm256_loadu_ps(items + i + 8 * j);
            low = _mm256_min_ps(x, low);
            high = _mm256_max_ps(x, high);
            __m256 is_zero = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_EQ_OQ);
            zeros = _mm256_sub_epi32(zeros, _mm256_castps_si256(is_zero));
        }
        for (int j = 0; j < 4; j++) {
            __m256d x = _mm256_cvtps_pd(_mm_loadu_ps(items + i + 4 * j));
            __m256d y = _mm256_cvtps_pd(_mm_loadu_ps(items + i + 4 * j + 16));
            x = _mm256_sub_pd(x, shifts);
            y = _mm256_sub_pd(y, shifts);
            sums[j] = _mm256_add_pd(sums[j], _mm256_add_pd(x, y));
            squares[j] = _mm256_fmadd_pd(x, x, squares[j]);
            squares[4 + j] = _mm256_fmadd_pd(y, y, squares[4 + j]);
        }
    }
    for (int j = 0; j < 4; j++) squares[j] = _mm256_add_pd(squares[j], squares[4 + j]);
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
    totals->sum += added_parts(sums[0], sums[1], sums[2], sums[3]);
    totals->squares += added_parts(squares[0], squares[1], squares[2], squares[3]);
    total_singly(items + whole, many - whole, shift, totals);
}

/* Add a and b to sum, bit by bit, and return the carry. */
WITH_AVX2 static inline __m256i added_bits(__m256i *sum, __m256i a, __m256i b) {
    __m256i apart = _mm256_xor_si256(a, b);
    __m256i carry = _mm256_or_si256(_mm256_and_si256(a, b), _mm256_and_si256(apart, *sum));
    *sum = _mm256_xor_si256(apart, *sum);
    return carry;
}

WITH_AVX2 static inline void add_carry(__m256i *levels, int level, __m256i carry) {
    for (; level < LEVELS; level++) {
        __m256i next = _mm256_and_si256(levels[level], carry);
        levels[level] = _mm256_xor_si256(levels[level], carry);
        carry = next;
    }
}

typedef struct {
    __m256d low, scale;
    __m256 rough_scale, under, over;  /* see `Rough` */
    __m256i levels[LEVELS];
} Bins;

WITH_AVX2 static Bins bins_of(double low, double scale) {
    Rough rough = rough_of(low, scale);
    Bins bins = {.low = _mm256_set1_pd(low), .scale = _mm256_set1_pd(scale)};
    bins.rough_scale = _mm256_set1_ps(rough.scale);
    bins.under = _mm256_set1_ps(rough.under);
    bins.over = _mm256_set1_ps(rough.over);
    return bins;
}

/* For each of eight items, a word with the bit of its bin set; no bit for an item at the upper end. */
WITH_AVX2 static inline __m256i bits_of(const Bins *bins, const float *items) {
    __m256d first = _mm256_sub_pd(_mm256_cvtps_pd(_mm_loadu_ps(items)), bins->low);
    __m256d second = _mm256_sub_pd(_mm256_cvtps_pd(_mm_loadu_ps(items + 4)), bins->low);
    __m128i places = _mm256_cvttpd_epi32(_mm256_mul_pd(first, bins->scale));
    __m128i more = _mm256_cvttpd_epi32(_mm256_mul_pd(second, bins->scale));
    __m256i all = _mm256_inserti128_si256(_mm256_castsi128_si256(places), more, 1);
    return _mm256_sllv_epi32(_mm256_set1_epi32(1), all);
}

WITH_AVX2 static inline __m256i carry_of_2(Bins *bins, const float *items) {
    return added_bits(&bins->levels[0], bits_of(bins, items), bits_of(bins, items + 8));
}
WITH_AVX2 __attribute__((noinline)) static __m256i exact_carry_of_4(Bins *bins,
                                                                    const float *items) {
    __m256i first = carry_of_2(bins, items);
    return added_bits(&bins->levels[1], first, carry_of_2(bins, items + 16));
}

/* Bins are computed in float32 if none of the 32 items is near the border of a bin. */
WITH_AVX2 static inline __m256i carry_of_4(Bins *bins, const float *items) {
    __m256i bits[4], same = _mm256_set1_epi32(-1);
    for (int j = 0; j < 4; j++) {
        __m256 x = _mm256_loadu_ps(items + 8 * j);
        __m256i place = _mm256_cvttps_epi32(_mm256_fmadd_ps(x, bins->rough_scale, bins->under));
        __m256i other = _mm256_cvttps_epi32(_mm256_fmadd_ps(x, bins->rough_scale, bins->over));
        same = _mm256_and_si256(same, _mm256_cmpeq_epi32(place, other));
        bits[j] = _mm256_sllv_epi32(_mm256_set1_epi32(1), place);
    }
    if (_mm256_movemask_epi8(same) != -1) return exact_carry_of_4(bins, items);
    __m256i first = added_bits(&bins->levels[0], bits[0], bits[1]);
    __m256i second = added_bits(&bins->levels[0], bits[2], bits[3]);
    return added_bits(&bins->levels[1], first, second);
}

WITH_AVX2 static inline __m256i carry_of_8(Bins *bins, const float *items) {
    __m256i first = carry_of_4(bins, items);
    return added_bits(&bins->levels[2], first, carry_of_4(bins, items + 32));
}
WITH_AVX2 static inline __m256i carry_of_16(Bins *bins, const float *items) {
    __m256i first = carry_of_8(bins, items);
    return added_bits(&bins->levels[3], first, carry_of_8(bins, items + 64));
}
WITH_AVX2 static inline __m256i carry_of_32(Bins *bins, const float *items) {
    __m256i first = carry_of_16(bins, items);
    return added_bits(&bins->levels[4], first, carry_of_16(bins, items + 128));
}

WITH_AVX2 static void count(const float *items, int64_t size, double low, double scale,
                            uint64_t *histogram) {
    Bins bins = bins_of(low, scale);
    uint64_t last = (uint64_t)size;
    for (int64_t at = 0; at < size;) {
        int64_t end = size - at < FULL * 8 ? size : at + FULL * 8;
        for (int level = 0; level < LEVELS; level++) bins.levels[level] = _mm256_setzero_si256();
        for (; at + 256 <= end; at += 256)
            add_carry(bins.levels, 5, carry_of_32(&bins, items + at));
        for (; at + 32 <= end; at += 32)
            add_carry(bins.levels, 2, carry_of_4(&bins, items + at));
        for (; at < end; at += 8) add_carry(bins.levels, 0, bits_of(&bins, items + at));
        uint8_t few[FLOAT_BINS], many[FLOAT_BINS] = {0};
        read_levels(bins.levels, few);
        if (size >= 256) read_levels(bins.levels + 5, many);
        for (int bin = 0; bin < FLOAT_BINS - 1; bin++) {
            uint64_t counted = few[bin] + ((uint64_t)many[bin] << 5);
            histogram[bin] += counted;
            last -= counted;
        }
    }
    histogram[FLOAT_BINS - 1] += last;
}

int summarise_floats(const float *items, int64_t size, Summary *summary) {
    Totals totals;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
    int wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    Total add = wide ? total_wide : total;
    Count counted = wide && size >= MANY ? count_wide : count;
    double number = (double)size, shift = 0.0, apart;
    for (int again = 0;; again++) {
        totals = (Totals){INFINITY, -INFINITY, 0.0, 0.0, 0};
        for (int64_t at = 0; at < size; at += AT_ONCE)
            add(items + at, size - at < AT_ONCE ? size - at : AT_ONCE, shift, &totals);
        if (!(totals.squares < INFINITY)) return 0;
        apart = totals.sum / number;
        if (again || totals.sum * apart <= CANCELLED * totals.squares || totals.low == totals.high) break;
        shift = apart;
    }
    /* Whether 0.0 or -0.0 is the extreme depends on the order of elements: -0.0 becomes 0.0. */
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
    double scale = FLOAT_BINS / (high - low);
    int64_t whole = size < FEW ? 0 : size - size % 16;
    if (whole) counted(items, whole, low, scale, summary->histogram);
    for (int64_t i = whole; i < size; i++) {
        int bin = (int)(((double)items[i] - low) * scale);
        summary->histogram[bin < FLOAT_BINS ? bin : FLOAT_BINS - 1]++;
    }
    return 1;
}

#else
int summarise_floats(const float *items, int64_t size, Summary *summary) { return 0; }
#endif
