// What the driver's calls cost: prints the least nanoseconds of a pair of cuMemAllocAsync and cuMemFreeAsync, of a launch,
// and of a replay of a graph of 1000 launches, each of twenty rounds.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef void *H;
static void *cuda;
static void *f(const char *name) { void *p = dlsym(cuda, name); if (!p) { puts(name); exit(3); } return p; }
static void ok(int status, const char *what) { if (status) { printf("%s: %d\n", what, status); exit(4); } }

static int (*alloc)(uint64_t *, size_t, H), (*release)(uint64_t, H), (*wait)(H);
static int (*launch)(H, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, H, void **, void **);
static int (*replay)(H, H);
static H stream, kernel, graph;
__attribute__((noinline)) static void pair(void) { uint64_t p; ok(alloc(&p, 1 << 20, stream), "alloc"); release(p, stream); }
// A stack of some depth, as programs have it.
__attribute__((noinline)) static void deep(int n) { if (n) { deep(n - 1); __asm__ volatile(""); } else pair(); }
static void pairs(void) { deep(10); }
static void launches(void) { launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0); }
static void replays(void) { replay(graph, stream); }

static double least(void (*work)(void), int n) {
  double best = 1e18;
  for (int round = 0; round < 20; round++) {
    struct timespec a, b;
    wait(stream);
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < n; i++) work();
    clock_gettime(CLOCK_MONOTONIC, &b);
    wait(stream);
    double ns = ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / n;
    if (ns < best) best = ns;
  }
  return best;
}

int main(int argc, char **argv) {
  static const char code[] = ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry nothing() { ret; }\n";
  cuda = dlopen("libcuda.so.1", RTLD_NOW);
  H context, pool, module, captured;
  uint64_t keep = -1ull;
  ok(((int (*)(unsigned))f("cuInit"))(0), "cuInit");
  ok(((int (*)(H *, int))f("cuDevicePrimaryCtxRetain"))(&context, 0), "context");
  ((int (*)(H))f("cuCtxSetCurrent"))(context);
  ((int (*)(H *, unsigned))f("cuStreamCreate"))(&stream, 1);
  ((int (*)(H *, int))f("cuDeviceGetDefaultMemPool"))(&pool, 0);
  ((int (*)(H, int, void *))f("cuMemPoolSetAttribute"))(pool, 4, &keep);
  ok(((int (*)(H *, const void *))f("cuModuleLoadData"))(&module, code), "module");
  ok(((int (*)(H *, H, const char *))f("cuModuleGetFunction"))(&kernel, module, "nothing"), "function");
  alloc = f("cuMemAllocAsync"); release = f("cuMemFreeAsync"); wait = f("cuStreamSynchronize");
  launch = f("cuLaunchKernel"); replay = f("cuGraphLaunch");
  ok(((int (*)(H, int))f("cuStreamBeginCapture_v2"))(stream, 2), "capture");
  for (int i = 0; i < 1000; i++) launches();
  ok(((int (*)(H, H *))f("cuStreamEndCapture"))(stream, &captured), "end");
  ok(((int (*)(H *, H, unsigned long long))f("cuGraphInstantiateWithFlags"))(&graph, captured, 0), "graph");
  double replay_ns = least(replays, 20), launch_ns = least(launches, 500), pair_ns = least(pairs, 20000);
  printf("{\"pair_ns\": %.1f, \"launch_ns\": %.1f, \"replay_ns\": %.1f}\n", pair_ns, launch_ns, replay_ns);
  return 0;
}
