/* The CRC-32 of a buffer is the remainder of a polynomial over GF(2). Four lanes of 128 bits are folded
   onto the next 64 bytes by carry-less multiplication with powers of x modulo the polynomial (sixteen onto
   the next 256, where the processor multiplies four at a time), then into one lane, then into 32 bits by
   Barrett reduction. The method, and the constants for this polynomial with its
   bits reversed, are from V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
   Instruction" (Intel, 2009). On other processors, Python's zlib computes the same. */
#include "checksum.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define FOLDS __attribute__((target("pclmul,sse4.1")))

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define GIVES_UP_THE_LOCK 16384 /* bytes */
#define BY_64 0x01c6e41596, 0x0154442bd4 /* powers of x, to fold a lane onto the one 64 bytes on */

static uint32_t table[256];

static void fill_table(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t rest = byte;
        for (int bit = 0; bit < 8; bit++) rest = rest >> 1 ^ (rest & 1 ? 0xedb88320u : 0);
        table[byte] = rest;
    }
}

FOLDS static __m128i folded(__m128i lane, __m128i powers, __m128i next) {
    __m128i low = _mm_clmulepi64_si128(lane, powers, 0x00);
    __m128i high = _mm_clmulepi64_si128(lane, powers, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* The CRC that four lanes and the bytes after them, a multiple of 16, have together. */
FOLDS static uint32_t reduced(__m128i lanes[4], const char *data, Py_ssize_t size) {
    const __m128i by_64 = _mm_set_epi64x(BY_64);
    const __m128i by_16 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
    const __m128i by_8 = _mm_set_epi64x(0, 0x0163cd6124);
    const __m128i barrett = _mm_set_epi64x(0x01f7011641, 0x01db710641);
    const __m128i words = _mm_setr_epi32(-1, 0, -1, 0);
    const __m128i *at = (const __m128i *)data;
    for (; size >= 64; size -= 64)
        for (int i = 0; i < 4; i++) lanes[i] = folded(lanes[i], by_64, _mm_loadu_si128(at++));
    __m128i lane = lanes[0];
    for (int i = 1; i < 4; i++) lane = folded(lane, by_16, lanes[i]);
    for (; size >= 16; size -= 16) lane = folded(lane, by_16, _mm_loadu_si128(at++));
    lane = _mm_xor_si128(_mm_srli_si128(lane, 8), _mm_clmulepi64_si128(lane, by_16, 0x10));
    __m128i rest = _mm_srli_si128(lane, 4);
    lane = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(lane, words), by_8, 0x00), rest);
    __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(lane, words), barrett, 0x10);
    quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, words), barrett, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(lane, quotient), 1);
}

/* The CRC of at least 64 bytes, a multiple of 16. `crc` is taken after the initial inversion of all bits,
   and the result is returned before the final one. */
FOLDS static uint32_t folded_crc(const char *data, Py_ssize_t size, uint32_t crc) {
    __m128i lanes[4];
    for (int i = 0; i < 4; i++) lanes[i] = _mm_loadu_si128((const __m128i *)data + i);
    lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128((int)crc));
    return reduced(lanes, data + 64, size - 64);
}

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 10
#define WIDE __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.1")))

WIDE static inline __m512i folded_wide(__m512i lanes, __m512i powers, __m512i next) {
    __m512i low = _mm512_clmulepi64_epi128(lanes, powers, 0x00);
    __m512i high = _mm512_clmulepi64_epi128(lanes, powers, 0x11);
    return _mm512_ternarylogic_epi64(low, high, next, 0x96); /* exclusive or of all three */
}

/* The same for at least 256 bytes, with sixteen lanes at first. */
WIDE static uint32_t wide_crc(const char *data, Py_ssize_t size, uint32_t crc) {
    const __m512i by_256 = _mm512_broadcast_i32x4(_mm_set_epi64x(0x01322d1430, 0x011542778a));
    const __m512i by_64 = _mm512_broadcast_i32x4(_mm_set_epi64x(BY_64));
    __m512i lanes[4];
    for (int i = 0; i < 4; i++, data += 64) lanes[i] = _mm512_loadu_si512(data);
    lanes[0] = _mm512_xor_si512(lanes[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
    for (size -= 256; size >= 256; size -= 256)
        for (int i = 0; i < 4; i++, data += 64)
            lanes[i] = folded_wide(lanes[i], by_256, _mm512_loadu_si512(data));
    for (int i = 1; i < 4; i++) lanes[i] = folded_wide(lanes[i - 1], by_64, lanes[i]);
    __m128i last[4];
    _mm512_storeu_si512(last, lanes[3]);
    return reduced(last, data, size);
}

static int has_wide(void) {
    return __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f");
}
#else
static uint32_t wide_crc(const char *data, Py_ssize_t size, uint32_t crc) {
    return folded_crc(data, size, crc);
}
static int has_wide(void) { return 0; }
#endif

static int wide;

static uint32_t crc_of(const char *data, Py_ssize_t size, uint32_t crc) {
    crc = ~crc;
    if (size >= 64) {
        Py_ssize_t whole = size / 16 * 16;
        crc = wide && whole >= 256 ? wide_crc(data, whole, crc) : folded_crc(data, whole, crc);
        data += whole;
        size -= whole;
    }
    for (; size; size--, data++) crc = crc >> 8 ^ table[(crc ^ (unsigned char)*data) & 255];
    return ~crc;
}

PyDoc_STRVAR(crc32_doc,
"crc32(data, crc=0)\n--\n\n"
"Like `zlib.crc32`; releases the interpreter's lock for longer data.\n");

static PyObject *py_crc32(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    Py_buffer view;
    if (count < 1 || count > 2) {
        PyErr_SetString(PyExc_TypeError, "crc32 takes data, and a number");
        return NULL;
    }
    uint32_t crc = count == 2 ? (uint32_t)PyLong_AsUnsignedLongMask(arguments[1]) : 0;
    if (PyErr_Occurred() || PyObject_GetBuffer(arguments[0], &view, PyBUF_SIMPLE) < 0) return NULL;
    if (view.len < GIVES_UP_THE_LOCK) crc = crc_of(view.buf, view.len, crc);
    else {
        Py_BEGIN_ALLOW_THREADS
        crc = crc_of(view.buf, view.len, crc);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&view);
    return PyLong_FromUnsignedLong(crc);
}

PyDoc_STRVAR(crc32_of_pages_doc,
"crc32_of_pages(data, page)\n--\n\n"
"The CRC-32 of each whole page of `page` bytes, as uint32; releases the interpreter's lock. A shorter\n"
"rest at the end is ignored.\n");

static PyObject *py_crc32_of_pages(PyObject *module, PyObject *arguments) {
    Py_buffer view;
    Py_ssize_t page;
    if (!PyArg_ParseTuple(arguments, "y*n", &view, &page)) return NULL;
    PyObject *sums = NULL;
    if (page < 1) PyErr_SetString(PyExc_ValueError, "a page has bytes");
    else sums = PyBytes_FromStringAndSize(NULL, view.len / page * 4);
    if (sums) {
        char *to = PyBytes_AsString(sums);
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t i = 0; i < view.len / page; i++) {
            uint32_t crc = crc_of((const char *)view.buf + i * page, page, 0);
            memcpy(to + 4 * i, &crc, 4);
        }
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&view);
    return sums;
}

static PyMethodDef functions[] = {
    {"crc32", (PyCFunction)(void (*)(void))py_crc32, METH_FASTCALL, crc32_doc},
    {"crc32_of_pages", py_crc32_of_pages, METH_VARARGS, crc32_of_pages_doc},
    {NULL, NULL, 0, NULL},
};

int add_checksum(PyObject *module) {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("pclmul") || !__builtin_cpu_supports("sse4.1")) return 0;
    fill_table();
    wide = has_wide();
    return PyModule_AddFunctions(module, functions);
}

#else

int add_checksum(PyObject *module) { return 0; }

#endif
