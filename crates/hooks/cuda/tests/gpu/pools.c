// Holds memory in the rarer ways of the driver, and writes what it has as JSON: its blocks, what is kept at their addresses,
// and rows of the table, each with the name of the table, its owner, "now" or "peak", and bytes.
//
// usage: pools mapped|slept|places|green COUNTED.json
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define NAME(name) #name
// A function of the driver, found as programs find it that are not linked with it.
#define DRIVER(name) ((__typeof__(&name))of_driver(NAME(name)))
// A call without which there is nothing to show, and one that this driver or machine may refuse: then it is noted.
#define OK(name, ...) ok(DRIVER(name) ? (int)DRIVER(name)(__VA_ARGS__) : -1, NAME(name))
#define TRY(what, name, ...) note(DRIVER(name) ? (int)DRIVER(name)(__VA_ARGS__) : -1, NAME(name) ", " what)

enum { PARTS = 12, MOST = 64 };
#define PART (128 * MIB)
static struct { CUdeviceptr at; size_t bytes; } blocks[MOST];
static int n_blocks;
static char rows[4096], notes[4096];
static size_t of_program, most_of_program;

static void *of_driver(const char *name) {
  static void *driver;
  if (!driver) driver = dlopen("libcuda.so.1", RTLD_NOW);
  return driver ? dlsym(driver, name) : 0;
}
static void ok(int status, const char *what) {
  if (status) { fprintf(stderr, "Error: %d of %s\n", status, what); exit(3); }
}
static int note(long long status, const char *what) {
  if (status) snprintf(notes + strlen(notes), sizeof notes - strlen(notes), "%s\"%lld of %s\"", *notes ? ", " : "", status, what);
  return status != 0;
}
static void row(const char *table, const char *owner, const char *when, size_t bytes) {
  snprintf(rows + strlen(rows), sizeof rows - strlen(rows), "%s[%s, \"%s\", \"%s\", %zu]", *rows ? ", " : "", table, owner, when, bytes);
}
static void hold(CUdeviceptr at, size_t bytes) { blocks[n_blocks].at = at; blocks[n_blocks++].bytes = bytes; }
// The program has more or less now, and the figures are looked at.
static void count(long long bytes) {
  of_program += bytes;
  if (of_program > most_of_program) most_of_program = of_program;
}
static void be_seen(void) { usleep(300000); }
static void write_counted(const char *what, const char *file) {
  row("0", "program", "now", of_program);
  row("0", "program", "peak", most_of_program);
  size_t kept = 0;
  FILE *out = fopen(file, "w");
  if (!out) { perror("Error"); exit(3); }
  fprintf(out, "{\"program\": \"%s\", \"blocks\": [", what);
  for (int i = 0; i < n_blocks; i++) {
    fprintf(out, "%s[%llu, %zu]", i ? ", " : "", (unsigned long long)blocks[i].at, blocks[i].bytes);
    kept += blocks[i].bytes;
  }
  fprintf(out, "], \"kept\": %zu, \"rows\": [%s], \"notes\": [%s]}\n", kept, rows, notes);
  fclose(out);
}

// A pool of addresses whose parts are mapped and unmapped.
static CUdeviceptr pool;
static CUmemGenericAllocationHandle parts[PARTS];
static const CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};

static CUmemGenericAllocationHandle create(size_t bytes) {
  CUmemAllocationProp shape = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = device};
  CUmemGenericAllocationHandle handle;
  OK(cuMemCreate, &handle, bytes, &shape, 0);
  return handle;
}
static void wake_part(int i) {
  CUmemAccessDesc access = {.location = device, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  parts[i] = create(PART);
  OK(cuMemMap, pool + i * PART, PART, 0, parts[i], 0);
  OK(cuMemSetAccess, pool + i * PART, PART, &access, 1);
  OK(cuMemsetD8Async, pool + i * PART, 1, PART, 0);
  count(PART);
}
static void sleep_part(int i) {
  OK(cuMemUnmap, pool + i * PART, PART);
  OK(cuMemRelease, parts[i]);
  count(-(long long)PART);
}
static void wake_all(void) { for (int i = 0; i < PARTS; i++) wake_part(i); }
static void sleep_all(void) { OK(cuCtxSynchronize, ); for (int i = 0; i < PARTS; i++) sleep_part(i); }

// Sleeps and wakes up four times. At the end a half is mapped, or nothing; one handle is mapped nowhere.
static void mapped(int ends_asleep) {
  CUdeviceptr plain;
  OK(cuMemAlloc, &plain, 256 * MIB); count(256 * MIB);
  OK(cuMemAddressReserve, &pool, PARTS * PART, 0, 0, 0);
  for (int cycle = 0; cycle < 4; cycle++) {
    wake_all(); be_seen();
    sleep_all(); be_seen();
  }
  create(64 * MIB);
  row("0", "memory:unmapped", "now", 64 * MIB);
  hold(plain, 256 * MIB);
  for (int i = 0; i < PARTS && !ends_asleep; i += 2) { wake_part(i); hold(pool + i * PART, PART); }
  OK(cuCtxSynchronize, );
}

// Blocks of pools, by where these are: on the host, managed, or on the device.
static CUstream stream;
static size_t on_host, managed, slack;

static size_t free_bytes(void) {
  size_t free, total;
  OK(cuMemGetInfo, &free, &total);
  return free;
}
static CUmemoryPool made(CUmemAllocationType type, CUmemLocation where) {
  CUmemPoolProps shape = {.allocType = type, .location = where};
  CUmemoryPool made = 0;
  char what[80];
  snprintf(what, sizeof what, "cuMemPoolCreate, kind %d at %d", (int)type, (int)where.type);
  return note((int)DRIVER(cuMemPoolCreate)(&made, &shape), what) ? 0 : made;
}
static void take(CUmemoryPool from, size_t bytes, size_t *of) {
  CUdeviceptr p, gone;
  // What comes and goes, too.
  if (!from || TRY("pool", cuMemAllocFromPoolAsync, &gone, bytes / 2, from, stream)) return;
  OK(cuMemFreeAsync, gone, stream);
  OK(cuStreamSynchronize, stream);
  OK(cuMemAllocFromPoolAsync, &p, bytes, from, stream);
  OK(cuStreamSynchronize, stream);
  *of += bytes;
  hold(p, bytes);
  // A processor's pages stay on the host.
  if (of != &of_program) memset((void *)p, 1, bytes);
}
static void count_slack(CUmemoryPool of) {
  cuuint64_t reserved = 0, used = 0;
  OK(cuMemPoolGetAttribute, of, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
  OK(cuMemPoolGetAttribute, of, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
  slack += reserved - used;
}
static void places(void) {
  CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST}, node = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA}, none = {.type = CU_MEM_LOCATION_TYPE_NONE};
  CUmemLocation here = device;
  CUmemoryPool own, first, other = 0;
  CUdeviceptr p;
  cuuint64_t all = ~0ull;
  OK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  OK(cuDeviceGetDefaultMemPool, &first, 0);
  take(first, 96 * MIB, &of_program);
  own = made(CU_MEM_ALLOCATION_TYPE_PINNED, device);
  if (!own) ok(3, "the own pool");
  // It keeps what was freed.
  OK(cuMemPoolSetAttribute, own, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all);
  OK(cuMemAllocFromPoolAsync, &p, 640 * MIB, own, stream);
  OK(cuMemFreeAsync, p, stream);
  take(own, 160 * MIB, &of_program);
  // Of the current pool, which is another one then.
  if (!TRY("device", cuMemSetMemPool, &here, CU_MEM_ALLOCATION_TYPE_PINNED, own) && !TRY("device", cuMemGetMemPool, &other, &here, CU_MEM_ALLOCATION_TYPE_PINNED))
    note(other != own, "the current pool is another one");
  OK(cuMemAllocAsync, &p, 200 * MIB, stream); of_program += 200 * MIB; hold(p, 200 * MIB);
  if (!TRY("device", cuMemGetDefaultMemPool, &other, &here, CU_MEM_ALLOCATION_TYPE_PINNED)) take(other, 40 * MIB, &of_program);
  size_t before = free_bytes();
  take(made(CU_MEM_ALLOCATION_TYPE_PINNED, host), 64 * MIB, &on_host);
  take(made(CU_MEM_ALLOCATION_TYPE_PINNED, node), 32 * MIB, &on_host);
  if (!TRY("host", cuMemGetDefaultMemPool, &other, &host, CU_MEM_ALLOCATION_TYPE_PINNED)) take(other, 16 * MIB, &on_host);
  long long of_host = before - free_bytes();
  before = free_bytes();
  take(made(CU_MEM_ALLOCATION_TYPE_MANAGED, none), 24 * MIB, &managed);
  take(made(CU_MEM_ALLOCATION_TYPE_MANAGED, host), 20 * MIB, &managed);
  take(made(CU_MEM_ALLOCATION_TYPE_MANAGED, device), 48 * MIB, &managed);
  if (!TRY("managed", cuMemGetDefaultMemPool, &other, &none, CU_MEM_ALLOCATION_TYPE_MANAGED)) take(other, 12 * MIB, &managed);
  note(of_host, "the device's bytes went to pools of the host");
  note(before - free_bytes(), "the device's bytes went to managed pools");
  count(0);
  count_slack(own); count_slack(first);
  row("0", "pool slack", "now", slack);
  if (on_host) row("\"pinned host memory\"", "program", "now", on_host);
  if (managed) row("0", "memory:managed", "now", managed);
}

// Two green contexts, of which one ends, with memory of every kind.
static CUgreenCtx green_context(CUdevResource *of, CUcontext *context) {
  CUdevResourceDesc shape;
  CUgreenCtx made;
  OK(cuDevResourceGenerateDesc, &shape, of, 1);
  OK(cuGreenCtxCreate, &made, shape, 0, CU_GREEN_CTX_DEFAULT_STREAM);
  OK(cuCtxFromGreenCtx, context, made);
  return made;
}
static void green(void) {
  CUdevResource all, some, rest;
  unsigned n = 1;
  CUcontext first, second;
  CUdeviceptr p;
  OK(cuDeviceGetDevResource, 0, &all, CU_DEV_RESOURCE_TYPE_SM);
  OK(cuDevSmResourceSplitByCount, &some, &n, &all, &rest, 0, 16);
  if (n != 1) ok(3, "the split");
  CUgreenCtx kept = green_context(&some, &first), ended = green_context(&rest, &second);
  OK(cuCtxSetCurrent, second);
  OK(cuMemAlloc, &p, 400 * MIB); count(400 * MIB);
  OK(cuMemsetD8Async, p, 1, 400 * MIB, 0);
  OK(cuCtxSetCurrent, first);
  CUdeviceptr block, ordered;
  OK(cuMemAlloc, &block, 300 * MIB); count(300 * MIB); hold(block, 300 * MIB);
  OK(cuMemsetD8Async, block, 1, 300 * MIB, 0);
  if (TRY("green", cuGreenCtxStreamCreate, &stream, kept, CU_STREAM_NON_BLOCKING, 0)) stream = 0;
  OK(cuMemAllocAsync, &ordered, 128 * MIB, stream); count(128 * MIB); hold(ordered, 128 * MIB);
  OK(cuStreamSynchronize, stream);
  OK(cuMemAddressReserve, &pool, PARTS * PART, 0, 0, 0);
  wake_part(0); hold(pool, PART);
  OK(cuCtxSynchronize, );
  be_seen();
  OK(cuCtxSetCurrent, second);
  OK(cuCtxSynchronize, );
  OK(cuMemFree, p); count(-400ll * MIB);
  OK(cuCtxSetCurrent, first);
  OK(cuGreenCtxDestroy, ended);
}

int main(int argc, char **argv) {
  CUcontext context;
  if (argc < 3) return 2;
  if (!of_driver("cuInit")) ok(3, "dlopen");
  OK(cuInit, 0);
  OK(cuDevicePrimaryCtxRetain, &context, 0);
  OK(cuCtxSetCurrent, context);
  if (!strcmp(argv[1], "places")) places();
  else if (!strcmp(argv[1], "green")) green();
  else mapped(!strcmp(argv[1], "slept"));
  be_seen();
  write_counted(argv[1], argv[2]);
  return 0;
}
