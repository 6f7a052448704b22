// The function of a pool throws, as PyTorch's does when cudaStreamGetCaptureInfo fails; so may its copy.
#include "memreel.h"

#include <cstdio>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

static int n_live = 0;
static bool throws_at_copy = false;
static bool throws_at_call = true;

struct Function {
    Function() { n_live++; }
    Function(const Function&) {
        if (throws_at_copy) throw std::runtime_error("a copy");
        n_live++;
    }
    ~Function() { n_live--; }
    bool operator()(void* stream) const {
        if (throws_at_call && stream == nullptr) throw std::runtime_error("device-side assert triggered");
        return stream == (void*)7;
    }
    char more_than_two_words[64];
};

static const char* ask(void* (*request)(void*), void* stream) {
    try {
        return request(stream) ? "memory" : "null";
    } catch (const std::runtime_error& error) {
        return error.what();
    }
}

static void* plain(void* stream) { return memreel_malloc(1000, 0, stream); }
static void* cupy(void*) { return memreel_cupy_malloc(nullptr, 1000, 0); }

int main() {
    {
        std::function<bool(void*)> function = Function();
        memreel_begin_allocate_to_pool(0, 0, 1, &function);
        throws_at_copy = true;
        try {
            memreel_begin_allocate_to_pool(0, 0, 2, &function);
            puts("begun");
        } catch (const std::runtime_error& error) {
            printf("begin: %s\n", error.what());
        }
        throws_at_copy = false;
    }
    printf("malloc: %s\n", ask(plain, nullptr));
    printf("cupy: %s\n", ask(cupy, nullptr));
    printf("in the pool: %s\n", ask(plain, (void*)7));
    printf("elsewhere: %s\n", ask(plain, (void*)8));
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([] {
            for (int n = 0; n < 500; n++) {
                if (ask(plain, nullptr)[0] != 'd') puts("not thrown");
            }
        });
    }
    for (auto& thread : threads) thread.join();
    throws_at_call = false;
    printf("afterwards: %s\n", ask(plain, nullptr));
    memreel_end_allocate_to_pool(0, 0, 1);
    memreel_release_pool(0, 0, 1);
    printf("ended: %s, %d left\n", ask(plain, nullptr), n_live);
    printf("stats: %s\n", memreel_stats_json(0));
}
