// Requests more memory than there is, as PyTorch would, and prints the exception. First loads the libraries named
// on the command line, privately, as Python loads PyTorch's.
#include "memreel.h"

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

namespace c10 {
class __attribute__((visibility("default"))) Error : public std::exception {};
class __attribute__((visibility("default"))) OutOfMemoryError : public Error {};
}  // namespace c10

static int n_unwound = 0;

struct Noticed {
    ~Noticed() { n_unwound++; }
};

static const char* ask(size_t size, int device) {
    try {
        Noticed frame;
        return memreel_malloc(size, device, nullptr) ? "memory" : "null";
    } catch (const c10::OutOfMemoryError& error) {
        printf("%s\n", error.what());
        return "OutOfMemoryError";
    } catch (const c10::Error& error) {
        printf("%s\n", error.what());
        return "Error";
    } catch (...) {
        return "something else";
    }
}

int main(int argc, char** argv) {
    for (int i = 1; i < argc; i++) {
        if (!dlopen(argv[i], RTLD_NOW | RTLD_LOCAL)) {
            printf("%s\n", dlerror());
            return 1;
        }
    }
    memreel_set_memory_fraction(0.0, 0);
    for (int round = 0; round < 3; round++) {
        printf("no memory: %s\n", ask(64 << 20, 0));
    }
    printf("no device: %s\n", ask(1000, 5));
    printf("unwound: %d\n", n_unwound);
    memreel_set_memory_fraction(1.0, 0);
    printf("afterwards: %s\n", ask(64 << 20, 0));
}
