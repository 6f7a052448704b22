/* A program in C that opens a library in C++ for itself alone, closes it, and opens it again. */
#include <dlfcn.h>

int main(int argc, char **argv) {
    for (int n = 0; n < 2; n++) {
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        if (!library) return 9;
        int (*work)(void) = (int (*)(void))dlsym(library, "work");
        int failed = n ? work() : !work;
        if (failed) return failed;
        if (!n) dlclose(library);
    }
    return 0;
}
