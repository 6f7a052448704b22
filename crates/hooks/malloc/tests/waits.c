// A library whose fork handlers, registered when it is loaded, wait: for a lock under which other threads allocate, and for the end
// of a thread that frees. One of them forks itself.
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t worker;
static volatile int runs, is_inside;

static void *works(void *none) {
    void *blocks[64];
    while (runs) {
        for (int n = 0; n < 64; n++) blocks[n] = malloc(100 + n);
        for (int n = 0; n < 64; n++) free(blocks[n]);
    }
    return none;
}

void begin_worker(void) {
    runs = 1;
    pthread_create(&worker, 0, works, 0);
}

void work(void) {
    pthread_mutex_lock(&lock);
    for (int n = 0; n < 20; n++) free(malloc(32 + n));
    pthread_mutex_unlock(&lock);
    usleep(100);
}

static void forks(void) {
    if (is_inside) return;
    is_inside = 1;
    pid_t child = fork();
    if (!child) _exit(0);
    waitpid(child, 0, 0);
    is_inside = 0;
}

static void before(void) {
    forks();
    if (runs && !is_inside) {
        runs = 0;
        pthread_join(worker, 0);
    }
    if (!is_inside) pthread_mutex_lock(&lock);
    free(malloc(77));
}
static void after(void) {
    free(malloc(77));
    if (!is_inside) pthread_mutex_unlock(&lock), forks();
}

__attribute__((constructor)) static void loaded(void) { pthread_atfork(before, after, after); }
