/* Statistics of contiguous elements of one byte, and bools: they follow from how often each value occurs. */
#include "summary.h"

#include <math.h>
#include <string.h>

#define VALUES 256
#define TABLES 4

/* Count the bytes that are not zero. */
VECTORISED static int64_t true_among(const uint8_t *items, int64_t size) {
    const uint64_t low = 0x7f7f7f7f7f7f7f7f;
    int64_t many = 0, at = 0;
    for (; at + 8 <= size; at += 8) {
        uint64_t word;
        memcpy(&word, items + at, sizeof word);
        many += __builtin_popcountll((((word & low) + low) | word) & ~low);
    }
    for (; at < size; at++) many += items[at] != 0;
    return many;
}

/* Count how often each byte occurs. Neighbours use different tables, as equal ones would wait for the same
   counter. */
static void count_bytes(const uint8_t *items, int64_t size, int64_t *counts) {
    int64_t tables[TABLES][VALUES] = {{0}}, at = 0;
    for (; at + TABLES <= size; at += TABLES)
        for (int j = 0; j < TABLES; j++) tables[j][items[at + j]]++;
    for (; at < size; at++) tables[0][items[at]]++;
    for (int value = 0; value < VALUES; value++) {
        counts[value] = 0;
        for (int j = 0; j < TABLES; j++) counts[value] += tables[j][value];
    }
}

/* Fill a summary from the values that occur, in ascending order, and how often. */
static void fill(Summary *summary, const int *values, const int64_t *counts, int many, int bins) {
    double low = values[0], high = values[many - 1], number = (double)summary->size;
    double sum = 0.0, squares = 0.0, spread = 0.0;
    for (int i = 0; i < many; i++) {
        double value = values[i], times = (double)counts[i];
        sum += value * times;
        squares += value * value * times;
        if (!values[i]) summary->zero = counts[i];
    }
    double mean = sum / number;
    summary->finite = summary->size;
    summary->low = low;
    summary->high = high;
    summary->mean = mean = mean < low ? low : mean > high ? high : mean;
    summary->norm = sqrt(squares);
    double scale = low == high ? 0.0 : bins / (high - low);
    for (int i = 0; i < many; i++) {
        double apart = values[i] - mean;
        int bin = (int)((values[i] - low) * scale);
        spread += apart * apart * (double)counts[i];
        summary->histogram[bin < bins ? bin : bins - 1] += (uint64_t)counts[i];
    }
    summary->std = low == high ? 0.0 : sqrt(spread / number);
}

void summarise_bytes(const char *items, char code, int bins, Summary *summary) {
    const uint8_t *bytes = (const uint8_t *)items;
    int64_t of[VALUES] = {0}, counts[VALUES];
    int values[VALUES], many = 0, least = code == 'b' ? -VALUES / 2 : 0;
    if (code == '?') {
        of[1] = true_among(bytes, summary->size);
        of[0] = summary->size - of[1];
    } else count_bytes(bytes, summary->size, of);
    for (int value = least; value < least + (code == '?' ? 2 : VALUES); value++)
        if (of[value & (VALUES - 1)]) values[many] = value, counts[many++] = of[value & (VALUES - 1)];
    fill(summary, values, counts, many, bins);
}
