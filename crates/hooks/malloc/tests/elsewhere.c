// Calls that give a range back, which something else has before they return: the library `another` maps it at once. Prints what
// each function still has.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB (1L << 20)
#define APART __attribute__((noinline, noclone))

static char *map(long bytes) { return memset(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, bytes); }

// What is behind it is taken, so it moves.
APART static void moves(void) {
  char *at = map(16 * MIB);
  munmap(at + 8 * MIB, 8 * MIB);
  mmap(at + 8 * MIB, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  memset(mremap(at, 8 * MIB, 12 * MIB, MREMAP_MAYMOVE), 1, 12 * MIB);
}

APART static void shrinks(void) { mremap(map(6 * MIB), 6 * MIB, 2 * MIB, 0); }

// More than there are addresses.
APART static void fails(void) {
  if (mremap(map(5 * MIB), 5 * MIB, 1L << 47, MREMAP_MAYMOVE) != MAP_FAILED) _exit(1);
}

// Returns how many MiB of the heap are left of three, none where something is behind the heap.
APART static long makes_shorter(void) {
  char *at = sbrk(3 * MIB);
  if (at == (char *)-1) return 0;
  memset(at, 1, 3 * MIB);
  if (sbrk(-MIB) == (void *)-1 || brk(at + MIB)) _exit(1);
  return 1;
}

int main(void) {
  moves();
  shrinks();
  fails();
  long left = makes_shorter();
  printf("moves: %ld\nshrinks: %ld\nfails: %ld\nmakes_shorter: %ld\nanother: %ld\n", 12 * MIB + 4096, 2 * MIB, 5 * MIB, left * MIB,
         (12 + 2 * left) * MIB);
  fflush(stdout);
  sleep(2);
  return 0;
}
