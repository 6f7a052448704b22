/* A program that asks for a snapshot at its exit, and has a block of its own allocator. */
#include "memreel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    if (memreel_dump_on("dump=never") == 0 || !strstr(memreel_error(), "\"never\" at character 5")) return 1;
    if (memreel_record_alloc(0, (void *)0x100000, 777, NULL) != 0) return 2;
    if (memreel_malloc(1000, 0, NULL) == NULL) return 3;
    if (memreel_dump_on("dump=exit,file=of-program.pickle") != 0) return 4;
    exit(0);
}
