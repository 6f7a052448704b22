// Programs that hold memory for a while and do not end by themselves. What they hold is printed as a row of the table.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (1L << 20)

__attribute__((noinline)) static char *hoard(long bytes) { return memset(malloc(bytes), 1, bytes); }

// Small blocks that are freed around survivors. Returns the bytes of these.
__attribute__((noinline)) static long survivors(void) {
  enum { N = 100000, SIZE = 200, EVERY = 50 };
  static void *blocks[N];
  long kept = 0;
  for (int i = 0; i < N; i++) memset(blocks[i] = malloc(SIZE), 1, SIZE);
  for (int i = 0; i < N; i++) {
    if (i % EVERY) free(blocks[i]);
    else kept += SIZE;
  }
  return kept;
}

int main(int n, char **arguments) {
  const char *mode = n > 1 ? arguments[1] : "";
  if (!strcmp(mode, "killed")) {
    hoard(40 * MIB);
    long kept = survivors();
    printf("program: %ld\n", kept + 40 * MIB);
    fflush(stdout);
    usleep(1500000);
    raise(SIGKILL);
  } else if (!strcmp(mode, "exec")) {
    hoard(40 * MIB);
    usleep(500000);
    execl(arguments[0], arguments[0], "small", NULL);
  } else if (!strcmp(mode, "small")) {
    hoard(MIB);
    usleep(1500000);
  } else if (!strcmp(mode, "group")) {
    FILE *group = fopen(arguments[2], "w");
    fprintf(group, "%d\n", getpid());
    if (fclose(group)) return 9;
    // As slow as looks are on a machine that has much else to do.
    for (int i = 0; i < 1000; i++) {
      hoard(MIB);
      usleep(10000);
    }
  }
  return 0;
}
