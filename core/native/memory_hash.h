/* A hash of memory, to find out within a process whether its contents are still the same. */
#ifndef NODESCOPE_MEMORY_HASH_H
#define NODESCOPE_MEMORY_HASH_H

#include <stdint.h>

#define HASH_LANES 8

/* A hash of pieces of memory, one after the other. */
typedef struct {
    uint64_t lanes[HASH_LANES][2], bytes;
} MemoryHash;

void start_hash(MemoryHash *hash);
void hash_piece(MemoryHash *hash, const char *data, int64_t bytes);

/* The hash of all pieces, to which none can be added afterwards. */
uint64_t finish_hash(MemoryHash *hash);

/* The hash of a single piece. */
uint64_t hash_of(const char *data, int64_t bytes);

#endif
