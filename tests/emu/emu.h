/* SPDX-License-Identifier: MIT
 * emu.h - what the parts of the emulator share: streams that keep or run operations, device memory, errors.
 */
#ifndef SPCORE_EMU_H
#define SPCORE_EMU_H

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace sp_emu {

using operation = std::function<void()>;

[[noreturn]] void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* One call at a time: an event may be waited for by any thread. Calls nest. */
struct entered {
  entered();
  ~entered();
  entered(const entered &) = delete;
  entered &operator=(const entered &) = delete;
};

/* Keeps the error for cudaGetLastError and gives it back. */
cudaError_t note(cudaError_t error);
void fall_sick(cudaError_t error); /* every later call fails with it */

/* What an operation is to a profiler. */
enum activity { activity_kernel, activity_in, activity_out, activity_copy, activity_fill };

/* One operation of a stream: recorded if the stream captures, else run, or queued until somebody waits. */
cudaError_t submit(cudaStream_t stream, operation what, activity is = activity_kernel);

/* Who is told of graphs: as CUPTI is, by cupti.cpp. */
struct ran_node {
  uint64_t node, begin, end;
  unsigned number; /* of its launch */
  activity what;
};
struct profiler {
  virtual void node_made(cudaGraphNode_t made) = 0;
  virtual void node_copied(cudaGraphNode_t made, cudaGraphNode_t from) = 0;
  virtual void launch(unsigned number) = 0;
  virtual void ran(const ran_node &ran) = 0;
  virtual uint64_t now() = 0;
  virtual ~profiler() = default;
};
void watch(profiler *who); /* nullptr: nobody */
uint64_t node_id(cudaGraphNode_t node);

/* Whether the stream can be given work; the default stream only while there are no others. */
cudaError_t usable(cudaStream_t stream);
bool capturing(cudaStream_t stream);
cudaError_t while_not_capturing(); /* an error while any stream captures: for what CUDA refuses then */
void drain();                      /* runs what is queued */

/* Whether all bytes lie in one piece of memory of the kind. */
enum memory_kind { memory_unknown, memory_device, memory_pinned };
memory_kind kind_of(const void *p, size_t bytes);
/* Opens all of the device's memory to this process, and shuts it once as often as it was opened; opened() does so
 * around an operation. Between pause and resume it is shut, however often it was opened. */
void memory_open();
void memory_shut();
int memory_pause();
void memory_resume(int paused);
operation opened(operation what);
void memory_check(); /* guards of every allocation */

size_t shared_limit(const void *kernel); /* most dynamic shared memory that the kernel was allowed */
void run_grid(dim3 grid, dim3 block, size_t shared_bytes, const operation &body);
bool reversed(); /* SPCORE_EMU_ORDER=reverse: blocks and threads run from the last to the first */

constexpr unsigned char fresh_byte = 0xcb; /* of memory that nobody has written yet */
constexpr size_t shared_most = 227 << 10, shared_default = 48 << 10;

} // namespace sp_emu

#endif
