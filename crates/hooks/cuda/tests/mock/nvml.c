// A stand-in for NVIDIA's management library: what it says of memory is what the stand-in for the driver has.
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

static uint64_t used(void) {
  uint64_t (*of)(int) = 0;
  void *cuda = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW);
  if (cuda) of = (uint64_t (*)(int))dlsym(cuda, "mock_used");
  return of ? of(0) : 0;
}
// Another process has MOCK_OTHERS bytes; without the variable no process can be seen.
static const char *others(void) { return getenv("MOCK_OTHERS"); }

int nvmlInit_v2(void) { return 0; }
int nvmlInitWithFlags(unsigned f) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetHandleByUUID(const char *u, void **d) { *d = (void *)1; return 0; }
int nvmlDeviceGetMemoryInfo(void *d, uint64_t *m) {
  uint64_t all = (uint64_t)4096 << 20, bytes = used() + (others() ? strtoull(others(), 0, 10) : 0);
  m[0] = all; m[1] = all - bytes; m[2] = bytes;
  return 0;
}
int nvmlDeviceGetMemoryInfo_v2(void *d, void *m) {
  struct { unsigned version; uint64_t all, reserved, free, used; } *info = m;
  uint64_t three[3];
  nvmlDeviceGetMemoryInfo(d, three);
  info->all = three[0]; info->reserved = 0; info->free = three[1]; info->used = three[2];
  return 0;
}
struct process { unsigned pid; unsigned long long used; unsigned gi, ci; };
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, struct process *p) {
  unsigned found = others() ? 2 : 0;
  if (*n < found) { *n = found; return 7; }
  *n = found;
  if (found) { p[0] = (struct process){(unsigned)getpid(), used(), -1u, -1u}; p[1] = (struct process){1, strtoull(others(), 0, 10), -1u, -1u}; }
  return 0;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *d, unsigned *n, struct process *p) { *n = 0; return 0; }
