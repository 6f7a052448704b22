// Limits itself as its first argument says, and prints a line: the number and the bytes of the blocks of 100,000 bytes and
// more that it has at its end.
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

static long n_live, bytes_live;
static void *get(long n) {
  char *p = malloc(n);
  if (!p) _exit(9);
  *(volatile char *)p = 1;
  __atomic_fetch_add(&n_live, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&bytes_live, n, __ATOMIC_RELAXED);
  return p;
}
static void print(void) { printf("%ld %ld\n", n_live, bytes_live); fflush(stdout); }

#define ALLOW(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
// Allows what malloc needs, and what this program does.
static struct sock_filter allowed[] = {
  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
  ALLOW(read), ALLOW(write), ALLOW(exit), ALLOW(exit_group), ALLOW(rt_sigreturn), ALLOW(brk), ALLOW(munmap), ALLOW(mremap),
  ALLOW(futex), ALLOW(madvise), ALLOW(nanosleep), ALLOW(clock_nanosleep), ALLOW(clock_gettime),
  // A mapping of no file.
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3),
  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[4])),
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0xffffffff, 0, 1),
  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
};
static void forbidden(int signal, siginfo_t *info, void *context) {
  char line[] = "forbidden 000\n";
  for (int n = info->si_syscall, at = 12; at > 9; n /= 10) line[at--] = '0' + n % 10;
  write(2, line, sizeof line - 1);
  _exit(10);
}

static void in_handler(int signal) {
  for (int i = 0; i < 20; i++) free(malloc(200000 + i));
  get(300000);
}
static void *handles(void *unused) {
  // What a stack of 4 KiB had beside the kernel's frame before vectors became wide; what is below the stack is no memory.
  size_t frame = getauxval(AT_MINSIGSTKSZ), bytes = (frame ? frame : MINSIGSTKSZ) + 3072;
  char *pages = mmap(0, 4096 + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || mprotect(pages, 4096, PROT_NONE)) _exit(7);
  stack_t small = {.ss_sp = pages + 4096, .ss_size = bytes};
  if (sigaltstack(&small, 0)) _exit(8);
  for (int i = 0; i < 3; i++) raise(SIGUSR1);
  get(400000);
  return 0;
}

static void *allocates(void *bytes) {
  // What the program has of its stack remains its own.
  char used[8000];
  for (int i = 0; i < 1000; i++) free(realloc(malloc(200 + i), 5000));
  get((long)memset(used, 1, sizeof used) ? (long)bytes : 0);
  return 0;
}
static void small_threads(int n) {
  pthread_attr_t small;
  pthread_attr_init(&small);
  // 16 KiB, and on aarch64 128 KiB.
  size_t least = 16384;
  if (pthread_attr_setstacksize(&small, least) && pthread_attr_setstacksize(&small, least = 131072)) _exit(7);
  pthread_t t[20];
  for (int i = 0; i < n; i++) if (pthread_create(t + i, &small, allocates, (void *)500000L)) _exit(8);
  for (int i = 0; i < n; i++) pthread_join(t[i], 0);
  for (int i = 0; i < 2; i++) {
    size_t bytes = least < 28 << 10 ? 28 << 10 : least;
    char *pages = mmap(0, 4096 + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages, 4096, PROT_NONE)) _exit(7);
    if (pthread_attr_setstack(&small, pages + 4096, bytes)) _exit(7);
    if (pthread_create(t, &small, allocates, (void *)600000L)) _exit(8);
    pthread_join(*t, 0);
  }
}

static __thread sigjmp_buf back;
static void jumps(int signal) { siglongjmp(back, 1); }
static volatile long depth;
static __attribute__((noinline)) long recurse(long n) {
  volatile char used[200];
  used[0] = n;
  void *p = malloc(48);
  depth = n;
  n = recurse(n + 1) + used[0];
  free(p);
  return n;
}
// Overflows its stack and recovers by a jump out of the handler, as interpreters do.
static void *overflows(void *unused) {
  stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
  sigaltstack(&stack, 0);
  for (int i = 0; i < 4; i++) if (!sigsetjmp(back, 1)) recurse(i);
  for (int i = 0; i < 10; i++) get(700000 + i);
  return 0;
}

static pthread_barrier_t all;
static void *waits(void *unused) {
  free(malloc(100));
  get(100000);
  pthread_barrier_wait(&all);
  return 0;
}

// Blocks that the kernel has one by one, each of which moves: another thread gets its place before the call returns.
static void *moves(void *number) {
  unsigned seed = (long)number;
  for (int i = 0; i < 300; i++) {
    size_t pages = 33 + rand_r(&seed) % 40;
    char *p = malloc(pages << 12);
    for (int j = 0; j < 4; j++) {
      p = realloc(p, (pages += 1 + rand_r(&seed) % 60) << 12);
      p[0] = p[(pages << 12) - 1] = 1;
    }
    free(p);
  }
  return 0;
}

int main(int argc, char **argv) {
  const char *what = argv[1];
  if (!strcmp(what, "stacks")) small_threads(1);
  for (int i = 0; i < 20; i++) get(100000 + i * 1000);
  print();
  if (!strcmp(what, "filtered")) {
    usleep(400000);
    struct sigaction trap = {.sa_sigaction = forbidden, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &trap, 0);
    struct sock_fprog program = {sizeof allowed / sizeof *allowed, allowed};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 7;
    // More events than the file has room for at its beginning.
    for (int i = 0; i < 20; i++) {
      for (int j = 0; j < 10000; j++) free(malloc(100 + j % 100));
      usleep(100000);
    }
    get(300000);
  } else if (!strcmp(what, "small")) {
    struct sigaction on_stack = {.sa_handler = in_handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &on_stack, 0);
    handles(0);
    pthread_t t[2];
    for (int i = 0; i < 2; i++) pthread_create(t + i, 0, handles, 0);
    for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
  } else if (!strcmp(what, "overflows")) {
    struct sigaction on_stack = {.sa_handler = jumps, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &on_stack, 0);
    overflows(0);
    pthread_t t[2];
    for (int i = 0; i < 2; i++) pthread_create(t + i, 0, overflows, 0);
    for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
  } else if (!strcmp(what, "stacks")) {
    small_threads(20);
  } else if (!strcmp(what, "moves")) {
    mallopt(M_MMAP_THRESHOLD, 64 << 10);
    pthread_t t[32];
    for (long i = 0; i < 32; i++) if (pthread_create(t + i, 0, moves, (void *)(i + 1))) return 6;
    for (int i = 0; i < 32; i++) pthread_join(t[i], 0);
  } else if (!strcmp(what, "threads")) {
    int n = atoi(argv[2]);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 128 << 10);
    static pthread_t t[20000];
    pthread_barrier_init(&all, 0, n);
    for (int i = 0; i < n; i++) if (pthread_create(t + i, &small, waits, 0)) { fprintf(stderr, "%d threads\n", i); return 6; }
    for (int i = 0; i < n; i++) pthread_join(t[i], 0);
  } else if (!strcmp(what, "execs")) {
    char left[16];
    snprintf(left, sizeof left, "%d", atoi(argv[2]) - 1);
    if (atoi(argv[2]) > 1) execl(argv[0], argv[0], "execs", left, (char *)0);
  }
  print();
  return 0;
}
