// Starts itself, stopped as under a debugger before the loader runs, and lets it go on after a second.
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int n, char **words) {
    if (n > 1) {
        volatile char *bytes = malloc(5 << 20);
        bytes[0] = 1;
        sleep(atoi(words[1]));
        return 0;
    }
    pid_t child = fork();
    if (child == 0) {
        // 9 is where no program may be traced.
        if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0) _exit(9);
        execl("/proc/self/exe", words[0], getenv("SECONDS_AFTER"), (char *)0);
        _exit(8);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    sleep(1);
    ptrace(PTRACE_DETACH, child, 0, 0);
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}
