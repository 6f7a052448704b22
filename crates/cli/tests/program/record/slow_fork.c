/* Forks while a thread allocates. With -DLIBRARY, it is an allocator whose handler before a fork takes three seconds: memreel has it
   called under its own locks. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef LIBRARY
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void __libc_free(void *);
void *malloc(size_t n) { return __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return __libc_realloc(p, n); }
void free(void *p) { __libc_free(p); }
static void before(void) { sleep(3); }
__attribute__((constructor)) static void begin(void) { pthread_atfork(before, NULL, NULL); }
#else
static volatile int is_over;
static void *work(void *none) {
  while (!is_over) {
    free(malloc(100));
    usleep(1000);
  }
  return none;
}

int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, work, NULL);
  usleep(10000);
  pid_t child = fork();
  if (!child) _exit(0);
  int status = 1;
  waitpid(child, &status, 0);
  is_over = 1;
  pthread_join(thread, NULL);
  printf("%d\n", status);
  return 0;
}
#endif
