/* memreel's C interface: target/shared/libmemreel.so of
 * `cargo build --profile shared -p memreel-capi --features cuda` (without the
 * feature: for the host's memory alone).
 *
 * Devices are the GPUs, by CUDA's ordinals; without one, or with
 * MEMREEL_DEVICE=host in the environment, device 0 is the host's memory.
 * Settings are read from MEMREEL_ALLOC_CONF, else PYTORCH_CUDA_ALLOC_CONF,
 * else PYTORCH_ALLOC_CONF.
 *
 * Every function may be called from any thread. Those that return int return
 * 0, or -1 and leave the reason for memreel_error(). Texts are UTF-8 and end
 * in nul. No panic of memreel's crosses this border.
 */
#ifndef MEMREEL_H
#define MEMREEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Why this thread's last call that failed did so; NULL if none has. Valid
 * until the thread's next call that fails. */
const char *memreel_error(void);

/* --- PyTorch's CUDAPluggableAllocator ---------------------------------- */

/* A block for work on that stream; NULL for zero bytes, which makes no event.
 * When there is no memory: a C++ exception where PyTorch is loaded
 * (c10::OutOfMemoryError, in Python torch.OutOfMemoryError; where that cannot
 * be made, what c10::detail::torchCheckFail throws, in Python RuntimeError),
 * otherwise one line on stderr and NULL. */
void *memreel_malloc(size_t size, int device, void *stream);

/* Takes a block back. Only the address counts: size and stream are not looked
 * at, and the device is where the address is looked up first. NULL does
 * nothing; an address that is none of memreel's neither, and leaves a text for
 * memreel_error(). */
void memreel_free(void *ptr, size_t size, int device, void *stream);

/* Hooks, for the methods of the low-level object of the same purpose. */
void memreel_init(int device_count);                            /* set_init_fn */
void memreel_empty_cache(void);                                 /* set_reset_fn */
void memreel_set_memory_fraction(double fraction, int device);  /* set_memory_fraction_fn */
void *memreel_base_allocation(void *ptr, size_t *size);         /* set_base_alloc_fn */
/* Set this one whenever blocks are used on other streams than their own: it
 * keeps them from being reused too early. The stream must stay until the
 * process ends, as PyTorch's do. */
void memreel_record_stream(void *ptr, void *stream);            /* set_record_stream_fn */
/* `filter` is a std::function<bool(cudaStream_t)> of libstdc++, passed by
 * value in C++ and so by address here; NULL is the calling thread. */
void memreel_begin_allocate_to_pool(int device, uint64_t pool_first, uint64_t pool_second,
                                    const void *filter);        /* set_begin_allocate_to_pool */
void memreel_end_allocate_to_pool(int device, uint64_t pool_first,
                                  uint64_t pool_second);        /* set_end_allocate_to_pool_fn */
void memreel_release_pool(int device, uint64_t pool_first,
                          uint64_t pool_second);                /* set_release_pool */

/* --- CuPy's CFunctionAllocator ----------------------------------------- */

/* As above, without a stream: blocks belong to the default stream. Without
 * memory: one line on stderr and NULL, never an exception. */
void *memreel_cupy_malloc(void *parameter, size_t size, int device);
void memreel_cupy_free(void *parameter, void *ptr, int device);

/* --- Recording ---------------------------------------------------------- */

/* Switches recording. NULL records everything. Otherwise a JSON object with
 * the options of torch.cuda.memory._record_memory_history, all optional:
 *   {"enabled": "all" | "state" | null, "context": "all" | "alloc" | "state" | null,
 *    "stacks": "native" | "none", "max_entries": 1000000, "clear_history": false,
 *    "skip_actions": ["free_requested"], "min_size_bytes": 0, "sample_bytes": 0} */
int memreel_record(const char *options);

/* Writes a snapshot that pytorch.org/memory_viz opens; whole or not at all. */
int memreel_dump(const char *path);

/* From now on a failed request writes a snapshot there first. */
int memreel_save_on_oom(const char *path);

/* The numbers of torch.cuda.memory_stats(device) as a JSON object; NULL
 * without such a device. Valid until the thread's next call of it. */
const char *memreel_stats_json(int device);

/* What the thread allocates in between carries the scope's name. */
int memreel_scope_begin(const char *name);
int memreel_scope_end(void);

/* --- Reports of other allocators ----------------------------------------- */

/* Report frees before the memory can be handed out again. A block outside all
 * reported segments is taken as a segment of its own. A report that contradicts
 * those before it is not recorded, and returns -1. */
int memreel_record_alloc(int device, void *ptr, size_t size, void *stream);
int memreel_record_free(int device, void *ptr);
int memreel_record_segment_alloc(int device, void *ptr, size_t size, void *stream);
int memreel_record_segment_free(int device, void *ptr);
int memreel_record_oom(int device, size_t size, size_t device_free, void *stream);

#ifdef __cplusplus
}
#endif

#endif
