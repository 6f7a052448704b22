// A stand-in for NVIDIA's driver, libcuda.so.1, with an account of its memory that a test can compute.
//
// Device memory has addresses and no bytes. A device has 4 GiB, of which a context takes 500 MiB, a module 4 MiB and
// an instantiated graph 6 MiB. Blocks of 1 MiB and more have pages of 2 MiB of their own, smaller ones share pages.
// Work of a stream is done at once for the driver, and for programs that ask when MOCK_BUSY is not set: with it, no event
// is reached before its stream is destroyed.
//
// Memory of other processes, which is imported, is in no account. MOCK_SLOW is the microseconds that an allocation or a free
// takes; MOCK_OF_NONE is used and of no process; with MOCK_REUSE a handle is given out again as soon as it is released; with
// MOCK_KEEP a pool keeps what was freed until it is trimmed; after mock_stick(), threads other than the first wait three seconds for the figures of the memory.
//
// It refuses what a real driver refuses: a stream that is captured may not be asked or marked, and while a capture in
// the mode "global" is open no thread may ask for an event or for free memory, unless its own mode is relaxed. Such calls print
// "mock: VIOLATION" and count in mock_violations().
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int R;
typedef uint64_t P;
typedef void *H;
enum { OK = 0, INVALID = 1, NO_MEMORY = 2, NO_CONTEXT = 201, NOT_READY = 600, NOT_FOUND = 500, CAPTURE = 900, INVALIDATED = 901, NOT_CAPTURED = 401 };

#define MIB ((uint64_t)1 << 20)
#define PAGE (2 * MIB)
#define MAX (1 << 17)

struct block { P at; uint64_t bytes; int kind, device, live; H stream; };
enum { PLAIN, POOL, HANDLE, MANAGED, IMPORTED };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block blocks[MAX];
static int n_blocks;
static struct { uint64_t id, bytes; int device, handles, maps, bound, is_foreign; } physical[MAX];
static int n_physical;
// What a pool keeps after a free.
static int is_kept(struct block *b) { return b->kind == POOL && b->live == 2; }
static struct { P at; uint64_t bytes, id; int of; } maps[MAX];
static int n_maps;
static struct { uint64_t multicast, offset, id; } bindings[MAX];
static int n_bindings;
static int contexts[8], primary[8], n_modules[8], n_graphs[8];
static uint64_t of_graphs[8], of_driver[8], most;
static int capturing[64], n_global, n_calls;
static atomic_int violations, asked, is_stuck;
static __thread H current;
static __thread int mode;
static __thread int inside;
static uint64_t next_address = 0x7f0000000000, next_handle = 1, last_released;

static uint64_t total(void) { return 4096 * MIB; }
int mock_violations(void) { return violations; }
static R wrong(const char *what) { violations++; fprintf(stderr, "mock: VIOLATION %s\n", what); return CAPTURE; }
static int device_of(H c) { return c ? (int)(uintptr_t)c - 0x1000 : -1; }

static uint64_t used(int device) {
  uint64_t bytes = 0, small = 0;
  for (int i = 0; i < n_blocks; i++) {
    struct block *b = &blocks[i];
    if (!b->live || b->device != device || b->kind == MANAGED || b->kind == IMPORTED) continue;
    if (b->bytes < MIB && b->kind == PLAIN) small += b->bytes;
    else bytes += (b->bytes + PAGE - 1) / PAGE * PAGE;
  }
  for (int i = 0; i < n_physical; i++)
    if (physical[i].device == device && !physical[i].is_foreign && (physical[i].handles || physical[i].maps || physical[i].bound)) bytes += physical[i].bytes;
  if (contexts[device]) bytes += 500 * MIB;
  return bytes + (small + PAGE - 1) / PAGE * PAGE + n_modules[device] * 4 * MIB + n_graphs[device] * 6 * MIB
    + of_graphs[device] + of_driver[device];
}
// Memory that the driver takes in no call that is seen, such as code at its first launch.
void mock_take(int device, uint64_t bytes) { of_driver[device] += bytes; }
void mock_stick(void) { is_stuck = 1; }
int mock_asked(void) { return asked; }
uint64_t mock_most(void) { return most; }
static void slow(void) { if (getenv("MOCK_SLOW")) usleep(atoi(getenv("MOCK_SLOW"))); }
void mock_reserve_for_graphs(int device, uint64_t bytes) { of_graphs[device] = bytes; }
uint64_t mock_used(int device) { pthread_mutex_lock(&lock); uint64_t u = used(device); pthread_mutex_unlock(&lock); return u; }

static R add(P *out, uint64_t bytes, int kind, H stream) {
  int device = device_of(current);
  if (device < 0) return NO_CONTEXT;
  if (!bytes) return INVALID;
  pthread_mutex_lock(&lock);
  R r = OK;
  if (kind != MANAGED && used(device) + bytes > total()) r = NO_MEMORY;
  else {
    // The first free place of the same size is used again, as a pool does.
    int i;
    for (i = 0; i < n_blocks; i++)
      if ((!blocks[i].live || is_kept(&blocks[i])) && blocks[i].bytes == bytes && blocks[i].kind == kind) break;
    if (i == n_blocks) { n_blocks++; blocks[i].at = next_address; next_address += (bytes + PAGE - 1) / PAGE * PAGE; }
    blocks[i] = (struct block){blocks[i].at, bytes, kind, device, 1, stream};
    *out = blocks[i].at;
    if (used(device) > most) most = used(device);
  }
  pthread_mutex_unlock(&lock);
  return r;
}
static R drop_block(P at) {
  pthread_mutex_lock(&lock);
  R r = INVALID;
  for (int i = 0; i < n_blocks; i++) if (blocks[i].live == 1 && blocks[i].at == at) { blocks[i].live = blocks[i].kind == POOL && getenv("MOCK_KEEP") ? 2 : 0; r = OK; break; }
  pthread_mutex_unlock(&lock);
  return r;
}
static int captured(H stream) { return capturing[(uintptr_t)stream & 63]; }

R cuInit(unsigned f) { return OK; }
R cuDriverGetVersion(int *v) { *v = 13000; return OK; }
R cuDeviceGetCount(int *n) { *n = 2; return OK; }
R cuDeviceGet(int *d, int n) { *d = n; return n < 2 ? OK : 101; }
R cuDeviceGetName(char *s, int n, int d) { snprintf(s, n, "Mock %d", d); return OK; }
R cuDeviceGetUuid_v2(char *u, int d) { memset(u, 0x10 + d, 16); return OK; }
R cuDeviceTotalMem_v2(size_t *n, int d) { *n = total(); return OK; }
R cuDeviceGetAttribute(int *v, int a, int d) { *v = 1; return OK; }
R cuDevicePrimaryCtxRetain(H *c, int d) { contexts[d] = 1; primary[d]++; *c = (H)(uintptr_t)(0x1000 + d); return OK; }
R cuDevicePrimaryCtxRelease_v2(int d) { if (--primary[d] <= 0) contexts[d] = primary[d] = 0; return OK; }
R cuDevicePrimaryCtxReset_v2(int d) { contexts[d] = primary[d] = 0; for (int i = 0; i < n_blocks; i++) if (blocks[i].device == d) blocks[i].live = 0; return OK; }
R cuDevicePrimaryCtxGetState(int d, unsigned *f, int *a) { *f = 0; *a = contexts[d]; return OK; }
R cuCtxCreate_v2(H *c, unsigned f, int d) { contexts[d] = 1; current = *c = (H)(uintptr_t)(0x1000 + d); return OK; }
R cuCtxDestroy_v2(H c) { contexts[device_of(c)] = 0; return OK; }
static uint64_t from_environment(const char *name);
// A green context keeps the primary one, and has 20 MiB of its own.
R cuGreenCtxCreate(H *g, H resources, int d, unsigned f) { contexts[d] = 1; primary[d]++; of_driver[d] += 20 * MIB; static int n; *g = (H)(uintptr_t)(0x7000 + 8 * n++ + d); return OK; }
R cuGreenCtxDestroy(H g) { static int n; if (++n == from_environment("MOCK_BUSY_GREEN")) return NOT_READY; int d = (uintptr_t)g & 7; of_driver[d] -= 20 * MIB; return cuDevicePrimaryCtxRelease_v2(d); }
R cuCtxSetCurrent(H c) { current = c; return OK; }
R cuCtxGetCurrent(H *c) { *c = current; return OK; }
R cuCtxGetDevice(int *d) { if (!current) return NO_CONTEXT; *d = device_of(current); return OK; }
static __thread H pushed[8];
static __thread int n_pushed;
R cuCtxPushCurrent_v2(H c) { if (!contexts[device_of(c)]) return wrong("a context that is gone"); pushed[n_pushed++] = current; current = c; return OK; }
R cuCtxPopCurrent_v2(H *c) { *c = current; current = pushed[--n_pushed]; return OK; }
R cuCtxSetLimit(int l, size_t v) { return OK; }
static uint64_t from_environment(const char *name) { return getenv(name) ? strtoull(getenv(name), 0, 10) : 0; }
R cuMemGetInfo_v2(size_t *f, size_t *t) {
  if (!current) return NO_CONTEXT;
  if (is_stuck && gettid() != getpid()) sleep(3);
  if (n_global && mode != 2) return wrong("cuMemGetInfo while a capture is open");
  uint64_t others = from_environment("MOCK_OTHERS") + from_environment("MOCK_OF_NONE");
  *t = total(); *f = total() - mock_used(device_of(current)) - others; return OK;
}
R cuMemAlloc_v2(P *p, size_t n) {
  if (getenv("MOCK_ABORT_AT") && ++n_calls == atoi(getenv("MOCK_ABORT_AT"))) abort();
  slow();
  return add(p, n, PLAIN, 0);
}
R cuMemAllocPitch_v2(P *p, size_t *pitch, size_t w, size_t h, unsigned e) { *pitch = (w + 511) / 512 * 512; return add(p, *pitch * h, PLAIN, 0); }
R cuMemAllocManaged(P *p, size_t n, unsigned f) { return add(p, n, MANAGED, 0); }
R cuMemFree_v2(P p) { slow(); return p ? drop_block(p) : OK; }
R cuMemGetAddressRange_v2(P *b, size_t *n, P p) { for (int i = 0; i < n_blocks; i++) if (blocks[i].live && blocks[i].at == p) { *b = p; *n = blocks[i].bytes; return OK; } return INVALID; }
R cuMemAllocAsync(P *p, size_t n, H s) { if (captured(s)) { *p = 0x500000000000; return OK; } return add(p, n, POOL, s); }
R cuMemAllocAsync_ptsz(P *p, size_t n, H s) { return cuMemAllocAsync(p, n, s ? s : (H)2); }
// A pool's handle says where it is: 0x2000 and 0x3000 and the device, or 0x9000 on the host and for managed memory, which are in
// no account of a device.
static int is_of_device(H pool) { return (uintptr_t)pool < 0x9000; }
R cuMemAllocFromPoolAsync(P *p, size_t n, H o, H s) {
  H own = current;
  if (!is_of_device(o)) return add(p, n, MANAGED, s);
  current = (H)(uintptr_t)(0x1000 + ((uintptr_t)o & 0xfff));
  R r = cuMemAllocAsync(p, n, s);
  current = own;
  return r;
}
R cuMemFreeAsync(P p, H s) { return captured(s) ? OK : drop_block(p); }
R cuMemFreeAsync_ptsz(P p, H s) { return cuMemFreeAsync(p, s ? s : (H)2); }
// Where memory is: 1 a device, 6 a locality domain, whose device is in the first byte; else the host.
static int device_of_location(const int *location) { return location[0] == 1 ? location[1] : location[0] == 6 ? location[1] & 255 : -2; }
static H pool_of(uintptr_t first, const int *location, int kind) {
  static atomic_int n;
  int device = kind == 2 ? -2 : device_of_location(location);
  return (H)(device < 0 ? 0x9000 + n++ : first + device);
}
R cuMemPoolCreate(H *p, const int *props) { *p = pool_of(0x2000, props + 2, props[0]); return OK; }
R cuMemGetDefaultMemPool(H *p, const int *location, int kind) { *p = pool_of(0x3000, location, kind); return OK; }
R cuMemGetMemPool(H *p, const int *location, int kind) { return cuMemGetDefaultMemPool(p, location, kind); }
R cuMemPoolDestroy(H p) { return OK; }
R cuMemPoolSetAttribute(H p, int a, void *v) { return OK; }
R cuMemPoolTrimTo(H p, size_t n) { for (int i = 0; i < n_blocks; i++) if (is_kept(&blocks[i])) blocks[i].live = 0; return OK; }
R cuDeviceGetDefaultMemPool(H *p, int d) { *p = (H)(uintptr_t)(0x3000 + d); return OK; }
R cuMemPoolGetAttribute(H p, int a, uint64_t *v) {
  int device = (int)((uintptr_t)p & 0xfff);
  *v = 0;
  if ((uintptr_t)p < 0x3000) return OK;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < n_blocks; i++) if (blocks[i].live && blocks[i].kind == POOL && blocks[i].device == device) *v += (blocks[i].bytes + PAGE - 1) / PAGE * PAGE;
  pthread_mutex_unlock(&lock);
  return OK;
}
R cuDeviceGetGraphMemAttribute(int d, int a, uint64_t *v) { *v = a == 2 ? of_graphs[d] : 0; return OK; }
static uint64_t reserved;
R cuMemAddressReserve(P *p, size_t n, size_t a, P at, unsigned long long f) {
  int fits;
  pthread_mutex_lock(&lock);
  if ((fits = n < (1ull << 47) - reserved)) { *p = next_address; next_address += n; reserved += n; }
  pthread_mutex_unlock(&lock);
  return fits ? OK : NO_MEMORY;
}
R cuMemAddressFree(P p, size_t n) { pthread_mutex_lock(&lock); reserved -= n; pthread_mutex_unlock(&lock); return OK; }
R cuMemCreate(uint64_t *h, size_t n, const int *prop, unsigned long long f) {
  int device = device_of_location(prop + 2);
  if (n >> 40 || (device >= 0 && n >= MIB && mock_used(device) + n > total())) return NO_MEMORY;
  pthread_mutex_lock(&lock);
  *h = getenv("MOCK_REUSE") && last_released ? last_released : next_handle++;
  last_released = 0;
  physical[n_physical].id = *h; physical[n_physical].bytes = n; physical[n_physical].device = prop[2] < 0 ? prop[3] : device; physical[n_physical].handles = 1;
  n_physical++;
  pthread_mutex_unlock(&lock);
  return OK;
}
static int import(uint64_t *h, uint64_t bytes, int device) {
  int prop[4] = {1, 0, -1, device};
  cuMemCreate(h, bytes, prop, 0);
  physical[n_physical - 1].is_foreign = 1;
  return OK;
}
// What another process exports is described by two numbers: bytes and device. A file has them as its number, MiB * 8 + device.
R cuMemImportFromShareableHandle(uint64_t *h, void *from, int kind) {
  uint64_t *fabric = from, file = (uint64_t)from;
  return kind == 8 ? import(h, fabric[0], (int)fabric[1]) : import(h, file / 8 * MIB, (int)(file % 8));
}
R cuMemExportToShareableHandle(void *to, uint64_t h, int kind, unsigned long long f) { memset(to, 0, kind == 8 ? 64 : 4); return OK; }
static int of_id(uint64_t id) { for (int i = n_physical - 1; i >= 0; i--) if (physical[i].id == id) return i; return MAX - 1; }
static void unbind(uint64_t multicast, uint64_t offset, int all) {
  for (int i = 0; i < n_bindings; i++)
    if (bindings[i].id && bindings[i].multicast == multicast && (all || bindings[i].offset == offset)) { physical[of_id(bindings[i].id)].bound--; bindings[i].id = 0; }
}
R cuMemRelease(uint64_t h) {
  pthread_mutex_lock(&lock);
  int i = of_id(h);
  last_released = h;
  if (physical[i].handles <= 0) {
    pthread_mutex_unlock(&lock);
    return INVALID;
  }
  if (!--physical[i].handles && !physical[i].maps) unbind(h, 0, 1);
  pthread_mutex_unlock(&lock);
  return OK;
}
R cuMemGetAllocationPropertiesFromHandle(int *prop, uint64_t h) {
  if (physical[of_id(h)].device < 0) return INVALID;
  prop[0] = 1; prop[1] = 0; prop[2] = 1; prop[3] = physical[of_id(h)].device;
  return OK;
}
R cuMulticastCreate(uint64_t *h, const void *prop) { return import(h, 0, -1); }
R cuMulticastAddDevice(uint64_t h, int device) { return OK; }
static R bind_to(uint64_t multicast, uint64_t offset, uint64_t h) {
  pthread_mutex_lock(&lock);
  bindings[n_bindings].multicast = multicast; bindings[n_bindings].offset = offset; bindings[n_bindings].id = h;
  n_bindings++; physical[of_id(h)].bound++;
  pthread_mutex_unlock(&lock);
  return OK;
}
R cuMulticastBindMem(uint64_t m, size_t o, uint64_t h, size_t from, size_t n, unsigned long long f) { return bind_to(m, o, h); }
R cuMulticastBindAddr(uint64_t m, size_t o, P p, size_t n, unsigned long long f) {
  for (int i = 0; i < n_maps; i++) if (maps[i].id && maps[i].at <= p && p < maps[i].at + maps[i].bytes) return bind_to(m, o, maps[i].id);
  return INVALID;
}
R cuMulticastUnbind(uint64_t m, int device, size_t o, size_t n) { pthread_mutex_lock(&lock); unbind(m, o, 0); pthread_mutex_unlock(&lock); return OK; }
// Memory of another process, whose device is the first number of the handle, and whose MiB are the second.
// With a third number it has one address, however often it is opened.
struct ipc { int device, mib, rest[14]; };
static struct { P at; int n; } opened;
static int is_refused;
R cuIpcOpenMemHandle_v2(P *p, struct ipc h, unsigned f) {
  if (h.rest[0] && opened.n++) return *p = opened.at, OK;
  R r = add(p, h.mib * MIB, IMPORTED, 0);
  for (int i = 0; i < n_blocks; i++) if (blocks[i].at == *p) blocks[i].device = h.device;
  if (h.rest[0]) opened.at = *p;
  return r;
}
void mock_refuse_close(void) { is_refused = 1; }
R cuIpcCloseMemHandle(P p) {
  if (is_refused) return is_refused = 0, INVALID;
  return p == opened.at && --opened.n ? OK : drop_block(p);
}
R cuPointerGetAttribute(int *v, int a, P p) { for (int i = 0; i < n_blocks; i++) if (a == 9 && blocks[i].live && blocks[i].at == p) { *v = blocks[i].device; return OK; } return INVALID; }
R cuMemMap(P p, size_t n, size_t o, uint64_t h, unsigned long long f) { pthread_mutex_lock(&lock); maps[n_maps].at = p; maps[n_maps].bytes = n; maps[n_maps].id = h; maps[n_maps].of = of_id(h); physical[maps[n_maps++].of].maps++; pthread_mutex_unlock(&lock); return OK; }
R cuMemUnmap(P p, size_t n) { for (int i = 0; i < n_maps; i++) if (maps[i].id && maps[i].at < p + n && maps[i].at + maps[i].bytes > p && (maps[i].at < p || maps[i].at + maps[i].bytes > p + n)) return INVALID; pthread_mutex_lock(&lock); for (int i = 0; i < n_maps; i++) if (maps[i].id && maps[i].at >= p && maps[i].at < p + n) { physical[maps[i].of].maps--; maps[i].id = 0; } pthread_mutex_unlock(&lock); return OK; }
R cuMemSetAccess(P p, size_t n, const void *d, size_t c) { return OK; }
// An array has 1 byte an element. Handles are close to each other, as those of a real driver are.
static atomic_int n_arrays;
R cuArrayCreate_v2(H *a, const size_t *shape) { *a = (H)(uintptr_t)(0x600000000000 + 64 * n_arrays++); return OK; }
R cuArrayDestroy(H a) { return OK; }
// The old function of this name; since 11.4 the name means the one with flags.
R cuGraphInstantiate_v2(H *e, H g, H *n, char *log, size_t bytes) { return wrong("cuGraphInstantiate_v2 in place of the one with flags"); }
R cuMemAllocHost_v2(void **p, size_t n) { *p = malloc(n); return OK; }
R cuMemHostAlloc(void **p, size_t n, unsigned f) { if (n >> 40) return 2; *p = malloc(n); return OK; }
R cuMemFreeHost(void *p) { free(p); return OK; }
R cuMemHostRegister_v2(void *p, size_t n, unsigned f) { return OK; }
R cuMemHostUnregister(void *p) { return OK; }
R cuModuleLoadData(H *m, const void *i) { *m = (H)0x77; n_modules[device_of(current)]++; return OK; }
R cuModuleUnload(H m) { n_modules[device_of(current)]--; return OK; }
R cuGraphInstantiateWithFlags(H *e, H g, unsigned long long f) { *e = (H)0x88; n_graphs[device_of(current)]++; return OK; }
R cuGraphExecDestroy(H e) { n_graphs[device_of(current)]--; return OK; }
R cuStreamCreate(H *s, unsigned f) { static atomic_int n; *s = (H)(uintptr_t)(0x100 + n++); return OK; }
static atomic_int n_destroyed;
R cuStreamDestroy_v2(H s) { n_destroyed++; return OK; }
// Waits for ever, as a program does: through the function that it finds.
void *mock_wait(void *n) { ((R (*)(H))dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuStreamSynchronize"))((H)0x77); return 0; }
R cuStreamWaitEvent(H s, H e, unsigned f) { return OK; }
R cuCtxSynchronize(void) { return OK; }
R cuMemsetD8Async(P p, unsigned char v, size_t n, H s) { return OK; }
R cuGetErrorString(R r, const char **s) { *s = "an error of the stand-in"; return OK; }
R cuStreamIsCapturing(H s, int *state) { asked++; *state = captured(s); return OK; }
R cuStreamQuery(H s) { return captured(s) ? wrong("cuStreamQuery of a captured stream") : OK; }
R cuStreamSynchronize(H s) { if (s == (H)0x77) for (;;) pause(); return captured(s) ? wrong("cuStreamSynchronize of a captured stream") : OK; }
R cuStreamBeginCapture_v2(H s, int m) { capturing[(uintptr_t)s & 63] = 1; n_global += m == 0; return OK; }
R cuStreamBeginRecaptureToGraph(H s, int m, H g, void *compare, void *data) { return cuStreamBeginCapture_v2(s, m); }
void mock_invalidate(H s) { capturing[(uintptr_t)s & 63] = 2; }
R cuStreamEndCapture(H s, H *g) {
  int was = captured(s);
  if (!was) return NOT_CAPTURED;
  capturing[(uintptr_t)s & 63] = 0; n_global = 0; *g = (H)0x99;
  return was == 2 ? INVALIDATED : OK;
}
R cuThreadExchangeStreamCaptureMode(int *m) { int before = mode; mode = *m; *m = before; return OK; }
R cuEventCreate(H *e, unsigned f) { static atomic_int n; *e = (H)(uintptr_t)(0x4000 + n++); return OK; }
R cuEventRecord(H e, H s) { if (getenv("MOCK_SIGNAL")) raise(SIGUSR1); return captured(s) ? wrong("cuEventRecord on a captured stream") : OK; }
R cuEventQuery(H e) { if (getenv("MOCK_BUSY") && !n_destroyed) return NOT_READY; return n_global && mode != 2 ? wrong("cuEventQuery while a capture is open") : OK; }
R cuEventDestroy_v2(H e) { return OK; }
R cuLaunchKernel(void) { return OK; }

R cuGetProcAddress(const char *, void **, int, uint64_t);
R cuGetProcAddress_v2(const char *, void **, int, uint64_t, int *);
static const struct { const char *name; int since, twin; void *f; } names[] = {
#define F(name, symbol, since) {name, since, 0, (void *)symbol}
#define T(name, symbol, since) {name, since, 1, (void *)symbol}
  F("cuInit", cuInit, 2000), F("cuDeviceGet", cuDeviceGet, 2000), F("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain, 7000),
  F("cuCtxSetCurrent", cuCtxSetCurrent, 4000), F("cuMemAlloc", cuMemAlloc_v2, 3020), F("cuMemFree", cuMemFree_v2, 3020),
  F("cuMemAllocAsync", cuMemAllocAsync, 11020), T("cuMemAllocAsync", cuMemAllocAsync_ptsz, 11020),
  F("cuMemFreeAsync", cuMemFreeAsync, 11020), T("cuMemFreeAsync", cuMemFreeAsync_ptsz, 11020),
  F("cuGraphInstantiate", cuGraphInstantiate_v2, 11000), F("cuGraphInstantiate", cuGraphInstantiateWithFlags, 11040),
  F("cuGetProcAddress", cuGetProcAddress, 11030), F("cuGetProcAddress", cuGetProcAddress_v2, 12000),
};
static R find(const char *name, void **f, int version, uint64_t flags) {
  int best = -1;
  for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
    if (!strcmp(names[i].name, name) && names[i].since <= version && (!names[i].twin || flags & 2))
      if (best < 0 || names[i].twin || names[i].since > names[best].since) best = i;
  *f = best < 0 ? 0 : names[best].f;
  return best < 0 ? NOT_FOUND : OK;
}
R cuGetProcAddress(const char *n, void **f, int v, uint64_t fl) { return find(n, f, v, fl); }
R cuGetProcAddress_v2(const char *n, void **f, int v, uint64_t fl, int *s) { R r = find(n, f, v, fl); if (s) *s = r ? 1 : 0; return r; }
