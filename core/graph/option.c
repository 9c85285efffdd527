/* SPDX-License-Identifier: MIT
 * option.c - the rows. A new option is a row here, the member that keeps it, and what it does. */
#include "graph/option.h"

#include <string.h>

#include "graph/graph.h"

static const char *const inits[] = {"philox", "torch", NULL};
static const char *const wires[] = {"fp32", "bf16", NULL};
static const char *const precisions[] = {"fp32", "tf32", "bf16", NULL};
static const char *const priorities[] = {"low", "normal", "high", NULL};
const char *const sp_capture_words[] = {"auto", "off", "lane", "step", NULL};

#define AT(of, member) .offset = offsetof(of, member), .size = sizeof((of){0}.member)
#define OPTION(word, kind, member) .name = word, .type = SP_OPTION_##kind, AT(sp_graph_opts, member)
#define STAGE(word, kind, member) .name = word, .type = SP_OPTION_##kind, AT(sp_node_opts, member)
#define LANE(word, member) .name = word, .type = SP_OPTION_INT, AT(sp_lane_props, member)

const sp_option sp_graph_rows[] = {
    {OPTION("bucket", MIB, bucket), .most = 4096, .first = 16, .zero = 1, .value = "MIB", .groups = "training graph",
     .resume = "free", .help = "MiB of gradients that ranks add in one operation; 0: each weight separately",
     .more = "MiB of gradients that ranks add in one operation; 0: each weight separately. It changes no bit."},
    {OPTION("capture", INT, capture), .most = SP_CAPTURE_STEP, .choices = sp_capture_words, .groups = "graph",
     .resume = "free", .help = "which calls a GPU replays as one graph; auto: lane",
     .more = "Which calls a GPU replays as one graph: *lane* (what a lane does between two waits), *step* (all lanes "
             "of a tick), *off*, or *auto*: *lane* on a GPU, unless a trace is requested that cannot see the calls "
             "in a graph (without CUPTI a graph is one slice). Calls that cannot be recorded are made one by one, "
             "with a notice."},
    {OPTION("check_replicas", INT, check), .most = INT64_MAX, .first = 1000, .groups = "training graph",
     .resume = "free", .help = "ranks compare their weights every N steps; 0: never",
     .more = "Ranks compare their weights every N steps and at the end of the run; 0: never."},
    {OPTION("checksums", FLAG, checksums), .groups = "run graph",
     .help = "write a hash of every edge and step, for spcore diff",
     .more = "Hash what each step computes (outputs of stages, statistics, gradients of weights, updated weights) into "
             "_checksums.jsonl_, for *spcore diff*. An output that is not computed, because nothing reads it or a "
             "cache replaces its stage, is *null* there."},
    {OPTION("comm", TEXT, comm), .text = "", .value = "NAME", .otherwise = "local; on a GPU nccl",
     .groups = "training graph", .resume = "session",
     .help = "what moves gradients between ranks: local, mpi, nccl",
     .more = "What moves gradients between ranks: *local*, *mpi* or *nccl*. A name that no plugin provides is refused, "
             "even with one rank."},
    {OPTION("factors", NOT, no_factors), .first = 1, .groups = "training graph",
     .help = "compute the gradients of wide products from the rows of all shards at once; --no-factors: add them like "
             "others",
     .more = "Compute the gradients of all weights for each shard and add them. By default the gradients of products "
             "with few rows and many weights are computed at the end of a step, from the rows of all shards at once, "
             "which are fewer bytes."},
    {OPTION("init", TEXT, init), .text = "philox", .choices = inits, .groups = "training", .help = "initial weights",
     .more = "Initial weights: *philox* (from seed and name) or *torch* (the bits of PyTorch's CPU generator after "
             "*manual_seed*)."},
    {OPTION("memory_limit", MIB, memory), .most = 1 << 24, .value = "MIB", .otherwise = "what the device has",
     .groups = "graph", .resume = "session", .help = "most MiB that a graph may use",
     .more = "Most MiB that a graph may use, evaluations included. A graph that needs more is refused before anything "
             "is allocated, and strategy *auto* leaves out what does not fit."},
    {OPTION("optimizer_shards", FLAG, optimizer_shards), .groups = "training graph", .resume = "free",
     .help = "each rank keeps the optimizer's state of its share of the weights only",
     .more = "Each of several ranks keeps the optimizer's state (moments, averages) of its share of the weights only, "
             "and updates that share. Bits and files are the same as without. No effect with one rank."},
    {OPTION("parts", INT, parts), .most = SP_PARTS_MAX, .groups = "training graph", .resume = "free",
     .otherwise = "1; where ranks add gradients, about one for each bucket",
     .help = "how many calls a stage's backward may be split into, each with the gradients of some weights",
     .more = "How many calls the backward of a trained stage may be split into, each with the gradients of some of its "
             "weights. It changes no bit."},
    {OPTION("pinned", MIB, pinned), .least = 1, .most = 1 << 20, .first = 1024, .value = "MIB",
     .groups = "reading graph", .resume = "free", .help = "most MiB of memory that readers fill",
     .more = "Most MiB of pinned memory that readers fill."},
    {OPTION("prefetch", INT, prefetch), .least = 1, .most = 64, .first = 2, .groups = "reading graph",
     .resume = "free", .help = "how many steps a reader works ahead"},
    {OPTION("run_ahead", INT, run_ahead), .most = 64, .first = 2, .groups = "graph",
     .help = "metrics arrive this many steps late",
     .more = "Metrics arrive this many steps late, and what a script does in response takes effect one step after "
             "that."},
    {OPTION("seed", INT, seed), .most = INT64_MAX, .first = 1, .help = "of weights, order and augmentation",
     .more = "Seed of the initial weights, the order of samples, and augmentation."},
    {OPTION("shards", INT, shards), .most = 1024, .otherwise = "one a rank", .groups = "training graph",
     .help = "batches in a step, whose gradients are added",
     .more = "How many batches a training step has. Their gradients are added in a fixed order. A multiple of the "
             "number of ranks."},
    {OPTION("wire", INT, wire_bf16), .most = 1, .choices = wires, .groups = "training graph",
     .help = "type of gradient sums between ranks; bf16: half the bytes, rounded",
     .more = "The type in which sums of gradients travel between ranks: *fp32*, or *bf16*, half the bytes. With *bf16* "
             "the gradients of shards, and each sum of two, are rounded to bfloat16 wherever they are added, so that "
             "the bits do not depend on the number of ranks."},
    {.name = NULL},
};

const sp_option sp_lane_rows[] = {
    {LANE("delay", delay), .most = 64, .help = "steps behind the newest batch"},
    {LANE("priority", priority), .least = -1, .most = 1, .choices = priorities, .help = "a hint to the device"},
    {LANE("extra", extra), .most = 64,
     .help = "additional buffers for what the lane passes to other lanes, so that it can get further ahead when they "
             "are slow at times"},
    {LANE("replicas", replicas), .least = 1, .most = 64, .first = 1,
     .help = "how many lanes it stands for, NAME1, NAME2 ...: step t runs on number t mod replicas. Without training "
             "only; steps overlap where the stages are `SP_STAGE_REENTRANT`, others wait for their own call of the "
             "step before"},
    {.name = NULL},
};

/* Whether a stage takes it is asked where its type is known: see `groups`. What is 0 in the struct is not said. */
const sp_option sp_stage_rows[] = {
    {STAGE("name", TEXT, name), .otherwise = "the stage's name", .groups = "",
     .help = "how the stage is called in messages and files"},
    {STAGE("frozen", FLAG, frozen), .groups = "", .help = "its weights are not trained"},
    {STAGE("cache", INT, cache), .most = SP_CACHE_HOST, .choices = sp_cache_words, .groups = "",
     .help = "where the outputs of a frozen stage are kept"},
    {STAGE("precision", INT, precision), .least = 1, .most = 3, .choices = precisions, .otherwise = "the graph's",
     .groups = "", .help = "what its products compute with"},
    {STAGE("recompute", FLAG, recompute), .groups = "",
     .help = "its forward runs again before its backward, which needs less memory in between"},
    {STAGE("on_cpu", FLAG, on_cpu), .groups = "", .help = "runs on the processor in a graph on a GPU"},
    {STAGE("eval_only", FLAG, eval_only), .groups = "", .help = "runs in evaluations, in no step of a training"},
    {STAGE("batch", INT, batch), .least = 1, .most = 1 << 24, .groups = "source requests",
     .help = "samples a step, or places for requests; required"},
    {STAGE("shuffle", NOT, no_shuffle), .first = 1, .groups = "source", .help = "another order in every epoch"},
    {STAGE("drop_last", FLAG, drop_last), .groups = "source", .help = "leave out a last batch that is short"},
    {STAGE("replacement", NOT, no_replacement), .first = 1, .groups = "source",
     .help = "samples that are drawn (sampling) may come twice in an epoch"},
    {STAGE("draws", INT, draws), .least = 1, .most = INT32_MAX,
     .otherwise = "as many as there are; without replacement all that have odds", .groups = "source",
     .help = "samples an epoch, where they are drawn (sampling)"},
    {STAGE("queue", INT, queue), .least = 1, .most = 1 << 20, .otherwise = "the larger of 256 and 4 batches",
     .groups = "requests", .help = "most requests that are not answered"},
    {STAGE("queue_mb", MIB, queue_bytes), .least = 1, .most = 1 << 20, .otherwise = "1024", .groups = "requests",
     .help = "most memory for them in MiB"},
    {STAGE("wait_us", INT, wait_us), .most = 1000000000, .groups = "requests",
     .help = "microseconds that the oldest waits for a full batch"},
    {STAGE("deadline_us", INT, deadline_us), .least = 1, .most = 1000000000, .otherwise = "never",
     .groups = "requests", .help = "microseconds after which a request that no step has taken is late"},
    {.name = NULL},
};

const sp_option *sp_option_find(const sp_option *rows, const char *name) {
  for (; rows->name; rows++)
    if (!strcmp(rows->name, name)) return rows;
  return NULL;
}

void sp_option_set(const sp_option *row, void *to, int64_t value) {
  char *at = (char *)to + row->offset;
  if (row->type == SP_OPTION_MIB) value = value ? value << 20 : row->zero;
  if (row->type == SP_OPTION_NOT) value = !value;
  if (row->size == sizeof(bool)) *(bool *)at = value != 0;
  else if (row->size == sizeof(int)) *(int *)at = (int)value;
  else memcpy(at, &value, sizeof value);
}

int sp_option_check(const sp_option *rows, const void *from, sp_err *err) {
  for (; rows->name; rows++) {
    int value;
    if (rows->type != SP_OPTION_INT || rows->size != sizeof value) continue;
    memcpy(&value, (const char *)from + rows->offset, sizeof value);
    if (value && (value < rows->least || value > rows->most)) /* 0 stands for the default */
      return sp_fail(err, SP_E_RANGE, "%s %d is outside %lld..%lld", rows->name, value, (long long)rows->least,
                     (long long)rows->most);
  }
  return SP_OK;
}
