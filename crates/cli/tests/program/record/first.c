// The first allocations of a process are those of 64 threads, all at one time. With an argument, the process is a child of
// `fork` whose parent has allocated. It prints the number and the bytes of the blocks.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 64, BLOCKS = 20 };
static pthread_barrier_t barrier;
static void *volatile blocks[THREADS][BLOCKS];

static void *allocate(void *number) {
  long n = (long)number;
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < BLOCKS; i++) {
    // A block that does not live has the same address as the next one.
    free(malloc(100000 + n));
    if (!(blocks[n][i] = malloc(100000 + n))) exit(9);
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 1) {
    free(blocks[0][0] = malloc(100));
    if (fork()) {
      int status;
      wait(&status);
      return status != 0;
    }
  }
  pthread_t threads[THREADS];
  pthread_barrier_init(&barrier, 0, THREADS);
  for (long n = 0; n < THREADS; n++)
    if (pthread_create(threads + n, 0, allocate, (void *)n)) return 8;
  for (int n = 0; n < THREADS; n++) pthread_join(threads[n], 0);
  long bytes = 0;
  for (int n = 0; n < THREADS; n++) bytes += BLOCKS * (100000 + n);
  printf("%d %ld\n", THREADS * BLOCKS, bytes);
  return 0;
}
