// Programs whose resident memory is known. Each prints lines of a row of the table and its bytes, and ends with what it has.
// With `hold` as the last word it prints what the kernel says of it, and waits to be looked at; with `trim` it prints what
// `malloc_trim` returns to the kernel.
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
#include <sys/wait.h>
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
static long survivors(int n, int size) {
  enum { MOST = 1200000, EVERY = 50 };
  static void *blocks[MOST];
  long kept = 0;
  for (int i = 0; i < n; i++) memset(blocks[i] = malloc(size), 1, size);
  for (int i = 0; i < n; i++) {
    if (i % EVERY) free(blocks[i]);
    else kept += size;
  }
  return kept;
}

static pthread_barrier_t touched, never;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static void *with_stack(void *argument) {
  volatile char room[MIB];
  for (long at = 0; at < MIB; at += 4096) room[at] = 1;
  pthread_barrier_wait(&touched);
  pthread_barrier_wait(&never);
  return argument;
}

// Grows and empties an arena, one thread after the other. A block behind all others stays, if there is to be one.
static void *grow(void *argument, int n, long size, int has_last) {
  void *blocks[n];
  pthread_mutex_lock(&turn);
  // A large block that was freed has the arenas keep more, and have larger blocks.
  if (!has_last) free(malloc(31 * MIB));
  for (int i = 0; i < n; i++) memset(blocks[i] = malloc(size), 1, size);
  // Too large for a free chunk, so it is behind all others.
  void *last = has_last ? malloc(100 * size) : NULL;
  __asm__ volatile("" : : "r"(last) : "memory");
  for (int i = 0; i < n; i++) free(blocks[i]);
  pthread_mutex_unlock(&turn);
  pthread_barrier_wait(&touched);
  pthread_barrier_wait(&never);
  return argument;
}

static void *in_arena(void *argument) { return grow(argument, 16384, 1000, 1); }
static void *without_last(void *argument) { return grow(argument, 16, MIB, 0); }

static void threads(int n, void *(*run)(void *)) {
  pthread_t thread;
  pthread_barrier_init(&touched, NULL, n + 1);
  pthread_barrier_init(&never, NULL, n + 1);
  for (int i = 0; i < n; i++) pthread_create(&thread, NULL, run, NULL);
  pthread_barrier_wait(&touched);
}

// What the kernel says of a process: a line of its `smaps_rollup`, in bytes.
static long rollup(int process, const char *key) {
  char path[64], line[128];
  long kibibytes = 0;
  sprintf(path, "/proc/%d/smaps_rollup", process);
  FILE *file = fopen(path, "r");
  while (fgets(line, sizeof line, file)) {
    if (!strncmp(line, key, strlen(key))) kibibytes += atol(line + strlen(key));
  }
  fclose(file);
  return kibibytes * 1024;
}

static void hold(void) {
  const char *seconds = getenv("HOLD_SECONDS");
  sleep(seconds ? atoi(seconds) : 4);
}

static char *mapped(long bytes, int flags, int file) {
  char *at = mmap(NULL, bytes, PROT_READ | (file < 0 ? PROT_WRITE : 0), flags, file, 0);
  if (at == MAP_FAILED) exit(9);
  return at;
}

static char *anonymous(long bytes, int shared) {
  return mapped(bytes, MAP_ANONYMOUS | (shared ? MAP_SHARED : MAP_PRIVATE), -1);
}

// One byte of each huge page is touched. What is resident of them depends on the kernel.
static long touched_huge(char *block, long bytes) {
  char *at = (char *)(((uintptr_t)block + 2 * MIB - 1) & -(uintptr_t)(2 * MIB));
  madvise(at, bytes, MADV_HUGEPAGE);
  for (long i = 0; i < bytes; i += 2 * MIB) at[i] = 1;
  return bytes;
}

// Three children that read what they have of their parent. The kernel's figures are those of all four.
static void forked(void) {
  enum { N = 3 };
  int children[N], ready[2];
  char *block = memset(malloc(64 * MIB), 1, 64 * MIB), *shared = memset(anonymous(32 * MIB, 1), 1, 32 * MIB);
  pipe(ready);
  for (int i = 0; i < N; i++) {
    if (children[i] = fork()) continue;
    long sum = 0;
    for (long at = 0; at < 64 * MIB; at += 4096) sum += block[at] + shared[at / 2];
    // Something of its own, too.
    memset(malloc(4 * MIB), sum, 4 * MIB);
    write(ready[1], "", 1);
    hold();
    exit(0);
  }
  char byte;
  for (int i = 0; i < N; i++) read(ready[0], &byte, 1);
  long shared_out = rollup(getpid(), "Pss:");
  for (int i = 0; i < N; i++) shared_out += rollup(children[i], "Pss:");
  row("program", (64 + 4 * N) * MIB);
  row("shared memory", 32 * MIB);
  row("resident", shared_out);
  fflush(stdout);
  for (int i = 0; i < N; i++) waitpid(children[i], NULL, 0);
  exit(0);
}

int main(int n, char **arguments) {
  const char *mode = n > 1 ? arguments[1] : "";
  // A huge page is resident whole, however little of it was touched.
  if (strcmp(mode, "huge")) prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  if (!strcmp(mode, "survivors") || !strcmp(mode, "many")) {
    // The recorder's table of so many live blocks is larger than anything that `malloc` takes from its heap.
    row("program", strcmp(mode, "many") ? survivors(348000, 200) : survivors(1200000, 40));
    row("malloc, unused", mallinfo2().fordblks);
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
    row("thread stacks", 64 * MIB);
  } else if (!strcmp(mode, "beside")) {
    // The kernel makes one mapping of both and the stack of the first thread, which is below them. A new one has to be told not
    // to have huge pages there, as in stacks.
    char *block = malloc(64 * MIB);
    char *map = mmap(NULL, 128 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(block - 16, 64 * MIB, MADV_NOHUGEPAGE);
    madvise(map, 128 * MIB, MADV_NOHUGEPAGE);
    threads(16, with_stack);
    memset(block, 1, 64 * MIB);
    memset(map, 1, 128 * MIB);
    row("anonymous mappings", 128 * MIB);
    row("program", 64 * MIB);
    row("thread stacks", 16 * MIB);
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
  } else if (!strcmp(mode, "tops")) {
    threads(3, without_last);
    row("malloc, unused", 3 * 16 * MIB);
  } else if (!strcmp(mode, "untouched")) {
    char *block = malloc(1024 * MIB);
    memset(block, 1, 8 * MIB);
    row("program", 8 * MIB);
  } else if (!strcmp(mode, "left")) {
    // In shared memory, and nobody will remove it.
    int file = open(arguments[2], O_RDWR | O_CREAT, 0600);
    ftruncate(file, 16 * MIB);
    memset(mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), 1, 16 * MIB);
    close(file);
    row("shared memory", 16 * MIB);
  } else if (!strcmp(mode, "part")) {
    char *at = anonymous(1024 * MIB, 0);
    for (long i = 0; i < 1024 * MIB; i += 16 * MIB) memset(at + i, 1, MIB);
    row("anonymous mappings", 64 * MIB);
  } else if (!strcmp(mode, "huge")) {
    row("anonymous mappings", touched_huge(anonymous(66 * MIB, 0), 64 * MIB));
    row("program", touched_huge(malloc(66 * MIB), 64 * MIB));
    row("huge pages", rollup(getpid(), "AnonHugePages:"));
  } else if (!strcmp(mode, "forked")) {
    forked();
  }
  if (!strcmp(arguments[n - 1], "trim")) {
    long before = resident();
    malloc_trim(0);
    row("returned", before - resident());
  } else if (!strcmp(arguments[n - 1], "hold")) {
    row("resident", rollup(getpid(), "Rss:"));
    fflush(stdout);
    hold();
  }
  return 0;
}
