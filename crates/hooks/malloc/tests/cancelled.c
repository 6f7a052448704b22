/* Threads that allocate are cancelled, while snapshots of many blocks are written; so is the only thread of a child. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *work(void *n) {
    for (;;) {
        for (int i = 0; i < 1000; i++) free(malloc(100 + i));
        pthread_testcancel();
    }
}

static pthread_t late[8];
static void *cancelled_before(void *unused) {
    pthread_cancel(pthread_self());
    for (int i = 0; i < 150000; i++) free(malloc(100 + i % 1000));
    pthread_testcancel();
    return 0;
}

int main(int argc, char **argv) {
    long n_blocks = atol(argv[1]), n_rounds = atol(argv[2]);
    void **kept = malloc(n_blocks * sizeof *kept);
    for (long i = 0; i < n_blocks; i++) kept[i] = malloc(16);
    for (int round = 0; round < n_rounds; round++) {
        pthread_t threads[8];
        for (int i = 0; i < 8; i++) if (pthread_create(&threads[i], 0, work, 0)) return 2;
        usleep(20000 + round % 7 * 3000);
        for (int i = 0; i < 8; i++) pthread_cancel(threads[i]);
        for (int i = 0; i < 8; i++) {
            void *ended;
            if (pthread_join(threads[i], &ended) || ended != PTHREAD_CANCELED) return 3;
        }
    }
    pid_t child = fork();
    if (!child) {
        /* It ends at the first point where a thread can be cancelled, which no malloc is. */
        pthread_cancel(pthread_self());
        void *own = malloc(300000);
        free(malloc(10));
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, 0);
        _exit(own == 0);
    }
    int status;
    waitpid(child, &status, 0);
    /* The file of the tape becomes longer, and its descriptor is closed. */
    for (int i = 3; i < 1024; i++) {
        /* A snapshot that is being written has descriptors too. */
        char name[40], path[500];
        snprintf(name, sizeof name, "/proc/self/fd/%d", i);
        long n = readlink(name, path, sizeof path - 1);
        if (n > 5 && !strncmp(path + n - 5, ".tape", 5)) close(i);
    }
    for (int i = 0; i < 8; i++) if (pthread_create(&late[i], 0, cancelled_before, 0)) return 5;
    for (int i = 0; i < 8; i++) {
        void *ended;
        if (pthread_join(late[i], &ended) || ended != PTHREAD_CANCELED) return 6;
    }
    printf("%ld 0\n", n_blocks);
    return status ? 4 : 0;
}
