/* A program at a fixed address, which has a way to `malloc` of its own: where it takes its address. */
#include <stdio.h>
#include <stdlib.h>

static void *(*volatile ask)(size_t) = malloc;

int main(void) {
    void *volatile kept = ask(3000000);
    free(ask(2000000));
    printf("1 3000000\n");
    return kept == NULL;
}
