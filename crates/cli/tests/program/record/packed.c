/* Takes blocks at several places and keeps them for different times: `packed SEED COUNT`. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static unsigned seed;
static unsigned below(unsigned n) { seed = seed * 1103515245 + 12345; return (seed >> 8) % n; }

__attribute__((noinline)) static void *small(void) { return malloc(16 + below(200)); }
__attribute__((noinline)) static void *large(void) { return malloc(10000 + below(90000)); }
__attribute__((noinline)) static void *cleared(void) { return calloc(1 + below(40), 64); }

int main(int n, char **words) {
    static void *blocks[3000];
    unsigned count = n > 2 ? atoi(words[2]) : 30000;
    seed = n > 1 ? atoi(words[1]) : 1;
    for (unsigned i = 0; i < count; i++) {
        /* The most is there in the middle. */
        unsigned room = i < count / 2 ? i * 2 : (count - i) * 2;
        void **place = &blocks[below(1 + room * 2999 / count)];
        if (*place && below(5) == 0) {
            *place = realloc(*place, 500 + below(3000));
        } else {
            free(*place);
            *place = below(3) == 0 ? small() : below(20) == 0 ? large() : cleared();
        }
        if (i % (count / 100) == 0) usleep(12000);
    }
    for (unsigned i = 0; i < 1500; i++) free(blocks[i]);
    printf("done\n");
    return 0;
}
