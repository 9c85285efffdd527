/* SPDX-License-Identifier: MIT
 *
 * spcore/feed.h - requests: samples that come when somebody asks, from any number of threads.
 *
 * A graph whose source has the flag SP_STAGE_REQUESTS (plugin.h) is fed by a queue that the host keeps. Whoever has the
 * queue may submit a request, a sample's bytes, from any thread; steps take them in the order in which they came, at
 * most a batch at a time, and no sooner than lanes are about to be free for them; when a step is over, each of its
 * requests is answered with its own part of the graph's results. A plugin gets the queue within a callback:
 *
 *   const sp_feed_api *feed = ctx->host->get_extension(ctx, SP_EXT_FEED);
 *   sp_queue *queue = feed ? feed->queue(ctx) : NULL;
 *
 * and may keep both until its instance is destroyed: a source with threads of its own begins them in its first
 * prepare() and ends them in destroy(). Every request that was accepted is answered exactly once: by a step, or with
 * the reason why not; at the latest when the graph is closed.
 */
#ifndef SPCORE_FEED_H
#define SPCORE_FEED_H

#include "abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SP_EXT_FEED "spcore.feed/1"

/* The id of a place in a batch that no request has taken: steps always have all their samples, so that a sample's
 * result does not depend on who came along with it. */
#define SP_NO_REQUEST UINT64_MAX

#define SP_REQUEST_NAME 256 /* bytes of a request's name, the ending zero included */

typedef struct sp_queue sp_queue;

typedef struct sp_part {
  const void *data;
  size_t bytes;
} sp_part;

/* Lent for one call of the request's answer(). */
typedef struct sp_answer {
  uint32_t size;
  int32_t status; /* SP_OK; SP_E_CANCELLED: by cancel(), or the run has ended; SP_E_LATE: its deadline came before its
                              result; else what the source, or the run, failed with */
  uint64_t ticket;
  const char *error;   /* the words of a failure, NULL with SP_OK */
  uint64_t step;       /* the step that computed it; 0 unless SP_OK */
  double waited, took; /* seconds from submit() until a step took it, and until now */
  uint32_t n_results, reserved;
  const sp_tensor *results; /* [n_results] its sample of each of the graph's results, without the batch's dimension, in
                               host memory; none unless SP_OK */
  const char *const *names; /* [n_results] */
} sp_answer;

typedef struct sp_request {
  uint32_t size;
  uint32_t form; /* of the bytes, where the source takes more than one; 0 is its first */
  uint32_t n_parts, reserved;
  const sp_part
      *parts;       /* [n_parts] a sample for each output of the source, as it lies in memory; or one part, where the
                           source has said so (sp_plan.request_bytes). Copied by submit() */
  const char *name; /* for stages that write files: the file's name without folder and ending; NULL: none. Copied */
  int64_t
      deadline_us; /* microseconds from submit(); a request that has no result by then is answered with SP_E_LATE, as
                           soon as the loop's thread is not in the script; what a step makes of it later is dropped.
                           0: the source's own deadline, below 0: none */
  /* Called once if submit() accepts the request, on the thread that runs the loop, or that closes the graph. It must be
   * quick and must not wait for another answer; it may submit. */
  void (*answer)(void *arg, const sp_answer *answer);
  void *arg;
} sp_request;

typedef struct sp_feed_api {
  uint32_t size, reserved;

  /* Of the graph that the stage is in; NULL: it reads no requests. [any thread, within a callback] */
  sp_queue *(*queue)(sp_ctx *ctx);

  /* One more who is going to submit: the loop goes on until all of them have detached and all requests are answered.
   * These functions can't fail. [any thread] */
  void (*attach)(sp_queue *queue);
  void (*detach)(sp_queue *queue);

  /* SP_OK: the request is in the queue, and *ticket (may be NULL) is its number. SP_E_FULL: as many as the queue takes
   * are not answered yet; try again later. SP_E_STATE: the queue is not open yet, or closed. SP_E_INVALID, SP_E_RANGE,
   * SP_E_NOMEM: the request itself is refused. With all but SP_OK the reason is in why[0..n-1] (n may be 0), and
   * answer() is never called. [any thread] */
  int (*submit)(sp_queue *queue, const sp_request *request, uint64_t *ticket, char *why, size_t n);

  /* SP_OK: it was waiting, and is going to be answered with SP_E_CANCELLED. SP_E_STATE: a step has taken it, it is
   * answered as ever. SP_E_NOTFOUND: it was answered, or there is none. [any thread] */
  int (*cancel)(sp_queue *queue, uint64_t ticket);

  /* Of a request in a batch, by its id (sp_io.ids, in the processor's memory), during a call for its step: its parts,
   * their number in *n, its form; NULL: SP_NO_REQUEST, or it was rejected. [stream] */
  const sp_part *(*parts)(sp_queue *queue, uint64_t id, uint32_t *n, uint32_t *form);
  const char *(*name)(sp_queue *queue, uint64_t id); /* "" without one [stream] */

  /* The request is answered with this failure in the place of its results, while its step goes on. `status` is not
   * SP_OK; the first one counts. [stream] */
  void (*reject)(sp_queue *queue, uint64_t id, int status, const char *words);
} sp_feed_api;

#ifdef __cplusplus
}
#endif
#endif
