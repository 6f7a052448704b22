// Opens a library whose constructor waits for threads that allocate, and for children that do; the loader's lock is the opener's
// meanwhile. The threads allocate at their ends too. usage: opening LIBRARY; compiled with -DLIBRARY, it is the library
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef LIBRARY
static pthread_key_t first, last;
static void *kept[64];
static int n_kept;

static void work(void) {
  for (int n = 0; n < 50; n++) {
    free(realloc(malloc(1000), 2000 + n));
    munmap(mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 8192);
  }
}

static void keep(void) { kept[n_kept++] = malloc(100000); }

// Called again and again, because a value is set again.
static void at_end(void *rounds) {
  work();
  keep();
  if (rounds > (void *)1) pthread_setspecific(last, rounds - 1);
}

static void *thread(void *forks) {
  pthread_setspecific(first, (void *)1);
  pthread_setspecific(last, (void *)3);
  work();
  keep();
  if (forks) {
    pid_t child = fork();
    if (!child) {
      work();
      keep();
      _exit(7);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WEXITSTATUS(status) != 7) abort();
  }
  return NULL;
}

static void run(void *forks) {
  pthread_t one;
  pthread_create(&one, NULL, thread, forks);
  pthread_join(one, NULL);
}

__attribute__((constructor)) static void begin(void) {
  pthread_key_create(&first, at_end);
  pthread_key_create(&last, at_end);
  run(NULL);
  run(&first);
  pid_t child = fork();
  if (!child) {
    run(NULL);
    _exit(7);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WEXITSTATUS(status) != 7) abort();
}

void count(void) { printf("%d %d\n", n_kept, 100000 * n_kept); }
#else
int main(int n_words, char **words) {
  alarm(40);
  void *library = dlopen(words[1], RTLD_NOW);
  if (library == NULL) return puts(dlerror()), 1;
  ((void (*)(void))dlsym(library, "count"))();
  return 0;
}
#endif
