/* The clock of `time.perf_counter_ns`. */
#ifndef NODESCOPE_CLOCK_H
#define NODESCOPE_CLOCK_H

#include <time.h>

static inline long long now_ns(void) {
#ifdef __APPLE__
    return (long long)clock_gettime_nsec_np(CLOCK_UPTIME_RAW);
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
#endif
}

#endif
