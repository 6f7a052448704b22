// Runs random programs, each made of its number alone: forks of all kinds, threads, handlers of signals and of forks, allocations, exec
// at once, later or never. `forking FIRST N` prints a line for each, which says how it ended.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
enum { SLOTS = 12, DEEPEST = 3, SECONDS = 60 };

// What one thread of a program has.
struct run {
    uint64_t random;
    int depth;
    int is_thread;
    char *blocks[SLOTS];
    size_t sizes[SLOTS];
};

static pid_t (*bare_fork)(void);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int budget;           // Processes that this one may still make.
static volatile int threads; // That run beside the first.
static int is_bare;          // Whether another thread may have had a lock when this process was made without handlers.
static __thread int in_handler_of_forks;
static int handlers_fork;

static uint32_t next(struct run *run) {
    run->random ^= run->random << 13;
    run->random ^= run->random >> 7;
    run->random ^= run->random << 17;
    return (uint32_t)(run->random * 0x9e3779b97f4a7c15u >> 33);
}

static int wait_for(pid_t child) {
    int status = -1;
    while (child > 0 && waitpid(child, &status, 0) < 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

// Handlers of forks, some of which were registered before any other constructor of the program ran.
static void touch(void) {
    char *block = malloc(33 + budget % 7);
    memset(block, 1, 33);
    free(block);
}
static void takes_lock(void) { pthread_mutex_lock(&lock); }
static void gives_lock(void) { pthread_mutex_unlock(&lock); }
static void forks(void) {
    if (!handlers_fork || in_handler_of_forks) return;
    in_handler_of_forks = 1;
    pid_t child = fork();
    if (!child) _exit(0);
    wait_for(child);
    in_handler_of_forks = 0;
}
static void takes_and_forks(void) {
    forks();
    if (!in_handler_of_forks) takes_lock();
}
static void gives_and_forks(void) {
    if (!in_handler_of_forks) gives_lock();
    touch();
    forks();
}
__attribute__((constructor)) static void early(void) { pthread_atfork(takes_and_forks, gives_and_forks, gives_and_forks); }

// Handlers of signals: one that is raised, and one of a timer, which may interrupt anything.
static volatile int raised;
static void on_raised(int signal) {
    pid_t child = fork();
    if (!child) _exit(3);
    raised += wait_for(child);
}
static void on_timer(int signal) {
    pid_t child = threads || is_bare || in_handler_of_forks ? bare_fork() : syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (!child) _exit(0);
    wait_for(child);
}

static void may_interrupt(int may) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    pthread_sigmask(may ? SIG_UNBLOCK : SIG_BLOCK, &set, 0);
}

static unsigned step(struct run *run);

static unsigned steps(struct run *run, int n) {
    unsigned sum = 0;
    while (n--) sum = sum * 31 + step(run);
    for (int n = 0; n < SLOTS && !is_bare; n++) free(run->blocks[n]), run->blocks[n] = 0;
    return sum;
}

static unsigned allocates(struct run *run) {
    int n = next(run) % SLOTS;
    char **block = &run->blocks[n];
    size_t bytes = next(run) % 8 ? next(run) % 600 : next(run) % 200000;
    unsigned sum = *block && run->sizes[n] ? (unsigned char)(*block)[run->sizes[n] - 1] : 7;
    switch (next(run) % 5) {
    case 0: free(*block), *block = 0; return sum;
    case 1: *block = realloc(*block, bytes + 1), bytes++; break;
    case 2: free(*block), *block = calloc(3, bytes); break;
    case 3: free(*block), *block = aligned_alloc(64, (bytes + 64) / 64 * 64); break;
    default: free(*block), *block = malloc(bytes);
    }
    run->sizes[n] = bytes;
    if (bytes) memset(*block, (int)sum + n, bytes);
    return sum;
}

static void *of_thread(void *run) {
    unsigned sum = steps(run, 3 + next(run) % 6);
    return (void *)(uintptr_t)sum;
}

static unsigned begins_threads(struct run *run) {
    pthread_t all[3];
    struct run runs[3] = {0};
    int n = 1 + next(run) % 3, begun = 0;
    unsigned sum = 0;
    for (int i = 0; i < n; i++) runs[i].random = next(run) + 1, runs[i].depth = run->depth, runs[i].is_thread = 1;
    for (; begun < n; begun++) {
        __atomic_add_fetch(&threads, 1, __ATOMIC_SEQ_CST);
        if (pthread_create(&all[begun], 0, of_thread, &runs[begun])) abort();
    }
    if (next(run) % 2) sum += step(run);
    for (int i = 0; i < begun; i++) {
        void *of;
        pthread_join(all[i], &of);
        __atomic_sub_fetch(&threads, 1, __ATOMIC_SEQ_CST);
        sum += (unsigned)(uintptr_t)of;
    }
    return sum;
}

static void runs_again(struct run *run) {
    char random[24], depth[8];
    snprintf(random, sizeof random, "%u", next(run) + 1);
    snprintf(depth, sizeof depth, "%d", run->depth);
    execl("/proc/self/exe", "forking", "again", random, depth, (char *)0);
    _exit(90);
}

static pid_t spawned(struct run *run) {
    char text[] = "exit 0";
    text[5] += next(run) % 8;
    char *words[] = {"sh", "-c", text, 0};
    pid_t child = 0;
    return posix_spawn(&child, "/bin/sh", 0, 0, words, environ) ? 0 : child;
}

static unsigned makes_child(struct run *run) {
    // A thread beside others would race for the budget.
    if (run->depth >= DEEPEST || (run->is_thread && run->depth >= 2) || (!run->is_thread && !threads && budget-- <= 0)) return 5;
    uint32_t kind = next(run) % 10, does = next(run), seed = next(run) + 1;
    int was_bare = is_bare, has_threads = threads > 0;
    // Such a process may have locks of the C library taken.
    if (is_bare) kind = 5 + kind % 3;
    if (has_threads && kind == 8) kind = 0;
    may_interrupt(0);
    pid_t child;
    switch (kind) {
    case 5: child = bare_fork(); break;
    case 6: child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); break;
    case 7: {
        struct clone_args how = {.exit_signal = SIGCHLD};
        child = syscall(SYS_clone3, &how, sizeof how);
        break;
    }
    case 8:
        child = vfork();
        if (!child) _exit(seed % 50);
        break;
    case 9: child = spawned(run); break;
    default: child = fork();
    }
    if (child || kind == 8) {
        int is_later = does % 3 == 0 && !is_bare;
        unsigned sum = is_later ? step(run) : 0;
        may_interrupt(1);
        return sum + wait_for(child);
    }
    alarm(SECONDS);
    is_bare = was_bare || (kind >= 5 && kind <= 7 && has_threads);
    threads = 0;
    budget = 2;
    struct run own = *run;
    own.random = seed, own.depth++, own.is_thread = 0;
    if (is_bare) {
        if (does % 4 == 0) _exit(makes_child(&own) % 64);
        _exit(seed % 64);
    }
    may_interrupt(1);
    switch (does % 7) {
    case 0: _exit(seed % 64);
    case 1: own.depth++; runs_again(&own);
    case 2: usleep(2000); break;
    case 3: _exit(makes_child(&own) % 64);
    case 4: {
        unsigned sum = steps(&own, 2);
        own.depth++;
        if (sum % 2) runs_again(&own);
        exit((int)(sum % 64));
    }
    }
    _exit((int)(steps(&own, 2 + next(&own) % 8) % 64));
}

static unsigned step(struct run *run) {
    switch (next(run) % 16) {
    case 0: case 1: case 2: case 3: return makes_child(run);
    case 4: return !run->is_thread && !threads && run->depth < 2 ? begins_threads(run) : 1;
    case 5: {
        if (run->is_thread || threads) return 2;
        int before = raised;
        raise(SIGUSR1);
        return (unsigned)(raised - before);
    }
    case 6: {
        pthread_mutex_lock(&lock);
        unsigned sum = allocates(run);
        pthread_mutex_unlock(&lock);
        return sum;
    }
    case 7: {
        struct itimerval every = {{0, 700}, {0, 700}}, never = {0};
        if (run->is_thread || threads) return 3;
        setitimer(ITIMER_PROF, &every, 0);
        unsigned sum = 0;
        for (int n = 0; n < 200; n++) sum += allocates(run);
        setitimer(ITIMER_PROF, &never, 0);
        return sum;
    }
    default: return allocates(run);
    }
}

static int program(uint64_t seed, int depth) {
    struct run run = {.random = seed * 0x9e3779b97f4a7c15u | 1, .depth = depth};
    alarm(SECONDS);
    struct sigaction on = {.sa_handler = on_raised, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &on, 0);
    on.sa_handler = on_timer;
    sigaction(SIGPROF, &on, 0);
    budget = 4;
    handlers_fork = next(&run) % 8 == 0;
    if (next(&run) % 2) pthread_atfork(touch, touch, touch);
    if (next(&run) % 4 == 0) pthread_atfork(0, touch, 0);
    return (int)(steps(&run, 4 + next(&run) % 16) % 64);
}

int main(int n, char **words) {
    bare_fork = (pid_t(*)(void))dlsym(RTLD_DEFAULT, "_Fork");
    if (!bare_fork) bare_fork = fork;
    if (n > 3) _exit(program(strtoull(words[2], 0, 10), atoi(words[3])));
    uint64_t first = strtoull(words[1], 0, 10), end = first + strtoull(words[2], 0, 10);
    for (uint64_t seed = first; seed < end; seed++) {
        pid_t child = fork();
        if (!child) _exit(program(seed, 0));
        printf("%llu %d\n", (unsigned long long)seed, wait_for(child));
        fflush(stdout);
    }
    return 0;
}
