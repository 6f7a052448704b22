// Allocates in stages of known sizes. At the end of each it makes the file at-N and waits for the file go-N; nothing that it
// does in between allocates. With the word gpu it uses a GPU too: 512 MiB stay, 1 GiB at the peak, and 1 TiB is refused.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

static void *volatile kept[1000];

__attribute__((noinline)) static void *used_for_a_while(size_t n) { return malloc(n); }
__attribute__((noinline)) static void *kept_for_ever(size_t n) { return malloc(n); }

static void stage(char nth) {
  char at[] = "at-0", go[] = "go-0";
  at[3] = go[3] = nth;
  close(open(at, O_CREAT | O_WRONLY, 0600));
  // Two minutes, so that it ends by itself.
  for (int i = 0; access(go, F_OK) && i < 12000; i++) usleep(10000);
}

static int (*get)(uint64_t *, size_t), (*release)(uint64_t);

static void use_gpu(void) {
  void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *context = 0;
  if (!cuda) exit(3);
  int (*init)(unsigned) = dlsym(cuda, "cuInit"), (*retain)(void **, int) = dlsym(cuda, "cuDevicePrimaryCtxRetain");
  int (*set)(void *) = dlsym(cuda, "cuCtxSetCurrent");
  get = dlsym(cuda, "cuMemAlloc_v2"), release = dlsym(cuda, "cuMemFree_v2");
  uint64_t at, large;
  if (init(0) || retain(&context, 0) || set(context)) exit(4);
  if (get(&at, 512ul << 20) || get(&large, 1ul << 29) || release(large)) exit(5);
  if (!get(&large, 1ul << 40)) exit(6);
}

int main(int argc, char **argv) {
  kept[0] = kept_for_ever(64 << 20);
  if (argc > 1) use_gpu();
  stage('1');
  // 600 blocks of 5,000 bytes stay; 400 more are freed, and 40 MiB at the peak.
  for (int i = 1; i <= 600; i++) kept[i] = kept_for_ever(5000);
  for (int i = 0; i < 399; i++) free((void *)used_for_a_while(5000));
  free((void *)used_for_a_while(40 << 20));
  stage('2');
  return 0;
}
