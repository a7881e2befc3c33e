"""Threads for large loops: one pool per process, which the libraries of all plans share.

A kernel divides a large loop at fixed places, and each part gives the same bits on any thread, so
results do not depend on the number of threads. One loop at a time uses the pool; a concurrent one
runs on its caller's thread. Idle threads sleep. A forked child creates its own threads.

Invariant: with one thread, as NODESCOPE_THREADS, OMP_NUM_THREADS, OPENBLAS_NUM_THREADS or the
process's CPU affinity may set, no thread is ever created.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from nodescope.engine.codegen.c_backend import prelude, toolchain

PART = 1 << 14
"""Approximate number of elements in a part of a loop."""

_MOST = 64  # threads

SPLIT = """
typedef void (*ns_part_t)(char **, char *, i64);
static void (*ns_pool)(ns_part_t, char **, char *, i64, i64);
static i64 ns_threads;
NS_EXPORT void ns_share(void *pool, i64 threads) { ns_pool = pool, ns_threads = threads; }
static void ns_split(ns_part_t part, char **p, char *w, i64 parts) {
  if (ns_pool && parts > 1) ns_pool(part, p, w, parts, ns_threads);
  else for (i64 i = 0; i < parts; i++) part(p, w, i);
}
"""
"""The text that divides loops; without `ns_share`, it runs their parts in order."""

_POOL = """
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
#include <fenv.h>
typedef void (*ns_part_t)(char **, char *, i64);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static int taken, made, inside, wanted;  /* threads: created, in the loop, and still to enter it */
static struct { ns_part_t part; char **p; char *w; i64 parts, next; fenv_t mode; } loop;

static void ns_work(ns_part_t part, char **p, char *w, i64 parts) {
  i64 i;
  while ((i = __atomic_fetch_add(&loop.next, 1, __ATOMIC_RELAXED)) < parts) part(p, w, i);
}
static void *ns_thread(void *none) {
  pthread_mutex_lock(&lock);
  for (;;) {
    while (!wanted) pthread_cond_wait(&wake, &lock);
    wanted--, inside++;
    fesetenv(&loop.mode);
    pthread_mutex_unlock(&lock);
    ns_work(loop.part, loop.p, loop.w, loop.parts);
    pthread_mutex_lock(&lock);
    if (!--inside) pthread_cond_signal(&done);
  }
  return 0;
}
static void ns_more(int count) {  /* threads; the lock is held */
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  /* signals are for the program's own threads */
  pthread_attr_t kind;
  pthread_attr_init(&kind);
  pthread_attr_setdetachstate(&kind, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  while (made < count && !pthread_create(&thread, &kind, ns_thread, 0)) made++;
  pthread_attr_destroy(&kind);
  pthread_sigmask(SIG_SETMASK, &before, 0);
}
static void ns_child(void) {  /* after a fork the threads are gone, and whoever held the lock */
  pthread_mutex_init(&lock, 0);
  pthread_cond_init(&wake, 0);
  pthread_cond_init(&done, 0);
  taken = made = inside = wanted = 0;
}
__attribute__((constructor)) static void ns_begin(void) { pthread_atfork(0, 0, ns_child); }

NS_EXPORT void ns_pool(ns_part_t part, char **p, char *w, i64 parts, i64 threads) {
  pthread_mutex_lock(&lock);
  if (taken) {  /* by another thread of the program */
    pthread_mutex_unlock(&lock);
    for (i64 i = 0; i < parts; i++) part(p, w, i);
    return;
  }
  taken = 1;
  const i64 most = (parts < threads ? parts : threads) - 1;
  if (made < most) ns_more((int)most);
  loop.part = part, loop.p = p, loop.w = w, loop.parts = parts, loop.next = 0;
  fegetenv(&loop.mode);
  wanted = (int)(made < most ? made : most);
  for (int i = 0; i < wanted; i++) pthread_cond_signal(&wake);
  pthread_mutex_unlock(&lock);
  ns_work(part, p, w, parts);
  pthread_mutex_lock(&lock);
  wanted = 0;  /* threads that wake up from here on find no work */
  while (inside) pthread_cond_wait(&done, &lock);
  taken = 0;
  pthread_mutex_unlock(&lock);
}
NS_EXPORT i64 ns_made(void) { return made; }
"""


def threads(environ: Mapping[str, str]) -> int:
    """The number of threads for a loop: as many as for products, at most the number of
    processors.
    """
    try:
        most = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        most = os.cpu_count() or 1
    for name in ("NODESCOPE_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        setting = environ.get(name, "").split(",")[0].strip()
        if setting.isdigit() and int(setting):
            most = min(most, int(setting))
            break
    return max(1, min(most, _MOST))


def source() -> str:
    """The text of the pool."""
    return prelude.complete(_POOL)


def library() -> toolchain.Library:
    """The pool. Raises `CompilerError`."""
    return toolchain.build(source())
