// Makes events of the heap at a rate, for live.mjs. usage: events N EVERY_S: N events, spread over this number of seconds.
//
// It prints its number and waits for the file `go`. Every 0.3 seconds it keeps ten more blocks, and prints how often it has done
// so and the time in microseconds since 1970. After the last event it prints `done` and waits to be ended.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define N_TICKS_S 200
#define TICKS_BETWEEN 60

static long now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

// Standard output of the C library would allocate.
static void say(const char *word, long one, long other) {
  char line[80];
  int length = snprintf(line, sizeof line, "%s %ld %ld\n", word, one, other);
  if (write(1, line, length) != length) _exit(1);
}

static void *volatile last;

// Requests of 64 stacks: each bit of the path is another call.
static volatile long n_odd, n_even;
__attribute__((noinline)) static void use(unsigned path) {
  if (path <= 1) {
    last = malloc(1000);
    free(last);
  } else if (path & 1) {
    use(path >> 1);
    n_odd++;
  } else {
    use(path >> 1);
    n_even++;
  }
}

__attribute__((noinline)) static void keep(void) {
  for (int i = 0; i < 10; i++) last = malloc(5000);
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  long n_events = atol(argv[1]), n_ticks = atol(argv[2]) * N_TICKS_S, n_kept = 0, n_used = 0;
  // It ends by itself if the script fails.
  alarm(atol(argv[2]) + 240);
  say("pid", getpid(), 0);
  while (access("go", F_OK)) usleep(10000);
  struct timespec due;
  clock_gettime(CLOCK_MONOTONIC, &due);
  for (long tick = 1; tick <= n_ticks; tick++) {
    if (tick % TICKS_BETWEEN == 0) {
      keep();
      say("kept", ++n_kept, now_us());
    }
    // A request is an event, its release two.
    for (long until = n_events * tick / n_ticks; 3 * n_used + 10 * n_kept + 3 <= until; n_used++) use((n_used & 63) | 64);
    due.tv_nsec += 1000000000 / N_TICKS_S;
    if (due.tv_nsec >= 1000000000) due.tv_sec++, due.tv_nsec -= 1000000000;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, 0);
  }
  say("done", 3 * n_used + 10 * n_kept, now_us());
  for (;;) pause();
}
