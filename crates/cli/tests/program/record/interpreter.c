// Exports what an interpreter of Python exports, of a version that its argument says, and allocates.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *Py_GetVersion(void) { return getenv("SAID_VERSION"); }

int main(void) {
  char *p = malloc(300000);
  memset(p, 1, 300000);
  for (int i = 0; i < 5000; i++) free(malloc(64));
  puts("1 300000");
  return 0;
}
