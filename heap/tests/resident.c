// Programs whose resident memory is known. Each prints lines of a row of the table and its bytes, and ends with what it has.
#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define MIB (1L << 20)

static void row(const char *name, long bytes) { printf("%s: %ld\n", name, bytes); }

static long resident(void) {
  long all = 0, pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  fscanf(file, "%ld %ld", &all, &pages);
  fclose(file);
  return pages * sysconf(_SC_PAGESIZE);
}

// Small blocks that are freed around survivors. Returns the bytes of these.
static long survivors(void) {
  enum { N = 348000, SIZE = 200, EVERY = 50 };
  static void *blocks[N];
  long kept = 0;
  for (int i = 0; i < N; i++) memset(blocks[i] = malloc(SIZE), 1, SIZE);
  for (int i = 0; i < N; i++) {
    if (i % EVERY) free(blocks[i]);
    else kept += SIZE;
  }
  return kept;
}

static pthread_barrier_t touched, never;

static void *with_stack(void *argument) {
  volatile char room[MIB];
  for (long at = 0; at < MIB; at += 4096) room[at] = 1;
  pthread_barrier_wait(&touched);
  pthread_barrier_wait(&never);
  return argument;
}

static void *in_arena(void *argument) {
  enum { N = 16384, SIZE = 1000 };
  void *blocks[N];
  for (int i = 0; i < N; i++) memset(blocks[i] = malloc(SIZE), 1, SIZE);
  // Too large for a free chunk, so it is behind all others.
  void *last = malloc(100 * SIZE);
  __asm__ volatile("" : : "r"(last) : "memory");
  for (int i = 0; i < N; i++) free(blocks[i]);
  pthread_barrier_wait(&touched);
  pthread_barrier_wait(&never);
  return argument;
}

static void threads(int n, void *(*run)(void *)) {
  pthread_t thread;
  pthread_barrier_init(&touched, NULL, n + 1);
  pthread_barrier_init(&never, NULL, n + 1);
  for (int i = 0; i < n; i++) pthread_create(&thread, NULL, run, NULL);
  pthread_barrier_wait(&touched);
}

static char *mapped(long bytes, int flags, int file) {
  char *at = mmap(NULL, bytes, PROT_READ | (file < 0 ? PROT_WRITE : 0), flags, file, 0);
  if (at == MAP_FAILED) exit(9);
  return at;
}

int main(int n, char **arguments) {
  const char *mode = n > 1 ? arguments[1] : "";
  // A huge page is resident whole, however little of it was touched.
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  if (!strcmp(mode, "survivors")) {
    row("program", survivors());
    row("malloc, unused", mallinfo2().fordblks);
  } else if (!strcmp(mode, "trimmed")) {
    survivors();
    long before = resident();
    malloc_trim(0);
    row("returned", before - resident());
  } else if (!strcmp(mode, "shared")) {
    for (int i = 0; i < 16; i++) {
      char name[64];
      sprintf(name, "/memreel-test-%d-%d", getpid(), i);
      int file = shm_open(name, O_CREAT | O_RDWR, 0600);
      ftruncate(file, 4 * MIB);
      memset(mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), 1, 4 * MIB);
      close(file);
      shm_unlink(name);
    }
    row("shared memory", 64 * MIB);
  } else if (!strcmp(mode, "stacks")) {
    threads(64, with_stack);
    row("stacks of threads", 64 * MIB);
  } else if (!strcmp(mode, "file")) {
    int file = open(arguments[2], O_RDWR | O_CREAT, 0600);
    ftruncate(file, 256 * MIB);
    char *at = mapped(256 * MIB, MAP_PRIVATE, file);
    long sum = 0;
    for (long i = 0; i < 128 * MIB; i += 4096) sum += at[i];
    row("mapped files", 128 * MIB + sum);
  } else if (!strcmp(mode, "arenas")) {
    threads(3, in_arena);
    row("malloc, unused", 3 * 16384L * 1008);
  } else if (!strcmp(mode, "untouched")) {
    char *block = malloc(1024 * MIB);
    memset(block, 1, 8 * MIB);
    row("program", 8 * MIB);
  }
  return 0;
}
