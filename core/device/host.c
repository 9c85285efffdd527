/* SPDX-License-Identifier: MIT
 * host.c - what the built-in devices share: memory, description, operations and captured lists of them. */
#include "device/host.h"

#include <spcore/checksum.h>

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* ---- description ------------------------------------------------------------------------------------------------- */

int sp_hostdev_count(sp_ctx *ctx, int *n) {
  (void)ctx;
  *n = 1;
  return SP_OK;
}

int sp_hostdev_check_index(sp_ctx *ctx, int index) {
  if (index == 0) return SP_OK;
  return ctx->host->fail(ctx, SP_E_NOTFOUND, "there is no processor device %d, only 0", index);
}

/* The text behind "key" and a colon in a file of such lines, without surrounding white space. */
static bool file_value(const char *path, const char *key, char *buf, size_t n) {
  char line[512];
  bool found = false;
  FILE *f = fopen(path, "r");
  if (!f) return false;
  while (!found && fgets(line, sizeof line, f)) {
    char *colon = strchr(line, ':');
    if (strncmp(line, key, strlen(key)) != 0 || !colon) continue;
    const char *value = colon + 1 + strspn(colon + 1, " \t");
    line[strcspn(line, "\n")] = 0;
    snprintf(buf, n, "%s", value);
    found = *buf != 0;
  }
  fclose(f);
  return found;
}

static int processors(void) {
  cpu_set_t set; /* fails on machines with more than 1024 processors */
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? (int)n : 1;
}

static uint64_t physical_memory(void) {
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

/* A container's limit, where there is one, is what this process may use. */
static uint64_t memory_limit(void) {
  uint64_t all = physical_memory(), limit;
  FILE *f = fopen("/sys/fs/cgroup/memory.max", "r");
  if (!f) return all;
  if (fscanf(f, "%" SCNu64, &limit) == 1 && limit < all) all = limit;
  fclose(f);
  return all;
}

int sp_hostdev_describe(sp_ctx *ctx, int index, sp_device_info *info) {
  int status = sp_hostdev_check_index(ctx, index);
  if (status) return status;
  struct utsname uts;
  char text[96];
  *info = (sp_device_info){.size = sizeof *info, .units = processors(), .memory = memory_limit()};
  if (uname(&uts)) snprintf(uts.machine, sizeof uts.machine, "unknown machine");
  if (file_value("/proc/cpuinfo", "model name", text, sizeof text)) snprintf(info->name, sizeof info->name, "%s", text);
  else snprintf(info->name, sizeof info->name, "%s processor", uts.machine);
  info->free_memory = info->memory;
  if (file_value("/proc/meminfo", "MemAvailable", text, sizeof text)) {
    uint64_t avail = strtoull(text, NULL, 10) * 1024;
    if (avail < info->free_memory) info->free_memory = avail;
  }
  long all = sysconf(_SC_NPROCESSORS_ONLN);
  snprintf(info->detail, sizeof info->detail, "%s, %d of %ld processors, %.1f GiB", uts.machine, (int)info->units,
           all > info->units ? all : (long)info->units, (double)info->memory / (1u << 30));
  return SP_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

int sp_hostdev_alloc(sp_ctx *ctx, void *dev, int kind, size_t bytes, void **ptr) {
  (void)dev;
  if (kind != SP_MEM_DEVICE && kind != SP_MEM_PINNED)
    return ctx->host->fail(ctx, SP_E_INVALID, "there is no kind of memory %d", kind);
  uint64_t all = physical_memory();
  if (all && bytes > all) /* malloc would promise it and the machine die later */
    return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory: %zu bytes asked for, the machine has %" PRIu64, bytes, all);
  if (!bytes) bytes = 1;
  if (bytes > SIZE_MAX - SP_ALIGN || !(*ptr = aligned_alloc(SP_ALIGN, (bytes + SP_ALIGN - 1) / SP_ALIGN * SP_ALIGN)))
    return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory: %zu bytes asked for", bytes);
  return SP_OK;
}

void sp_hostdev_free(void *dev, int kind, void *ptr) {
  (void)dev;
  (void)kind;
  free(ptr);
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

int sp_hostop_run(const sp_hostop *op) {
  int status = SP_OK;
  switch (op->kind) {
    case SP_HOSTOP_CALL: return op->fn(op->arg, NULL);
    case SP_HOSTOP_COPY:
      if (op->bytes) memmove(op->dst, op->src, op->bytes);
      break;
    case SP_HOSTOP_HASH: *(uint64_t *)op->dst = sp_checksum(op->src, op->bytes); break;
    case SP_HOSTOP_GRAPH:
      for (size_t i = 0; !status && i < op->graph->n; i++) status = sp_hostop_run(&op->graph->op[i]);
      break;
  }
  return status;
}

bool sp_hostgraph_add(sp_hostgraph *graph, const sp_hostop *op) {
  if (!sp_grow(&graph->op, &graph->cap, graph->n + 1, sizeof *graph->op)) return false;
  graph->op[graph->n++] = *op;
  return true;
}

void sp_hostgraph_free(sp_hostgraph *graph) {
  if (!graph) return;
  free(graph->op);
  free(graph);
}
