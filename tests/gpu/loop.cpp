// Measures an allocation and its free of a cached block with PyTorch's own allocator and with memreel: recording
// off, with history but no stacks, with native stacks. All in one process, in alternating rounds.
#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/csrc/cuda/memory_snapshot.h>

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace native = c10::cuda::CUDACachingAllocator;

static constexpr int PAIRS = 100'000, ROUNDS = 7, DEPTH = 20;
static constexpr size_t BYTES = 4096;

using Malloc = void* (*)(size_t, int, void*);
using Free = void (*)(void*, size_t, int, void*);
static Malloc memreel_malloc;
static Free memreel_free;

// Enough pairs, at three events each, to fill a ring of a million entries, so that the rounds measure steady
// recording and not the first touch of the ring's memory.
static constexpr int FILL = 350'000;

static double pairs_native(int n) {
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < n; i++) native::raw_delete(native::raw_alloc(BYTES));
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / n;
}

static double pairs_memreel(int n) {
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < n; i++) memreel_free(memreel_malloc(BYTES, 0, nullptr), BYTES, 0, nullptr);
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / n;
}

// Adds frames of a program above the loop.
__attribute__((noinline)) static double deeper(int depth, double (*pairs)(int), int n) {
    volatile double answer = depth == 0 ? pairs(n) : deeper(depth - 1, pairs, n);
    return answer;
}

int main(int argc, char** argv) {
    void* library = dlopen(argv[1], RTLD_NOW);
    if (!library) return printf("%s\n", dlerror()), 1;
    memreel_malloc = reinterpret_cast<Malloc>(dlsym(library, "memreel_malloc"));
    memreel_free = reinterpret_cast<Free>(dlsym(library, "memreel_free"));
    auto record = reinterpret_cast<int (*)(const char*)>(dlsym(library, "memreel_record"));
    native::init(1);
    const size_t most = 1'000'000;
    struct Case {
        std::string name;
        double (*pairs)(int);
        std::function<void()> on;
        std::vector<double> times;
    };
    using torch::cuda::_record_memory_history;
    std::vector<Case> cases = {
        {"PyTorch, recording off", pairs_native, [] { _record_memory_history(std::nullopt); }, {}},
        {"PyTorch, history without stacks", pairs_native,
         [=] { _record_memory_history("all", std::nullopt, "python", most); }, {}},
        {"PyTorch, history with native stacks", pairs_native,
         [=] { _record_memory_history("all", "all", "all", most); }, {}},
        {"memreel, recording off", pairs_memreel, [=] { record("{\"enabled\": null}"); }, {}},
        {"memreel, history without stacks", pairs_memreel,
         [=] { record("{\"enabled\": \"all\", \"stacks\": \"none\"}"); }, {}},
        {"memreel, history with native stacks", pairs_memreel,
         [=] { record("{\"enabled\": \"all\", \"stacks\": \"native\"}"); }, {}},
    };
    for (int round = 0; round < ROUNDS; round++) {
        for (auto& one : cases) {
            _record_memory_history(std::nullopt);
            record("{\"enabled\": null}");
            one.on();
            deeper(DEPTH, one.pairs, FILL);
            one.times.push_back(deeper(DEPTH, one.pairs, PAIRS));
        }
    }
    for (auto& one : cases) {
        std::sort(one.times.begin(), one.times.end());
        printf("%-40s %8.0f ns a pair (median; %.0f to %.0f)\n", one.name.c_str(), one.times[one.times.size() / 2],
               one.times.front(), one.times.back());
    }
    bool faster = cases[5].times[cases[5].times.size() / 2] < cases[0].times[cases[0].times.size() / 2];
    printf("memreel with native stacks is %s than PyTorch with recording off\n", faster ? "faster" : "SLOWER");
    printf("result: %s\n", faster ? "passed" : "FAILED");
    return !faster;
}
