/* SPDX-License-Identifier: MIT
 * nccl.cpp - the calls of NCCL that comm_nccl.so makes, between processes on the emulator.
 *
 * Each pair of ranks has a box in shared memory for each direction; a collective is a set of sends and receives, and
 * one operation of its stream. Communicators are non-blocking: connecting takes until all ranks have come, registering
 * a window until all have, and every call on one is in progress for a while: a thread launches it, so that a stream
 * which runs at once holds up nobody. What the caller gets is written by such a thread, too, at the end or within an
 * abort. An abort ends what is in flight, and returns when no graph has a call of the communicator any more. What NCCL
 * refuses is refused: windows of other memory than ncclMemAlloc's, or off their alignment; and what it does wrong in
 * 2.28.3 (in windows: all-gathers of other sizes than multiples of 8, or of several sizes in a group, broadcasts);
 * every call on a communicator that is
 * gone, and memory that is freed as long as it is a window of one that is there, end the program.
 */
#include "emu.h"

#include <nccl.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

namespace {

constexpr int most_ranks = 8;
constexpr size_t box_bytes = 64 << 10;
constexpr int slow = 2; /* times that a call is still in progress when somebody asks */

struct box {
  std::atomic<uint32_t> full;
  size_t bytes;
  char data[box_bytes];
};

struct segment {
  std::atomic<int> arrived, windows, ended; /* ranks; registered by all of them; ranks that destroy or abort */
  box of[most_ranks][most_ranks];           /* [from][to] */
};

struct transfer {
  bool send;
  int peer;
  char *at;
  size_t bytes, done = 0;
};

} // namespace

struct ncclComm {
  int rank, ranks;
  std::shared_ptr<segment> shared;
  std::atomic<bool> aborted{false};
  bool connected = false;
  int in_progress = slow;
  std::atomic<bool> launching{false};                    /* a thread hands the stream its operation */
  std::shared_ptr<int> graphs = std::make_shared<int>(); /* every operation that was captured has it, too */
  int windows = 0;                                       /* that it has asked for */
  bool registered = false;                               /* memory, for sends and receives */
  std::thread writer;                                    /* of what the caller gets */
  std::atomic<bool> written{false};
};

namespace {

std::mutex lock;
std::map<ncclComm_t, std::shared_ptr<ncclComm>> comms;
std::set<void *> blocks; /* of ncclMemAlloc */
struct window {
  ncclComm_t comm;
  size_t bytes;
};
std::map<void *, window> windows; /* by their begin */

struct group {
  int depth = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  size_t gathers = 0; /* bytes of each of those in windows; 0: there is none yet */
  std::vector<transfer> list = {};
};
thread_local group grouped;

std::shared_ptr<ncclComm> known(ncclComm_t comm, const char *what) {
  std::lock_guard<std::mutex> in(lock);
  auto it = comms.find(comm);
  if (it == comms.end()) sp_emu::die("%s: there is no such communicator (any more)", what);
  return it->second;
}

void nap() {
  const timespec time = {0, 50000};
  nanosleep(&time, nullptr);
}

/* Whether something moved. */
bool progress(ncclComm &c, transfer &t) {
  box &b = t.send ? c.shared->of[c.rank][t.peer] : c.shared->of[t.peer][c.rank];
  if (t.done == t.bytes || b.full.load() == t.send) return false;
  if (t.send) {
    b.bytes = std::min(t.bytes - t.done, box_bytes);
    memcpy(b.data, t.at + t.done, b.bytes);
  } else {
    if (b.bytes > t.bytes - t.done) sp_emu::die("rank %d sends rank %d more than it wants", t.peer, c.rank);
    memcpy(t.at + t.done, b.data, b.bytes);
  }
  t.done += b.bytes;
  b.full.store(t.send);
  return true;
}

/* Of what goes the same way, as of a group's calls, one comes behind the other. */
bool is_next(const std::vector<transfer> &list, const transfer &t) {
  for (const transfer &before : list) {
    if (&before == &t) break;
    if (before.send == t.send && before.peer == t.peer && before.done < before.bytes) return false;
  }
  return true;
}

/* What the stream does: until all is moved, or the communicator is aborted. */
void move_all(ncclComm &c, std::vector<transfer> list) {
  for (size_t left = 1; left && !c.aborted;) {
    bool moved = false;
    left = 0;
    for (transfer &t : list) {
      moved = (is_next(list, t) && progress(c, t)) || moved;
      left += t.bytes - t.done;
    }
    if (!moved && left) nap();
  }
}

ncclResult_t submit(ncclComm_t comm, cudaStream_t stream, std::vector<transfer> list) {
  auto c = known(comm, "a collective");
  if (!c->connected || c->in_progress) return ncclInvalidUsage;
  c->in_progress = slow;
  c->launching = true;
  auto graph = sp_emu::capturing(stream) ? c->graphs : nullptr;
  std::thread([=] {
    if (sp_emu::submit(stream, sp_emu::opened([c, list, graph] { move_all(*c, list); })))
      sp_emu::die("a collective cannot be submitted");
    c->launching = false;
  }).detach();
  return ncclInProgress;
}

/* Windows: both sides of a call in some, or none, with all their bytes. */
bool in_window(ncclComm_t comm, const void *p, size_t bytes) {
  auto it = windows.upper_bound(const_cast<void *>(p));
  if (it == windows.begin() || (--it)->second.comm != comm) return false;
  return static_cast<const char *>(p) + bytes <= static_cast<char *>(it->first) + it->second.bytes;
}

bool is_off(const char *variable) {
  const char *value = getenv(variable);
  return value && strcmp(value, "0") == 0;
}

/* What NCCL does of itself with memory in windows, and with all that a graph sends or receives. */
void sends(ncclComm &c, const void *at, size_t bytes, cudaStream_t stream) {
  bool local = !is_off("NCCL_LOCAL_REGISTER") && in_window(&c, at, bytes);
  if (local || (!is_off("NCCL_GRAPH_REGISTER") && sp_emu::capturing(stream))) c.registered = true;
}

ncclResult_t check(ncclComm_t comm, const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
  if (sp_emu::kind_of(a, a_bytes) != sp_emu::memory_device || sp_emu::kind_of(b, b_bytes) != sp_emu::memory_device)
    return ncclInvalidArgument;
  return in_window(comm, a, a_bytes) == in_window(comm, b, b_bytes) ? ncclSuccess : ncclInvalidUsage;
}

bool all_there(const ncclComm &c) { return c.shared->arrived == c.ranks && c.shared->windows >= c.windows * c.ranks; }

/* Runs `write` when all ranks are where this one is, or it aborts. */
template <class F> void later(ncclComm &c, F write) {
  if (c.writer.joinable()) c.writer.join();
  c.written = false;
  c.writer = std::thread([&c, write] {
    while (!c.aborted && !all_there(c)) nap();
    write();
    c.written = true;
  });
}

char *piece(const void *p, size_t n, size_t i) { return static_cast<char *>(const_cast<void *>(p)) + n * i; }

} // namespace

extern "C" {

const char *ncclGetErrorString(ncclResult_t result) { return result == ncclSuccess ? "no error" : "it was refused"; }
const char *ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  static std::atomic<int> count;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  snprintf(id->internal, sizeof id->internal, "/spcore-emu-nccl-%d-%d-%ld", static_cast<int>(getpid()), ++count,
           now.tv_nsec);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config) {
  *comm = nullptr;
  if (ranks > most_ranks || rank < 0 || rank >= ranks || config->blocking != 0) return ncclInvalidArgument;
  int fd = shm_open(id.internal, O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(segment))) return ncclSystemError;
  void *at = mmap(nullptr, sizeof(segment), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (at == MAP_FAILED) return ncclSystemError;
  auto c = std::make_shared<ncclComm>();
  c->rank = rank;
  c->ranks = ranks;
  c->shared = {static_cast<segment *>(at), [](segment *s) { munmap(s, sizeof *s); }};
  if (++c->shared->arrived == ranks) shm_unlink(id.internal);
  std::lock_guard<std::mutex> in(lock);
  comms[c.get()] = c;
  *comm = c.get();
  later(*c, [comm, native = c.get()] { *comm = native; });
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
  auto c = known(comm, "ncclCommGetAsyncError");
  c->connected = c->written;
  if (c->connected && c->in_progress && !c->launching) c->in_progress--;
  *error = c->connected && !c->in_progress ? ncclSuccess : ncclInProgress;
  return ncclSuccess;
}

static ncclResult_t end(ncclComm_t comm) {
  auto c = known(comm, "its end");
  c->aborted = true;
  if (c->writer.joinable()) c->writer.join();
  while (c->graphs.use_count() > 1) nap();
  std::lock_guard<std::mutex> in(lock);
  comms.erase(comm);
  return ncclSuccess;
}

/* Where memory is registered NCCL 2.28 uses a socket there that it has freed. */
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  auto c = known(comm, "ncclCommAbort");
  if (c->registered) sp_emu::die("ncclCommAbort: memory is registered for sends and receives");
  if (getenv("SPCORE_EMU_NCCL_SLOW")) sleep(20); /* as between four GPUs, where rank 0 has died, 2.6 s */
  c->shared->ended++;
  return end(comm);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  known(comm, "ncclCommFinalize")->in_progress = slow;
  return ncclInProgress;
}

/* NCCL 2.28 waits there for the other ranks. */
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  for (auto &w : windows)
    if (w.second.comm == comm) sp_emu::die("ncclCommDestroy: a window is still registered");
  auto c = known(comm, "ncclCommDestroy");
  c->shared->ended++;
  while (c->shared->ended < c->ranks) nap();
  return end(comm);
}

/* What ranks map lies in pieces of 2 MiB. */
ncclResult_t ncclMemAlloc(void **out, size_t bytes) {
  constexpr size_t unit = 2 << 20;
  if (cudaMalloc(out, (bytes + unit - 1) / unit * unit)) return ncclUnhandledCudaError;
  blocks.insert(*out);
  return ncclSuccess;
}

ncclResult_t ncclMemFree(void *p) {
  if (!blocks.erase(p)) return ncclInvalidArgument;
  auto w = windows.find(p);
  if (w != windows.end() && comms.count(w->second.comm)) sp_emu::die("ncclMemFree: it is a window of a communicator");
  windows.erase(p);
  return cudaFree(p) ? ncclUnhandledCudaError : ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *p, size_t bytes, ncclWindow_t *window, int flags) {
  auto c = known(comm, "ncclCommWindowRegister");
  const char *enable = getenv("NCCL_WIN_ENABLE");
  if (getenv("SP_LOCAL_RANKS") || (enable && strcmp(enable, "0") == 0))
    sp_emu::die("ncclCommWindowRegister: it would be registered only, and its rings hang");
  bool aligned = reinterpret_cast<uintptr_t>(p) % NCCL_WIN_REQUIRED_ALIGNMENT == 0 && bytes % 4096 == 0;
  if (!blocks.count(p) || !aligned || flags != NCCL_WIN_COLL_SYMMETRIC) return ncclInvalidArgument;
  windows[p] = {comm, bytes};
  c->windows++;
  c->shared->windows++;
  later(*c, [window, p] { *window = reinterpret_cast<ncclWindow_t>(p); });
  c->in_progress = slow;
  return ncclSuccess; /* as NCCL 2.28 does, which has only begun */
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  known(comm, "ncclCommWindowDeregister");
  return windows.erase(reinterpret_cast<void *>(window)) ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclGroupStart(void) {
  grouped.depth++;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void) {
  if (--grouped.depth) return ncclSuccess;
  group all;
  std::swap(all, grouped);
  return all.list.empty() ? ncclSuccess : submit(all.comm, all.stream, std::move(all.list));
}

/* Now, or with the rest of a group. */
static ncclResult_t join(ncclComm_t comm, cudaStream_t stream, std::vector<transfer> list) {
  if (!grouped.depth) return submit(comm, stream, std::move(list));
  grouped.comm = comm;
  grouped.stream = stream;
  grouped.list.insert(grouped.list.end(), list.begin(), list.end());
  return ncclSuccess;
}

static ncclResult_t add(bool send, void *at, size_t bytes, int peer, ncclComm_t comm, cudaStream_t stream) {
  if (sp_emu::kind_of(at, bytes) != sp_emu::memory_device) return ncclInvalidUsage;
  sends(*known(comm, "ncclSend or ncclRecv"), at, bytes, stream);
  return join(comm, stream, {{send, peer, static_cast<char *>(at), bytes}});
}

ncclResult_t ncclSend(const void *at, size_t n, ncclDataType_t, int peer, ncclComm_t comm, cudaStream_t stream) {
  return add(true, const_cast<void *>(at), n, peer, comm, stream);
}

ncclResult_t ncclRecv(void *at, size_t n, ncclDataType_t, int peer, ncclComm_t comm, cudaStream_t stream) {
  return add(false, at, n, peer, comm, stream);
}

ncclResult_t ncclAlltoAll(const void *from, void *to, size_t n, ncclDataType_t, ncclComm_t comm, cudaStream_t stream) {
  auto c = known(comm, "ncclAlltoAll");
  size_t ranks = static_cast<size_t>(c->ranks);
  std::vector<transfer> list;
  sends(*c, from, n * ranks, stream);
  ncclResult_t rc = check(comm, from, n * ranks, to, n * ranks);
  for (size_t r = 0; r < ranks; r++) {
    list.push_back({true, static_cast<int>(r), piece(from, n, r), n});
    list.push_back({false, static_cast<int>(r), piece(to, n, r), n});
  }
  return rc ? rc : join(comm, stream, std::move(list));
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t n, ncclDataType_t, ncclComm_t comm, cudaStream_t stream) {
  auto c = known(comm, "ncclAllGather");
  std::vector<transfer> list;
  ncclResult_t rc = check(comm, from, n, to, n * static_cast<size_t>(c->ranks));
  if (in_window(comm, from, n)) {
    if (n % 8 || (grouped.gathers && grouped.gathers != n)) rc = ncclInvalidUsage;
    grouped.gathers = grouped.depth ? n : 0;
  }
  for (int r = 0; r < c->ranks; r++) {
    list.push_back({true, r, piece(from, 0, 0), n});
    list.push_back({false, r, piece(to, n, static_cast<size_t>(r)), n});
  }
  return rc ? rc : join(comm, stream, std::move(list));
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t n, ncclDataType_t, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  auto c = known(comm, "ncclBroadcast");
  std::vector<transfer> list;
  ncclResult_t rc = check(comm, from, n, to, n);
  if (in_window(comm, from, n)) rc = ncclInvalidUsage;
  for (int r = 0; r < c->ranks && c->rank == root; r++) list.push_back({true, r, piece(from, 0, 0), n});
  list.push_back({false, root, piece(to, 0, 0), n});
  return rc ? rc : join(comm, stream, std::move(list));
}
}
