/* Allocates with the functions that only jemalloc (JEMALLOC) or mimalloc (MIMALLOC) have. Prints blocks and bytes that
   are live at the end. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static long n_live, bytes_live;
static void count(long n, long bytes) { n_live += n; bytes_live += bytes; }

#ifdef JEMALLOC
void *mallocx(size_t, int), *rallocx(void *, size_t, int);
size_t xallocx(void *, size_t, size_t, int);
void dallocx(void *, int), sdallocx(void *, size_t, int), free(void *);
static int work(void) {
    void *plain = mallocx(100000, 0), *aligned = mallocx(200000, 12 | 0x40);
    if ((size_t)aligned % 4096 || ((char *)aligned)[199999]) return 2;
    plain = rallocx(plain, 3000000, 0);
    aligned = rallocx(aligned, 1100000, 12);
    if ((size_t)aligned % 4096) return 3;
    void *grown = mallocx(1000000, 0);
    size_t now = xallocx(grown, 1000001, 0, 0);
    count(3, 3000000 + 1100000 + (now >= 1000001 ? 1000001 : 1000000));
    dallocx(mallocx(500000, 0), 0);
    sdallocx(mallocx(600000, 0), 600000, 0);
    free(mallocx(700000, 0));
    return 0;
}
#endif

#ifdef MIMALLOC
void *mi_malloc(size_t), *mi_zalloc(size_t), *mi_calloc(size_t, size_t), *mi_mallocn(size_t, size_t);
void *mi_realloc(void *, size_t), *mi_rezalloc(void *, size_t), *mi_recalloc(void *, size_t, size_t);
void *mi_reallocn(void *, size_t, size_t), *mi_expand(void *, size_t), *mi_malloc_aligned(size_t, size_t);
void *mi_realloc_aligned(void *, size_t, size_t), *mi_new(size_t), *mi_new_n(size_t, size_t);
int mi_posix_memalign(void **, size_t, size_t);
void mi_free(void *), mi_free_size(void *, size_t), mi_free_aligned(void *, size_t), free(void *);
static int work(void) {
    void *blocks[] = {mi_malloc(100000), mi_zalloc(200000), mi_calloc(3, 100000), mi_mallocn(4, 100000),
                      mi_malloc_aligned(500000, 4096), mi_new(600000), mi_new_n(7, 100000), 0};
    if (mi_posix_memalign(&blocks[7], 4096, 800000)) return 2;
    if ((size_t)blocks[4] % 4096) return 3;
    blocks[0] = mi_realloc(blocks[0], 5000000);
    blocks[1] = mi_rezalloc(blocks[1], 6000000);
    blocks[2] = mi_recalloc(blocks[2], 70, 100000);
    blocks[3] = mi_reallocn(blocks[3], 80, 100000);
    blocks[4] = mi_realloc_aligned(blocks[4], 9000000, 4096);
    if (mi_expand(blocks[5], (size_t)1 << 40)) return 4;
    count(8, 5000000 + 6000000 + 7000000 + 8000000 + 9000000 + 600000 + 700000 + 800000);
    mi_free(mi_malloc(900000));
    mi_free_size(mi_malloc(910000), 910000);
    mi_free_aligned(mi_malloc_aligned(920000, 64), 64);
    free(mi_malloc(930000));
    return 0;
}
#endif

#ifdef HEAPS
/* What is not recorded. */
char *mi_strdup(const char *);
static int work(void) { return !mi_strdup("text"); }
#endif

int main(void) {
    int failed = work();
    printf("%ld %ld\n", n_live, bytes_live);
    return failed;
}
