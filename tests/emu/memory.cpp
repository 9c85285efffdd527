/* SPDX-License-Identifier: MIT
 * memory.cpp - the emulator's device and pinned memory, with guards, poison and an own limit.
 *
 * Each piece is a mapping with a page before and a page after it that nobody may touch; it ends at the last page's
 * end, as near as the alignment allows, and the rest is filled with guard bytes. With SPCORE_EMU_PROTECT=1 the host
 * may touch device memory only while an operation of a stream runs: a stage that follows a device pointer crashes.
 * Of large pieces, which are workspaces, only the front is poisoned and none is closed to the host:
 * it would cost too much.
 */
#include "emu.h"

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include <sys/mman.h>
#include <unistd.h>

namespace sp_emu {

struct piece {
  char *map;
  size_t mapped; /* with both forbidden pages */
  size_t bytes;
  memory_kind kind;
};

static std::map<uintptr_t, piece> pieces;
static size_t taken;
static int open_depth;
static thread_local cudaError_t last_error;
static std::atomic<cudaError_t> sick{cudaSuccess};
static std::recursive_mutex calls;

constexpr size_t align = 256, large = 8 << 20;
constexpr unsigned char guard_byte = 0xa5;

[[noreturn]] void die(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fputs("CUDA emulator: ", stderr);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  abort();
}

entered::entered() { calls.lock(); }
entered::~entered() { calls.unlock(); }

cudaError_t note(cudaError_t error) {
  if (sick) return sick;
  if (error) last_error = error;
  return error;
}

void fall_sick(cudaError_t error) { sick = error; }

static size_t memory_of_device() {
  const char *text = getenv("SPCORE_EMU_MEMORY");
  return text ? static_cast<size_t>(strtoull(text, nullptr, 10)) : size_t{4} << 30;
}

static bool protecting() {
  static const bool yes = [] {
    const char *text = getenv("SPCORE_EMU_PROTECT");
    return text && !strcmp(text, "1");
  }();
  return yes;
}

static size_t page() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

static void protect(const piece &p, int how) {
  if (p.kind == memory_device && p.bytes <= large && mprotect(p.map + page(), p.mapped - 2 * page(), how))
    die("mprotect: %s", strerror(errno));
}

void memory_open() {
  if (open_depth++ || !protecting()) return;
  for (auto &it : pieces) protect(it.second, PROT_READ | PROT_WRITE);
}

void memory_shut() {
  if (--open_depth || !protecting()) return;
  for (auto &it : pieces) protect(it.second, PROT_NONE);
}

int memory_pause() {
  int depth = open_depth;
  if (depth) open_depth = 1, memory_shut();
  return depth;
}

void memory_resume(int paused) {
  if (paused) memory_open();
  open_depth = paused;
}

operation opened(operation what) {
  return [what = std::move(what)] {
    memory_open();
    what();
    memory_shut();
  };
}

static std::map<uintptr_t, piece>::iterator holding(const void *at) {
  auto it = pieces.upper_bound(reinterpret_cast<uintptr_t>(at));
  return it == pieces.begin() ? pieces.end() : std::prev(it);
}

/* Opens the piece that an address is in, and no other memory; none where it is the host's. */
class piece_open {
public:
  explicit piece_open(const void *at) : it(open_depth || !protecting() ? pieces.end() : holding(at)) {
    if (it != pieces.end() && at >= it->second.map + it->second.mapped) it = pieces.end();
    if (it != pieces.end()) protect(it->second, PROT_READ | PROT_WRITE);
  }
  ~piece_open() {
    if (it != pieces.end()) protect(it->second, PROT_NONE);
  }
  piece_open(const piece_open &) = delete;

private:
  std::map<uintptr_t, piece>::iterator it;
};

static void copy(void *to, const void *from, size_t bytes) {
  piece_open a(to), b(from);
  memmove(to, from, bytes);
}

static void fill(void *to, int byte, size_t bytes) {
  piece_open a(to);
  memset(to, byte, bytes);
}

static void check(uintptr_t at, const piece &p) {
  const unsigned char *start = reinterpret_cast<const unsigned char *>(p.map + page());
  const unsigned char *data = reinterpret_cast<const unsigned char *>(at);
  const unsigned char *end = start + (p.mapped - 2 * page());
  for (const unsigned char *b = start; b < data; b++)
    if (*b != guard_byte)
      die("something wrote %zu bytes before memory of %zu bytes", static_cast<size_t>(data - b), p.bytes);
  for (const unsigned char *b = data + p.bytes; b < end; b++)
    if (*b != guard_byte)
      die("something wrote %zu bytes past memory of %zu bytes", static_cast<size_t>(b - data - p.bytes) + 1, p.bytes);
}

void memory_check() {
  entered in;
  memory_open();
  for (auto &it : pieces) check(it.first, it.second);
  memory_shut();
}

static cudaError_t take(void **out, size_t bytes, memory_kind kind) {
  entered in;
  cudaError_t error = while_not_capturing();
  if (error) return note(error);
  *out = nullptr;
  if (!bytes) return note(cudaSuccess);
  size_t room = (bytes + align - 1) / align * align, inner = (room + page() - 1) / page() * page();
  if (bytes > SIZE_MAX / 2 || (kind == memory_device && taken + room > memory_of_device()))
    return note(cudaErrorMemoryAllocation);
  piece p = {nullptr, inner + 2 * page(), bytes, kind};
  void *map = mmap(nullptr, p.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return note(cudaErrorMemoryAllocation);
  p.map = static_cast<char *>(map);
  if (mprotect(p.map + page(), inner, PROT_READ | PROT_WRITE)) die("mprotect: %s", strerror(errno));
  madvise(p.map + page(), inner,
          MADV_DONTDUMP); /* unlike its neighbours, so that the kernel never joins or parts them */
  char *data = p.map + page() + inner - room;
  memset(p.map + page(), guard_byte, inner - room);
  memset(data + bytes, guard_byte, room - bytes);
  memset(data, fresh_byte, bytes < large ? bytes : large);
  if (kind == memory_device) taken += room;
  pieces[reinterpret_cast<uintptr_t>(data)] = p;
  if (protecting() && !open_depth) protect(p, PROT_NONE);
  *out = data;
  return note(cudaSuccess);
}

static cudaError_t give(void *data, memory_kind kind) {
  entered in;
  cudaError_t error = while_not_capturing();
  if (error) return note(error);
  if (!data) return note(cudaSuccess);
  drain();
  auto it = pieces.find(reinterpret_cast<uintptr_t>(data));
  if (it == pieces.end() || it->second.kind != kind) return note(cudaErrorInvalidValue);
  piece p = it->second;
  {
    piece_open open(data);
    check(it->first, p);
  }
  pieces.erase(it);
  if (kind == memory_device) taken -= (p.bytes + align - 1) / align * align;
  munmap(p.map, p.mapped);
  return note(cudaSuccess);
}

/* Variables of kernels whose address was asked for; their size is not known. */
static std::set<const char *> symbols;

static bool in_symbol(const void *at, size_t bytes) {
  constexpr size_t most = 64;
  const char *p = static_cast<const char *>(at);
  auto it = symbols.upper_bound(p);
  if (it == symbols.begin()) return false;
  size_t from = static_cast<size_t>(p - *--it);
  return from <= most && bytes <= most - from;
}

memory_kind kind_of(const void *at, size_t bytes) {
  entered in;
  if (in_symbol(at, bytes)) return memory_device;
  uintptr_t p = reinterpret_cast<uintptr_t>(at);
  auto it = holding(at);
  if (it == pieces.end()) return memory_unknown;
  return p - it->first <= it->second.bytes && bytes <= it->second.bytes - (p - it->first) ? it->second.kind
                                                                                          : memory_unknown;
}

/* What the ends of a copy are must be what was said of them. */
static cudaError_t copy_error(const void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
  if (!bytes) return cudaSuccess;
  bool to_device = kind_of(to, bytes) == memory_device, from_device = kind_of(from, bytes) == memory_device;
  switch (kind) {
    case cudaMemcpyHostToHost: return to_device || from_device ? cudaErrorInvalidValue : cudaSuccess;
    case cudaMemcpyHostToDevice: return !to_device || from_device ? cudaErrorInvalidValue : cudaSuccess;
    case cudaMemcpyDeviceToHost: return to_device || !from_device ? cudaErrorInvalidValue : cudaSuccess;
    case cudaMemcpyDeviceToDevice: return !to_device || !from_device ? cudaErrorInvalidValue : cudaSuccess;
    case cudaMemcpyDefault: return cudaSuccess;
    default: return cudaErrorInvalidMemcpyDirection;
  }
}

} // namespace sp_emu

using namespace sp_emu;

extern "C" {

cudaError_t cudaGetSymbolAddress(void **out, const void *symbol) {
  entered in;
  symbols.insert(static_cast<const char *>(symbol));
  *out = const_cast<void *>(symbol);
  return note(cudaSuccess);
}

cudaError_t cudaMalloc(void **out, size_t bytes) { return take(out, bytes, memory_device); }
cudaError_t cudaFree(void *data) { return give(data, memory_device); }
cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned) { return take(out, bytes, memory_pinned); }
cudaError_t cudaMallocHost(void **out, size_t bytes) { return take(out, bytes, memory_pinned); }
cudaError_t cudaFreeHost(void *data) { return give(data, memory_pinned); }

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned) {
  *device = host;
  return note(kind_of(host, 1) == memory_pinned ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
  *total = memory_of_device();
  *available = *total - taken;
  return note(cudaSuccess);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *out, const void *p) {
  *out = cudaPointerAttributes();
  memory_kind kind = kind_of(p, 1);
  out->type = kind == memory_device   ? cudaMemoryTypeDevice
              : kind == memory_pinned ? cudaMemoryTypeHost
                                      : cudaMemoryTypeUnregistered;
  out->devicePointer = kind == memory_unknown ? nullptr : const_cast<void *>(p);
  out->hostPointer = kind == memory_pinned ? const_cast<void *>(p) : nullptr;
  return note(cudaSuccess);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  cudaError_t error = copy_error(to, from, bytes, kind);
  if (!error) error = usable(stream);
  bool in = kind_of(from, 1) == memory_pinned, out = kind_of(to, 1) == memory_pinned;
  activity is = in ? activity_in : out ? activity_out : activity_copy;
  if (!error)
    error = submit(
        stream, [=] { copy(to, from, bytes); }, is);
  return note(error);
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream) {
  cudaError_t error = bytes && kind_of(to, bytes) == memory_unknown ? cudaErrorInvalidValue : usable(stream);
  if (!error)
    error = submit(
        stream, [=] { fill(to, byte, bytes); }, activity_fill);
  return note(error);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
  entered in;
  cudaError_t error = while_not_capturing();
  if (!error) error = copy_error(to, from, bytes, kind);
  if (error) return note(error);
  drain();
  copy(to, from, bytes);
  return note(cudaSuccess);
}

cudaError_t cudaMemset(void *to, int byte, size_t bytes) {
  entered in;
  cudaError_t error = while_not_capturing();
  if (!error && bytes && kind_of(to, bytes) == memory_unknown) error = cudaErrorInvalidValue;
  if (error) return note(error);
  drain();
  fill(to, byte, bytes);
  return note(cudaSuccess);
}

cudaError_t cudaGetLastError(void) {
  cudaError_t error = sick ? sick.load() : last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError(void) { return sick ? sick.load() : last_error; }
}
