/* Starts programs: with environments that are no memory, after it gave its rights away, and where it has no tape. */
#define _GNU_SOURCE
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char *words[] = {"true", NULL};

static int status_of(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

/* What the kernel says of an environment. */
static void start_with(char **environment) {
  pid_t child;
  errno = 0;
  int executed = execve("/bin/true", words, environment);
  int error = errno;
  int spawned = posix_spawn(&child, "/bin/true", NULL, NULL, words, environment);
  printf("%d %d %d\n", executed, error == EFAULT, spawned == EFAULT);
}

static void start_with_faults(void) {
  char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(page + 4096, 4096);
  start_with((char **)8);
  start_with((char **)(page + 4096));
  /* A list whose end is not there, and a text whose end is not there. */
  char **last = (char **)(page + 4096) - 2;
  last[0] = last[1] = "A=1";
  start_with(last);
  memset(page, 'x', 4096);
  char *listed[] = {"A=1", page, NULL}, *wild[] = {(char *)16, NULL};
  start_with(listed);
  start_with(wild);
}

/* Others than root may not write where the tapes are. */
static int start_as_another(void) {
  int sum = 0;
  for (int n = 0; n < 4; n++) {
    free(malloc(1000));
    pid_t child = n % 2 ? fork() : vfork();
    if (!child) {
      if (setuid(65534) != 0) _exit(9);
      char *shell[] = {"sh", "-c", "/bin/true; /bin/true; :", NULL};
      if (n < 2) execv("/bin/true", words);
      execvp("sh", shell);
      _exit(8);
    }
    sum += status_of(child);
  }
  return sum;
}

/* What the kernel gave this program is as it was. */
static int start_without_tape(char **given) {
  size_t n_bytes = 0, n_kernel = 0;
  for (char **word = given; *word; word++) n_bytes += strlen(*word) + 1;
  FILE *file = fopen("/proc/self/environ", "r");
  while (fgetc(file) != EOF) n_kernel++;
  fclose(file);
  pid_t child;
  int sum = system("/bin/true; /bin/true");
  if (posix_spawn(&child, "/bin/true", NULL, NULL, words, given) == 0) sum += status_of(child);
  if (posix_spawn(&child, "/bin/true", NULL, NULL, words, environ) == 0) sum += status_of(child);
  printf("%d %d\n", n_bytes == n_kernel, sum);
  return 0;
}

int main(int n_words, char **arguments) {
  const char *what = arguments[1];
  if (!strcmp(what, "faults")) return start_with_faults(), 0;
  if (!strcmp(what, "rights")) return start_as_another();
  /* Behind the arguments. */
  return start_without_tape(arguments + n_words + 1);
}
