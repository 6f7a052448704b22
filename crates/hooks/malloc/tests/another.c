// A library behind memreel's: what a call gave back, it maps before the call returns, as another thread may.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

__attribute__((noinline, noclone)) static void another(char *at, char *end) {
  void *(*map)(void *, size_t, int, int, int, off_t) = dlsym(RTLD_DEFAULT, "mmap");
  if (map(at, end - at, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != at) __builtin_trap();
  memset(at, 1, end - at);
}

void *mremap(void *old, size_t old_bytes, size_t bytes, int flags, ...) {
  void *(*next)(void *, size_t, size_t, int, ...) = dlsym(RTLD_NEXT, "mremap");
  char *at = next(old, old_bytes, bytes, flags, NULL), *end = (char *)old + old_bytes;
  if (at != MAP_FAILED && (at != old || bytes < old_bytes)) another(at == old ? at + bytes : old, end);
  return at;
}

static char *end_of_heap(void) { return ((char *(*)(long))dlsym(RTLD_NEXT, "sbrk"))(0); }

void *sbrk(long bytes) {
  char *old = ((char *(*)(long))dlsym(RTLD_NEXT, "sbrk"))(bytes);
  if (bytes < 0 && old != (char *)-1) another(old + bytes, old);
  return old;
}

int brk(void *end) {
  char *old = end_of_heap();
  int failed = ((int (*)(void *))dlsym(RTLD_NEXT, "brk"))(end);
  if (!failed && (char *)end < old) another(end, old);
  return failed;
}
