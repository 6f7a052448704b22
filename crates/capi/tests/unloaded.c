/* Closes the library while threads that recorded with it live on, and opens it again. usage: unloaded LIBRARY */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

enum { N_THREADS = 2 };

static pthread_barrier_t recorded, closed;
static int (*record)(const char *), (*record_alloc)(int, void *, size_t, void *);
static int round_, n_failed[N_THREADS];

static void *work(void *nth) {
    int *failed = nth;
    *failed += record(NULL) != 0;
    *failed += record_alloc(0, (void *)(0x100000 * (1 + round_ * N_THREADS + (failed - n_failed))), 512, NULL) != 0;
    pthread_barrier_wait(&recorded);
    pthread_barrier_wait(&closed);
    return NULL;
}

int main(int n_words, char **words) {
    if (n_words < 2) return 1;
    alarm(40);
    pthread_barrier_init(&recorded, NULL, N_THREADS + 1);
    pthread_barrier_init(&closed, NULL, N_THREADS + 1);
    for (; round_ < 5; round_++) {
        void *library = dlopen(words[1], RTLD_NOW);
        if (library == NULL) return puts(dlerror()), 1;
        *(void **)&record = dlsym(library, "memreel_record");
        *(void **)&record_alloc = dlsym(library, "memreel_record_alloc");
        pthread_t threads[N_THREADS];
        for (int n = 0; n < N_THREADS; n++) pthread_create(&threads[n], NULL, work, &n_failed[n]);
        pthread_barrier_wait(&recorded);
        dlclose(library);
        pthread_barrier_wait(&closed);
        for (int n = 0; n < N_THREADS; n++) pthread_join(threads[n], NULL);
    }
    return n_failed[0] + n_failed[1];
}
