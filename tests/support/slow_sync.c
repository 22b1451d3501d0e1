/* fsync and fdatasync that hang while a file exists, which SLOW_SYNC names; the first to hang
   makes a file of the same name with '.hit'. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int synchronize(const char *name, int descriptor)
{
    const char *hang = getenv("SLOW_SYNC");
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    char hit[PATH_MAX];

    if (hang && access(hang, F_OK) == 0) {
        snprintf(hit, sizeof hit, "%s.hit", hang);
        close(open(hit, O_CREAT | O_WRONLY, 0600));
        while (access(hang, F_OK) == 0)
            usleep(20000);
    }
    return next(descriptor);
}

int fsync(int descriptor)
{
    return synchronize("fsync", descriptor);
}

int fdatasync(int descriptor)
{
    return synchronize("fdatasync", descriptor);
}
