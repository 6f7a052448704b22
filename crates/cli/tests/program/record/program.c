// Does what its first argument says with the heap, and prints a line: the number and the bytes of the blocks of 100,000
// bytes and more that it has at its end.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static long n_live, bytes_live;
static void get(long n) {
  char *p = malloc(n);
  if (!p) exit(9);
  memset(p, 1, n);
  n_live++;
  bytes_live += n;
}
static void print(void) { printf("%ld %ld\n", n_live, bytes_live); fflush(stdout); }

// The first thing that a thread does: it allocates within, and holds a lock.
static void *ask(void *unused) {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes)) exit(4);
  pthread_attr_destroy(&attributes);
  return 0;
}

static void *later(void *unused) {
  for (int i = 0; i < 50000; i++) free(malloc(100 + i % 100));
  usleep(50000);
  print();
  return 0;
}

// The number of this process's threads.
static int n_tasks(void) {
  int n = 0;
  DIR *tasks = opendir("/proc/self/task");
  for (struct dirent *task; (task = readdir(tasks));) n += task->d_name[0] != '.';
  closedir(tasks);
  return n;
}

// Ends with another number of captures than the threads before it.
static void *counted(void *n) {
  for (long i = 0; i < (long)n; i++) free(malloc(100));
  return 0;
}

static volatile int is_done;
static void *busy(void *unused) {
  for (long i = 0; !is_done; i++) {
    free(malloc(5000));
    if (i % 8 == 0) usleep(50);
  }
  return 0;
}

// What goes on when the first thread has ended.
static void *exits(void *unused) {
  usleep(500000);
  get(300000);
  print();
  exit(0);
}

// Processors that are newer than the call do not have it.
static long raw_fork(void) {
#ifdef SYS_fork
  return syscall(SYS_fork);
#else
  return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
#endif
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  if (!strcmp(what, "secure")) {
    printf("%lu\n", getauxval(AT_SECURE));
    return 5;
  }
  if (!strcmp(what, "pairs"))
    for (int i = argc > 2 ? atoi(argv[2]) : 100000; i > 0; i--) free(malloc(100));
  if (!strcmp(what, "fails")) {
    char *block = malloc(500000);
    n_live++;
    bytes_live += 500000;
    volatile size_t most = (size_t)1 << 62;
    void *none = &none;
    if (realloc(block, most) || reallocarray(block, most, 16) || reallocarray(block, most, 1) || malloc(most)) return 7;
    if (calloc(most, 16) || calloc(most, 1) || aligned_alloc(4096, most) || !posix_memalign(&none, 4096, most)) return 7;
    if (!posix_memalign(&none, 3, 500000)) return 7;
  }
  if (!strcmp(what, "dropped")) {
    fflush(stdout);
    if (!fork()) {
      if (setgroups(0, 0) || setgid(65534) || setuid(65534)) _exit(7);
      for (int i = 0; i < 3; i++) get(600000 + i);
      for (int i = 0; i < 100000; i++) free(malloc(100));
      _exit(0);
    }
    int status;
    if (wait(&status) < 0 || status) return 8;
  }
  if (!strcmp(what, "attributes")) {
    ask(0);
    pthread_t t;
    for (int i = 0; i < 4; i++) { pthread_create(&t, 0, ask, 0); pthread_join(t, 0); }
  }
  if (!strcmp(what, "waits")) {
    // A signal that it blocks and takes: no thread that was there before may get it.
    get(100000);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, 0);
    kill(getpid(), SIGTERM);
    usleep(100000);
    int signal;
    if (sigwait(&set, &signal) || signal != SIGTERM) return 8;
  }
  for (int i = 0; i < 20; i++) get(100000 + i * 1000);
  if (!strcmp(what, "killed")) { print(); raise(SIGKILL); }
  else if (!strcmp(what, "aborted")) { print(); abort(); }
  else if (!strcmp(what, "closed")) {
    for (int i = 3; i < 1024; i++) close(i);
    // Files of its own have the numbers of those that were closed.
    for (int i = 0; i < 8; i++) {
      char name[16];
      snprintf(name, sizeof name, "mine-%d", i);
      int file = open(name, O_RDWR | O_CREAT, 0600);
      if (write(file, "mine", 4) != 4) return 8;
    }
    for (int i = 0; i < 50000; i++) free(malloc(100 + i % 100));
    get(300000);
  } else if (!strcmp(what, "forks")) {
    // The child allocates nothing and runs nothing else.
    for (int i = 0; i < 3; i++) { if (!fork()) _exit(0); int status; wait(&status); if (status) return 8; }
    get(300000);
  } else if (!strcmp(what, "threads")) {
    // With many blocks, most frees look like those of a recorded one.
    for (int i = 0; i < 100000; i++) *(volatile char *)malloc(24) = 1;
    pthread_t t[200];
    for (long i = 0; i < 200; i++) pthread_create(t + i, 0, counted, (void *)(i % 20));
    for (int i = 0; i < 200; i++) pthread_join(t[i], 0);
  } else if (!strcmp(what, "unseen")) {
    // Children that no handler of forks sees, while another thread is in the middle of an allocation.
    pthread_t t;
    pthread_create(&t, 0, busy, 0);
    for (int i = 0; i < 40; i++) {
      long child = i % 2 ? syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : raw_fork();
      if (!child) {
        // Large blocks are mappings of their own: the C library takes no lock for them, which the other thread may have.
        for (int j = 0; j < 300; j++) get(150000 + j);
        _exit(0);
      }
      for (int j = 0; j < 300; j++) free(malloc(100));
      int status;
      waitpid(child, &status, 0);
      if (status) return 8;
    }
    is_done = 1;
    pthread_join(t, 0);
    get(300000);
  } else if (!strcmp(what, "runs")) {
    print();
    execl(argv[0], argv[0], "last", (char *)0);
  } else if (!strcmp(what, "leaves")) {
    pthread_t t;
    pthread_create(&t, 0, exits, 0);
    pthread_exit(0);
  } else if (!strcmp(what, "unloads")) {
    void *library = dlopen(argv[2], RTLD_NOW);
    if (!library) { fprintf(stderr, "%s\n", dlerror()); return 7; }
    for (int i = 0; i < 3; i++) { if (!((void *(*)(long))dlsym(library, "grown_here"))(500000)) return 6; n_live++; bytes_live += 500000; }
    dlclose(library);
    // Another library may be where that one was.
    free(malloc(10));
  } else if (!strcmp(what, "alone") || !strcmp(what, "together")) {
    // The second thread only waits.
    pthread_t t;
    if (what[0] == 't') pthread_create(&t, 0, (void *(*)(void *))pause, 0);
    // More events than a small ring has, and a new user namespace, which a process with two threads does not get.
    for (int i = 0; i < 400000; i++) free(malloc(100 + i % 100));
    print();
    fprintf(stderr, "threads: %d\n", n_tasks());
    return unshare(CLONE_NEWUSER) ? 12 : 0;
  } else if (!strcmp(what, "opens")) {
    // All the files that it may have open.
    int n = 0;
    get(200000);
    while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) n++;
    fprintf(stderr, "opened %d files\n", n);
  } else if (!strcmp(what, "last")) {
    // The process ends with the thread that is left.
    pthread_t t;
    pthread_create(&t, 0, later, 0);
    pthread_exit(0);
  } else if (!strcmp(what, "many")) {
    // More events than a small disk takes.
    for (int i = 0; i < 400000; i++) free(malloc(100 + i % 100));
  }
  print();
  return 0;
}
