// Opens libraries with storage of threads, and uses the storage on two threads, of which one began before them.
// usage: storage FOLDER N; without it, it is such a library
#define _GNU_SOURCE
#include <stdlib.h>

#ifdef LIBRARY
static __thread char bytes[3000];
void *touch(char value) {
  bytes[7] += value;
  return bytes;
}
#else
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static void *(*touch[200])(char);
static int n;
static pthread_barrier_t opened, used;

static void use_all(void) {
  for (int i = 0; i < n; i++) {
    if (touch[i](1) == NULL) abort();
    free(malloc(1000));
  }
}

static void *other(void *_) {
  free(malloc(10));
  for (int round = 0; round < 2; round++) {
    pthread_barrier_wait(&opened);
    use_all();
    pthread_barrier_wait(&used);
  }
  return NULL;
}

int main(int argc, char **argv) {
  pthread_t thread;
  pthread_barrier_init(&opened, NULL, 2);
  pthread_barrier_init(&used, NULL, 2);
  pthread_create(&thread, NULL, other, NULL);
  // The loader's table of a thread is made longer in the second round, when it is a block.
  for (int round = 0; round < 2; round++) {
    int until = atoi(argv[2]) * (round + 1) / 2;
    for (; n < until; n++) {
      char path[300];
      snprintf(path, sizeof path, "%s/lib%d.so", argv[1], n);
      void *library = dlopen(path, RTLD_NOW);
      if (library == NULL) return puts(dlerror()), 1;
      touch[n] = dlsym(library, "touch");
      if (round == 0) use_all();
    }
    pthread_barrier_wait(&opened);
    use_all();
    pthread_barrier_wait(&used);
  }
  pthread_join(thread, NULL);
  void *volatile kept = malloc(150000);
  printf("1 %d\n", kept != NULL ? 150000 : 0);
  return 0;
}
#endif
