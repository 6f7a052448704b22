// Allocates in several threads and counts by itself what it has: sizes from 100,000 bytes on are its own, and no other
// block of the process is that large. Prints one line: blocks and bytes that are live at the end.
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long n_live, bytes_live;
static void count(long n, long bytes) { pthread_mutex_lock(&lock); n_live += n; bytes_live += bytes; pthread_mutex_unlock(&lock); }

static void *work(void *seed_of) {
  unsigned seed = (uintptr_t)seed_of;
  void *kept[64] = {0};
  long size[64] = {0};
  for (int i = 0; i < 4000; i++) {
    int at = rand_r(&seed) % 64;
    long n = 100000 + rand_r(&seed) % 50000;
    if (!kept[at]) {
      switch (rand_r(&seed) % 6) {
        case 0: kept[at] = calloc(1, n); break;
        case 1: kept[at] = aligned_alloc(64, n = n / 64 * 64 + 64); break;
        case 2: if (posix_memalign(&kept[at], 4096, n)) abort(); break;
        case 3: kept[at] = memalign(128, n); break;
        case 4: kept[at] = reallocarray(0, n / 8, 8); n = n / 8 * 8; break;
        default: kept[at] = malloc(n);
      }
      memset(kept[at], 1, n);
      size[at] = n;
      count(1, n);
    } else if (rand_r(&seed) % 3) {
      kept[at] = realloc(kept[at], n);
      count(0, n - size[at]);
      size[at] = n;
    } else {
      free(kept[at]);
      count(-1, -size[at]);
      kept[at] = 0;
    }
  }
  return 0;
}

int main(int argc, char **argv) {
  volatile size_t huge = SIZE_MAX / 2;
  errno = 0;
  if (calloc(huge, 4) || errno != ENOMEM) return 4;
  if (reallocarray(0, huge, 4)) return 5;
  void *kept = malloc(200000);
  count(1, 200000);
  if (realloc(kept, huge)) return 6;
  errno = 77;
  free(malloc(10));
  if (errno != 77) return 7;
  pthread_t t[6];
  for (uintptr_t i = 0; i < 6; i++) pthread_create(&t[i], 0, work, (void *)(i + 1));
  int forks = argc > 1 ? atoi(argv[1]) : 0;
  for (int i = 0; i < forks; i++) {
    pid_t child = fork();
    if (!child) { free(malloc(300000 + i)); _exit(malloc(400000 + i) == 0); }
    int status;
    waitpid(child, &status, 0);
    if (status) return 8;
  }
  for (int i = 0; i < 6; i++) pthread_join(t[i], 0);
  printf("%ld %ld\n", n_live, bytes_live);
  return 0;
}
