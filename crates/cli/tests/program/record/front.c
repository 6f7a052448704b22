/* An allocator of its own, in front of another: what it gives is never given back. */
#include <stddef.h>
#include <string.h>

static char room[64 << 20] __attribute__((aligned(64)));
static size_t n_taken;

void *malloc(size_t bytes) {
    size_t at = __atomic_fetch_add(&n_taken, (bytes + 127) / 64 * 64, __ATOMIC_RELAXED);
    *(size_t *)(room + at) = bytes;
    return room + at + 64;
}
void free(void *block) { (void)block; }
void *calloc(size_t n, size_t bytes) { return malloc(n * bytes); }
void *realloc(void *old, size_t bytes) {
    void *new = malloc(bytes);
    if (old) {
        size_t n = *(size_t *)((char *)old - 64);
        memcpy(new, old, n < bytes ? n : bytes);
    }
    return new;
}
