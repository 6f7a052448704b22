// A program of CUDA: finds the driver as its first argument says (linked, dlsym, asked, asked_twin), does what the
// second says, and prints a line for each block that it has at its end: kind, address, bytes.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef uint64_t P;
typedef void *H;
int cuMemAlloc_v2(P *, size_t), cuMemFree_v2(P), cuMemAllocAsync(P *, size_t, H), cuMemFreeAsync(P, H);
int cuInit(unsigned), cuDevicePrimaryCtxRetain(H *, int), cuCtxSetCurrent(H);

static int (*init)(unsigned), (*retain)(H *, int), (*set)(H), (*alloc)(P *, size_t), (*release)(P);
static int (*alloc_async)(P *, size_t, H), (*free_async)(P, H);
static void *cuda;
static void *named(const char *name) {
  void *f = dlsym(cuda, name);
  if (!f) { fprintf(stderr, "no %s\n", name); exit(3); }
  return f;
}
static int (*asked)(const char *, void **, int, uint64_t, int *);
static void *ask(const char *name, uint64_t flags) {
  void *f = 0; int why;
  if (asked(name, &f, 12000, flags, &why) || !f) { fprintf(stderr, "no %s\n", name); exit(3); }
  return f;
}
static void find(const char *way) {
#ifdef LINKED
  if (!strcmp(way, "linked")) { init = cuInit; retain = cuDevicePrimaryCtxRetain; set = cuCtxSetCurrent; alloc = cuMemAlloc_v2; release = cuMemFree_v2; alloc_async = cuMemAllocAsync; free_async = cuMemFreeAsync; cuda = dlopen("libcuda.so.1", RTLD_NOW); return; }
#endif
  cuda = dlopen("libcuda.so.1", RTLD_NOW);
  if (!cuda) { fprintf(stderr, "%s\n", dlerror()); exit(3); }
  if (!strcmp(way, "dlsym")) { init = named("cuInit"); retain = named("cuDevicePrimaryCtxRetain"); set = named("cuCtxSetCurrent"); alloc = named("cuMemAlloc_v2"); release = named("cuMemFree_v2"); alloc_async = named("cuMemAllocAsync"); free_async = named("cuMemFreeAsync"); return; }
  uint64_t flags = strcmp(way, "asked_twin") ? 0 : 2;
  asked = named("cuGetProcAddress_v2");
  asked = ask("cuGetProcAddress", flags);
  init = ask("cuInit", flags); retain = ask("cuDevicePrimaryCtxRetain", flags); set = ask("cuCtxSetCurrent", flags); alloc = ask("cuMemAlloc", flags); release = ask("cuMemFree", flags); alloc_async = ask("cuMemAllocAsync", flags); free_async = ask("cuMemFreeAsync", flags);
}
static H context;
static void begin(void) { init(0); retain(&context, 0); set(context); }
static P get(const char *kind, size_t bytes) {
  P p = 0;
  if (alloc(&p, bytes)) { printf("refused 0 %zu\n", bytes); return 0; }
  printf("%s %llu %zu\n", kind, (unsigned long long)p, bytes);
  fflush(stdout);
  return p;
}
static void pairs(H stream, int n) { for (int i = 0; i < n; i++) { P p; if (!alloc_async(&p, 4096 + i % 7 * 512, stream)) free_async(p, stream); } }
static void *thread(void *n) {
  set(context);
  P p[50];
  for (int i = 0; i < 50; i++) alloc(&p[i], 1000 + (uintptr_t)n * 64 + i);
  for (int i = 0; i < 50; i++) release(p[i]);
  pairs((H)((uintptr_t)n + 0x10), 50);
  return 0;
}
static pthread_barrier_t together;
static void *begins(void *n) {
  P p;
  pthread_barrier_wait(&together);
  begin();
  for (int i = 0; i < 10; i++) if (alloc(&p, 1000 + i)) exit(4);
  return 0;
}
static void at_signal(int n) { exit(3); }
static void *ends_another(void *s) { H g; return (void *)(uintptr_t)((int (*)(H, H *))named("cuStreamEndCapture"))(s, &g); }
static void *allocates(void *n) { P p; set(context); alloc(&p, 512 << 20); return 0; }
#define MIB ((size_t)1 << 20)
static void *is_busy(void *n) {
  P p[60];
  int k = 0;
  set(context);
  for (int i = 0; i < 60; i++) {
    alloc(&p[k++], (4 + ((uintptr_t)n + i) % 3 * 2) * MIB);
    if (i % 3 == 2) release(p[--k]);
  }
  while (k) release(p[--k]);
  return 0;
}
static uint64_t create(size_t bytes, int device) {
  int prop[8] = {1, 0, 1, device};
  uint64_t h;
  ((int (*)(uint64_t *, size_t, void *, unsigned long long))named("cuMemCreate"))(&h, bytes, prop, 0);
  return h;
}
void maps_it(P at, size_t bytes, size_t offset, uint64_t h) { ((int (*)(P, size_t, size_t, uint64_t, unsigned long long))named("cuMemMap"))(at, bytes, offset, h, 0); __asm__ volatile(""); }
void unmaps_it(P at, size_t bytes) { ((int (*)(P, size_t))named("cuMemUnmap"))(at, bytes); __asm__ volatile(""); }
static P reserve_of(size_t bytes) { P at; ((int (*)(P *, size_t, size_t, P, unsigned long long))named("cuMemAddressReserve"))(&at, bytes, 0, 0, 0); return at; }
struct range { P at; uint64_t handle; size_t bytes; };
static struct range ranges[16];
static int create_and_map(struct range *r) {
  int prop[8] = {1, 0, 1, 0};
  if (((int (*)(uint64_t *, size_t, void *, unsigned long long))named("cuMemCreate"))(&r->handle, r->bytes, prop, 0)) return 1;
  maps_it(r->at, r->bytes, 0, r->handle);
  return 0;
}
// What an engine with a sleep mode does.
void load_weights(int n, size_t bytes) { for (int i = 0; i < n; i++) { ranges[i].bytes = bytes; ranges[i].at = reserve_of(bytes); create_and_map(&ranges[i]); } __asm__ volatile(""); }
void goes_to_sleep(int n) { for (int i = 0; i < n; i++) { unmaps_it(ranges[i].at, ranges[i].bytes); ((int (*)(uint64_t))named("cuMemRelease"))(ranges[i].handle); } __asm__ volatile(""); }
void wakes_up(int n) { for (int i = 0; i < n; i++) if (create_and_map(&ranges[i])) { printf("failed %d 0\n", i); break; } __asm__ volatile(""); }
void takes_a_step(size_t bytes) { P p; alloc(&p, bytes); __asm__ volatile(""); }
static P from_pool(H pool, size_t bytes) { P p; ((int (*)(P *, size_t, H, H))named("cuMemAllocFromPoolAsync"))(&p, bytes, pool, 0); return p; }
static H made_pool(int kind, int place, int number) { int props[64] = {kind, 0, place, number}; H pool; ((int (*)(H *, const int *))named("cuMemPoolCreate"))(&pool, props); return pool; }
static void release_handle(uint64_t h) { ((int (*)(uint64_t))named("cuMemRelease"))(h); }
static P reserve(void) { P at; ((int (*)(P *, size_t, size_t, P, unsigned long long))named("cuMemAddressReserve"))(&at, 64 * MIB, 0, 0, 0); return at; }
static void say(const char *kind, P at, size_t bytes) { printf("%s %llu %zu\n", kind, (unsigned long long)at, bytes); }
static void take(size_t bytes) { ((void (*)(int, uint64_t))named("mock_take"))(0, bytes); }
static uint64_t import_of(int kind, void *from) {
  uint64_t h;
  ((int (*)(uint64_t *, void *, int))named("cuMemImportFromShareableHandle"))(&h, from, kind);
  return h;
}
struct ipc { int device, mib, rest[14]; };
static P opened(int device, int mib, int is_one) {
  struct ipc h = {device, mib, {is_one}};
  P p;
  ((int (*)(P *, struct ipc, unsigned))named("cuIpcOpenMemHandle_v2"))(&p, h, 0);
  return p;
}
static int closed(P p) { return ((int (*)(P))named("cuIpcCloseMemHandle"))(p); }
int main(int argc, char **argv) {
  const char *what = argv[2];
  find(argv[1]);
  if (!strcmp(what, "together")) {
    pthread_t t[4];
    pthread_barrier_init(&together, 0, 4);
    for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, begins, 0);
    for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
    return 0;
  }
  if (!strcmp(what, "green")) {
    // The first context of the process is a green one.
    H green, second;
    P p;
    init(0);
    int (*create)(H *, H, int, unsigned) = named("cuGreenCtxCreate"), (*destroy)(H) = named("cuGreenCtxDestroy");
    create(&green, 0, 0, 1);
    set((H)0x1000);
    create(&second, 0, 0, 1);
    alloc(&p, 30 << 20);
    destroy(second);
    if (argc > 3) while (destroy(green));
    usleep(100000);
    return 0;
  }
  begin();
  if (!strcmp(what, "wakes")) {
    load_weights(10, 300 * MIB);
    goes_to_sleep(10);
    takes_a_step(1800 * MIB);
    wakes_up(10);
  } else if (!strcmp(what, "sleeps")) {
    load_weights(8, 200 * MIB);
    takes_a_step(700 * MIB);
    goes_to_sleep(8);
  } else if (!strcmp(what, "keeps")) {
    P layers[20];
    for (int i = 0; i < 20; i++) alloc_async(&layers[i], 120 * MIB, (H)0x10);
    for (int i = 0; i < 20; i++) free_async(layers[i], (H)0x10);
    ((int (*)(H))named("cuStreamSynchronize"))((H)0x10);
    get("refused", 2000 * MIB);
  } else if (!strcmp(what, "many")) {
    // The handles are given back at once, and the ranges unmapped in one call.
    size_t n = 100000, bytes = 4096;
    P at = reserve_of(n * bytes);
    for (size_t i = 0; i < n; i++) { uint64_t h = create(bytes, 0); maps_it(at + i * bytes, bytes, 0, h); release_handle(h); }
    unmaps_it(at, n * bytes / 2);
    printf("mapped %zu %zu\n", n / 2, n / 2 * bytes);
  } else if (!strcmp(what, "partly")) {
    // Each of these calls is refused.
    P at = reserve();
    uint64_t h = create(8 * MIB, 0);
    maps_it(at, 8 * MIB, 0, h);
    release_handle(h);
    for (int i = 0; i < 3; i++) unmaps_it(at + i * 2 * MIB, i ? 8 * MIB : 4 * MIB);
    say("mapped", at, 8 * MIB);
  } else if (!strcmp(what, "places")) {
    // On the host and in managed memory nothing is the GPU's; a locality domain is, and so is a pool of another device.
    int nowhere[2] = {0, 0}, node[2] = {3, 1}, of_domain[8] = {1, 0, 6, 0 | 1 << 8}, of_node[8] = {1, 0, 3, 1};
    H given;
    uint64_t h;
    P at = reserve_of(650 * MIB), back;
    from_pool(made_pool(1, 2, 0), 900 * MIB);
    back = from_pool(made_pool(1, 3, 1), 10 * MIB);
    free_async(back, 0);
    from_pool(made_pool(2, 0, 0), 500 * MIB);
    from_pool(made_pool(1, 1, 1), 100 * MIB);
    from_pool(made_pool(1, 6, 1 | 1 << 8), 40 * MIB);
    ((int (*)(H *, int *, int))named("cuMemGetDefaultMemPool"))(&given, node, 1);
    from_pool(given, 70 * MIB);
    ((int (*)(H *, int *, int))named("cuMemGetMemPool"))(&given, nowhere, 2);
    back = from_pool(given, 30 * MIB);
    from_pool(given, 20 * MIB);
    free_async(back, 0);
    ((int (*)(H *, int))named("cuDeviceGetDefaultMemPool"))(&given, 1);
    from_pool(given, 8 * MIB);
    int (*create_at)(uint64_t *, size_t, void *, unsigned long long) = named("cuMemCreate");
    create_at(&h, 600 * MIB, of_domain, 0);
    maps_it(at, 600 * MIB, 0, h);
    create_at(&h, (size_t)1 << 40, of_node, 0);
    create_at(&h, 50 * MIB, of_node, 0);
    maps_it(at + 600 * MIB, 50 * MIB, 0, h);
    usleep(100000);
    get("block", MIB);
  } else if (!strcmp(what, "blocks")) {
    P a = get("gone", 3 << 20), b;
    get("block", 5 << 20);
    get("block", 1000);
    release(a);
    alloc_async(&b, 8 << 20, 0);
    printf("block %llu %d\n", (unsigned long long)b, 8 << 20);
    pairs(0, 100);
  } else if (!strcmp(what, "kinds")) {
    P p, range; H m, e, pool; void *host; uint64_t h; size_t pitch;
    int prop[8] = {1, 0, 1, 0};
    ((int (*)(P *, size_t *, size_t, size_t, unsigned))named("cuMemAllocPitch_v2"))(&p, &pitch, 1000, 3000, 4);
    printf("block %llu %zu\n", (unsigned long long)p, pitch * 3000);
    ((int (*)(P *, size_t, unsigned))named("cuMemAllocManaged"))(&p, 7 << 20, 1);
    printf("block %llu %d\n", (unsigned long long)p, 7 << 20);
    ((int (*)(void **, size_t, unsigned))named("cuMemHostAlloc"))(&host, 3333, 0);
    printf("pinned %llu %d\n", (unsigned long long)(uintptr_t)host, 3333);
    ((int (*)(P *, size_t, size_t, P, unsigned long long))named("cuMemAddressReserve"))(&range, 64 << 20, 0, 0, 0);
    for (int i = 0; i < 4; i++) {
      ((int (*)(uint64_t *, size_t, void *, unsigned long long))named("cuMemCreate"))(&h, 2 << 20, prop, 0);
      ((int (*)(P, size_t, size_t, uint64_t, unsigned long long))named("cuMemMap"))(range + i * (2 << 20), 2 << 20, 0, h, 0);
      ((int (*)(uint64_t))named("cuMemRelease"))(h);
    }
    ((int (*)(P, size_t))named("cuMemUnmap"))(range, 4 << 20);
    printf("mapped %llu %d\nmapped %llu %d\n", (unsigned long long)range + (4 << 20), 2 << 20, (unsigned long long)range + (6 << 20), 2 << 20);
    ((int (*)(H *, const void *))named("cuModuleLoadData"))(&m, "");
    ((int (*)(H *, H, unsigned long long))named("cuGraphInstantiateWithFlags"))(&e, 0, 0);
    ((int (*)(H *, const int *))named("cuMemPoolCreate"))(&pool, prop);
    usleep(300000);
  } else if (!strcmp(what, "waits")) {
    P p[20];
    H streams[3];
    for (int i = 0; i < 3; i++) ((int (*)(H *, unsigned))named("cuStreamCreate"))(&streams[i], 0);
    for (int i = 0; i < 20; i++) alloc_async(&p[i], (i + 1) << 20, streams[i % 3]);
    for (int i = 0; i < 18; i++) free_async(p[i], streams[i % 3]);
    if (!strcmp(argv[3], "stream")) ((int (*)(H))named("cuStreamSynchronize"))(streams[1]);
    else if (!strcmp(argv[3], "context")) ((int (*)(void))named("cuCtxSynchronize"))();
    else if (!strcmp(argv[3], "destroyed")) for (int i = 0; i < 3; i++) ((int (*)(H))named("cuStreamDestroy_v2"))(streams[i]);
    if (!strcmp(argv[3], "destroyed")) usleep(200000);
  } else if (!strcmp(what, "graphs")) {
    // Memory of a graph's nodes, which a launch takes and a trim gives back.
    void (*reserve)(int, uint64_t) = (void (*)(int, uint64_t))named("mock_reserve_for_graphs");
    reserve(0, 24 << 20);
    usleep(200000);
    printf("graphs %llu 0\n", 24ull << 20);
    fflush(stdout);
  } else if (!strcmp(what, "arrays")) {
    size_t shape[3] = {1 << 20, 16, 0x0000000100000001};
    H arrays[4];
    for (int i = 0; i < 4; i++) ((int (*)(H *, void *))named("cuArrayCreate_v2"))(&arrays[i], shape);
    ((int (*)(H))named("cuArrayDestroy"))(arrays[2]);
  } else if (!strcmp(what, "instantiated")) {
    H e; void *f = 0; int why;
    asked = named("cuGetProcAddress_v2");
    asked("cuGraphInstantiate", &f, 12000, 0, &why);
    printf("status %d 0\n", ((int (*)(H *, H, unsigned long long))f)(&e, 0, 1));
    usleep(100000);
  } else if (!strcmp(what, "exits")) {
    // The stand-in raises the signal within cuEventRecord.
    signal(SIGUSR1, at_signal);
    pairs(0, 100);
  } else if (!strcmp(what, "cancelled")) {
    pthread_t t;
    void *end;
    pthread_create(&t, 0, (void *(*)(void *))named("mock_wait"), 0);
    usleep(100000);
    pthread_cancel(t);
    pthread_join(t, &end);
    printf("cancelled %d 0\n", end == PTHREAD_CANCELED);
  } else if (!strcmp(what, "addresses")) {
    // As imports of expandable segments: each reserves more than the device has.
    int (*take)(P *, size_t, size_t, P, unsigned long long) = (int (*)(P *, size_t, size_t, P, unsigned long long))named("cuMemAddressReserve");
    int (*give)(P, size_t) = (int (*)(P, size_t))named("cuMemAddressFree");
    size_t range = (size_t)90 << 30;
    P first, at;
    int n = 0;
    get("block", 5 << 20);
    take(&first, range, 0, 0, 0);
    // It takes no time, so that no device is looked at meanwhile.
    while (!take(&at, range, 0, 0, 0)) n++;
    for (int i = 0; i < 9; i++) give(at, range);
    usleep(60000);
    get("block", 5 << 20);
    printf("reserved %llu %d\n", (unsigned long long)range, n + 1);
  } else if (!strcmp(what, "refused")) {
    get("block", 1 << 30);
    get("refused", (size_t)8 << 30);
    void *host;
    ((int (*)(void **, size_t, unsigned))named("cuMemHostAlloc"))(&host, 3333, 0);
    ((int (*)(void **, size_t, unsigned))named("cuMemHostAlloc"))(&host, (size_t)1 << 40, 0);
  } else if (!strcmp(what, "captures")) {
    H s, g;
    int (*capture)(H, int) = named("cuStreamBeginCapture_v2"), (*end)(H, H *) = named("cuStreamEndCapture");
    ((int (*)(H *, unsigned))named("cuStreamCreate"))(&s, 0);
    for (int m = 0; m < 3; m++) {
      pairs(s, 10);
      capture(s, m);
      P p; H module;
      alloc_async(&p, 4096, s);
      // As a kernel does that runs for the first time.
      ((int (*)(H *, const void *))named("cuModuleLoadData"))(&module, "");
      usleep(120000);
      free_async(p, s);
      end(s, &g);
    }
    printf("violations %d 0\n", ((int (*)(void))dlsym(cuda, "mock_violations"))());
  } else if (!strcmp(what, "ends")) {
    // A capture goes on while another thread fails to end one, and is over when its own end fails.
    H s, g; P p;
    int (*capture)(H, int) = named("cuStreamBeginCapture_v2"), (*end)(H, H *) = named("cuStreamEndCapture");
    ((int (*)(H *, unsigned))named("cuStreamCreate"))(&s, 0);
    alloc_async(&p, 1 << 20, s);
    capture(s, 2);
    pthread_t t;
    pthread_create(&t, 0, ends_another, (void *)0x33);
    pthread_join(t, 0);
    free_async(p, s);
    end(s, &g);
    ((int (*)(H, int, H, void *, void *))named("cuStreamBeginRecaptureToGraph"))(s, 2, g, 0, 0);
    alloc_async(&p, 4096, s);
    end(s, &g);
    capture(s, 2);
    ((void (*)(H))named("mock_invalidate"))(s);
    printf("invalid %d 0\n", end(s, &g));
    int (*n_asked)(void) = named("mock_asked"), before = n_asked();
    pairs(s, 10);
    printf("asked %d 0\nviolations %d 0\n", n_asked() - before, ((int (*)(void))named("mock_violations"))());
  } else if (!strcmp(what, "mappings")) {
    P at = reserve();
    // Mapped twice, the first mapping ends, the handle is released.
    uint64_t h = create(12 * MIB, 0);
    maps_it(at, 12 * MIB, 0, h);
    maps_it(at + 16 * MIB, 12 * MIB, 0, h);
    unmaps_it(at, 12 * MIB);
    release_handle(h);
    say("mapped", at + 16 * MIB, 12 * MIB);
    // Parts of a handle, which overlap; the first ends, and 2 MiB are mapped nowhere.
    h = create(8 * MIB, 0);
    maps_it(at, 4 * MIB, 0, h);
    maps_it(at + 32 * MIB, 6 * MIB, 2 * MIB, h);
    unmaps_it(at, 4 * MIB);
    say("mapped", at + 32 * MIB, 6 * MIB);
    // Several mappings end in one call.
    uint64_t two[2] = {create(2 * MIB, 0), create(2 * MIB, 0)};
    for (int i = 0; i < 2; i++) { maps_it(at + (4 + 2 * i) * MIB, 2 * MIB, 0, two[i]); release_handle(two[i]); }
    unmaps_it(at + 4 * MIB, 4 * MIB);
    // Mapped twice until the end.
    h = create(4 * MIB, 0);
    maps_it(at + 48 * MIB, 4 * MIB, 0, h);
    maps_it(at + 56 * MIB, 4 * MIB, 0, h);
    release_handle(h);
    say("mapped", at + 48 * MIB, 4 * MIB);
    say("mapped", at + 56 * MIB, 4 * MIB);
  } else if (!strcmp(what, "unmapped")) {
    // Ends without a last look, after as many calls as it is asked for.
    P at = reserve();
    int n = atoi(argv[3]);
    uint64_t a = create(18 * MIB, 0), b = n > 1 ? create(4 * MIB, 0) : 0;
    if (n > 2) maps_it(at, 18 * MIB, 0, a);
    if (n > 3) unmaps_it(at, 18 * MIB);
    if (n > 4) release_handle(a);
    raise(9);
  } else if (!strcmp(what, "imports")) {
    // The context is of device 0, and other processes' memory is on device 1.
    uint64_t fabric[8] = {6 * MIB, 1};
    P at = reserve();
    for (int i = 0; i < 2; i++) {
      uint64_t file = import_of(1, (void *)(uintptr_t)(4 * 8 + 1)), h = import_of(8, fabric);
      P p = opened(1, 10, 0);
      maps_it(at + i * 20 * MIB, 4 * MIB, 0, file);
      maps_it(at + i * 20 * MIB + 8 * MIB, 6 * MIB, 0, h);
      release_handle(file);
      if (i) {
        unmaps_it(at + 20 * MIB, 4 * MIB);
        unmaps_it(at + 28 * MIB, 6 * MIB);
        release_handle(h);
        closed(p);
      } else {
        say("mapped", at, 4 * MIB);
        say("mapped", at + 8 * MIB, 6 * MIB);
        say("block", p, 10 * MIB);
      }
    }
    // It is open twice, and of two closes one fails.
    P twice = opened(1, 12, 1);
    opened(1, 12, 1);
    ((void (*)(void))named("mock_refuse_close"))();
    if (!closed(twice) || closed(twice)) return 1;
    say("block", twice, 12 * MIB);
    // What this process exports stays its own.
    uint64_t own = create(2 * MIB, 0);
    int file;
    ((int (*)(void *, uint64_t, int, unsigned long long))named("cuMemExportToShareableHandle"))(&file, own, 1, 0);
    maps_it(at + 48 * MIB, 2 * MIB, 0, own);
    say("own", at + 48 * MIB, 2 * MIB);
  } else if (!strcmp(what, "multicast")) {
    uint64_t m, imported = import_of(1, (void *)(uintptr_t)(32 * 8 + 1));
    int (*bind)(uint64_t, size_t, uint64_t, size_t, size_t, unsigned long long) = named("cuMulticastBindMem");
    int (*add_device)(uint64_t, int) = named("cuMulticastAddDevice");
    ((int (*)(uint64_t *, void *))named("cuMulticastCreate"))(&m, 0);
    add_device(m, 0);
    add_device(imported, 0);
    P at = reserve();
    // Memory that is bound is there without a handle; the first is mapped, the second is not, the third is unbound.
    for (int i = 0; i < 3; i++) {
      uint64_t h = create((4 << i) * MIB, 0);
      if (!i) maps_it(at, 4 * MIB, 0, h);
      if (i) bind(m, i * 16 * MIB, h, 0, (4 << i) * MIB, 0);
      else ((int (*)(uint64_t, size_t, P, size_t, unsigned long long))named("cuMulticastBindAddr"))(m, 0, at, 4 * MIB, 0);
      release_handle(h);
    }
    ((int (*)(uint64_t, int, size_t, size_t))named("cuMulticastUnbind"))(m, 0, 32 * MIB, 16 * MIB);
    maps_it(at + 16 * MIB, 8 * MIB, 0, m);
    maps_it(at + 32 * MIB, 32 * MIB, 0, imported);
    say("mapped", at, 4 * MIB);
  } else if (!strcmp(what, "peak")) {
    // Calls are under way nearly all the time, and what the driver takes is seen in none of them.
    P p[4];
    alloc(&p[0], 100 * MIB);
    take(133 * MIB);
    for (int i = 1; i < 4; i++) alloc(&p[i], 100 * MIB);
    for (int i = 1; i < 4; i++) release(p[i]);
  } else if (!strcmp(what, "busy")) {
    pthread_t t[4];
    for (uintptr_t i = 0; i < 4; i++) pthread_create(&t[i], 0, is_busy, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
    printf("most %llu 0\n", (unsigned long long)((uint64_t (*)(void))named("mock_most"))());
  } else if (!strcmp(what, "rounds")) {
    void (*pin)(void *, size_t) = dlsym(dlopen("libc10_cuda.so", RTLD_NOW), "pin");
    void *host, *alloc_host = named("cuMemHostAlloc");
    for (int i = 0; i < 3; i++) pin(alloc_host, 32 * MIB);
    pin(alloc_host, 33 * MIB);
    ((int (*)(void **, size_t, unsigned))alloc_host)(&host, 64 * MIB, 0);
  } else if (!strcmp(what, "reset")) {
    void *host;
    get("gone", 3 << 20);
    ((int (*)(void **, size_t, unsigned))named("cuMemHostAlloc"))(&host, 3333, 0);
    ((int (*)(int))named("cuDevicePrimaryCtxReset_v2"))(0);
  } else if (!strcmp(what, "shared")) {
    // The process lives for less than a second beside another one, and ends without a last look.
    get("block", 100 * MIB);
    usleep(150000);
    take(64 * MIB);
    usleep(100000);
    ((int (*)(void))named("cuCtxSynchronize"))();
    fflush(stdout);
    _exit(0);
  } else if (!strcmp(what, "alone")) {
    // Enough calls, for long enough, that the devices are looked at; then the number of this process's threads.
    for (int i = 0; i < 30; i++) { get("block", MIB); usleep(5000); }
    int n = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; (task = readdir(tasks));) n += task->d_name[0] != '.';
    closedir(tasks);
    printf("threads %d 0\n", n);
  } else if (!strcmp(what, "stuck")) {
    struct timespec a, b;
    pthread_t t;
    int status;
    ((void (*)(void))named("mock_stick"))();
    pthread_create(&t, 0, allocates, 0);
    usleep(200000);
    clock_gettime(CLOCK_MONOTONIC, &a);
    pid_t child = fork();
    if (!child) {
      alarm(10);
      ((int (*)(int))named("cuDevicePrimaryCtxRelease_v2"))(0);
      _exit(7);
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("forked %lld 0\n", (b.tv_sec - a.tv_sec) * 1000ll + (b.tv_nsec - a.tv_nsec) / 1000000);
    waitpid(child, &status, 0);
    printf("child %d 0\n", WIFEXITED(status) ? WEXITSTATUS(status) : 0);
    fflush(stdout);
    _exit(0);
  } else if (!strcmp(what, "threads")) {
    pthread_t t[8];
    for (uintptr_t i = 0; i < 8; i++) pthread_create(&t[i], 0, thread, (void *)i);
    for (int i = 0; i < 8; i++) pthread_join(t[i], 0);
    get("block", 12345);
  } else if (!strcmp(what, "killed")) {
    for (int i = 0; i < 1000; i++) get("block", 1000 + i);
    raise(9);
  } else if (!strcmp(what, "aborted")) {
    for (int i = 0; i < 100; i++) get("block", 1000 + i);
  } else if (!strcmp(what, "fork")) {
    get("block", 1 << 20);
    if (!fork()) _exit(0);
    int status;
    wait(&status);
    get("block", 2 << 20);
  } else if (!strcmp(what, "exec")) {
    get("block", 1 << 20);
    execl(argv[0], argv[0], argv[1], "blocks", (char *)0);
  } else if (!strcmp(what, "closed")) {
    get("block", 1 << 20);
    for (int i = 3; i < 1024; i++) close(i);
    get("block", 2 << 20);
    pairs(0, 1000);
  }
  return 0;
}
