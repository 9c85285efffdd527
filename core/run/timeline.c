/* SPDX-License-Identifier: MIT
 * timeline.c - what ran when, for a trace: what it is told of a program, calls as their stage's door times them, what the host
 * does, and marks around what only was submitted: copies, graphs, and all calls of a device that only submits. They are read
 * when their step is collected.
 *
 * A mark is an operation of the stream that reads the clock, or on a device that only submits an event. Events know only
 * differences. The first one is set beside the host's clock; from then on each step is measured from the first call of the
 * step before, so that no difference grows large and loses digits. */
#include "plan/planner.h"
#include "run/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPIN 1e-3 /* a wake-up would be a large part of what is measured */

static bool on_main(const sp_machine *m, int lane) { return m->p->lanes[lane].place == &m->g->main; }

/* ---- what a trace is told of a program --------------------------------------------------------------------------- */

/* "decoder", "backward"; "image", "copy"; "host", "fill(train)" */
static bool name_task(const sp_task *t, bool host, sp_trace_task *out) {
  const char *dot = host ? strchr(t->name, '.') : strrchr(t->name, '.');
  const char *of = t->node ? t->node->name : t->moves && !host ? t->moves->name : NULL, *what = dot ? dot + 1 : "";
  if (t->node) what = t->name + strlen(t->node->name) + 1;
  out->stage = of ? sp_strdup(of) : sp_text("%.*s", dot ? (int)(dot - t->name) : (int)strlen(t->name), t->name);
  out->what = sp_text("%.*s", (int)strcspn(what, " "), what); /* a replica's number is its lane's */
  return out->stage && out->what;
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
}

static char *track_of(const sp_program *p, const sp_task *t) {
  const char *lane = p->lanes[t->lane].props.name;
  if (t->kind != SP_TASK_COPY || !t->n_copies) return sp_strdup(p->lanes[t->lane].host ? "host" : lane);
  bool there = p->bufs[t->copies[0].to].at == SP_AT_MAIN;
  return sp_text("%s: copies %s the device", lane, there ? "to" : "from");
}

static bool tell_task(const sp_program *p, const sp_task *t, sp_trace_task *out) {
  *out = (sp_trace_task){.every = t->every, .phase = t->phase, .host = p->lanes[t->lane].host};
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

static bool tell_head(const sp_machine *m, sp_trace_program *d) {
  static const char *const captures[] = {"auto", "off", "lane", "step"};
  bool hidden = m->capture != SP_CAPTURE_OFF && !sp_graph_times_calls(m->g);
  d->strategy = sp_strdup(m->g->strategy ? m->g->strategy : "serialized");
  d->device = sp_strdup(m->g->device);
  d->capture = sp_strdup(captures[m->capture]);
  if (hidden)
    d->single = sp_text("device '%s' has no times of single calls in a recorded graph; each graph is one slice, and "
                        "capture = off shows its calls",
                        m->g->device);
  return d->strategy && d->device && d->capture && (!hidden || d->single);
}

static bool tell_tasks(const sp_program *p, sp_trace_program *d) {
  d->tasks = sp_calloc(p->n_tasks + 1, sizeof *d->tasks);
  for (; d->tasks && d->n_tasks < p->n_tasks; d->n_tasks++)
    if (!tell_task(p, &p->tasks[d->n_tasks], &d->tasks[d->n_tasks])) return false;
  return d->tasks;
}

int sp_timeline_tell(sp_machine *m, sp_err *err) {
  sp_trace_program d = {0};
  if (!m->g->opts.trace) return SP_OK;
  if (!tell_head(m, &d) || !tell_tasks(m->p, &d) || !tell_waits(m, &d) || !tell_edges(m->p, &d)) {
    sp_trace_program_free(&d);
    return sp_nomem(err, m->p->n_tasks * sizeof *d.tasks, "the trace");
  }
  if (d.single && !m->p->stand_in) sp_log(SP_LOG_WARN, "trace: %s", d.single);
  return sp_trace_add(m->g->opts.trace, &d, &m->traced, err);
}

void sp_timeline_begin(sp_loop *l, uint64_t n) {
  const sp_machine *m = l->m;
  uint64_t warm = (uint64_t)(m->p->sched.depth + m->p->ring + 1); /* until every slot and graph was in use */
  if (m->g->opts.trace)
    sp_trace_begin(m->g->opts.trace, m->traced, m->p->stand_in != NULL, l->first, n, warm, &l->m->watch);
  l->mark = NULL;
  l->left = 0;
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
  if (!c || !sp_trace_wants(&c->m->watch, span->step)) return;
  sp_slice s = slice(c->m, span->worker < 0 ? SP_SLICE_TASK : SP_SLICE_WORKER, c->task->index, span->step, span->begin,
                     span->end);
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
  for (size_t i = 0; i < m->ops.n; i++)
    if (m->ops.op[i].kind == SP_OP_MARK && m->ops.op[i].task == task) return true;
  return false;
}

int sp_timeline_make(sp_machine *m, const sp_task *t, sp_err *err) {
  return has_mark(m, t->index) ? make_marks(m, t->name, &m->posts[t->index].marks, err) : SP_OK;
}

void sp_timeline_free(sp_machine *m, const sp_task *t) { free_marks(m, m->posts[t->index].marks); }

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
  return x->step ? make_marks(m, m->p->lanes[op->lane].props.name, &x->marks, err) : err->status;
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
  sp_mark *marks = marks_of(l->m, l->m->posts[op->task].marks, step);
  if (!sp_trace_wants(&l->m->watch, step)) return SP_OK;
  return set_mark(l, &marks[op->back], op->lane, l->m->p->tasks[op->task].name, err);
}

int sp_timeline_mark_launch(sp_loop *l, const sp_op *op, uint64_t step, int behind, sp_err *err) {
  if (!sp_trace_wants(&l->m->watch, step)) return SP_OK;
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
  void *first; /* of the step's events */
  double first_time;
} reading;

static int read_marks(reading *r, sp_slice_kind kind, int task, const sp_mark *marks, sp_err *err) {
  double begin, end;
  int st;
  if ((st = moment(r->l, &marks[0], &begin, err)) || (st = moment(r->l, &marks[1], &end, err))) return st;
  sp_timeline_host(r->l, kind, task, r->step, begin, end);
  if (!r->first) r->first = marks[0].event, r->first_time = begin;
  return SP_OK;
}

static int read_all(reading *r, sp_err *err) {
  const sp_machine *m = r->l->m;
  int st = SP_OK;
  for (size_t i = 0; i < m->p->n_tasks && !st; i++) {
    const sp_task *t = &m->p->tasks[i];
    const sp_mark *marks = marks_of(m, m->posts[i].marks, r->step);
    if (marks && r->step % (uint64_t)t->every == (uint64_t)t->phase)
      st = read_marks(r, SP_SLICE_TASK, (int)i, marks, err);
  }
  for (int i = 0; i < m->ops.n_launch && !st; i++) {
    const sp_launched *x = &m->launched[i];
    bool was = x->step[r->step % (uint64_t)m->p->ring] == r->step + 1;
    if (was) st = read_marks(r, SP_SLICE_SEGMENT, x->task, marks_of(m, x->marks, r->step), err);
  }
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
