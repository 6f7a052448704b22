/* Uses every part of the C interface on the host device and prints each check that fails. */
#include "memreel.h"

#include <stdio.h>
#include <string.h>

static int n_failed = 0;

#define CHECK(condition)                                                        \
    do {                                                                        \
        if (!(condition)) {                                                     \
            printf("line %d: %s (%s)\n", __LINE__, #condition,                  \
                   memreel_error() ? memreel_error() : "no error");             \
            n_failed++;                                                         \
        }                                                                       \
    } while (0)

static int always(const void *const *storage, void **stream) {
    return storage[0] == (const void *)7 && *stream == (void *)5;
}

static int n_clones, n_destroyed;

/* libstdc++'s manager of a std::function: operation 2 copies, 3 destroys. */
static int manage(const void **to, const void *const *from, int operation) {
    if (operation == 2) {
        to[0] = from[0];
        n_clones++;
    }
    if (operation == 3) n_destroyed++;
    return 0;
}

static int n_observed;
static uint64_t observed_bytes;

static void observe(void *data, int device, uint64_t requested, uint64_t total, uint64_t free) {
    if (data == (void *)&n_observed && device == 0 && free <= total) n_observed++;
    observed_bytes = requested;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    CHECK(memreel_error() == NULL);
    CHECK(memreel_is_recording() == 0);
    CHECK(memreel_record("{\"enabled\": \"all\", \"max_entries\": 5000, \"stacks\": \"native\"}") == 0);
    CHECK(memreel_is_recording() == 1);
    CHECK(memreel_record("{\"enabled\": \"sometimes\"}") == -1);
    CHECK(memreel_error() && strstr(memreel_error(), "sometimes"));
    CHECK(memreel_record("not JSON") == -1 && strstr(memreel_error(), "not JSON (expected"));
    CHECK(memreel_record("[]") == -1 && strstr(memreel_error(), "the options are []; use an object"));
    CHECK(memreel_record("{\"colour\": 1}") == -1);
    CHECK(strstr(memreel_error(), "\"colour\" is not an option; use enabled, "));
    CHECK(memreel_record("{\"max_entries\": -5}") == -1);
    CHECK(strstr(memreel_error(), "max_entries is -5; use a whole number"));
    CHECK(memreel_record("{\"skip_actions\": [7]}") == -1);
    CHECK(strstr(memreel_error(), "skip_actions is 7; use the name of an action"));

    /* As PyTorch calls it; size, device and stream of the free are wrong on purpose. */
    CHECK(memreel_malloc(0, 0, NULL) == NULL);
    char *block = memreel_malloc(1000, 0, NULL);
    CHECK(block != NULL);
    memset(block, 1, 1024);
    CHECK(strstr(memreel_stats_json(0), "\"allocated_bytes.all.current\":1024"));
    size_t size = 0;
    CHECK(memreel_base_allocation(block, &size) == block && size == 2 << 20);
    memreel_record_stream(block, (void *)5);
    memreel_free(block, 77, 9, (void *)0xdead);
    CHECK(strstr(memreel_stats_json(0), "\"allocated_bytes.all.current\":0"));
    CHECK(strstr(memreel_stats_json(0), "\"allocated_bytes.all.peak\":1024"));
    CHECK(strstr(memreel_stats_json(0), "\"allocated_bytes.all.freed\":1024"));
    CHECK(memreel_reset_peak_stats(0) == 0 && memreel_reset_peak_stats(9) == -1);
    CHECK(strstr(memreel_stats_json(0), "\"allocated_bytes.all.peak\":0"));
    CHECK(strstr(memreel_stats_json(0), "\"allocated_bytes.all.freed\":1024"));
    CHECK(memreel_reset_accumulated_stats(0) == 0 && memreel_reset_accumulated_stats(-1) == -1);
    CHECK(strstr(memreel_stats_json(0), "\"allocated_bytes.all.freed\":0"));
    CHECK(memreel_lost_events(0) == 0 && memreel_lost_events(9) == -1);
    memreel_free(block, 1000, 0, NULL);
    CHECK(strstr(memreel_error(), "not a live block"));
    memreel_free(NULL, 0, 0, NULL);
    CHECK(memreel_malloc(1000, 7, NULL) == NULL && strstr(memreel_error(), "no device"));
    CHECK(memreel_malloc(1000, -1, NULL) == NULL);

    /* Scopes. */
    CHECK(memreel_scope_begin("forward") == 0);
    void *inside = memreel_malloc(3 << 20, 0, NULL);
    CHECK(memreel_scope_end() == 0 && memreel_scope_end() == -1);

    /* Names of blocks. */
    CHECK(memreel_annotate(0, inside, "weights of layer 3") == 0);
    CHECK(memreel_annotate(0, block, "free") == -1 && strstr(memreel_error(), "freed before"));
    CHECK(memreel_annotate(9, inside, "elsewhere") == -1 && memreel_annotate(0, inside, NULL) == -1);

    /* A pool whose filter accepts stream 5. The filter is destroyed after the call. */
    {
        const void *filter[4] = {(void *)7, NULL, (void *)manage, (void *)always};
        memreel_begin_allocate_to_pool(0, 0, 9, filter);
        filter[0] = filter[2] = filter[3] = NULL;
    }
    CHECK(n_clones == 1 && n_destroyed == 0);
    char *pooled = memreel_malloc(1000, 0, (void *)5);
    char *plain = memreel_malloc(1000, 0, NULL);
    CHECK(memreel_base_allocation(pooled, NULL) != memreel_base_allocation(plain, NULL));
    memreel_end_allocate_to_pool(0, 0, 9);
    CHECK(n_destroyed == 1);
    memreel_free(pooled, 0, 0, NULL);
    memreel_release_pool(0, 0, 9);
    memreel_release_pool(0, 0, 9);
    CHECK(strstr(memreel_error(), "no private pool"));

    /* A pool as torch.cuda.MemPool has it. */
    CHECK(memreel_create_pool(0, 0, 12, 1, 1) == 0 && memreel_create_pool(0, 0, 12, 0, 0) == -1);
    CHECK(memreel_pool_use_count(0, 0, 12) == 1 && memreel_pool_use_count(0, 0, 99) == -1);
    memreel_begin_allocate_to_pool(0, 0, 12, NULL);
    CHECK(memreel_pool_use_count(0, 0, 12) == 2);
    memreel_end_allocate_to_pool(0, 0, 12);
    memreel_release_pool(0, 0, 12);
    CHECK(memreel_pool_use_count(0, 0, 12) == 1);
    memreel_release_pool(0, 0, 12);
    CHECK(memreel_empty_pool(0, 0, 12) == 0);

    /* As CuPy calls it. */
    void *array = memreel_cupy_malloc(NULL, 5000, 0);
    CHECK(array != NULL && memreel_cupy_malloc(NULL, 0, 0) == NULL);
    memreel_cupy_free(NULL, array, 0);
    void *on = memreel_cupy_malloc_on(5000, 0, (void *)3);
    CHECK(on != NULL && on != array && memreel_cupy_malloc_on(0, 0, NULL) == NULL);
    memreel_cupy_free(NULL, on, 0);

    /* Out of memory: no exception, because this process has no PyTorch. */
    CHECK(memreel_save_on_oom(argv[2]) == 0);
    memreel_empty_cache();
    CHECK(memreel_memory_fraction(0) == 1 && memreel_memory_fraction(9) == -1);
    CHECK(memreel_on_oom(observe, &n_observed) == 0 && memreel_on_oom(NULL, NULL) == -1);
    memreel_set_memory_fraction(0.0, 0);
    CHECK(memreel_memory_fraction(0) == 0);
    CHECK(memreel_malloc(64 << 20, 0, NULL) == NULL && strstr(memreel_error(), "out of memory"));
    CHECK(memreel_cupy_malloc(NULL, 64 << 20, 0) == NULL);
    CHECK(memreel_cupy_malloc_on(64 << 20, 0, NULL) == NULL && strstr(memreel_error(), "out of memory"));
    CHECK(n_observed == 3 && observed_bytes == 64 << 20);
    memreel_set_memory_fraction(1.0, 0);
    memreel_set_memory_fraction(2.0, 0);
    CHECK(strstr(memreel_error(), "memory fraction"));

    /* Reports of another allocator, on a device of its own and on memreel's. */
    CHECK(memreel_record_segment_alloc(1, (void *)0x100000, 2 << 20, NULL) == 0);
    CHECK(memreel_record_alloc(1, (void *)0x100000, 4096, NULL) == 0);
    CHECK(memreel_annotate(1, (void *)0x100000, "reported") == 0);
    CHECK(memreel_annotate(1, (void *)0x200000, "unknown") == -1);
    CHECK(strstr(memreel_error(), "device 1: no live block starts at 0x200000"));
    CHECK(memreel_record_alloc(1, (void *)0x100200, 512, NULL) == -1);
    CHECK(strstr(memreel_error(), "device 1: the range at 0x100200 overlaps the live block of 4096 bytes at 0x100000"));
    CHECK(memreel_record_segment_alloc(1, (void *)0x2ff000, 8192, NULL) == -1);
    CHECK(strstr(memreel_error(), "0x2ff000 overlaps the segment of 2097152 bytes at 0x100000"));
    CHECK(memreel_record_segment_free(1, (void *)0x100000) == -1 && strstr(memreel_error(), "is live"));
    CHECK(memreel_record_free(1, (void *)0x100200) == -1);
    CHECK(strstr(memreel_error(), "no live block starts at 0x100200"));
    CHECK(memreel_record_oom(1, 1 << 30, 5, NULL) == 0);
    CHECK(memreel_record_alloc(0, (void *)0x4000000, 512, NULL) == 0);
    CHECK(memreel_record_free(0, (void *)0x4000000) == 0);
    CHECK(memreel_record_segment_alloc(1, (void *)0x900000, 4096, NULL) == 0);
    CHECK(memreel_record_segment_free(1, (void *)0x900000) == 0);
    CHECK(memreel_record_alloc(-1, (void *)1, 1, NULL) == -1);

    memreel_init(1);
    CHECK(memreel_dump("/nonexistent/folder/x.pickle") == -1);
    CHECK(memreel_dump(argv[1]) == 0);
    memreel_free(inside, 0, 0, NULL);
    memreel_free(plain, 0, 0, NULL);
    printf("%d checks failed\n", n_failed);
    return n_failed > 0;
}
