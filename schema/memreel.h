/* memreel's C interface. Build the library and link to it:
 *
 *   cargo build --profile shared -p memreel-capi [--features cuda]
 *   cc -Ischema app.c -Ltarget/shared -lmemreel -Wl,-rpath,"$PWD/target/shared"
 *
 * Without the feature `cuda` it serves host memory only. docs/c-interface.md
 * and docs/gpu.md show how to begin.
 *
 * Devices are the GPUs, numbered by CUDA's ordinals. Without a GPU, or with
 * MEMREEL_DEVICE=host in the environment, device 0 is the host's memory.
 * Settings are read from MEMREEL_ALLOC_CONF, otherwise from
 * PYTORCH_ALLOC_CONF. As in PyTorch, its deprecated name
 * PYTORCH_CUDA_ALLOC_CONF wins if both are set. The recording options in
 * MEMREEL override those of memreel_record (docs/triggers.md).
 *
 * Every function may be called from any thread. A function that returns int
 * returns 0 on success and -1 on failure; memreel_error() then returns the
 * reason. Texts are UTF-8 and end in nul. A Rust panic never crosses this
 * interface.
 */
#ifndef MEMREEL_H
#define MEMREEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the reason for the last failed call of this thread, or NULL if no
 * call has failed. The text is valid until the next failed call of the thread. */
const char *memreel_error(void);

/* --- PyTorch's CUDAPluggableAllocator ---------------------------------- */

/* Returns a block of `size` bytes for work on `stream`. 0 bytes return NULL and
 * record nothing. When memory runs out: in a process with PyTorch it throws a
 * C++ exception (c10::OutOfMemoryError, in Python torch.OutOfMemoryError; if
 * that cannot be constructed, the one that c10::detail::torchCheckFail throws,
 * in Python RuntimeError); in any other process it prints one line to stderr
 * and returns NULL. */
void *memreel_malloc(size_t size, int device, void *stream);

/* Frees a block. Only the address is used: `size` and `stream` are ignored, and
 * `device` is the device on which the address is searched first. NULL does
 * nothing. An address that memreel did not allocate does nothing either, and
 * sets memreel_error(). */
void memreel_free(void *ptr, size_t size, int device, void *stream);

/* Hooks. Pass each to the method of CUDAPluggableAllocator().allocator() in the
 * comment next to it. */
void memreel_init(int device_count);                            /* set_init_fn */
void memreel_empty_cache(void);                                 /* set_reset_fn */
void memreel_set_memory_fraction(double fraction, int device);  /* set_memory_fraction_fn */
void *memreel_base_allocation(void *ptr, size_t *size);         /* set_base_alloc_fn */
/* Required whenever blocks are used on streams other than their own: it keeps
 * them from being reused too early. The stream must exist until the process
 * ends, as PyTorch's streams do. */
void memreel_record_stream(void *ptr, void *stream);            /* set_record_stream_fn */
/* `filter` is the address of a std::function<bool(cudaStream_t)> of libstdc++
 * (which C++ passes by value, and therefore by address here). NULL routes the
 * requests of the calling thread. The function is called without a lock, perhaps
 * by several threads at once; an exception that it throws reaches the caller of
 * memreel_malloc or memreel_cupy_malloc. */
void memreel_begin_allocate_to_pool(int device, uint64_t pool_first, uint64_t pool_second,
                                    const void *filter);        /* set_begin_allocate_to_pool */
void memreel_end_allocate_to_pool(int device, uint64_t pool_first,
                                  uint64_t pool_second);        /* set_end_allocate_to_pool_fn */
void memreel_release_pool(int device, uint64_t pool_first,
                          uint64_t pool_second);                /* set_release_pool */

/* A pool under an id that the caller chooses, with one reference, like
 * torch.cuda.MemPool: `use_on_oom` lets other requests use its free blocks
 * when the device is full, `no_split` gives each request its own segment.
 * memreel_begin_allocate_to_pool adds a reference, memreel_release_pool drops
 * one. memreel_pool_use_count returns the references, or -1 if there is no
 * such pool. memreel_empty_pool returns the unused segments of a pool without
 * references to the device. */
int memreel_create_pool(int device, uint64_t pool_first, uint64_t pool_second, int use_on_oom,
                        int no_split);
int64_t memreel_pool_use_count(int device, uint64_t pool_first, uint64_t pool_second);
int memreel_empty_pool(int device, uint64_t pool_first, uint64_t pool_second);

/* --- CuPy's CFunctionAllocator ----------------------------------------- */

/* Like memreel_malloc and memreel_free, without a stream: blocks belong to the
 * default stream. When memory runs out it prints one line to stderr and returns
 * NULL; it throws only what a pool's function throws. */
void *memreel_cupy_malloc(void *parameter, size_t size, int device);
/* For CuPy's PythonFunctionAllocator, which knows the current stream: blocks
 * belong to `stream`. When memory runs out it returns NULL and prints nothing;
 * memreel_error() has the reason. */
void *memreel_cupy_malloc_on(size_t size, int device, void *stream);
void memreel_cupy_free(void *parameter, void *ptr, int device);

/* --- Recording ---------------------------------------------------------- */

/* Switches recording on, off, or to other options. NULL records everything.
 * Otherwise `options` is a JSON object with the options of
 * torch.cuda.memory._record_memory_history, all optional:
 *   {"enabled": "all" | "state" | null, "context": "all" | "alloc" | "state" | null,
 *    "stacks": "native" | "python" | "all" | "none", "max_entries": 1000000,
 *    "clear_history": false,
 *    "skip_actions": ["free_requested"], "min_size_bytes": 0, "sample_bytes": 0} */
int memreel_record(const char *options);

/* Compares the Python frames of the calling thread, as memreel reads them
 * without the interpreter's lock, with those that the interpreter reports. If
 * they differ, or the interpreter is not one that memreel can read, the result
 * is -1 and memreel_error() has the reason; after a difference no Python frames are
 * recorded. The thread must have the lock: call it from an extension module, or
 * as ctypes.PyDLL("libmemreel.so").memreel_check_python(). */
int memreel_check_python(void);

/* Writes a snapshot for pytorch.org/memory_viz. On failure, a file that was
 * there before is unchanged. */
int memreel_dump(const char *path);

/* Makes the first request that fails from now on write a snapshot to `path`
 * before its failure is reported; later failures keep the file. With {n} in the
 * path, as in "oom-{n}.pickle", each failure writes a file with its number,
 * counted from 0. {pid} in the path is the PID. */
int memreel_save_on_oom(const char *path);

/* Makes each request that fails from now on call `observer`, on its own thread
 * and before its failure is reported, with `data`, the device, the request, and
 * the device's total and free memory in bytes. The function may allocate, free
 * and call memreel_dump; it must not throw. It cannot be removed. */
int memreel_on_oom(void (*observer)(void *data, int device, uint64_t requested, uint64_t total,
                                    uint64_t free),
                   void *data);

/* Writes snapshots automatically. `triggers` names the moments
 * and the files, in the grammar of docs/triggers.md:
 *   "dump=oom+exit+signal,file=snap-{host}-{rank}-{pid}-{time}.pickle,keep=5"
 * Several calls add up. A snapshot that cannot be written prints one line on
 * stderr. The environment variable MEMREEL does the same, and switches recording
 * on ("all,dump=exit"), at the first call of any function here. */
int memreel_dump_on(const char *triggers);

/* Returns the numbers of torch.cuda.memory_stats(device) as a JSON object, or
 * NULL if there is no such device. The text is valid until the thread calls
 * this function again. */
const char *memreel_stats_json(int device);

/* Set the peaks of the statistics to the current values, and the sums and
 * counters to zero. */
int memreel_reset_peak_stats(int device);
int memreel_reset_accumulated_stats(int device);

/* Returns the fraction that memreel_set_memory_fraction set, 1 without a limit
 * and -1 on failure. */
double memreel_memory_fraction(int device);

/* Returns 1 if memreel_record switched recording on, 0 if it is off, -1 on
 * failure. */
int memreel_is_recording(void);

/* Returns how many of a device's events are lost because more than max_entries
 * were recorded; -1 on failure. */
int64_t memreel_lost_events(int device);

/* Allocations of this thread between the two calls carry the scope's name.
 * Scopes nest, and end in the opposite order. Names are kept as long as the
 * process runs: avoid unbounded ones, such as "step 17". */
int memreel_scope_begin(const char *name);
int memreel_scope_end(void);

/* Gives a live block of `device` a name, such as "weights of layer 3", as
 * PyTorch 2.14's annotate does: a block of memreel_malloc, or one that was
 * reported (below). Viewers and `memreel top` show the name with the block. It
 * is recorded only while recording is on. Names are kept as long as the
 * process runs; avoid unbounded ones, here and for scopes. */
int memreel_annotate(int device, void *ptr, const char *name);

/* --- Reports of other allocators ----------------------------------------- */

/* Record the actions of your own allocator. Report a free before the memory
 * can be allocated again. A block outside all reported segments counts as its
 * own segment. A report that contradicts earlier ones (a block that overlaps a
 * live block, a free of an unknown address) is not recorded and returns -1;
 * memreel_error() has the address and the reason. Do not report blocks of
 * memreel_malloc: they would be recorded twice. `size` and `device_free` are
 * in bytes. */
int memreel_record_alloc(int device, void *ptr, size_t size, void *stream);
int memreel_record_free(int device, void *ptr);
int memreel_record_segment_alloc(int device, void *ptr, size_t size, void *stream);
int memreel_record_segment_free(int device, void *ptr);
int memreel_record_oom(int device, size_t size, size_t device_free, void *stream);

#ifdef __cplusplus
}
#endif

#endif
