/* Each word is combined with a key for its position, and the product of the two halves is added to one of several
   lanes, together with the word, as a half of zero would hide the other one. The products are those of NH, from
   J. Black et al., "UMAC: Fast and Secure Message Authentication" (CRYPTO 1999). Sums of words, even if they are
   weighed by position, are faster by half but the same for some patterns of zeros and ones.

   The keys are known, so this is no protection from somebody who wants two contents to have the same hash. */
#include "memory_hash.h"

#include <string.h>

#define STRIPE ((int64_t)(8 * HASH_LANES))
#define STEP 0x9e3779b97f4a7c15u /* from a key to the next one of its lane: all are different */

void start_hash(MemoryHash *hash) {
    for (uint64_t lane = 0; lane < HASH_LANES; lane++) {
        uint64_t key = (lane + 1) * 0xbf58476d1ce4e5b9u;
        key = (key ^ key >> 30) * 0x94d049bb133111ebu;
        hash->sums[lane] = hash->keys[lane] = key ^ key >> 31;
    }
    hash->bytes = 0;
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define PARTS 4 /* of four lanes */

/* `add_stripes` in vectors of 256 bits: three times as fast, as it multiplies halves. */
__attribute__((target("avx2"))) static void add_wide(MemoryHash *hash, const char *data, int64_t stripes) {
    __m256i sums[PARTS], keys[PARTS];
    const __m256i step = _mm256_set1_epi64x((long long)STEP);
    memcpy(sums, hash->sums, sizeof sums);
    memcpy(keys, hash->keys, sizeof keys);
    for (; stripes > 0; stripes--, data += STRIPE) {
#pragma GCC unroll 4
        for (int part = 0; part < PARTS; part++) {
            __m256i word = _mm256_loadu_si256((const __m256i *)data + part);
            __m256i mixed = _mm256_xor_si256(word, keys[part]);
            __m256i product = _mm256_mul_epu32(mixed, _mm256_srli_epi64(mixed, 32));
            sums[part] = _mm256_add_epi64(sums[part], _mm256_add_epi64(product, word));
            keys[part] = _mm256_add_epi64(keys[part], step);
        }
    }
    memcpy(hash->sums, sums, sizeof sums);
    memcpy(hash->keys, keys, sizeof keys);
}
#endif

static void add_stripes(MemoryHash *hash, const char *data, int64_t stripes) {
    for (; stripes > 0; stripes--, data += STRIPE) {
        for (int lane = 0; lane < HASH_LANES; lane++) {
            uint64_t word;
            memcpy(&word, data + 8 * lane, 8);
            uint64_t mixed = word ^ hash->keys[lane];
            hash->sums[lane] += (mixed & 0xffffffffu) * (mixed >> 32) + word;
            hash->keys[lane] += STEP;
        }
    }
}

void hash_piece(MemoryHash *hash, const char *data, int64_t bytes) {
    void (*add)(MemoryHash *, const char *, int64_t) = add_stripes;
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx2")) add = add_wide;
#endif
    int64_t rest = bytes % STRIPE;
    add(hash, data, bytes / STRIPE);
    hash->bytes += (uint64_t)bytes;
    if (!rest) return;
    char last[STRIPE] = {0};
    memcpy(last, data + bytes - rest, (size_t)rest);
    add(hash, last, 1);
}

uint64_t finish_hash(const MemoryHash *hash) {
    uint64_t all = hash->bytes;
    for (int lane = 0; lane < HASH_LANES; lane++) {
        all = (all ^ hash->sums[lane]) * STEP;
        all ^= all >> 32;
    }
    return all;
}

uint64_t hash_of(const char *data, int64_t bytes) {
    MemoryHash hash;
    start_hash(&hash);
    hash_piece(&hash, data, bytes);
    return finish_hash(&hash);
}
