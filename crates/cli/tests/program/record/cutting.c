/* A program whose child makes its tape shorter: to as many bytes as the first argument says. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void *blocks[4000];

__attribute__((noinline)) static void allocate(int from, int to) {
    for (int n = from; n < to; n++) blocks[n] = malloc(1000 + n);
}

static void cut(const char *folder, long n_bytes) {
    char path[4096], name[32];
    snprintf(name, sizeof name, "%d-", getppid());
    DIR *open = opendir(folder);
    for (struct dirent *entry; (entry = readdir(open));) {
        if (strncmp(entry->d_name, name, strlen(name)) != 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (truncate(path, n_bytes) != 0) _exit(2);
    }
}

/* The keeper looks at the tapes about twenty times a second. */
static void wait_for_looks(void) {
    struct timespec time = {0, 300000000};
    nanosleep(&time, NULL);
}

int main(int argc, char **argv) {
    allocate(0, 2000);
    wait_for_looks();
    pid_t child = fork();
    if (child == 0) {
        cut(getenv("MEMREEL_RECORD"), atol(argv[1]));
        _exit(0);
    }
    int status = 1;
    if (waitpid(child, &status, 0) != child || status != 0) return 3;
    wait_for_looks();
    allocate(2000, 4000);
    for (int n = 0; n < 4000; n++) free(blocks[n]);
    puts("ended");
    return 7;
}
