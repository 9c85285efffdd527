/* SPDX-License-Identifier: MIT
 * block.cpp - runs the blocks of a grid: threads as fibers, barriers, and what the lanes of a warp tell each other.
 *
 * A fiber takes one thread after the other as long as they run to their end. One that waits keeps its fiber and hands
 * over to another. When nothing can run, the host's turn comes and the barrier opens; if not all who are left stand
 * before it, that is a deadlock and said.
 */
#include "cuda_emu.h"
#include "emu.h"
#include "fiber.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace sp_emu {

enum state : unsigned char { is_new, is_ready, is_running, at_barrier, at_warp, is_done };
enum warp_op : unsigned char { op_sync, op_ballot, op_exchange, op_gather };

struct alignas(16) value16 {
  unsigned char bytes[16];
};

struct thread {
  uint3 index;
  state at;
  warp_op op;
  unsigned mask, from;
  int predicate;
  unsigned ballot, gathers;
  value16 give, got;
  fiber *on;
};

struct warp { /* a bit for each lane */
  unsigned alive, waiting, ready;
  /* By lane, of the last gathers: a lane may give for the next one while others still read, so four take turns. */
  value16 said[4][32];
};

struct worker { /* a fiber of the pool */
  fiber *on;
};

/* Never destroyed: as long as the program ends, somebody may still launch. */
static std::vector<thread> &threads = *new std::vector<thread>();
static std::vector<warp> &warps = *new std::vector<warp>();
static std::vector<fiber *> &idle = *new std::vector<fiber *>();
static unsigned count, fresh, now, left, waiting; /* threads: all, next to begin, running, not done, at the barrier */
static int predicates, predicates_of_all;
static const operation *kernel_body;
static fiber *host, *active;
alignas(128) static unsigned char shared[shared_most + 128];

bool reversed() {
  static const bool yes = [] {
    const char *order = getenv("SPCORE_EMU_ORDER");
    return order && !strcmp(order, "reverse");
  }();
  return yes;
}

static void set_thread(unsigned t) {
  now = t;
  threadIdx = threads[t].index;
  threads[t].at = is_running;
}

static void set_ready(unsigned t) {
  threads[t].at = is_ready;
  warps[t / 32].ready |= 1u << (t & 31);
}

/* ---- warps ---- */

/* Finishes the operation that thread t waits for, if all lanes of its mask that are left are there. */
static bool warp_complete(unsigned t) {
  warp &w = warps[t / 32];
  unsigned first = t & ~31u, ballot = 0;
  const thread &mine = threads[t];
  unsigned lanes = mine.mask & w.alive;
  if ((w.waiting & lanes) != lanes) return false;
  for (unsigned rest = lanes; rest; rest &= rest - 1) {
    unsigned i = static_cast<unsigned>(__builtin_ctz(rest));
    const thread &other = threads[first + i];
    if (other.op != mine.op || other.mask != mine.mask)
      die("lanes %u and %u of a warp meet in different operations or with masks %08x and %08x", t & 31, i, mine.mask,
          other.mask);
    if (mine.op == op_gather && other.gathers != mine.gathers)
      die("lanes %u and %u of a warp meet in a gather after different numbers of them", t & 31, i);
    if (other.predicate) ballot |= 1u << i;
  }
  for (unsigned rest = lanes; rest; rest &= rest - 1) {
    thread &one = threads[first + static_cast<unsigned>(__builtin_ctz(rest))];
    one.ballot = ballot;
    one.at = is_ready;
    if (one.op != op_exchange) continue;
    if (lanes >> one.from & 1) one.got = threads[first + one.from].give;
    else memset(&one.got, 0xcb, sizeof one.got);
  }
  w.waiting &= ~lanes;
  w.ready |= lanes;
  return true;
}

/* ---- scheduling ---- */

static void run_threads(void *arg);

static fiber *idle_fiber() {
  if (idle.empty()) {
    worker *w = new worker();
    w->on = fiber_open(run_threads, w);
    return w->on;
  }
  fiber *f = idle.back();
  idle.pop_back();
  return f;
}

static fiber *ready_in(unsigned at) {
  warp &w = warps[at];
  if (!w.ready) return nullptr;
  unsigned i = static_cast<unsigned>(reversed() ? 31 - __builtin_clz(w.ready) : __builtin_ctz(w.ready));
  w.ready &= ~(1u << i);
  return threads[at * 32 + i].on;
}

/* Whoever goes on: a lane of the same warp, a new thread, any other; the host where nobody can. */
static fiber *next_fiber(unsigned t) {
  fiber *f = ready_in(t / 32);
  if (f) return f;
  if (fresh < count) return idle_fiber();
  unsigned n = static_cast<unsigned>(warps.size());
  for (unsigned i = 1; i < n && !f; i++) f = ready_in((t / 32 + i) % n);
  return f ? f : host;
}

static void go(fiber *from, fiber *to) {
  active = to;
  fiber_switch(from, to);
}

static void wait_here() {
  unsigned t = now;
  threads[t].on = active;
  go(active, next_fiber(t));
  set_thread(t);
}

static void ended(unsigned t) {
  warp &w = warps[t / 32];
  threads[t].at = is_done;
  left--;
  w.alive &= ~(1u << (t & 31));
  for (unsigned rest = w.waiting; rest; rest &= rest - 1) {
    unsigned i = (t & ~31u) + static_cast<unsigned>(__builtin_ctz(rest));
    if (threads[i].at == at_warp) warp_complete(i);
  }
}

static void run_threads(void *arg) {
  fiber *self = static_cast<worker *>(arg)->on;
  for (;;) {
    while (fresh < count) {
      unsigned t = reversed() ? count - 1 - fresh : fresh;
      fresh++;
      set_thread(t);
      (*kernel_body)();
      ended(now);
    }
    idle.push_back(self);
    go(self, next_fiber(now));
  }
}

[[noreturn]] static void deadlock() {
  char text[160];
  int n = 0;
  for (unsigned t = 0; t < count && n < 120; t++)
    if (threads[t].at == at_warp) n += snprintf(text + n, sizeof text - static_cast<size_t>(n), " %u", t);
  die("deadlock in block %u,%u,%u: %u of %u threads stand before a barrier, in a warp operation wait threads%s",
      blockIdx.x, blockIdx.y, blockIdx.z, waiting, left, text);
}

static void run_block() {
  fresh = waiting = 0;
  left = count;
  predicates = 0;
  for (thread &t : threads) t.at = is_new, t.gathers = 0;
  for (unsigned w = 0; w < warps.size(); w++) {
    unsigned lanes = count - 32 * w;
    warps[w].alive = lanes >= 32 ? 0xffffffffu : (1u << lanes) - 1;
    warps[w].waiting = warps[w].ready = 0;
  }
  for (;;) {
    go(host, next_fiber(reversed() ? count - 1 : 0));
    if (!left) break;
    if (waiting != left) deadlock();
    waiting = 0;
    predicates_of_all = predicates;
    predicates = 0;
    for (unsigned t = 0; t < count; t++)
      if (threads[t].at == at_barrier) set_ready(t);
  }
}

void run_grid(dim3 grid, dim3 block, size_t shared_bytes, const operation &body) {
  static bool inside;
  if (inside) die("a kernel launched a kernel");
  inside = true;
  host = fiber_of_host();
  gridDim = grid;
  blockDim = block;
  count = block.x * block.y * block.z;
  threads.resize(count);
  warps.resize((count + 31) / 32);
  for (unsigned t = 0; t < count; t++) threads[t].index = {t % block.x, t / block.x % block.y, t / block.x / block.y};
  kernel_body = &body;
  size_t room = (shared_bytes + 15) & ~size_t{15};
#if defined(__SANITIZE_ADDRESS__)
  ASAN_POISON_MEMORY_REGION(shared + room, sizeof shared - room);
#endif
  size_t blocks = size_t{grid.x} * grid.y * grid.z;
  for (size_t i = 0; i < blocks; i++) {
    size_t b = reversed() ? blocks - 1 - i : i;
    blockIdx.x = static_cast<unsigned>(b % grid.x);
    blockIdx.y = static_cast<unsigned>(b / grid.x % grid.y);
    blockIdx.z = static_cast<unsigned>(b / grid.x / grid.y);
    memset(shared, 0xcb, room);
    run_block();
  }
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(shared, sizeof shared);
#endif
  inside = false;
}

/* ---- what a thread calls ---- */

void *dynamic_shared() { return shared; }

int barrier_count(int predicate) {
  predicates += predicate != 0;
  threads[now].at = at_barrier;
  waiting++;
  wait_here();
  return predicates_of_all;
}

void barrier() { barrier_count(0); }

static thread &meet(unsigned mask, warp_op op) {
  unsigned t = now;
  if (!(mask >> (t & 31) & 1)) die("lane %u is not in the mask %08x of its own warp operation", t & 31, mask);
  threads[t].mask = mask;
  threads[t].op = op;
  threads[t].at = at_warp;
  warps[t / 32].waiting |= 1u << (t & 31);
  if (!warp_complete(t)) {
    wait_here();
  } else {
    warps[t / 32].ready &= ~(1u << (t & 31)); /* the last one just goes on */
    threads[t].at = is_running;
  }
  return threads[t];
}

void warp_barrier(unsigned mask) {
  threads[now].predicate = 0;
  meet(mask, op_sync);
}

unsigned warp_ballot(unsigned mask, int predicate) {
  threads[now].predicate = predicate != 0;
  return meet(mask, op_ballot).ballot;
}

unsigned lane() { return now & 31; }

/* The lanes that are not done: on a GPU the compiler decides which of them run together. */
unsigned warp_active() { return warps[now / 32].alive; }

void warp_exchange(unsigned mask, const void *value, size_t bytes, unsigned from, void *out) {
  thread &mine = threads[now];
  mine.predicate = 0;
  mine.from = from & 31;
  memcpy(mine.give.bytes, value, bytes);
  memcpy(out, meet(mask, op_exchange).got.bytes, bytes);
}

const void *warp_gather(unsigned mask, const void *value, size_t bytes) {
  thread &mine = threads[now];
  value16 *said = warps[now / 32].said[mine.gathers++ % 4];
  mine.predicate = 0;
  memcpy(reinterpret_cast<unsigned char *>(said) + (now & 31) * bytes, value, bytes);
  meet(mask, op_gather);
  return said;
}

void launch(const void *kernel, dim3 grid, dim3 block, size_t shared_bytes, void *stream, std::function<void()> body) {
  cudaStream_t s = static_cast<cudaStream_t>(stream);
  size_t per_block = size_t{block.x} * block.y * block.z;
  if (!grid.x || !grid.y || !grid.z || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535 || !per_block ||
      per_block > 1024 || block.z > 64) {
    note(cudaErrorInvalidConfiguration);
    return;
  }
  if (shared_bytes > shared_limit(kernel)) {
    note(cudaErrorInvalidValue);
    return;
  }
  cudaError_t error = usable(s);
  if (!error)
    error = submit(
        s, opened([grid, block, shared_bytes, body = std::move(body)] { run_grid(grid, block, shared_bytes, body); }));
  note(error);
}

} // namespace sp_emu
