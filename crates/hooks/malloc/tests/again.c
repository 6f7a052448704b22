// Children that fork again before they allocate, in every way that there is to make one. Prints what each chain returns.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static pid_t (*bare_fork)(void); // `_Fork`, which calls no handlers.

static pid_t with_clone(void) { return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }
static pid_t with_clone3(void) {
    struct clone_args how = {.exit_signal = SIGCHLD};
    return syscall(SYS_clone3, &how, sizeof how);
}
static pid_t with_bare(void) { return bare_fork ? bare_fork() : fork(); }
static pid_t (*const ways[])(void) = {fork, with_bare, with_clone, with_clone3};

static int wait_for(pid_t child) {
    int status = -1;
    while (waitpid(child, &status, 0) < 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// A chain of children, each made by the next way; which of them allocate is in the bits of `allocates`.
static int chain(int depth, int way, int allocates) {
    pid_t child = ways[way % 4]();
    if (child) return wait_for(child);
    if (allocates & 1) free(malloc(100));
    _exit(depth ? chain(depth - 1, way / 4, allocates / 2) + 1 : 3);
}

static int spawned(void) {
    char *words[] = {"sh", "-c", "(exit 4)", 0};
    pid_t child = -1;
    return posix_spawn(&child, "/bin/sh", 0, 0, words, environ) ? -1 : wait_for(child);
}

static int with_vfork(void) {
    pid_t child = vfork();
    if (!child) _exit(6);
    return wait_for(child);
}

static void *of_thread(void *sum) {
    for (int way = 0; way < 4; way++) *(int *)sum += chain(2, way * 21, 2);
    return 0;
}

static volatile int of_handler;
static void handler(int signal) { of_handler += chain(1, 0, 0); }

__attribute__((constructor)) static void before_main(void) {
    if (chain(2, 0, 0) != 5) _exit(99);
}

int main(void) {
    alarm(100);
    bare_fork = (pid_t(*)(void))dlsym(RTLD_DEFAULT, "_Fork");
    free(malloc(1));
    int sum = 0;
    for (int way = 0; way < 64; way++) sum += chain(2, way, way % 8);
    printf("chains %d\n", sum);
    fflush(stdout);
    pid_t child = fork();
    if (!child) _exit(spawned() + with_vfork());
    printf("spawned %d %d, of a child %d\n", spawned(), with_vfork(), wait_for(child));
    int sums[3] = {0};
    pthread_t threads[3];
    for (int n = 0; n < 3; n++) pthread_create(&threads[n], 0, of_thread, &sums[n]);
    for (int n = 0; n < 3; n++) pthread_join(threads[n], 0), sum += sums[n];
    signal(SIGUSR1, handler);
    for (int n = 0; n < 5; n++) raise(SIGUSR1);
    printf("threads %d, handlers %d\n", sum, of_handler);
    return chain(3, 0, 0);
}
