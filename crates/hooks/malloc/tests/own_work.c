// Allocates for itself, and for memreel between the calls that say so. Prints the number and the bytes of its own large blocks
// that are live at its end.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  bool (*own_work)(bool) = (bool (*)(bool))dlsym(RTLD_DEFAULT, "memreel_own_work");
  if (!own_work) return 1;
  void *volatile kept = malloc(300000);
  void *volatile freed = malloc(500000);
  if (own_work(true)) return 2;
  void *volatile own = malloc(700000);
  free(malloc(200000));
  own = realloc(own, 900000);
  // The program's own free is one, whoever makes it.
  free(freed);
  if (!own_work(true)) return 3;
  own_work(false);
  void *volatile last = malloc(400000);
  printf("2 700000\n");
  return !kept || !own || !last;
}
