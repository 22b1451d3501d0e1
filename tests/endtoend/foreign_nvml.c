/* A driver library that this project knows nothing of: two L4, a dozen functions, all others missing. */
#include <string.h>

typedef struct { unsigned int gpu, memory; } utilization;
typedef struct { unsigned long long total, free, used; } memory;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gpu_instance, compute_instance; } process;

static int devices[2] = {0, 1};

int nvmlInitWithFlags(unsigned int flags) { return 0; }
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return "foreign"; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = 2; return 0; }

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, int **device) {
    if (index > 1) return 2;
    *device = &devices[index];
    return 0;
}

int nvmlDeviceGetIndex(int *device, unsigned int *index) { *index = *device; return 0; }

int nvmlDeviceGetName(int *device, char *name, unsigned int length) {
    strncpy(name, "NVIDIA L4", length);
    return 0;
}

int nvmlDeviceGetUUID(int *device, char *uuid, unsigned int length) {
    strncpy(uuid, *device ? "GPU-idle" : "GPU-busy", length);
    return 0;
}

int nvmlDeviceGetUtilizationRates(int *device, utilization *rates) {
    rates->gpu = *device ? 0 : 99;
    rates->memory = *device ? 0 : 20;
    return 0;
}

int nvmlDeviceGetMemoryInfo(int *device, memory *info) {
    info->total = 24152899584ull;
    info->used = *device ? 0 : 12ull << 30;
    info->free = info->total - info->used;
    return 0;
}

int nvmlDeviceGetPowerUsage(int *device, unsigned int *milliwatts) {
    *milliwatts = *device ? 12000 : 60000;
    return 0;
}

int nvmlDeviceGetEnforcedPowerLimit(int *device, unsigned int *milliwatts) {
    *milliwatts = 72000;
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(int *device, unsigned int *count, process *found) {
    unsigned int room = *count;
    *count = *device ? 0 : 1;
    if (room < *count) return 7;
    if (*count) { found->pid = 1; found->used = 12ull << 30; }
    return 0;
}
