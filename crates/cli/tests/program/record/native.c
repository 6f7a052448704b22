// What threads of Python do without the interpreter's lock, and memory that is used again while the interpreter ends.
#include <stdlib.h>
#include <unistd.h>

// A block that stays.
void keep(void) { *(volatile char *)malloc(123456) = 1; }

// Allocates for as long as the process lives.
void work(void) {
  for (;; usleep(20)) free(malloc(100));
}

// Fills freed memory of all sizes with words that could be addresses, and gives other threads the time to read them.
void use_again(void) {
  for (size_t i = 0; i < 8192; i++) {
    size_t n = 64 + 16 * (i % 1024);
    size_t *p = malloc(n);
    for (size_t j = 0; j < n / 8; j++) p[j] = 0x414141414140;
    if (i % 4) free(p);
  }
  usleep(300000);
}
