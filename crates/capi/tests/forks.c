/* Children of fork, taken while other threads allocate, report, dump and resize. */
#include "memreel.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int is_over;
static const char *path;

static void *allocate(void *unused) {
    (void)unused;
    for (size_t n = 0; !is_over; n++) {
        void *block = memreel_malloc(1000 + n % 5000, 0, NULL);
        memreel_scope_begin("busy");
        memreel_annotate(0, block, "block");
        memreel_scope_end();
        memreel_free(block, 0, 0, NULL);
    }
    return NULL;
}

static void *report(void *unused) {
    (void)unused;
    while (!is_over) {
        memreel_record_alloc(0, (void *)0x100000, 512, NULL);
        memreel_record_free(0, (void *)0x100000);
    }
    return NULL;
}

static void *dump(void *unused) {
    (void)unused;
    for (int n = 0; !is_over; n++) {
        memreel_record(n % 2 ? "{\"max_entries\": 500}" : "{\"max_entries\": 1000}");
        memreel_dump(path);
        memreel_stats_json(0);
    }
    return NULL;
}

static int in_child(void *kept, int is_dumping) {
    void *block = memreel_malloc(5000, 0, NULL);
    memreel_free(block, 0, 0, NULL);
    memreel_free(kept, 0, 0, NULL);
    if (!block || memreel_error()) return 1;
    if (memreel_record_alloc(0, (void *)0x200000, 512, NULL) || memreel_record_free(0, (void *)0x200000)) return 2;
    if (memreel_record_alloc(1, (void *)0x200000, 512, NULL)) return 3;
    if (is_dumping && memreel_dump(path)) return 4;
    return memreel_stats_json(0) ? 0 : 5;
}

int main(int argc, char **argv) {
    pthread_t threads[4];
    void *(*work[])(void *) = {allocate, allocate, report, dump};
    int n_hung = 0, n_failed = 0, n = 0;
    path = argc > 1 ? argv[1] : "forks.pickle";
    memreel_record("{\"max_entries\": 1000}");
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work[i], NULL);
    for (; n < 100 && n_hung < 3; n++) {
        void *kept = memreel_malloc(12345, 0, NULL);
        pid_t child = fork();
        if (child == 0) _exit(in_child(kept, n % 20 == 0));
        memreel_free(kept, 0, 0, NULL);
        int status = 0, waited_ms = 0;
        while (waitpid(child, &status, WNOHANG) == 0 && waited_ms++ < 20000) {
            struct timespec one_ms = {0, 1000000};
            nanosleep(&one_ms, NULL);
        }
        if (waited_ms >= 20000) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            n_hung++;
        } else if (status != 0) {
            printf("child %d: status %d\n", n, status);
            n_failed++;
        }
    }
    is_over = 1;
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    printf("%d children, %d hung, %d failed\n", n, n_hung, n_failed);
    return 0;
}
