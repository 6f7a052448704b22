// An allocator for PyTorch whose blocks can sleep: their memory goes back to the device, and their addresses stay.
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 4096 };
static struct { CUdeviceptr at; size_t bytes; CUmemGenericAllocationHandle memory; int device, is_mapped; } blocks[MOST];
static int n_blocks;

#define DRIVER(name) ((__typeof__(&name))of_driver(#name))
static void *of_driver(const char *name) {
  static void *driver;
  if (!driver) driver = dlopen("libcuda.so.1", RTLD_NOW);
  void *function = dlsym(driver, name);
  if (!function) abort();
  return function;
}
static void must(CUresult result, const char *what) {
  if (result) { fprintf(stderr, "%s: error %d\n", what, result); abort(); }
}
#define MUST(name, ...) must(DRIVER(name)(__VA_ARGS__), #name)

static void map(int i) {
  CUmemAllocationProp where = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, {blocks[i].device}}};
  MUST(cuMemCreate, &blocks[i].memory, blocks[i].bytes, &where, 0);
  MUST(cuMemMap, blocks[i].at, blocks[i].bytes, 0, blocks[i].memory, 0);
  CUmemAccessDesc access = {where.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  MUST(cuMemSetAccess, blocks[i].at, blocks[i].bytes, &access, 1);
  blocks[i].is_mapped = 1;
}
static void unmap(int i) {
  MUST(cuMemUnmap, blocks[i].at, blocks[i].bytes);
  MUST(cuMemRelease, blocks[i].memory);
  blocks[i].is_mapped = 0;
}

void *sleeper_malloc(ssize_t bytes, int device, CUstream stream) {
  if (n_blocks == MOST) return 0;
  int i = n_blocks++;
  blocks[i].bytes = (bytes + (2 << 20) - 1) / (2 << 20) * (2 << 20);
  blocks[i].device = device;
  MUST(cuMemAddressReserve, &blocks[i].at, blocks[i].bytes, 0, 0, 0);
  map(i);
  return (void *)blocks[i].at;
}
void sleeper_free(void *block, ssize_t bytes, int device, CUstream stream) {
  for (int i = 0; i < n_blocks; i++) {
    if (blocks[i].at != (CUdeviceptr)block) continue;
    if (blocks[i].is_mapped) unmap(i);
    MUST(cuMemAddressFree, blocks[i].at, blocks[i].bytes);
    blocks[i].at = 0;
  }
}
void sleeper_sleep(void) {
  for (int i = 0; i < n_blocks; i++) if (blocks[i].at && blocks[i].is_mapped) unmap(i);
}
void sleeper_wake(void) {
  for (int i = 0; i < n_blocks; i++) if (blocks[i].at && !blocks[i].is_mapped) map(i);
}
