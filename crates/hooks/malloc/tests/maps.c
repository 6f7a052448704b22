// Maps memory by functions with names, and prints what each of them still has. With the name of some work as the first word, a
// handler of a signal maps memory while that is done, which it may; `malloc` it may not call.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/time.h>
#include <unistd.h>

#define MIB (1L << 20)
#define APART __attribute__((noinline, noclone))

static void *map(long bytes, int flags) {
  return mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
}

static void *touched(void *at, long bytes) { return memset(at, 1, bytes); }

static void row(const char *name, long bytes) { printf("%s: %ld\n", name, bytes); }

APART static void keeps(void) { touched(map(32 * MIB, MAP_PRIVATE), 32 * MIB); }

// The middle is given back, so it has two ranges.
APART static void keeps_ends(void) {
  char *at = touched(map(6 * MIB, MAP_PRIVATE), 6 * MIB);
  munmap(at + 2 * MIB, 2 * MIB);
}

APART static void grows(void) {
  char *at = touched(map(MIB, MAP_PRIVATE), MIB);
  touched(mremap(at, MIB, 9 * MIB, MREMAP_MAYMOVE), 9 * MIB);
}

APART static void shares(void) { touched(map(16 * MIB, MAP_SHARED), 16 * MIB); }

// Returns where it is, and marks it to be removed once no process has it.
APART static char *attaches(long bytes) {
  int number = shmget(IPC_PRIVATE, bytes, 0600);
  char *at = shmat(number, NULL, 0);
  shmctl(number, IPC_RMID, NULL);
  return touched(at, bytes);
}

// One of many, which are neighbours.
APART static void repeats(void) { touched(map(4096, MAP_PRIVATE), 4096); }

// Returns the bytes, none where something is behind the heap.
APART static long makes_longer(void) {
  void *at = sbrk(3 * MIB);
  if (at == (void *)-1) return 0;
  touched(at, 3 * MIB);
  return 3 * MIB;
}

APART static void is_none(void) { munmap(touched(map(5 * MIB, MAP_PRIVATE), 5 * MIB), 5 * MIB); }

static volatile sig_atomic_t n_handled;

static void handler(int number) {
  munmap(map(MIB, MAP_PRIVATE), MIB);
  n_handled++;
}

static void *blocks[64];

static void allocate(long n) {
  free(blocks[n % 64]);
  blocks[n % 64] = malloc(16 + n * 7919 % 100000);
}

static void *look(void *argument) {
  pthread_attr_t attributes;
  for (int i = 0; i < 20 && pthread_getattr_np(pthread_self(), &attributes) == 0; i++) pthread_attr_destroy(&attributes);
  return argument;
}

// The C library has its locks here, and is not called by a function that anything is in front of.
static void trim(long n) { malloc_trim(0); }
static void count(long n) { mallinfo2(); }

static void start_thread(long n) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, look, NULL) == 0) pthread_join(thread, NULL);
}

static void open_library(long n) {
  void *library = dlopen("libm.so.6", RTLD_NOW);
  if (library) dlclose(library);
}

static int handle(const char *name) {
  static const struct { const char *name; void (*work)(long); } all[] = {
      {"allocate", allocate}, {"trim", trim}, {"count", count}, {"threads", start_thread}, {"libraries", open_library}};
  struct itimerval often = {{0, 150}, {0, 150}}, never = {{0, 0}, {0, 0}};
  void (*work)(long) = NULL;
  for (int i = 0; i < 5; i++) if (strcmp(all[i].name, name) == 0) work = all[i].work;
  for (long n = 0; n < 1000; n++) allocate(n);
  signal(SIGALRM, handler);
  setitimer(ITIMER_REAL, &often, NULL);
  for (long n = 0; n_handled < 1500; n++) work(n);
  setitimer(ITIMER_REAL, &never, NULL);
  return 0;
}

int main(int n, char **words) {
  if (n > 1) return handle(words[1]);
  keeps();
  keeps_ends();
  grows();
  shares();
  attaches(7 * MIB);
  for (int i = 0; i < 2000; i++) repeats();
  long longer = makes_longer();
  is_none();
  row("keeps", 32 * MIB);
  row("keeps_ends", 4 * MIB);
  row("grows", 9 * MIB);
  row("shares", 16 * MIB);
  row("attaches", 7 * MIB);
  row("repeats", 2000 * 4096);
  row("makes_longer", longer);
  row("is_none", 0);
  fflush(stdout);
  // Until it was looked at.
  sleep(2);
  return 0;
}
