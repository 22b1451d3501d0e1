/* A wall clock that a test sets: what a file says is added to the real one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static volatile long *shift;

__attribute__((constructor)) static void begin(void) {
    int file = open(getenv("CLOCK_SHIFT"), O_RDONLY);
    shift = mmap(0, sizeof *shift, PROT_READ, MAP_SHARED, file, 0);
}

int clock_gettime(clockid_t clock, struct timespec *found) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(clock, found);
    if (clock == CLOCK_REALTIME && shift != MAP_FAILED)
        found->tv_sec += *shift;
    return status;
}
