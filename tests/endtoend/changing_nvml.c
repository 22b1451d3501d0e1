/* NVML after its public headers, for the bindings that agents use.
 *
 * Boards and answers are in the text file that CHANGING_NVML names. It is read at every call, so
 * that tests change it under a running agent. Its lines:
 *
 *   gpus 0 2 1                    boards by index; a board not in the line is off the bus
 *   refuse NUMBER CODE            each call of this number
 *   fail BOARD FUNCTION CODE      BOARD is a number, '*' for each, or '-' for calls without one;
 *                                 '*' as FUNCTION is each
 *   value BOARD FUNCTION NUMBER
 *   text BOARD FUNCTION TEXT      two hexadecimal digits a byte
 *   process BOARD PID BYTES
 *
 * FORMER leaves out what drivers before R510 lack; ANSWERS is another file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef unsigned int u32;
typedef unsigned long long u64;
typedef struct { int number; } Board;
typedef struct { char legacy[16]; u32 domain, bus, device, id, subsystem; char address[32]; } Pci;
typedef struct { u64 total, available, used; } Memory;
typedef struct { u32 version; u64 total, reserved, available, used; } Memory2;
typedef struct { u32 gpu, memory; } Rates;
typedef struct { u32 pid; u64 used; u32 gpu_instance, compute_instance; } Process;

enum { SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND = 6, SMALL, LOST = 15 };
enum { BOARDS = 16, LINE = 256, WITHOUT_BOARD = -1 };

static Board boards[BOARDS];

#ifndef ANSWERS
#define ANSWERS getenv("CHANGING_NVML")
#endif

/* Calls the visitor with each line of a kind; stops when it returns nonzero. */
static int each_line(const char *kind, int (*visit)(const char *, void *), void *context)
{
    char line[LINE];
    size_t length = strlen(kind);
    int found = 0;
    FILE *file = fopen(ANSWERS, "r");
    while (file && !found && fgets(line, sizeof line, file))
        if (!strncmp(line, kind, length) && line[length] == ' ')
            found = visit(line + length + 1, context);
    if (file)
        fclose(file);
    return found;
}

typedef struct { int board; const char *function; char answer[LINE]; } Question;

static int matches(const char *rest, void *context)
{
    Question *question = context;
    char board[16], function[64];
    if (sscanf(rest, "%15s %63s %255s", board, function, question->answer) != 3)
        return 0;
    int is_board = question->board == WITHOUT_BOARD
                       ? *board == '-'
                       : *board == '*' || (*board != '-' && atoi(board) == question->board);
    return is_board && (!strcmp(function, "*") || !strcmp(function, question->function));
}

static double number(int board, const char *function, double otherwise)
{
    Question question = {board, function, ""};
    return each_line("value", matches, &question) ? strtod(question.answer, NULL) : otherwise;
}

static u64 whole(double value) { return value >= 18446744073709551615.0 ? ~0ull : (u64)value; }

static int add_boards(const char *rest, void *context)
{
    int *order = context, length;
    while (order[0] < BOARDS && sscanf(rest, "%d%n", &order[order[0] + 1], &length) == 1) {
        rest += length;
        order[0]++;
    }
    return 1;
}

/* The count of boards, then their numbers by index. */
static const int *order(void)
{
    static _Thread_local int found[BOARDS + 1];
    found[0] = 0;
    each_line("gpus", add_boards, found);
    return found;
}

static int index_of(int board)
{
    const int *found = order();
    for (int index = 0; index < found[0]; index++)
        if (found[index + 1] == board)
            return index;
    return -1;
}

static int refuse(const char *rest, void *context)
{
    static _Atomic unsigned long calls;
    unsigned long each;
    int *code = context;
    if (sscanf(rest, "%lu %d", &each, code) != 2 || ++calls % each)
        *code = SUCCESS;
    return 1;
}

static int refusal(int board, const char *function)
{
    Question question = {board, function, ""};
    int code = SUCCESS;
    if (each_line("refuse", refuse, &code) && code)
        return code;
    if (each_line("fail", matches, &question))
        return atoi(question.answer);
    return board == WITHOUT_BOARD || index_of(board) >= 0 ? SUCCESS : LOST;
}

static void text(int board, const char *function, const char *otherwise, char *out, u32 size)
{
    Question question = {board, function, ""};
    memset(out, 0, size);
    if (!each_line("text", matches, &question)) {
        snprintf(out, size, "%s", otherwise);
        return;
    }
    u32 byte, length;
    for (length = 0; length < size && sscanf(question.answer + 2 * length, "%2x", &byte) == 1; length++)
        out[length] = (char)byte;
}

#define OF(board) \
    do { \
        int code = refusal((board)->number, __func__); \
        if (code) \
            return code; \
    } while (0)
#define WITHOUT_ONE \
    do { \
        int code = refusal(WITHOUT_BOARD, __func__); \
        if (code) \
            return code; \
    } while (0)
#define NUMBER(function, type, otherwise) \
    int function(Board *board, type *out) \
    { \
        OF(board); \
        *out = (type)whole(number(board->number, __func__, otherwise)); \
        return SUCCESS; \
    }

int nvmlInitWithFlags(u32 flags)
{
    (void)flags;
    WITHOUT_ONE;
    for (int each = 0; each < BOARDS; each++)
        boards[each].number = each;
    return SUCCESS;
}

int nvmlShutdown(void) { WITHOUT_ONE; return SUCCESS; }

const char *nvmlErrorString(int code) { return code == LOST ? "GPU is lost" : "Some error"; }

int nvmlSystemGetDriverVersion(char *out, u32 size)
{
    WITHOUT_ONE;
    text(WITHOUT_BOARD, __func__, "470.82.01", out, size);
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(u32 *out)
{
    WITHOUT_ONE;
    *out = (u32)whole(number(WITHOUT_BOARD, __func__, order()[0]));
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(u32 index, Board **out)
{
    const int *found = order();
    if (index >= (u32)found[0])
        return INVALID_ARGUMENT;
    *out = &boards[found[index + 1]];
    OF(*out);
    return SUCCESS;
}

int nvmlDeviceGetName(Board *board, char *out, u32 size)
{
    OF(board);
    text(board->number, __func__, "Tesla V100-SXM2-16GB", out, size);
    return SUCCESS;
}

int nvmlDeviceGetUUID(Board *board, char *out, u32 size)
{
    char otherwise[64];
    OF(board);
    snprintf(otherwise, sizeof otherwise, "GPU-%d", board->number);
    text(board->number, __func__, otherwise, out, size);
    return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(Board *board, Pci *out)
{
    OF(board);
    memset(out, 0, sizeof *out);
    out->bus = 0x17 + (u32)board->number;
    snprintf(out->address, sizeof out->address, "00000000:%02X:00.0", out->bus);
    return SUCCESS;
}

NUMBER(nvmlDeviceGetPowerUsage, u32, 150e3)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, u32, 300e3)
NUMBER(nvmlDeviceGetTotalEnergyConsumption, u64, 1e9 + 150e3 * (double)time(NULL))
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, u32, 3)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, u32, 16)
NUMBER(nvmlDeviceGetPcieReplayCounter, u32, 0)

int nvmlDeviceGetTemperature(Board *board, u32 sensor, u32 *out)
{
    (void)sensor;
    OF(board);
    *out = (u32)whole(number(board->number, __func__, 40));
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(Board *board, Rates *out)
{
    OF(board);
    out->gpu = out->memory = (u32)whole(number(board->number, __func__, 60));
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(Board *board, Memory *out)
{
    OF(board);
    out->total = 16ull << 30;
    out->used = whole(number(board->number, "used", 4ull << 30));
    out->available = out->total - out->used;
    return SUCCESS;
}

typedef struct { int board; u32 count, room; Process *out; } Listing;

static int add_process(const char *rest, void *context)
{
    Listing *listing = context;
    int board;
    u32 pid;
    double used;
    if (sscanf(rest, "%d %u %lf", &board, &pid, &used) != 3 || board != listing->board)
        return 0;
    if (listing->count < listing->room)
        listing->out[listing->count] = (Process){pid, whole(used), ~0u, ~0u};
    listing->count++;
    return 0;
}

static int processes(Board *board, u32 *count, Process *out)
{
    Listing listing = {board->number, 0, out ? *count : 0, out};
    each_line("process", add_process, &listing);
    *count = listing.count;
    return listing.count > listing.room ? SMALL : SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v2(Board *board, u32 *count, Process *out)
{
    OF(board);
    return processes(board, count, out);
}

#ifndef FORMER
int nvmlDeviceGetComputeRunningProcesses_v3(Board *board, u32 *count, Process *out)
{
    OF(board);
    return processes(board, count, out);
}

int nvmlDeviceGetMemoryInfo_v2(Board *board, Memory2 *out)
{
    Memory memory;
    int code = nvmlDeviceGetMemoryInfo(board, &memory);
    *out = (Memory2){out->version, memory.total, 1 << 28, memory.available, memory.used};
    return code;
}
#endif
