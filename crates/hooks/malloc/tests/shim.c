// An allocator of somebody else's, preloaded too: counts its calls, and says at the end whether it had any.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static long n_calls;
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void __libc_free(void *);
void *malloc(size_t n) { n_calls++; return __libc_malloc(n); }
void *calloc(size_t n, size_t m) { n_calls++; return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { n_calls++; return __libc_realloc(p, n); }
void free(void *p) { __libc_free(p); }
__attribute__((destructor)) static void end(void) { if (n_calls > 1000) (void)!write(2, "shim served\n", 12); }
