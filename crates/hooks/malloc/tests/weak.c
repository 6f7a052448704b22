/* Calls functions of jemalloc, mimalloc and C23 if they are there, and asks by weak symbols whether they are. Prints blocks
   and bytes that are live at the end. */
#include <stdio.h>
#include <stdlib.h>

#define WEAK __attribute__((weak))
WEAK void *mallocx(size_t, int), *rallocx(void *, size_t, int), *mi_malloc(size_t), *mi_calloc(size_t, size_t);
WEAK void dallocx(void *, int), sdallocx(void *, size_t, int), mi_free(void *), free_sized(void *, size_t);
WEAK size_t xallocx(void *, size_t, size_t, int);

int main(void) {
    long n_live = 0, bytes_live = 0;
    if (mallocx && rallocx && xallocx && dallocx && sdallocx) {
        char *block = mallocx(100000, 12 | 0x40);
        if ((size_t)block % 4096 || block[99999]) return 2;
        if (xallocx(block, 100000, 0, 0) < 100000) return 3;
        dallocx(mallocx(200000, 0), 0);
        sdallocx(mallocx(300000, 0), 300000, 0);
        block = rallocx(mallocx(400000, 0), 500000, 0);
        n_live += 2;
        bytes_live += 600000;
    }
    if (mi_malloc && mi_calloc && mi_free) {
        mi_free(mi_malloc(600000));
        char *block = mi_calloc(7, 100000);
        if (block[699999]) return 4;
        n_live++;
        bytes_live += 700000;
    }
    if (free_sized) free_sized(malloc(800000), 800000);
    printf("%ld %ld\n", n_live, bytes_live);
    return 0;
}
