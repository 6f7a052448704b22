// Starts `true` in a cleared environment, as its first argument says.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KILL(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
// What a program that is loaded does not call.
static struct sock_filter kills[] = {
  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
  KILL(prctl), KILL(getpid), KILL(lseek), KILL(faccessat), KILL(faccessat2), KILL(fcntl), KILL(readlinkat),
  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

static int filter(struct sock_filter *rules, int n) {
  struct sock_fprog program = {n, rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int argc, char **argv) {
  const char *what = argv[1];
  static char preload[900] = "LD_PRELOAD=";
  char *none[] = {0}, *others[] = {preload, 0}, *words[] = {"/bin/true", 0};
  if (!strcmp(what, "filtered")) {
    if (filter(kills, sizeof kills / sizeof *kills)) return 7;
  } else if (!strcmp(what, "contained")) {
    if (filter(kills + sizeof kills / sizeof *kills - 1, 1)) return 7;
  } else if (!strcmp(what, "pipe")) {
    char path[4096];
    snprintf(path, sizeof path, "%s/unrecorded", getenv("MEMREEL_RECORD"));
    if (mkfifo(path, 0600)) return 7;
  } else if (!strcmp(what, "preloads")) {
    for (int i = 0; i < 8; i++) sprintf(preload + strlen(preload), "/%090d/lib%040d.so:", i, i);
    execve(*words, words, others);
  } else if (!strcmp(what, "at")) {
    execveat(AT_FDCWD, *words, words, none, 0);
  } else if (!strcmp(what, "fails")) {
    // A program that cannot be run.
    char *gone[] = {argv[2], 0};
    return execve(*gone, gone, none) == -1 && errno == ENOEXEC ? 0 : 8;
  }
  execve(*words, words, none);
  return 9;
}
