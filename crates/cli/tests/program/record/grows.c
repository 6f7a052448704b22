// A library that is loaded and unloaded again.
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) void *grown_here(long n) { char *p = malloc(n); if (p) memset(p, 1, n); return p; }
