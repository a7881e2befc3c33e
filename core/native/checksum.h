/* CRC-32 as in zlib, several times as fast on processors with carry-less multiplication. */
#ifndef NODESCOPE_CHECKSUM_H
#define NODESCOPE_CHECKSUM_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Adds the function `crc32` where the processor has the instructions; -1 with an exception set. */
int add_checksum(PyObject *module);

#endif
