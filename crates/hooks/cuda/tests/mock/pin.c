// A library that requests pinned memory, as PyTorch's does.
#include <stddef.h>

void pin(int (*alloc_host)(void **, size_t, unsigned), size_t bytes) {
  void *host;
  alloc_host(&host, bytes, 0);
}
