// Makes every call of CUDA's runtime and driver that allocates, and prints a line for each thing that it has then: its
// process, kind, address and bytes. What it frees again has no line. Another process of it opens what this one exports.
//
// usage: every end|reset, where reset calls cudaDeviceReset at the end
#define _GNU_SOURCE
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define NAME(name) #name
// A function of the driver, found as programs find it that are not linked with it.
#define DRIVER(name) ((__typeof__(&name))of_driver(NAME(name)))
#define OK(call) ok((int)(call), #call)

static void *of_driver(const char *name) {
  void *f = dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);
  if (!f) { fprintf(stderr, "no %s\n", name); exit(3); }
  return f;
}
static void ok(int status, const char *what) {
  if (status) { fprintf(stderr, "%d of %s\n", status, what); exit(3); }
}
static void say(const char *kind, unsigned long long at, size_t bytes) {
  printf("%d %s %llu %zu\n", (int)getpid(), kind, at, bytes);
  fflush(stdout);
}

// What one process passes to the other.
struct message {
  cudaIpcMemHandle_t plain;
  struct cudaMemPoolPtrExportData pointer;
  size_t plain_bytes, mapped_bytes, pool_bytes;
};
static void send_files(int to, struct message *m, int *files, int n) {
  char room[CMSG_SPACE(2 * sizeof(int))];
  struct iovec part = {m, sizeof *m};
  struct msghdr head = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = CMSG_SPACE(n * sizeof(int))};
  struct cmsghdr *c = CMSG_FIRSTHDR(&head);
  c->cmsg_level = SOL_SOCKET; c->cmsg_type = SCM_RIGHTS; c->cmsg_len = CMSG_LEN(n * sizeof(int));
  memcpy(CMSG_DATA(c), files, n * sizeof(int));
  if (sendmsg(to, &head, 0) < 0) { perror("sendmsg"); exit(3); }
}
static void receive_files(int from, struct message *m, int *files, int n) {
  char room[CMSG_SPACE(2 * sizeof(int))];
  struct iovec part = {m, sizeof *m};
  struct msghdr head = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
  if (recvmsg(from, &head, 0) <= 0) { perror("recvmsg"); exit(3); }
  memcpy(files, CMSG_DATA(CMSG_FIRSTHDR(&head)), n * sizeof(int));
}

// The runtime's calls.
static void hold_by_runtime(void) {
  void *p;
  size_t pitch;
  cudaArray_t array;
  cudaMipmappedArray_t levels;
  struct cudaPitchedPtr three;
  struct cudaChannelFormatDesc one = {8, 0, 0, 0, cudaChannelFormatKindUnsigned};
  OK(cudaMalloc(&p, 11 * MIB)); OK(cudaFree(p));
  OK(cudaMalloc(&p, 12 * MIB)); say("block", (size_t)p, 12 * MIB);
  OK(cudaMalloc(&p, 1000)); say("block", (size_t)p, 1000);
  OK(cudaMallocPitch(&p, &pitch, 1000, 5000)); say("block", (size_t)p, pitch * 5000);
  OK(cudaMalloc3D(&three, (struct cudaExtent){1000, 100, 30})); say("block", (size_t)three.ptr, three.pitch * 100 * 30);
  OK(cudaMallocManaged(&p, 14 * MIB, cudaMemAttachGlobal)); say("block", (size_t)p, 14 * MIB);
  OK(cudaMallocHost(&p, 1 * MIB)); OK(cudaFreeHost(p));
  OK(cudaMallocHost(&p, 2 * MIB)); say("pinned", (size_t)p, 2 * MIB);
  OK(cudaHostAlloc(&p, 3 * MIB, cudaHostAllocMapped)); say("pinned", (size_t)p, 3 * MIB);
  p = aligned_alloc(4096, 4 * MIB);
  OK(cudaHostRegister(p, 4 * MIB, 0)); say("pinned", (size_t)p, 4 * MIB);
  OK(cudaMallocArray(&array, &one, 4096, 1024, 0)); say("array", 0, 4 * MIB);
  OK(cudaMalloc3DArray(&array, &one, (struct cudaExtent){1024, 512, 16}, 0)); say("array", 0, 8 * MIB);
  OK(cudaMalloc3DArray(&array, &one, (struct cudaExtent){1024, 512, 16}, 0)); OK(cudaFreeArray(array));
  OK(cudaMallocMipmappedArray(&levels, &one, (struct cudaExtent){2048, 2048, 0}, 2, 0)); say("array", 0, 5 * MIB);
}

// Memory in the order of a stream, from the default pool and one that can be exported.
static void hold_in_order(struct message *m, int *file) {
  cudaStream_t stream;
  cudaMemPool_t pool;
  void *p;
  struct cudaMemPoolProps shape = {.allocType = cudaMemAllocationTypePinned, .handleTypes = cudaMemHandleTypePosixFileDescriptor,
                                   .location = {.type = cudaMemLocationTypeDevice, .id = 0}};
  OK(cudaStreamCreate(&stream));
  OK(cudaMallocAsync(&p, 21 * MIB, stream)); OK(cudaFreeAsync(p, stream)); OK(cudaStreamSynchronize(stream));
  OK(cudaMallocAsync(&p, 22 * MIB, stream)); say("block", (size_t)p, 22 * MIB);
  OK(cudaMemPoolCreate(&pool, &shape));
  OK(cudaMallocFromPoolAsync(&p, 23 * MIB, pool, stream)); say("block", (size_t)p, 23 * MIB);
  OK(cudaStreamSynchronize(stream));
  OK(cudaMemPoolExportToShareableHandle(file, pool, cudaMemHandleTypePosixFileDescriptor, 0));
  OK(cudaMemPoolExportPointer(&m->pointer, p));
  m->pool_bytes = 23 * MIB;
}

// The driver's calls.
static void hold_by_driver(void) {
  CUdeviceptr p;
  size_t pitch;
  void *host;
  CUarray array;
  CUDA_ARRAY_DESCRIPTOR shape = {.Width = 2048, .Height = 1024, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
  OK(DRIVER(cuMemAlloc)(&p, 31 * MIB)); OK(DRIVER(cuMemFree)(p));
  OK(DRIVER(cuMemAlloc)(&p, 32 * MIB)); say("block", p, 32 * MIB);
  OK(DRIVER(cuMemAllocPitch)(&p, &pitch, 1000, 7000, 4)); say("block", p, pitch * 7000);
  OK(DRIVER(cuMemAllocManaged)(&p, 34 * MIB, CU_MEM_ATTACH_GLOBAL)); say("block", p, 34 * MIB);
  OK(DRIVER(cuMemAllocAsync)(&p, 35 * MIB, 0)); say("block", p, 35 * MIB);
  OK(DRIVER(cuMemAllocHost)(&host, 5 * MIB)); say("pinned", (size_t)host, 5 * MIB);
  OK(DRIVER(cuMemHostAlloc)(&host, 6 * MIB, 0)); say("pinned", (size_t)host, 6 * MIB);
  OK(DRIVER(cuArrayCreate)(&array, &shape)); say("array", 0, 8 * MIB);
}

static CUmemGenericAllocationHandle create(size_t bytes) {
  CUmemAllocationProp shape = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                               .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
  CUmemGenericAllocationHandle handle;
  OK(DRIVER(cuMemCreate)(&handle, bytes, &shape, 0));
  return handle;
}
static void map(CUdeviceptr at, size_t bytes, CUmemGenericAllocationHandle handle) {
  CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  OK(DRIVER(cuMemMap)(at, bytes, 0, handle, 0));
  OK(DRIVER(cuMemSetAccess)(at, bytes, &access, 1));
}
static void unmap(CUdeviceptr at, size_t bytes) { OK(DRIVER(cuMemUnmap)(at, bytes)); }
static void release(CUmemGenericAllocationHandle handle) { OK(DRIVER(cuMemRelease)(handle)); }
static CUdeviceptr reserve(size_t bytes) {
  CUdeviceptr at;
  OK(DRIVER(cuMemAddressReserve)(&at, bytes, 0, 0, 0));
  return at;
}

// Virtual memory: mapped once, twice, and twice with the first mapping gone.
static void hold_mapped(struct message *m, int *file) {
  CUdeviceptr at = reserve(512 * MIB);
  CUmemGenericAllocationHandle handle = create(40 * MIB), two[2] = {create(4 * MIB), create(4 * MIB)};
  map(at, 40 * MIB, handle);
  OK(DRIVER(cuMemExportToShareableHandle)(file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  m->mapped_bytes = 40 * MIB;
  release(handle);
  say("mapped", at, 40 * MIB);
  handle = create(12 * MIB);
  map(at + 64 * MIB, 12 * MIB, handle);
  map(at + 128 * MIB, 12 * MIB, handle);
  unmap(at + 64 * MIB, 12 * MIB);
  release(handle);
  say("mapped", at + 128 * MIB, 12 * MIB);
  handle = create(16 * MIB);
  map(at + 192 * MIB, 16 * MIB, handle);
  map(at + 256 * MIB, 16 * MIB, handle);
  release(handle);
  say("mapped", at + 192 * MIB, 16 * MIB);
  say("mapped", at + 256 * MIB, 16 * MIB);
  for (int i = 0; i < 2; i++) { map(at + 320 * MIB + i * 4 * MIB, 4 * MIB, two[i]); release(two[i]); }
  unmap(at + 320 * MIB, 8 * MIB);
  create(18 * MIB);
  say("unmapped", 0, 18 * MIB);
}

// Code whose first launch makes the driver take memory: 400 bytes for each thread that the device can run.
static void launch(void) {
  static const char code[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry fill(.param .u64 to, .param .u64 at) {\n"
    ".local .align 8 .b8 room[400];\n.reg .u64 %a<5>;\n"
    "ld.param.u64 %a0, [to];\ncvta.to.global.u64 %a0, %a0;\nld.param.u64 %a1, [at];\nmov.u64 %a2, room;\n"
    "add.u64 %a3, %a2, %a1;\nst.local.u64 [%a3], %a1;\nld.local.u64 %a4, [%a2];\nst.global.u64 [%a0], %a4;\nret;\n}\n";
  CUmodule module;
  CUfunction function;
  void *to;
  size_t zero = 0;
  OK(cudaMalloc(&to, 2000)); say("block", (size_t)to, 2000);
  void *arguments[] = {&to, &zero};
  OK(DRIVER(cuModuleLoadData)(&module, code));
  OK(DRIVER(cuModuleGetFunction)(&function, module, "fill"));
  OK(DRIVER(cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, 0, arguments, 0));
  OK(cudaDeviceSynchronize());
}

// A graph whose node allocates; its memory is the driver's.
static void launch_graph(void) {
  cudaGraph_t graph;
  cudaGraphNode_t node;
  cudaGraphExec_t made;
  cudaStream_t stream;
  void *p;
  struct cudaMemAllocNodeParams shape = {.poolProps = {.allocType = cudaMemAllocationTypePinned, .location = {.type = cudaMemLocationTypeDevice, .id = 0}},
                                         .bytesize = 26 * MIB};
  OK(cudaStreamCreate(&stream));
  OK(cudaGraphCreate(&graph, 0));
  OK(cudaGraphAddMemAllocNode(&node, graph, 0, 0, &shape));
  OK(cudaGraphInstantiate(&made, graph, 0));
  OK(cudaGraphLaunch(made, stream));
  OK(cudaStreamSynchronize(stream));
  // Within a capture memory is the graph's.
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  OK(cudaMallocAsync(&p, 27 * MIB, stream));
  OK(cudaFreeAsync(p, stream));
  OK(cudaStreamEndCapture(stream, &graph));
}

static int imports(int from) {
  struct message m;
  int files[2];
  char c = 0;
  void *p;
  cudaMemPool_t pool;
  CUmemGenericAllocationHandle handle;
  CUdeviceptr at;
  receive_files(from, &m, files, 2);
  OK(cudaFree(0));
  OK(cudaIpcOpenMemHandle(&p, m.plain, cudaIpcMemLazyEnablePeerAccess)); say("imported", (size_t)p, m.plain_bytes);
  OK(DRIVER(cuMemImportFromShareableHandle)(&handle, (void *)(size_t)files[0], CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  at = reserve(m.mapped_bytes);
  map(at, m.mapped_bytes, handle);
  release(handle);
  say("imported", at, m.mapped_bytes);
  OK(cudaMemPoolImportFromShareableHandle(&pool, (void *)(size_t)files[1], cudaMemHandleTypePosixFileDescriptor, 0));
  OK(cudaMemPoolImportPointer(&p, pool, &m.pointer)); say("imported", (size_t)p, m.pool_bytes);
  OK(cudaMalloc(&p, 17 * MIB)); say("block", (size_t)p, 17 * MIB);
  return write(from, &c, 1) != 1 || read(from, &c, 1) < 0;
}

int main(int argc, char **argv) {
  if (argc > 2) return imports(atoi(argv[2]));
  int pair[2], files[2];
  char number[16], c;
  pid_t child;
  struct message m;
  void *p, *most;
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 3;
  // The other process waits until this one closes its end, and must not have that itself.
  fcntl(pair[0], F_SETFD, FD_CLOEXEC);
  snprintf(number, sizeof number, "%d", pair[1]);
  extern char **environ;
  if (posix_spawn(&child, "/proc/self/exe", 0, 0, (char *[]){argv[0], "imports", number, 0}, environ)) return 3;
  close(pair[1]);
  hold_by_runtime();
  hold_in_order(&m, &files[1]);
  hold_by_driver();
  launch();
  // The most that it has is not what it has at the end.
  OK(cudaMalloc(&most, 256 * MIB));
  launch_graph();
  OK(cudaFree(most));
  hold_mapped(&m, &files[0]);
  OK(cudaMalloc(&p, 36 * MIB)); say("block", (size_t)p, m.plain_bytes = 36 * MIB);
  OK(cudaIpcGetMemHandle(&m.plain, p));
  send_files(pair[0], &m, files, 2);
  int status = 3;
  if (read(pair[0], &c, 1) != 1) { fprintf(stderr, "the other process imports nothing\n"); return 3; }
  // Both have what they have for a while, and the other one ends first.
  usleep(300000);
  close(pair[0]);
  waitpid(child, &status, 0);
  if (argc > 1 && !strcmp(argv[1], "reset")) OK(cudaDeviceReset());
  return status != 0;
}
