// Is built with AddressSanitizer, or ThreadSanitizer. Prints the number and the bytes of the blocks of 100,000 bytes and more that it has.
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static char *volatile kept[3];
// Each path is a stack of its own, so that the threads fill memreel's tables.
static __attribute__((noinline)) void use(unsigned path, int bytes) {
  volatile int after = 0;
  if (path <= 1) free(realloc(malloc(bytes), bytes * 3));
  else if (path & 1) { use(path >> 1, bytes); after++; }
  else { use(path >> 1, bytes); after--; }
}
static void *has_stacks(void *seed) {
  for (int i = 1; i < 4000; i++) use(i, 10 + i % 900);
  return 0;
}
static void *allocates(void *unused) {
  for (int i = 0; i < 2000; i++) free(malloc(100 + i));
  return 0;
}
// Passes on an environment on pages of which nothing else was ever written.
static int starts(void) {
  char *pages = malloc(3 * 4096);
  char *within = pages + 4096 - (unsigned long)pages % 4096 + 2000;
  char **environment = (char **)within, *command[] = {"true", 0};
  environment[0] = strcpy(within + 4096, "A=1");
  environment[1] = 0;
  pid_t child;
  int status = posix_spawn(&child, "/bin/true", 0, 0, command, environment);
  if (!status) waitpid(child, &status, 0);
  free(pages);
  return status;
}

int main(int argc, char **argv) {
  for (int i = 0; i < 3; i++) kept[i] = malloc(100000 + i);
  char *volatile used = malloc(1000);
  free(used);
  printf("3 300003\n");
  fflush(stdout);
  if (!strcmp(argv[1], "used")) used[5] = 1;
  if (!strcmp(argv[1], "starts")) return starts();
  if (!strcmp(argv[1], "leaks")) { char *volatile lost = malloc(77); lost = 0; }
  if (!strcmp(argv[1], "stacks")) {
    pthread_t t[8];
    for (int i = 0; i < 8; i++) pthread_create(t + i, 0, has_stacks, 0);
    for (int i = 0; i < 8; i++) pthread_join(t[i], 0);
  }
  if (!strcmp(argv[1], "threads")) {
    pthread_t t[8];
    for (int i = 0; i < 8; i++) pthread_create(t + i, 0, allocates, 0);
    for (int i = 0; i < 8; i++) pthread_join(t[i], 0);
  }
  return 0;
}
