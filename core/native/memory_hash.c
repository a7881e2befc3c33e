/* Memory is read in stripes of eight blocks of 16 bytes. Each block goes into a lane of its own, which is mixed before
   the next one comes: by a round of AES where the processor has it, else by a product whose halves are combined, as in
   Wang Yi's wyhash (a quarter as fast). So what a changed block leaves in its lane is spread, and no later change
   makes up for it but by chance. Sums of words or of their products, even with a factor for each position, are no
   faster, and the same for patterns that programs have: zeros and ones in another order, other signs in one column.

   The constants are known, so this is no protection from somebody who wants two contents to have the same hash. */
#include "memory_hash.h"

#include <string.h>

#define BLOCKS HASH_LANES
#define LAST 0xa0761d6478bd642fu
#define STRIPE ((int64_t)(16 * BLOCKS))

/* The product of two words, its upper half combined with the lower one. */
static inline uint64_t folded(uint64_t one, uint64_t other) {
#ifdef __SIZEOF_INT128__
    unsigned __int128 product = (unsigned __int128)one * other;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
#else
    const uint64_t lower = 0xffffffffu;
    uint64_t middle = (one >> 32) * (other & lower) + ((one & lower) * (other & lower) >> 32);
    uint64_t rest = (middle & lower) + (one & lower) * (other >> 32);
    return one * other ^ ((one >> 32) * (other >> 32) + (middle >> 32) + (rest >> 32));
#endif
}

/* The `nth` number of splitmix64. */
static uint64_t random_word(uint64_t nth) {
    uint64_t mixed = nth * 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return mixed ^ mixed >> 31;
}

void start_hash(MemoryHash *hash) {
    for (uint64_t word = 0; word < 2 * HASH_LANES; word++) hash->lanes[word / 2][word % 2] = random_word(word + 1);
    hash->bytes = 0;
}

static void add_by_products(MemoryHash *hash, const char *data, int64_t stripes) {
    uint64_t words[2];
    for (; stripes > 0; stripes--, data += STRIPE) {
        for (int block = 0; block < BLOCKS; block++) {
            uint64_t *lane = hash->lanes[block];
            memcpy(words, data + 16 * block, sizeof words);
            lane[0] = folded(lane[0] ^ words[0], lane[1] ^ words[1]) + words[0];
        }
    }
}

typedef void Stripes(MemoryHash *hash, const char *data, int64_t stripes);

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

__attribute__((target("aes"))) static void add_by_rounds(MemoryHash *hash, const char *data, int64_t stripes) {
    __m128i lanes[BLOCKS];
    memcpy(lanes, hash->lanes, sizeof lanes);
    for (; stripes > 0; stripes--, data += STRIPE) {
#pragma GCC unroll 8
        for (int block = 0; block < BLOCKS; block++)
            lanes[block] = _mm_aesenc_si128(lanes[block], _mm_loadu_si128((const __m128i *)data + block));
    }
    memcpy(hash->lanes, lanes, sizeof lanes);
}

static Stripes *add_stripes(void) { return __builtin_cpu_supports("aes") ? add_by_rounds : add_by_products; }
#else
static Stripes *add_stripes(void) { return add_by_products; }
#endif

void hash_piece(MemoryHash *hash, const char *data, int64_t bytes) {
    Stripes *add = add_stripes();
    int64_t rest = bytes % STRIPE;
    add(hash, data, bytes / STRIPE);
    hash->bytes += (uint64_t)bytes;
    if (!rest) return;
    char last[STRIPE] = {0};
    memcpy(last, data + bytes - rest, (size_t)rest);
    add(hash, last, 1);
}

uint64_t finish_hash(MemoryHash *hash) {
    static const char zeros[2 * STRIPE];
    uint64_t all = hash->bytes;
    add_stripes()(hash, zeros, 2); /* so that the last blocks are mixed like those before */
    for (int lane = 0; lane < HASH_LANES; lane++) {
        all = folded(all ^ hash->lanes[lane][0], LAST ^ hash->lanes[lane][1]);
        all ^= all >> 29;
    }
    return all;
}

uint64_t hash_of(const char *data, int64_t bytes) {
    MemoryHash hash;
    start_hash(&hash);
    hash_piece(&hash, data, bytes);
    return finish_hash(&hash);
}
