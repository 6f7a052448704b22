// Is built with AddressSanitizer. Prints the number and the bytes of the blocks of 100,000 bytes and more that it has.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *volatile kept[3];
static void *allocates(void *unused) {
  for (int i = 0; i < 2000; i++) free(malloc(100 + i));
  return 0;
}

int main(int argc, char **argv) {
  for (int i = 0; i < 3; i++) kept[i] = malloc(100000 + i);
  char *volatile used = malloc(1000);
  free(used);
  printf("3 300003\n");
  fflush(stdout);
  if (!strcmp(argv[1], "used")) used[5] = 1;
  if (!strcmp(argv[1], "leaks")) { char *volatile lost = malloc(77); lost = 0; }
  if (!strcmp(argv[1], "threads")) {
    pthread_t t[8];
    for (int i = 0; i < 8; i++) pthread_create(t + i, 0, allocates, 0);
    for (int i = 0; i < 8; i++) pthread_join(t[i], 0);
  }
  return 0;
}
