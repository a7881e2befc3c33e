/* Statistics of float32 as in summary_float.c, in vectors of 512 bits: the same bits in about half the
   time, as two operations here add three bits, which takes five there. */
#include "summary_float.h"

#include <math.h>

#if defined(__x86_64__) && defined(__GNUC__)

#define WITH_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))

WITH_AVX512 static inline __m256d lower(__m512d lanes) { return _mm512_castpd512_pd256(lanes); }
WITH_AVX512 static inline __m256d upper(__m512d lanes) { return _mm512_extractf64x4_pd(lanes, 1); }

WITH_AVX512 static INLINED __m512d apart_from(const float *items, __m512d shift, int shifted) {
    __m512d x = _mm512_cvtps_pd(_mm256_loadu_ps(items));
    return shifted ? _mm512_sub_pd(x, shift) : x;
}

WITH_AVX512 static INLINED void total_as(const float *items, int64_t many, double shift, Totals *totals,
                                         int shifted) {
    __m512 low = _mm512_set1_ps(INFINITY), high = _mm512_set1_ps(-INFINITY);
    __m512i zeros = _mm512_setzero_si512(), one = _mm512_set1_epi32(1);
    __m512d shifts = _mm512_set1_pd(shift);
    __m512d sums[2], squares[2], more_squares[2];
    for (int j = 0; j < 2; j++) sums[j] = squares[j] = more_squares[j] = _mm512_setzero_pd();
    int64_t whole = many - many % PARTS;
    for (int64_t i = 0; i < whole; i += PARTS) {
        for (int j = 0; j < 2; j++) {
            _mm_prefetch((const char *)(items + i + 16 * j + 2048), _MM_HINT_T0);
            __m512 all = _mm512_loadu_ps(items + i + 16 * j);
            low = _mm512_min_ps(all, low);
            high = _mm512_max_ps(all, high);
            __mmask16 is_zero = _mm512_cmp_ps_mask(all, _mm512_setzero_ps(), _CMP_EQ_OQ);
            zeros = _mm512_mask_add_epi32(zeros, is_zero, zeros, one);
            __m512d x = apart_from(items + i + 8 * j, shifts, shifted);
            __m512d y = apart_from(items + i + 8 * j + 16, shifts, shifted);
            sums[j] = _mm512_add_pd(sums[j], _mm512_add_pd(x, y));
            squares[j] = _mm512_fmadd_pd(x, x, squares[j]);
            more_squares[j] = _mm512_fmadd_pd(y, y, more_squares[j]);
        }
    }
    float lows[16], highs[16];
    int32_t counts[16];
    _mm512_storeu_ps(lows, low);
    _mm512_storeu_ps(highs, high);
    _mm512_storeu_si512(counts, zeros);
    for (int j = 0; j < 16; j++) {
        if (lows[j] < totals->low) totals->low = lows[j];
        if (highs[j] > totals->high) totals->high = highs[j];
        totals->zero += counts[j];
    }
    for (int j = 0; j < 2; j++) squares[j] = _mm512_add_pd(squares[j], more_squares[j]);
    totals->sum += added_parts(lower(sums[0]), upper(sums[0]), lower(sums[1]), upper(sums[1]));
    totals->squares += added_parts(lower(squares[0]), upper(squares[0]), lower(squares[1]),
                                   upper(squares[1]));
    total_singly(items + whole, many - whole, shift, totals);
}

WITH_AVX512 void total_wide(const float *items, int64_t many, double shift, Totals *totals) {
    if (shift == 0.0) total_as(items, many, shift, totals, 0);
    else total_as(items, many, shift, totals, 1);
}

#define SUM 0x96       /* of three bits, for _mm512_ternarylogic_epi32 */
#define CARRY 0xe8

/* Add a and b to sum, bit by bit, and return the carry. */
WITH_AVX512 static inline __m512i added_bits(__m512i *sum, __m512i a, __m512i b) {
    __m512i carry = _mm512_ternarylogic_epi32(a, b, *sum, CARRY);
    *sum = _mm512_ternarylogic_epi32(a, b, *sum, SUM);
    return carry;
}

WITH_AVX512 static inline void add_carry(__m512i *levels, int level, __m512i carry) {
    for (; level < LEVELS; level++) {
        __m512i next = _mm512_and_si512(levels[level], carry);
        levels[level] = _mm512_xor_si512(levels[level], carry);
        carry = next;
    }
}

#define DIFFER 0xf6    /* a, or b and c differ */

typedef struct {
    __m512d low, scale;
    __m512 rough_scale, under, over;
} Bins;

/* For each of sixteen items, a word with the bit of its bin set; no bit for an item at the upper end. */
WITH_AVX512 static inline __m512i bits_of(const Bins *bins, const float *items) {
    __m512d first = _mm512_sub_pd(_mm512_cvtps_pd(_mm256_loadu_ps(items)), bins->low);
    __m512d second = _mm512_sub_pd(_mm512_cvtps_pd(_mm256_loadu_ps(items + 8)), bins->low);
    __m256i places = _mm512_cvttpd_epi32(_mm512_mul_pd(first, bins->scale));
    __m256i more = _mm512_cvttpd_epi32(_mm512_mul_pd(second, bins->scale));
    __m512i all = _mm512_inserti64x4(_mm512_castsi256_si512(places), more, 1);
    return _mm512_sllv_epi32(_mm512_set1_epi32(1), all);
}

typedef struct { __m512i of[4]; } Bits;

WITH_AVX512 __attribute__((noinline)) static void exact_bits(const Bins *bins, const float *items,
                                                             Bits *bits) {
    for (int j = 0; j < 4; j++) bits->of[j] = bits_of(bins, items + 16 * j);
}

/* Bins are computed in float32 if none of the 64 items is near the border of a bin. The levels are variables
   of the one function that all this is part of, so that they are not stored in between. */
WITH_AVX512 static INLINED __m512i carry_of_4(const Bins *bins, __m512i *levels, const float *items) {
    Bits bits;
    __m512i apart = _mm512_setzero_si512();
    for (int j = 0; j < 4; j++) {
        __m512 x = _mm512_loadu_ps(items + 16 * j);
        __m512i place = _mm512_cvttps_epi32(_mm512_fmadd_ps(x, bins->rough_scale, bins->under));
        __m512i other = _mm512_cvttps_epi32(_mm512_fmadd_ps(x, bins->rough_scale, bins->over));
        apart = _mm512_ternarylogic_epi32(apart, place, other, DIFFER);
        bits.of[j] = _mm512_sllv_epi32(_mm512_set1_epi32(1), place);
    }
    if (__builtin_expect(_mm512_test_epi32_mask(apart, apart) != 0, 0)) {
        Bits exact;
        exact_bits(bins, items, &exact);
        bits = exact;
    }
    __m512i first = added_bits(&levels[0], bits.of[0], bits.of[1]);
    __m512i second = added_bits(&levels[0], bits.of[2], bits.of[3]);
    return added_bits(&levels[1], first, second);
}
WITH_AVX512 static INLINED __m512i carry_of_8(const Bins *bins, __m512i *levels, const float *items) {
    __m512i first = carry_of_4(bins, levels, items);
    return added_bits(&levels[2], first, carry_of_4(bins, levels, items + 64));
}
WITH_AVX512 static INLINED __m512i carry_of_16(const Bins *bins, __m512i *levels, const float *items) {
    __m512i first = carry_of_8(bins, levels, items);
    return added_bits(&levels[3], first, carry_of_8(bins, levels, items + 128));
}
WITH_AVX512 static INLINED __m512i carry_of_32(const Bins *bins, __m512i *levels, const float *items) {
    __m512i first = carry_of_16(bins, levels, items);
    return added_bits(&levels[4], first, carry_of_16(bins, levels, items + 256));
}

/* Read the counts of five levels: each bit adds its weight to the byte of its place. */
WITH_AVX512 static void read_wide(const __m512i *levels, uint16_t *counts) {
    __m512i total[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    uint8_t bytes[2 * FLOAT_BINS];
    for (int level = 0; level < 5; level++) {
        uint64_t words[8];
        __m512i weight = _mm512_set1_epi8((char)(1 << level));
        _mm512_storeu_si512(words, levels[level]);
        for (int j = 0; j < 8; j++)
            total[j % 2] = _mm512_mask_add_epi8(total[j % 2], words[j], total[j % 2], weight);
    }
    _mm512_storeu_si512(bytes, _mm512_add_epi8(total[0], total[1]));
    for (int bin = 0; bin < FLOAT_BINS; bin++)
        counts[bin] = (uint16_t)(bytes[bin] + bytes[bin + FLOAT_BINS]);
}

WITH_AVX512 void count_wide(const float *items, int64_t size, double low, double scale,
                            uint64_t *histogram) {
    Rough rough = rough_of(low, scale);
    Bins bins = {.low = _mm512_set1_pd(low), .scale = _mm512_set1_pd(scale)};
    uint64_t last = (uint64_t)size;
    bins.rough_scale = _mm512_set1_ps(rough.scale);
    bins.under = _mm512_set1_ps(rough.under);
    bins.over = _mm512_set1_ps(rough.over);
    for (int64_t at = 0; at < size;) {
        int64_t end = size - at < FULL * 16 ? size : at + FULL * 16;
        __m512i levels[LEVELS];
        for (int level = 0; level < LEVELS; level++) levels[level] = _mm512_setzero_si512();
        for (; at + 512 <= end; at += 512)
            add_carry(levels, 5, carry_of_32(&bins, levels, items + at));
        for (; at + 64 <= end; at += 64)
            add_carry(levels, 2, carry_of_4(&bins, levels, items + at));
        for (; at < end; at += 16) add_carry(levels, 0, bits_of(&bins, items + at));
        uint16_t few[FLOAT_BINS], many[FLOAT_BINS];
        read_wide(levels, few);
        read_wide(levels + 5, many);
        for (int bin = 0; bin < FLOAT_BINS - 1; bin++) {
            uint64_t counted = few[bin] + ((uint64_t)many[bin] << 5);
            histogram[bin] += counted;
            last -= counted;
        }
    }
    histogram[FLOAT_BINS - 1] += last;
}

#endif
