/* Calls of the C library that fail, wait or lie on demand; loaded by LD_PRELOAD.
 *
 * RIGHTSIZER_SHIM names a control file, which is read again whenever it changes. A line is
 *
 *     FUNCTION PATTERN FIRST TIMES EFFECT NUMBER
 *
 * FUNCTION    one of those at the end of this file, by its name without suffix: open, write, fsync
 * PATTERN     fnmatch(3) of the file's path; "*" for calls without a path
 * FIRST       first matching call that is struck, from 1
 * TIMES       how many calls are struck; 0 for all from then on
 * EFFECT      errno (NUMBER is returned as error), delay (milliseconds before the call),
 *             short (at most NUMBER bytes of a read or write), shift (seconds added to the wall
 *             clock by clock_gettime)
 *
 * Each struck call appends a byte to the control file's name with ".hits".
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define RULES_MAXIMUM 32
#define NAME_MAXIMUM 32
#define PATTERN_MAXIMUM 256
#define REREAD_NANOSECONDS 50000000LL

struct rule {
    char function[NAME_MAXIMUM];
    char pattern[PATTERN_MAXIMUM];
    long first;
    long times;
    char effect[NAME_MAXIMUM];
    long number;
    long calls;
};

struct strike {
    int error;
    long delay_milliseconds;
    long short_bytes;
    long shift_seconds;
};

static struct rule rules[RULES_MAXIMUM];
static int rule_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long long read_again_at;
static struct timespec last_change;
static ino_t last_inode;

static long long now(void)
{
    struct timespec time;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void parse(char *text)
{
    char *rest = NULL;
    rule_count = 0;
    for (char *line = strtok_r(text, "\n", &rest); line && rule_count < RULES_MAXIMUM;
         line = strtok_r(NULL, "\n", &rest)) {
        struct rule *rule = &rules[rule_count];
        rule->calls = 0;
        if (sscanf(line, "%31s %255s %ld %ld %31s %ld", rule->function, rule->pattern, &rule->first,
                   &rule->times, rule->effect, &rule->number) == 6)
            rule_count++;
    }
}

static void read_rules(const char *path)
{
    struct stat status;
    if (syscall(SYS_newfstatat, AT_FDCWD, path, &status, 0) != 0) {
        rule_count = 0;
        last_inode = 0;
        return;
    }
    if (status.st_ino == last_inode && status.st_mtim.tv_sec == last_change.tv_sec &&
        status.st_mtim.tv_nsec == last_change.tv_nsec)
        return;
    last_inode = status.st_ino;
    last_change = status.st_mtim;
    char text[8192];
    int file = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (file < 0)
        return;
    long length = syscall(SYS_read, file, text, sizeof text - 1);
    syscall(SYS_close, file);
    text[length > 0 ? length : 0] = 0;
    parse(text);
}

static void count_hit(const char *control)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.hits", control);
    int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
    int file = syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
    if (file < 0)
        return;
    syscall(SYS_write, file, ".", 1);
    syscall(SYS_close, file);
}

static struct strike judge(const char *function, const char *path, int descriptor)
{
    struct strike strike = {0, 0, 0, 0};
    const char *control = getenv("RIGHTSIZER_SHIM");
    if (!control)
        return strike;
    int saved = errno;
    pthread_mutex_lock(&lock);
    long long time = now();
    if (time >= read_again_at) {
        read_again_at = time + REREAD_NANOSECONDS;
        read_rules(control);
    }
    char link[64], name[4096];
    for (int index = 0; index < rule_count; index++) {
        struct rule *rule = &rules[index];
        if (strcmp(rule->function, function) != 0)
            continue;
        if (!path && descriptor >= 0) {
            snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
            long length = syscall(SYS_readlinkat, AT_FDCWD, link, name, sizeof name - 1);
            name[length > 0 ? length : 0] = 0;
            path = name;
        }
        if (fnmatch(rule->pattern, path ? path : "", 0) != 0)
            continue;
        rule->calls++;
        if (rule->calls < rule->first || (rule->times && rule->calls >= rule->first + rule->times))
            continue;
        if (strcmp(rule->effect, "errno") == 0)
            strike.error = rule->number;
        else if (strcmp(rule->effect, "delay") == 0)
            strike.delay_milliseconds = rule->number;
        else if (strcmp(rule->effect, "short") == 0)
            strike.short_bytes = rule->number;
        else if (strcmp(rule->effect, "shift") == 0)
            strike.shift_seconds = rule->number;
        count_hit(control);
        break;
    }
    pthread_mutex_unlock(&lock);
    if (strike.delay_milliseconds) {
        struct timespec wait = {strike.delay_milliseconds / 1000,
                                strike.delay_milliseconds % 1000 * 1000000L};
        syscall(SYS_nanosleep, &wait, NULL);
    }
    errno = strike.error ? strike.error : saved;
    return strike;
}

/* The function behind ours; resolved at the first call, for some precede every constructor. */
#define REAL(result, name, ...)                                                                    \
    static result (*real)(__VA_ARGS__);                                                            \
    if (!real)                                                                                     \
    real = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

#define MODE_OF(flags, last)                                                                       \
    mode_t mode = 0;                                                                               \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                                                         \
        va_list rest;                                                                              \
        va_start(rest, last);                                                                      \
        mode = va_arg(rest, mode_t);                                                               \
        va_end(rest);                                                                              \
    }

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        REAL(int, #name, const char *, int, ...);                                                  \
        MODE_OF(flags, flags)                                                                      \
        return judge("open", path, -1).error ? -1 : real(path, flags, mode);                       \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                               \
    int name(int folder, const char *path, int flags, ...)                                         \
    {                                                                                              \
        REAL(int, #name, int, const char *, int, ...);                                             \
        MODE_OF(flags, flags)                                                                      \
        return judge("open", path, -1).error ? -1 : real(folder, path, flags, mode);               \
    }
OPENAT(openat)
OPENAT(openat64)

/* Calls on a descriptor: the same name, arguments in parentheses, then what is passed on. */
#define ON_DESCRIPTOR(result, name, rule, declared, passed, ...)                                   \
    result name declared                                                                           \
    {                                                                                              \
        REAL(result, #name, __VA_ARGS__);                                                          \
        return judge(rule, NULL, file).error ? -1 : real passed;                                   \
    }
ON_DESCRIPTOR(int, fsync, "fsync", (int file), (file), int)
ON_DESCRIPTOR(int, fdatasync, "fsync", (int file), (file), int)
ON_DESCRIPTOR(int, ftruncate, "ftruncate", (int file, off_t size), (file, size), int, off_t)
ON_DESCRIPTOR(int, ftruncate64, "ftruncate", (int file, off64_t size), (file, size), int, off64_t)
ON_DESCRIPTOR(ssize_t, writev, "write", (int file, const struct iovec *parts, int count),
              (file, parts, count), int, const struct iovec *, int)
ON_DESCRIPTOR(int, flock, "flock", (int file, int operation), (file, operation), int, int)
ON_DESCRIPTOR(int, accept, "accept", (int file, struct sockaddr *address, socklen_t *length),
              (file, address, length), int, struct sockaddr *, socklen_t *)
ON_DESCRIPTOR(int, accept4, "accept",
              (int file, struct sockaddr *address, socklen_t *length, int flags),
              (file, address, length, flags), int, struct sockaddr *, socklen_t *, int)
ON_DESCRIPTOR(int, connect, "connect", (int file, const struct sockaddr *address, socklen_t length),
              (file, address, length), int, const struct sockaddr *, socklen_t)

/* Calls that move bytes, and may move fewer. */
#define SHORTENED(result, name, rule, declared, passed, ...)                                       \
    result name declared                                                                           \
    {                                                                                              \
        REAL(result, #name, __VA_ARGS__);                                                          \
        struct strike strike = judge(rule, NULL, file);                                            \
        if (strike.short_bytes && size > (size_t)strike.short_bytes)                               \
            size = strike.short_bytes;                                                             \
        return strike.error ? -1 : real passed;                                                    \
    }
SHORTENED(ssize_t, read, "read", (int file, void *data, size_t size), (file, data, size), int,
          void *, size_t)
SHORTENED(ssize_t, pread, "read", (int file, void *data, size_t size, off_t at),
          (file, data, size, at), int, void *, size_t, off_t)
SHORTENED(ssize_t, pread64, "read", (int file, void *data, size_t size, off64_t at),
          (file, data, size, at), int, void *, size_t, off64_t)
SHORTENED(ssize_t, write, "write", (int file, const void *data, size_t size), (file, data, size),
          int, const void *, size_t)
SHORTENED(ssize_t, pwrite, "write", (int file, const void *data, size_t size, off_t at),
          (file, data, size, at), int, const void *, size_t, off_t)
SHORTENED(ssize_t, pwrite64, "write", (int file, const void *data, size_t size, off64_t at),
          (file, data, size, at), int, const void *, size_t, off64_t)
SHORTENED(ssize_t, send, "send", (int file, const void *data, size_t size, int flags),
          (file, data, size, flags), int, const void *, size_t, int)
SHORTENED(ssize_t, recv, "recv", (int file, void *data, size_t size, int flags),
          (file, data, size, flags), int, void *, size_t, int)

/* Calls on a path. */
#define ON_PATH(result, name, rule, declared, passed, ...)                                         \
    result name declared                                                                           \
    {                                                                                              \
        REAL(result, #name, __VA_ARGS__);                                                          \
        return judge(rule, path, -1).error ? (result)-1 : real passed;                             \
    }
ON_PATH(int, unlink, "unlink", (const char *path), (path), const char *)
ON_PATH(int, rename, "rename", (const char *path, const char *other), (path, other), const char *,
        const char *)
ON_PATH(int, mkdir, "mkdir", (const char *path, mode_t mode), (path, mode), const char *, mode_t)

/* Locks are taken through fcntl(2). */
#define FCNTL(name)                                                                                \
    int name(int file, int command, ...)                                                           \
    {                                                                                              \
        REAL(int, #name, int, int, ...);                                                           \
        va_list rest;                                                                              \
        va_start(rest, command);                                                                   \
        void *argument = va_arg(rest, void *);                                                     \
        va_end(rest);                                                                              \
        int is_lock = command == F_SETLK || command == F_SETLKW;                                   \
        if (is_lock && judge("lock", NULL, file).error)                                            \
            return -1;                                                                             \
        return real(file, command, argument);                                                      \
    }
FCNTL(fcntl)
FCNTL(fcntl64)

int socket(int domain, int kind, int protocol)
{
    REAL(int, "socket", int, int, int);
    return judge("socket", "", -1).error ? -1 : real(domain, kind, protocol);
}

pid_t fork(void)
{
    REAL(pid_t, "fork", void);
    return judge("fork", "", -1).error ? -1 : real();
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *argument)
{
    REAL(int, "pthread_create", pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    int error = judge("thread", "", -1).error;
    return error ? error : real(thread, attributes, run, argument);
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int answer = syscall(SYS_clock_gettime, clock, time);
    if (answer == 0 && clock == CLOCK_REALTIME)
        time->tv_sec += judge("clock", "", -1).shift_seconds;
    return answer;
}
