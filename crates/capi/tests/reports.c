/* Sound reports of one thread beside contradicting ones of another, for one device. Prints how many of each failed. */
#include "memreel.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { N = 100000 };

static void *contradict(void *unused) {
    (void)unused;
    long n_failed = 0, n_explained = 0;
    for (int i = 0; i < N; i++) {
        n_failed += memreel_record_free(0, (void *)0x10) == -1;
        n_explained += strstr(memreel_error(), "0x10 ") != NULL || strstr(memreel_error(), "0x10:") != NULL;
    }
    printf("%ld of %d contradicting reports failed, %ld explained\n", n_failed, N, n_explained);
    return NULL;
}

int main(void) {
    pthread_t thread;
    long n_failed = 0;
    if (memreel_record(NULL) != 0) return 1;
    pthread_create(&thread, NULL, contradict, NULL);
    for (int i = 0; i < N; i++) {
        n_failed += memreel_record_alloc(0, (void *)0x100000, 512, NULL) != 0;
        n_failed += memreel_record_free(0, (void *)0x100000) != 0;
    }
    pthread_join(thread, NULL);
    printf("%ld of %d sound reports failed\n", n_failed, 2 * N);
    return 0;
}
