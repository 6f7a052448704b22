// Programs whose peak, or whose allocations, are older than what a small ring keeps; the first word says which.
#include <stdlib.h>
#include <string.h>

enum { LARGE = 64000000, PAIRS = 20000, KEPT = 5000, RAMP = 100, STEP = 1000000 };
static void *blocks[KEPT];

// So many events that a ring of 4,096 has no other.
static void pairs(void) {
  for (int i = 0; i < PAIRS; i++) {
    char *volatile block = malloc(100);
    block[0] = 1;
    free(block);
  }
}

static void early(void) {
  char *volatile large = malloc(LARGE);
  memset(large, 1, LARGE);
  free(large);
}

// All frees come behind all allocations.
static void kept(void) {
  for (int i = 0; i < KEPT; i++) blocks[i] = malloc(16);
  for (int i = 0; i < KEPT; i++) free(blocks[i]);
}

__attribute__((noinline)) static void ramp(void) {
  for (int i = 0; i < RAMP; i++) blocks[i] = malloc(STEP);
}

__attribute__((noinline)) static void drain(void) {
  for (int i = RAMP - 1; i >= 0; i--) free(blocks[(i * 37) % RAMP]);
}

int main(int count, char **words) {
  if (!strcmp(words[1], "early")) early();
  if (!strcmp(words[1], "kept")) kept();
  // Three stacks that are one site; each has its peak when the others have nothing.
  if (!strcmp(words[1], "ramp")) ramp(), drain(), ramp(), drain(), ramp(), drain();
  if (count > 2) pairs();
  return 0;
}
