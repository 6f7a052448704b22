// Forks while threads work in a library whose fork handlers wait for them (waits.c), and after one was unloaded.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

void begin_worker(void);
void work(void);

static volatile int stops;
static void *works(void *none) {
    while (!stops) work();
    return none;
}

int main(int n_words, char **words) {
    alarm(100);
    pthread_t threads[3];
    for (int n = 0; n < 3; n++) pthread_create(&threads[n], 0, works, 0);
    int sum = 0;
    for (int n = 0; n < 20; n++) {
        begin_worker();
        if (n_words > 1 && n % 5 == 0) dlclose(dlopen(words[1], RTLD_NOW));
        pid_t child = fork();
        if (!child) {
            work();
            free(malloc(1000));
            _exit(n);
        }
        int status = 0;
        waitpid(child, &status, 0);
        sum += WEXITSTATUS(status);
    }
    stops = 1;
    for (int n = 0; n < 3; n++) pthread_join(threads[n], 0);
    printf("%d\n", sum);
    return 0;
}
