/* SPDX-License-Identifier: MIT
 * timeline.c - what ran when, for a trace: what it is told of a program, calls as their stage's door times them, what
 * the host does, and marks around what only was submitted: copies, graphs, and all calls of a device that only submits.
 * They are read when their step is collected.
 *
 * A mark is an operation of the stream that reads the clock, or on a device that only submits an event. Events know
 * only differences. The first one is set beside the host's clock; from then on each step is measured from the first
 * call of the step before, so that no difference grows large and loses digits. */
#include <spcore/ext/counters.h>

#include "params/params.h"
#include "plan/planner.h"
#include "run/loop.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPIN 1e-3  /* a wake-up would be a large part of what is measured */
#define SPANS 2000 /* kernels and copies of a step's graphs for which there is room, on average; */
#define STEPS 2000 /* of so many steps at most */

static bool on_main(const sp_machine *m, int lane) { return m->p->lanes[lane].place == &m->g->main; }

/* ---- what a trace is told of a program --------------------------------------------------------------------------- */

/* "decoder", "backward"; "image", "copy"; "host", "fill(train)" */
static bool name_task(const sp_task *t, bool host, sp_trace_task *out) {
  const char *dot = host ? strchr(t->name, '.') : strrchr(t->name, '.');
  bool comm = t->node && (t->node == t->node->g->shards.tree ||
                          t->node == t->node->g->shards.wire); /* "comm.add[1]", as what is around it */
  const char *of = t->node && !comm    ? t->node->name
                   : t->moves && !host ? t->moves->name
                                       : NULL,
             *what = dot ? dot + 1 : "";
  if (t->node && !comm) what = t->name + strlen(t->node->name) + 1;
  out->stage = of ? sp_strdup(of) : sp_text("%.*s", dot ? (int)(dot - t->name) : (int)strlen(t->name), t->name);
  out->what = sp_text("%.*s", (int)strcspn(what, " "), what); /* a replica's number is its lane's */
  return out->stage && out->what;
}

/* What arrives in all, the rank's own piece too. */
static size_t moved(const sp_program *p, const sp_task *t) {
  size_t all = 0;
  for (size_t i = 0; i < t->n_calls; i++)
    all += t->calls[i].each * (t->calls[i].kind == SP_MOVE_FIRST ? 1 : (size_t)p->g->store.reduce->n_ranks);
  return all;
}

/* Of what a task writes: where it has several buffers, the slots of the largest. */
static void measure_task(const sp_program *p, const sp_task *t, sp_trace_task *out) {
  size_t most = 0;
  out->slots = 1;
  for (size_t i = 0; i < t->n_acc; i++) {
    const sp_buf *b = &p->bufs[t->acc[i].resource];
    if (!(t->acc[i].mode & SP_WRITE) || !b->bytes || t->acc[i].resource == t->scratch_buf) continue;
    out->bytes += b->bytes;
    if (b->bytes <= most) continue;
    most = b->bytes;
    out->slots = b->slots;
  }
  if (t->kind == SP_TASK_COMM) out->bytes = moved(p, t);
}

static char *track_of(const sp_program *p, const sp_task *t) {
  const char *lane = p->lanes[t->lane].props.name;
  if (t->kind != SP_TASK_COPY || !t->n_copies) return sp_strdup(p->lanes[t->lane].host ? "host" : lane);
  bool there = p->bufs[t->copies[0].to].at == SP_AT_MAIN;
  return sp_text("%s: copies %s the device", lane, there ? "to" : "from");
}

static bool tell_task(const sp_machine *m, const sp_task *t, sp_trace_task *out) {
  const sp_program *p = m->p;
  *out = (sp_trace_task){.every = t->every, .phase = t->phase, .host = p->lanes[t->lane].host};
  if (m->launch != SIZE_MAX) out->delay = p->sched.delay[t->index];
  measure_task(p, t, out);
  out->lane = sp_strdup(out->host ? "host" : p->lanes[t->lane].props.name);
  out->track = track_of(p, t);
  return name_task(t, out->host, out) && out->lane && out->track;
}

static bool tell_waits(const sp_machine *m, sp_trace_program *d) {
  for (size_t i = 0; i < m->ops.n; i++) {
    const sp_op *op = &m->ops.op[i];
    if ((op->kind != SP_OP_WAIT && op->kind != SP_OP_SYNC) || m->p->tasks[op->from].lane == m->p->tasks[op->task].lane)
      continue;
    if (!sp_grow(&d->waits, &d->cap_waits, d->n_waits + 1, sizeof *d->waits)) return false;
    d->waits[d->n_waits++] = (sp_trace_wait){op->task, op->from, op->back};
  }
  return true;
}

static bool accesses(const sp_task *t, size_t buf, int mode) {
  for (size_t i = 0; i < t->n_acc; i++)
    if ((size_t)t->acc[i].resource == buf && t->acc[i].mode & mode) return true;
  return false;
}

/* More than one slot, written on one lane and read on another that is not the host's. */
static bool is_edge(const sp_program *p, size_t buf) {
  int writer = -1;
  for (size_t i = 0; i < p->n_tasks && p->bufs[buf].bytes && p->bufs[buf].slots > 1; i++)
    if (accesses(&p->tasks[i], buf, SP_WRITE)) writer = p->tasks[i].lane;
    else if (writer >= 0 && accesses(&p->tasks[i], buf, SP_READ) && p->tasks[i].lane != writer &&
             !p->lanes[p->tasks[i].lane].host)
      return true;
  return false;
}

static bool tell_edges(const sp_program *p, sp_trace_program *d) {
  for (size_t b = 0; b < p->n_bufs; b++) {
    if (!is_edge(p, b)) continue;
    if (!sp_grow(&d->edges, &d->cap_edges, d->n_edges + 1, sizeof *d->edges)) return false;
    if (!(d->edges[d->n_edges] = sp_strdup(p->bufs[b].name))) return false;
    int edge = (int)d->n_edges++;
    for (size_t i = 0; i < p->n_tasks; i++) {
      if (!accesses(&p->tasks[i], b, SP_READ | SP_WRITE)) continue;
      if (!sp_grow(&d->uses, &d->cap_uses, d->n_uses + 1, sizeof *d->uses)) return false;
      d->uses[d->n_uses++] = (sp_trace_use){edge, (int)i};
    }
  }
  return true;
}

static bool tell_head(const sp_machine *m, const char *why, sp_trace_program *d) {
  d->strategy = sp_strdup(m->p->strategy);
  d->device = sp_strdup(m->g->device);
  d->capture = sp_strdup(sp_capture_words[m->capture]);
  if (*why)
    d->single =
        sp_text("device '%s' has no times of single calls in a recorded graph: %s; each graph is one slice, and "
                "capture = off shows its calls",
                m->g->device, why);
  return d->strategy && d->device && d->capture && (!*why || d->single);
}

static bool tell_tasks(const sp_machine *m, sp_trace_program *d) {
  const sp_program *p = m->p;
  d->tasks = sp_calloc(p->n_tasks + 1, sizeof *d->tasks);
  for (; d->tasks && d->n_tasks < p->n_tasks; d->n_tasks++)
    if (!tell_task(m, &p->tasks[d->n_tasks], &d->tasks[d->n_tasks])) return false;
  return d->tasks;
}

/* `why` has words where there are none. */
static void begin_times(sp_machine *m, sp_err *why) {
  const sp_place *main = &m->g->main;
  const sp_times *times = sp_graph_times(m->g);
  uint64_t steps = sp_trace_steps(m->g->opts.trace);
  sp_ctx_holder h;
  if (!times) sp_fail(why, SP_E_UNSUPPORTED, "it tells of none");
  else if (!steps) sp_fail(why, SP_E_STATE, "they are taken for a file alone (--trace)");
  else if (!times->open(sp_ctx_for(&h, "the trace", why), main->dev) &&
           !times->begin(sp_ctx_for(&h, "the trace", why), main->dev,
                         SPANS * (size_t)(steps < STEPS ? steps : STEPS)) &&
           !sp_trace_recorded(m->g->opts.trace, why))
    m->times = times;
}

int sp_timeline_tell(sp_machine *m, sp_err *err) {
  sp_trace_program d = {0};
  sp_err why = {0};
  if (!m->g->opts.trace) return SP_OK;
  if (m->capture != SP_CAPTURE_OFF && !sp_graph_times_calls(m->g)) begin_times(m, &why);
  if (!tell_head(m, why.msg, &d) || !tell_tasks(m, &d) || !tell_waits(m, &d) || !tell_edges(m->p, &d)) {
    sp_trace_program_free(&d);
    return sp_nomem(err, m->p->n_tasks * sizeof *d.tasks, "the trace");
  }
  if (d.single && !m->p->stand_in) sp_log(SP_LOG_WARN, "trace: %s", d.single);
  return sp_trace_add(m->g->opts.trace, &d, &m->traced, err);
}

static int begin_counters(const sp_machine *m, sp_err *err) {
  const sp_device_type *type = m->g->main.type;
  const sp_counters *c = type->extension ? type->extension(m->g->main.dev, SP_EXT_COUNTERS) : NULL;
  sp_trace *trace = m->g->opts.trace;
  sp_err why;
  sp_ctx_holder h;
  if (!c || !m->watch.n || !sp_trace_steps(trace)) return SP_OK;
  if (c->open(sp_ctx_for(&h, "the trace", &why), m->g->main.dev)) return sp_trace_uncounted(trace, why.msg, err);
  return sp_trace_count(trace, c->names, c->n, c->read, m->g->main.dev, err);
}

int sp_timeline_begin(sp_loop *l, uint64_t n, sp_err *err) {
  const sp_machine *m = l->m;
  uint64_t warm = (uint64_t)(m->p->sched.depth + m->p->ring + 1); /* until every slot and graph was in use */
  if (m->g->opts.trace)
    sp_trace_begin(m->g->opts.trace, m->traced, m->p->stand_in != NULL, l->first, n, warm, &l->m->watch);
  l->mark = NULL;
  l->left = 0;
  return m->g->opts.trace ? begin_counters(m, err) : SP_OK;
}

/* ---- what the processor does ------------------------------------------------------------------------------------- */

static sp_slice slice(const sp_machine *m, sp_slice_kind kind, int task, uint64_t step, double begin, double end) {
  return (sp_slice){.begin = begin,
                    .end = end,
                    .step = step,
                    .loop = m->watch.loop,
                    .task = task,
                    .program = m->watch.program,
                    .kind = kind};
}

static void observe(void *arg, const sp_span *span) {
  const sp_call *c = span->caller;
  if (!c || !sp_trace_wants(&c->m->watch, c->step))
    return; /* its pass; the span has the step, which may have several */
  sp_slice s =
      slice(c->m, span->worker < 0 ? SP_SLICE_TASK : SP_SLICE_WORKER, c->task->index, c->step, span->begin, span->end);
  s.worker = span->worker < 0 ? 0 : (uint16_t)span->worker;
  sp_trace_put(arg, &s);
}

/* Stages of a device whose calls only submit are timed by marks. */
void sp_timeline_watch(sp_graph *g) {
  if (!g->opts.trace) return;
  g->cpu_host.observe = observe;
  g->cpu_host.observe_arg = g->opts.trace;
  if (!sp_graph_times_calls(g)) return;
  g->host.observe = observe;
  g->host.observe_arg = g->opts.trace;
}

void sp_timeline_host(const sp_loop *l, sp_slice_kind kind, int task, uint64_t step, double begin, double end) {
  sp_slice s = slice(l->m, kind, task, step, begin, end);
  if (sp_trace_wants(&l->m->watch, step)) sp_trace_put(l->m->g->opts.trace, &s);
}

/* ---- marks ------------------------------------------------------------------------------------------------------- */

bool sp_timeline_watches(const sp_machine *m, const sp_task *t) {
  return m->g->opts.trace && m->g->border && on_main(m, t->lane) &&
         (t->kind == SP_TASK_COPY || t->kind == SP_TASK_COMM || !sp_graph_times_calls(m->g));
}

static int make_marks(sp_machine *m, const char *name, sp_mark **marks, sp_err *err) {
  int n = 2 * m->p->ring, st = SP_OK;
  *marks = sp_graph_zalloc(m->g, (size_t)n, sizeof **marks, "a timeline", err);
  if (!*marks || sp_graph_times_calls(m->g)) return *marks ? SP_OK : err->status;
  for (int i = 0; i < n && !st; i++) st = sp_place_event(&m->g->main, SP_EVENT_TIMING, name, &(*marks)[i].event, err);
  return st;
}

static void free_marks(sp_machine *m, sp_mark *marks) {
  for (int i = 0; marks && i < 2 * m->p->ring; i++)
    if (marks[i].event) m->g->main.type->event_close(marks[i].event);
  free(marks);
}

static bool has_mark(const sp_machine *m, int task) {
  for (size_t i = 0; i < m->ops.n; i++) {
    const sp_op *op = &m->ops.op[i];
    if (op->kind == SP_OP_MARK && op->from == SP_MARK_TRACE && op->task == task) return true;
  }
  return false;
}

int sp_timeline_make(sp_machine *m, const sp_task *t, sp_err *err) {
  sp_post *post = &m->posts[t->index];
  if (!has_mark(m, t->index)) return SP_OK;
  post->ran = sp_graph_zalloc(m->g, (size_t)m->p->ring, sizeof *post->ran, "a timeline", err);
  return post->ran ? make_marks(m, t->name, &post->marks, err) : err->status;
}

void sp_timeline_free(sp_machine *m, const sp_task *t) {
  free_marks(m, m->posts[t->index].marks);
  free(m->posts[t->index].ran);
}

/* The first of its calls that is the lane's own. */
static int first_task(const sp_op *launch) {
  for (int i = 1; i <= launch->n; i++)
    if (launch[i].lane == launch->lane) return launch[i].task;
  return launch[1].task;
}

static int make_launch(sp_machine *m, const sp_op *op, sp_err *err) {
  sp_launched *x = &m->launched[op->from];
  x->task = first_task(op);
  x->step = sp_graph_zalloc(m->g, (size_t)m->p->ring, sizeof *x->step, "a timeline", err);
  x->run = sp_graph_zalloc(m->g, (size_t)m->p->ring, sizeof *x->run, "a timeline", err);
  return x->step && x->run ? make_marks(m, m->p->lanes[op->lane].props.name, &x->marks, err) : err->status;
}

int sp_timeline_make_launches(sp_machine *m, sp_err *err) {
  int st = SP_OK;
  if (!m->g->opts.trace) return SP_OK;
  m->launched = sp_graph_zalloc(m->g, (size_t)m->ops.n_launch, sizeof *m->launched, "a timeline", err);
  if (!m->launched) return err->status;
  for (size_t i = 0; i < m->ops.n && !st; i++)
    if (m->ops.op[i].kind == SP_OP_LAUNCH) st = make_launch(m, &m->ops.op[i], err);
  return st;
}

void sp_timeline_free_launches(sp_machine *m) {
  for (int i = 0; m->launched && i < m->ops.n_launch; i++) {
    free_marks(m, m->launched[i].marks);
    free(m->launched[i].step);
    free(m->launched[i].run);
  }
  free(m->launched);
}

static sp_mark *marks_of(const sp_machine *m, sp_mark *marks, uint64_t step) {
  return marks ? &marks[2 * (step % (uint64_t)m->p->ring)] : NULL;
}

static int note_time(void *arg, void *native) {
  (void)native;
  ((sp_mark *)arg)->time = sp_now();
  return SP_OK;
}

/* The first mark of a loop, and when it was: the middle of the time within which the host saw it come. */
static int set_zero(sp_loop *l, void *event, void *stream, const char *name, sp_err *err) {
  const sp_place *main = &l->m->g->main;
  double since = sp_now();
  int complete = 0, st = sp_place_record(main, event, stream, name, err);
  sp_ctx_holder h;
  while (!st && !complete && sp_now() - since < SPIN)
    st = main->type->event_query(sp_ctx_for(&h, name, err), event, &complete);
  if (st || (!complete && (st = sp_place_sync_event(main, event, name, err)))) return st;
  l->mark = event;
  l->mark_time = (since + sp_now()) / 2;
  return SP_OK;
}

static int set_mark(sp_loop *l, sp_mark *mark, int lane, const char *name, sp_err *err) {
  const sp_place *main = &l->m->g->main;
  void *stream = sp_machine_stream(l->m, lane)->own;
  if (!mark->event) return sp_place_submit(main, stream, note_time, mark, name, err);
  return l->mark ? sp_place_record(main, mark->event, stream, name, err) : set_zero(l, mark->event, stream, name, err);
}

int sp_timeline_mark(sp_loop *l, const sp_op *op, uint64_t step, sp_err *err) {
  const sp_post *post = &l->m->posts[op->task];
  if (!sp_trace_wants(&l->m->watch, step)) return SP_OK;
  post->ran[step % (uint64_t)l->m->p->ring] = step + 1;
  return set_mark(l, &marks_of(l->m, post->marks, step)[op->back], op->lane, l->m->p->tasks[op->task].name, err);
}

/* A tick has calls of older steps too. */
static bool number_launch(const sp_loop *l, const sp_op *op, uint64_t step, int behind) {
  const sp_machine *m = l->m;
  uint64_t late = op->task < 0 ? (uint64_t)m->p->sched.depth : 0, *run;
  if (!m->times) return false;
  run = &m->launched[op->from].run[step % (uint64_t)m->p->ring];
  if (!behind)
    *run = m->watch.n && step - m->watch.first < m->watch.n + late ? sp_trace_launch(m->g->opts.trace, &m->watch, step)
                                                                   : 0;
  m->times->launch(m->g->main.dev, behind ? 0 : *run);
  return *run;
}

int sp_timeline_mark_launch(sp_loop *l, const sp_op *op, uint64_t step, int behind, sp_err *err) {
  bool numbered = number_launch(l, op, step, behind);
  if (!numbered && !sp_trace_wants(&l->m->watch, step)) return SP_OK;
  const sp_launched *x = &l->m->launched[op->from];
  x->step[step % (uint64_t)l->m->p->ring] = step + 1;
  return set_mark(l, &marks_of(l->m, x->marks, step)[behind], op->lane, "a graph", err);
}

/* Seconds of the host's clock at a mark. */
static int moment(const sp_loop *l, const sp_mark *mark, double *t, sp_err *err) {
  const sp_device_type *d = l->m->g->main.type;
  sp_ctx_holder h;
  double ms = 0;
  int st = mark->event && mark->event != l->mark
               ? d->event_elapsed(sp_ctx_for(&h, "the timeline", err), l->mark, mark->event, &ms)
               : SP_OK;
  *t = mark->event ? l->mark_time + ms * 1e-3 : mark->time;
  return st;
}

typedef struct reading {
  sp_loop *l;
  uint64_t step;
  void *first;                   /* of the step's events */
  double first_time, begin, end; /* of what was read last */
} reading;

static int read_marks(reading *r, sp_slice_kind kind, int task, const sp_mark *marks, sp_err *err) {
  int st;
  if ((st = moment(r->l, &marks[0], &r->begin, err)) || (st = moment(r->l, &marks[1], &r->end, err))) return st;
  sp_timeline_host(r->l, kind, task, r->step, r->begin, r->end);
  if (!r->first) r->first = marks[0].event, r->first_time = r->begin;
  return SP_OK;
}

static int read_launch(reading *r, const sp_launched *x, sp_err *err) {
  const sp_machine *m = r->l->m;
  size_t slot = (size_t)(r->step % (uint64_t)m->p->ring);
  if (x->step[slot] != r->step + 1) return SP_OK;
  int st = read_marks(r, SP_SLICE_SEGMENT, x->task, marks_of(m, x->marks, r->step), err);
  if (!st && m->times) sp_trace_launched(m->g->opts.trace, x->run[slot], r->begin, r->end);
  x->step[slot] = 0;
  return st;
}

static int read_all(reading *r, sp_err *err) {
  const sp_machine *m = r->l->m;
  int st = SP_OK;
  for (size_t i = 0; i < m->p->n_tasks && !st; i++) {
    const sp_post *post = &m->posts[i];
    if (post->marks && post->ran[r->step % (uint64_t)m->p->ring] == r->step + 1)
      st = read_marks(r, SP_SLICE_TASK, (int)i, marks_of(m, post->marks, r->step), err);
  }
  for (int i = 0; i < m->ops.n_launch && !st; i++) st = read_launch(r, &m->launched[i], err);
  return st;
}

int sp_timeline_collect(sp_loop *l, uint64_t step, sp_err *err) {
  const sp_machine *m = l->m;
  reading r = {.l = l, .step = step};
  if (!sp_trace_wants(&m->watch, step) || !m->known[step % (uint64_t)m->p->ring].n) return SP_OK;
  int st = read_all(&r, err);
  if (!st && r.first) l->mark = r.first, l->mark_time = r.first_time;
  return st;
}

/* ---- calls in recorded graphs ------------------------------------------------------------------------------------ */

void sp_timeline_record(const sp_machine *m, int task) {
  if (m->times) m->times->call(m->g->main.dev, (uint64_t)(task + 1));
}

typedef struct spans {
  sp_trace *trace;
  int status;
} spans;

static void put_span(void *arg, const sp_times_span *s) {
  spans *to = arg;
  if (!to->status) to->status = sp_trace_span(to->trace, s->launch, (int)s->call - 1, s->what, s->begin, s->end);
}

/* Of ticks behind the last step that is kept, in which it had calls. */
static int read_late(sp_loop *l, sp_err *err) {
  const sp_machine *m = l->m;
  int st = SP_OK;
  for (int i = 0; i < m->ops.n_launch; i++)
    for (int k = 0; k < m->p->ring && !st; k++) {
      reading r = {.l = l, .step = m->launched[i].step[k] - 1};
      if (m->launched[i].step[k]) st = read_launch(&r, &m->launched[i], err);
    }
  return st;
}

int sp_timeline_read(sp_loop *l, bool last, sp_err *err) {
  const sp_machine *m = l->m;
  spans to = {.trace = m->g->opts.trace};
  uint64_t lost = 0;
  sp_err ignored; /* a failure is told where its step is collected */
  sp_ctx_holder h;
  if (!m->times) return SP_OK;
  if (sp_machine_sync(l->m, &ignored) && ignored.status == SP_E_DEVICE) return SP_OK;
  int st = read_late(l, err),
      late = m->times->read(sp_ctx_for(&h, "the trace", &ignored), m->g->main.dev, put_span, &to, &lost);
  if (late && !st) *err = ignored, st = late;
  if (last) m->times->close(m->g->main.dev);
  if (last) l->m->times = NULL;
  if (lost) sp_log(SP_LOG_WARN, "trace: there was no room for %" PRIu64 " kernels and copies of recorded graphs", lost);
  return !st && to.status ? sp_nomem(err, SPANS * sizeof(sp_times_span), "the kernels of a trace") : st;
}
