/* Statistics of an array; see summary.h.

   Elements are converted to float64 in blocks that stay in the first-level cache, and each block is
   reduced by loops that the compiler turns into vector instructions: sums are kept in LANES parts.
   Bins of the histogram are computed as NumPy computes them, without fused operations, so that counts
   equal those of the Python code. */
#include "summary.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define BLOCK 1024
#define LANES 8
#define TABLES 4
#define MANY_FLOATS 64
#define MANY_BYTES 1024 /* below this number, counting each value takes longer, unless there are only two */

/* Squares and sums of numbers between these two neither overflow nor underflow in float64. */
static const double LEAST = 0x1p-300, MOST = 0x1p300;

/* ------------------------------------------------------------ reading */

typedef void (*Convert)(const char *from, int64_t stride, int many, double *to);

#define CONVERTER(name, type)                                                                      \
    VECTORISED static void name(const char *from, int64_t stride, int many, double *to) {          \
        if (stride == (int64_t)sizeof(type)) {                                                     \
            const type *items = (const type *)from;                                                \
            for (int i = 0; i < many; i++) to[i] = (double)items[i];                               \
        } else {                                                                                   \
            for (int i = 0; i < many; i++, from += stride) {                                       \
                type item;                                                                         \
                memcpy(&item, from, sizeof item);                                                  \
                to[i] = (double)item;                                                              \
            }                                                                                      \
        }                                                                                          \
    }

CONVERTER(from_float, float)
CONVERTER(from_double, double)
CONVERTER(from_int8, int8_t)
CONVERTER(from_uint8, uint8_t)
CONVERTER(from_int16, int16_t)
CONVERTER(from_uint16, uint16_t)
CONVERTER(from_int32, int32_t)
CONVERTER(from_uint32, uint32_t)
CONVERTER(from_int64, int64_t)
CONVERTER(from_uint64, uint64_t)

/* Any byte but zero is true. */
static void from_bool(const char *from, int64_t stride, int many, double *to) {
    for (int i = 0; i < many; i++, from += stride) to[i] = *from != 0;
}

static inline float as_float(uint32_t bits) {
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static void from_bfloat16(const char *from, int64_t stride, int many, double *to) {
    for (int i = 0; i < many; i++, from += stride) {
        uint16_t bits;
        memcpy(&bits, from, sizeof bits);
        to[i] = as_float((uint32_t)bits << 16);
    }
}

/* Convert IEEE half precision: shifted into a float, its exponent has a bias of 15 instead of 127, also
   for subnormals. */
VECTORISED static void from_half(const char *from, int64_t stride, int many, double *to) {
    uint16_t bits[BLOCK];
    for (int i = 0; i < many; i++, from += stride) memcpy(&bits[i], from, sizeof *bits);
    for (int i = 0; i < many; i++) {
        uint32_t magnitude = bits[i] & 0x7fffu, sign = (uint32_t)(bits[i] & 0x8000u) << 16;
        float number = as_float(magnitude << 13) * 0x1p112f;
        uint32_t number_bits;
        memcpy(&number_bits, &number, sizeof number_bits);
        uint32_t special = (magnitude << 13) | 0x7f800000u;
        number_bits = magnitude >= 0x7c00u ? special : number_bits;
        to[i] = as_float(number_bits | sign);
    }
}

static Convert converter(char code, int itemsize) {
    switch (code) {
    case 'f': return from_float;
    case 'd': return from_double;
    case 'e': return from_half;
    case 'E': return from_bfloat16;
    case '?': return from_bool;
    case 'B': return from_uint8;
    case 'b': return from_int8;
    case 'h': return from_int16;
    case 'H': return from_uint16;
    case 'i': case 'l': case 'q': return itemsize == 8 ? from_int64 : from_int32;
    case 'I': case 'L': case 'Q': return itemsize == 8 ? from_uint64 : from_uint32;
    default: return 0;
    }
}

int summary_reads(char code) { return converter(code, 8) != 0; }

/* Merge dimensions of an array where possible, and sort them: the least stride is innermost. */
static void flatten(const Source *source, Source *flat) {
    int many = 0;
    flat->data = source->data;
    flat->code = source->code;
    flat->itemsize = source->itemsize;
    for (int i = 0; i < source->dimensions; i++) {
        if (source->shape[i] == 1) continue;
        int64_t length = source->shape[i], stride = source->strides[i];
        int64_t reach = stride < 0 ? -stride : stride;
        int at = many++;
        for (; at > 0; at--) {
            int64_t before = flat->strides[at - 1] < 0 ? -flat->strides[at - 1] : flat->strides[at - 1];
            if (before >= reach) break;
            flat->shape[at] = flat->shape[at - 1];
            flat->strides[at] = flat->strides[at - 1];
        }
        flat->shape[at] = length;
        flat->strides[at] = stride;
    }
    int kept = 0;
    for (int i = 0; i < many; i++) {
        if (kept && flat->strides[kept - 1] == flat->strides[i] * flat->shape[i]) {
            flat->shape[kept - 1] *= flat->shape[i];
            flat->strides[kept - 1] = flat->strides[i];
        } else {
            flat->shape[kept] = flat->shape[i];
            flat->strides[kept++] = flat->strides[i];
        }
    }
    if (!kept) {
        flat->shape[0] = 1;
        flat->strides[0] = flat->itemsize;
        kept = 1;
    }
    flat->dimensions = kept;
}

typedef struct {
    const Source *source;
    Convert convert;
    int64_t index[MOST_DIMENSIONS];
    const char *row;   /* start of the current innermost row */
    int64_t column;    /* number of its elements that were read */
    int over;
} Reader;

static void begin(Reader *reader, const Source *flat) {
    memset(reader->index, 0, (size_t)flat->dimensions * sizeof *reader->index);
    reader->source = flat;
    reader->convert = converter(flat->code, flat->itemsize);
    reader->row = flat->data;
    reader->column = 0;
    reader->over = 0;
}

/* Read the next elements, at most BLOCK; returns their number, 0 at the end. */
static int next_block(Reader *reader, double *block) {
    const Source *source = reader->source;
    int inner = source->dimensions - 1, filled = 0;
    int64_t length = source->shape[inner], stride = source->strides[inner];
    while (filled < BLOCK && !reader->over) {
        int64_t rest = length - reader->column;
        int many = rest < BLOCK - filled ? (int)rest : BLOCK - filled;
        reader->convert(reader->row + reader->column * stride, stride, many, block + filled);
        filled += many;
        reader->column += many;
        if (reader->column < length) continue;
        reader->column = 0;
        int axis = inner - 1;
        for (; axis >= 0; axis--) {
            reader->row += source->strides[axis];
            if (++reader->index[axis] < source->shape[axis]) break;
            reader->row -= source->strides[axis] * source->shape[axis];
            reader->index[axis] = 0;
        }
        reader->over = axis < 0;
    }
    return filled;
}

/* ------------------------------------------------------------ reducing */

typedef struct {
    double low, high, sum, squares;
    int64_t zero;
} Totals;

typedef double Lanes __attribute__((vector_size(8 * LANES)));
typedef int64_t Mask __attribute__((vector_size(8 * LANES)));

/* Take lanes from `set` where the mask is set, else from `unset`. */
static inline __attribute__((always_inline)) Lanes select_lanes(Mask mask, Lanes set, Lanes unset) {
    return (Lanes)(((Mask)set & mask) | ((Mask)unset & ~mask));
}

/* Totals of a block on the assumption that all elements are finite; they are valid if `squares` is
   finite. The vectors are written out, as compiled loops over arrays take three times as long. */
VECTORISED static void total(const double *block, int many, Totals *totals) {
    double low[LANES], high[LANES], sum[LANES], squares[LANES];
    int64_t zero[LANES];
    Lanes lows, highs, sums = {0}, all_squares = {0};
    Mask zeros = {0};
    for (int j = 0; j < LANES; j++) lows[j] = INFINITY, highs[j] = -INFINITY;
    int whole = many - many % LANES;
    for (int i = 0; i < whole; i += LANES) {
        Lanes x;
        memcpy(&x, block + i, sizeof x);
        lows = select_lanes((Mask)(x < lows), x, lows);
        highs = select_lanes((Mask)(x > highs), x, highs);
        sums += x;
        all_squares += x * x;
        zeros -= (Mask)(x == 0.0);
    }
    memcpy(low, &lows, sizeof low);
    memcpy(high, &highs, sizeof high);
    memcpy(sum, &sums, sizeof sum);
    memcpy(squares, &all_squares, sizeof squares);
    memcpy(zero, &zeros, sizeof zero);
    for (int i = whole, j = 0; i < many; i++, j++) {
        double x = block[i];
        low[j] = x < low[j] ? x : low[j];
        high[j] = x > high[j] ? x : high[j];
        sum[j] += x;
        squares[j] += x * x;
        zero[j] += x == 0.0;
    }
    *totals = (Totals){low[0], high[0], 0.0, 0.0, 0};
    for (int j = 0; j < LANES; j++) {
        totals->low = low[j] < totals->low ? low[j] : totals->low;
        totals->high = high[j] > totals->high ? high[j] : totals->high;
        totals->sum += sum[j];
        totals->squares += squares[j];
        totals->zero += zero[j];
    }
}

/* Keep the finite elements of a block, and count the others. */
static int keep_finite(double *block, int many, Summary *summary) {
    int kept = 0;
    for (int i = 0; i < many; i++) {
        double x = block[i];
        if (isnan(x))
            summary->nan++;
        else if (isinf(x))
            summary->inf++;
        else
            block[kept++] = x;
    }
    return kept;
}

VECTORISED static double spread(const double *block, int many, double mean) {
    double squares[LANES] = {0};
    int whole = many - many % LANES;
    for (int i = 0; i < whole; i += LANES)
        for (int j = 0; j < LANES; j++) {
            double apart = block[i + j] - mean;
            squares[j] += apart * apart;
        }
    for (int i = whole, j = 0; i < many; i++, j++) {
        double apart = block[i] - mean;
        squares[j] += apart * apart;
    }
    double sum = 0.0;
    for (int j = 0; j < LANES; j++) sum += squares[j];
    return sum;
}

/* Compute the bin of each element; the maximum belongs to the last bin. */
VECTORISED static void place(const double *block, int many, double low, double scale, int bins,
                             int32_t *places) {
    for (int i = 0; i < many; i++) {
        int32_t bin = (int32_t)((block[i] - low) * scale);
        places[i] = bin < bins ? bin : bins - 1;
    }
}

void summary_preview(const Source *source, Summary *summary) {
    Convert convert = converter(source->code, source->itemsize);
    int64_t index[MOST_DIMENSIONS];
    const char *item = source->data;
    memset(index, 0, (size_t)source->dimensions * sizeof *index);
    int many = summary->size < PREVIEW ? (int)summary->size : PREVIEW;
    for (int i = 0; i < many; i++) {
        convert(item, source->itemsize, 1, &summary->preview[i]);
        for (int axis = source->dimensions - 1; axis >= 0; axis--) {
            item += source->strides[axis];
            if (++index[axis] < source->shape[axis]) break;
            item -= source->strides[axis] * source->shape[axis];
            index[axis] = 0;
        }
    }
    summary->previewed = many;
}

int summarise(const Source *source, int bins, Summary *summary) {
    double block[BLOCK];
    Source flat;
    Reader reader;
    Totals totals;
    double sum = 0.0, squares = 0.0;
    int many, finite_only = 1;

    /* Of the histogram, only the bins that are used: clearing all takes longer than a small array. */
    memset(summary, 0, offsetof(Summary, histogram));
    memset(summary->histogram, 0, (size_t)bins * sizeof *summary->histogram);
    summary->previewed = 0;
    summary->low = INFINITY;
    summary->high = -INFINITY;
    summary->size = 1;
    for (int i = 0; i < source->dimensions; i++) summary->size *= source->shape[i];
    flatten(source, &flat);
    if (flat.dimensions == 1 && flat.strides[0] == flat.itemsize) {
        int floats = flat.code == 'f' && summary->size >= MANY_FLOATS && bins == FLOAT_BINS;
        int bytes = flat.itemsize == 1 && summary->size >= (flat.code == '?' ? 1 : MANY_BYTES);
        if (bytes) summarise_bytes(flat.data, flat.code, bins, summary);
        if (bytes || (floats && summarise_floats((const float *)flat.data, summary->size, summary))) {
            summary_preview(source, summary);
            return 0;
        }
    }
    begin(&reader, &flat);
    while ((many = next_block(&reader, block))) {
        total(block, many, &totals);
        if (!(totals.squares < INFINITY)) {
            int kept = keep_finite(block, many, summary);
            finite_only &= kept == many;
            total(block, kept, &totals);
            many = kept;
        }
        if (!many) continue;
        summary->finite += many;
        summary->zero += totals.zero;
        if (totals.low < summary->low) summary->low = totals.low;
        if (totals.high > summary->high) summary->high = totals.high;
        sum += totals.sum;
        squares += totals.squares;
    }
    summary_preview(source, summary);
    if (!summary->finite) return 0;
    /* Whether 0.0 or -0.0 is the extreme depends on the order of elements: -0.0 becomes 0.0. */
    double low = summary->low += 0.0, high = summary->high += 0.0;
    double most = fabs(low) > fabs(high) ? fabs(low) : fabs(high);
    if (most != 0.0 && !(most >= LEAST && most < MOST)) return 1;
    double mean = sum / (double)summary->finite;
    summary->mean = mean = mean < low ? low : mean > high ? high : mean;
    summary->norm = sqrt(squares);
    if (low == high) {
        summary->histogram[0] = (uint64_t)summary->finite;
        return 0;
    }
    uint64_t tables[TABLES][MOST_BINS];
    int32_t places[BLOCK];
    double scale = bins / (high - low), centred = 0.0;
    for (int j = 0; j < TABLES; j++) memset(tables[j], 0, (size_t)bins * sizeof *tables[j]);
    begin(&reader, &flat);
    while ((many = next_block(&reader, block))) {
        if (!finite_only) {
            Summary unused;
            many = keep_finite(block, many, &unused);
        }
        centred += spread(block, many, mean);
        place(block, many, low, scale, bins, places);
        /* Neighbours use different tables, as equal ones would wait for the same counter. */
        int i = 0;
        for (; i + TABLES <= many; i += TABLES)
            for (int j = 0; j < TABLES; j++) tables[j][places[i + j]]++;
        for (; i < many; i++) tables[0][places[i]]++;
    }
    summary->std = sqrt(centred / (double)summary->finite);
    for (int j = 0; j < TABLES; j++)
        for (int bin = 0; bin < bins; bin++) summary->histogram[bin] += tables[j][bin];
    return 0;
}
