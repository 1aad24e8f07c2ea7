/* Moves the wall clock of one process, and nothing else: loaded before the C library (LD_PRELOAD). A lab builds it with
   the compiler that links its tests. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *at) {
    int (*real)(clockid_t, struct timespec *) = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, at);
    const char *ahead = getenv("BURSAR_LAB_WALL_AHEAD_S");
    if (!failed && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        at->tv_sec += atoll(ahead);
    }
    return failed;
}
