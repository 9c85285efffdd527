/* SPDX-License-Identifier: MIT
 * collect.c - a step is over: its metrics, statuses and checksums become the result that a script sees. */
#include "run/loop.h"

#include <inttypes.h>
#include <math.h>

#include "base/cure.h"

static uint64_t step_of(const sp_loop *l, uint64_t pass) { return pass / (uint64_t)l->m->p->micro; }

static int check_status(const sp_metric_slot *m, const int64_t *v, uint64_t step, sp_err *err) {
  sp_sb sb = {0};
  if (!v[0]) return SP_OK;
  sp_status_text(m->node->inst->type, v, &sb);
  sp_fail(err, SP_E_DATA, "stage '%s' step %" PRIu64 ": %s", m->node->name, sp_step_said(step), sp_sb_str(&sb));
  sp_sb_free(&sb);
  sp_cure_words(err->msg, sizeof err->msg, m->node->inst->type->name);
  return err->status;
}

void sp_collect_suspect(const sp_loop *l, sp_err *err) {
  const sp_graph *g = l->m->g;
  sp_sb sb = {0};
  if (err->status != SP_E_DEVICE || !g->border || g->sync) return;
  for (size_t i = 0; i < g->n_nodes; i++) {
    const sp_node *n = g->nodes[i];
    if (!n->on_cpu && sp_program_has(l->m->p, n)) sp_sb_putf(&sb, "%s'%s'", sb.n ? ", " : "", n->name);
  }
  sp_prefix(err,
            "device '%s' failed in step %" PRIu64 "%s or a later one, in one of the stages %s (SPCORE_SYNC=1 finds out "
            "which)",
            g->opts.device, sp_step_said(step_of(l, l->delivered)), l->m->p->training ? "" : " of an evaluation",
            sp_sb_str(&sb));
  sp_sb_free(&sb);
}

sp_metric sp_metric_of(const sp_metric_slot *s, const void *data) {
  const sp_port *port = sp_node_out_port(s->node, (unsigned)s->port);
  return (sp_metric){.name = s->name,
                     .node = s->node->name,
                     .port = port->name,
                     .flags = port->flags,
                     .spec = s->node->out_specs[s->port].spec[s->index],
                     .data = data,
                     .result = s->result};
}

void sp_result_weigh(sp_result *res, sp_metric *metrics) {
  size_t n = 0;
  for (size_t i = 0; i < res->n_metrics; i++) {
    metrics[i].weight = res->n;
    for (size_t k = 0; k < res->n_metrics; k++)
      if (metrics[k].flags & SP_PORT_TOTAL && metrics[k].node == metrics[i].node)
        metrics[i].weight = *(const double *)metrics[k].data;
  }
  for (size_t i = 0; i < res->n_metrics; i++)
    if (!(metrics[i].flags & SP_PORT_TOTAL)) metrics[n++] = metrics[i];
  res->metrics = metrics;
  res->n_metrics = n;
}

static bool updates(const sp_loop *l, uint64_t step) {
  return step % (uint64_t)l->m->g->train.accumulate == (uint64_t)l->m->g->train.accumulate - 1;
}

/* What a stage says of its data is a failure of this step, the optimizer's words behind those of others, whose
 * gradients it has; several ranks first tell each other. */
static int collect_metrics(sp_loop *l, uint64_t step, const sp_known *known, sp_pass_told *told, sp_err *err) {
  sp_machine *m = l->m;
  const sp_program *p = m->p;
  size_t k = 0;
  for (size_t i = 0; i < p->n_metrics; i++) {
    const sp_metric_slot *s = &p->metrics[i];
    const sp_port *port = sp_node_out_port(s->node, (unsigned)s->port);
    const void *data = m->buf[s->seen][step % (uint64_t)p->bufs[s->seen].slots];
    if (s->node->optimizer ? !updates(l, step) : !known->n) continue; /* it did not run */
    if (!(port->flags & SP_PORT_STATUS)) {
      m->shown[k] = sp_metric_of(s, data);
      if (s->result) m->shown[k].spec.shape[0] = l->result.n;
      k++;
    } else if ((!told->bad || told->alike) && check_status(s, data, sp_machine_step(m, step), err)) {
      told->bad = err;
      told->alike = s->node->optimizer;
    }
  }
  if (told->bad && !sp_machine_shares(m)) return sp_failure_keep(&m->failure, step, (int)p->n_tasks, err);
  l->result.metrics = m->shown;
  l->result.n_metrics = k;
  if (!m->shards) sp_result_weigh(&l->result, m->shown);
  return SP_OK;
}

/* Before anything of the step is used again, its requests are answered. */
static void answer_requests(sp_loop *l, uint64_t step, const sp_known *known) {
  sp_machine *m = l->m;
  uint32_t k = 0;
  if (!m->queue || !known->real) return;
  for (size_t i = 0; i < l->result.n_metrics; i++)
    if (l->result.metrics[i].result) {
      m->results[k] = (sp_tensor){l->result.metrics[i].spec, (void *)l->result.metrics[i].data};
      m->result_names[k++] = l->result.metrics[i].name;
    }
  l->open--;
  sp_gate_over(&m->gate, step, sp_now());
  sp_queue_answer(m->queue, m->ids + step % (uint64_t)m->p->ring * m->batch, known->real, step, m->results,
                  m->result_names, k);
}

/* The task that did in this step what t does in another one: its lane's replicas have one each,
 * in the order of steps. */
static const sp_task *of_step(const sp_program *p, const sp_task *t, uint64_t step) {
  int want = (int)(step % (uint64_t)p->lanes[t->lane].props.replicas);
  while (t->phase != want || !t->node) t++;
  return t;
}

static void collect_hashes(sp_loop *l, uint64_t step) {
  const sp_machine *m = l->m;
  for (size_t k = 0; k < m->n_hashes; k++) {
    const sp_task *t = &m->p->tasks[m->hash_of[k].task];
    size_t j = m->hash_of[k].j;
    if (m->p->lanes[t->lane].props.replicas > 1) t = of_step(m->p, t, step);
    const sp_post *post = &m->posts[t->index];
    bool ran = (l->result.n || t->always) && step % (uint64_t)t->every == (uint64_t)t->phase;
    m->hashes[k] = (sp_hash){post->hashes[j].name, ran ? post->calls[step % (uint64_t)m->p->ring].hash[j] : 0};
  }
  l->result.hashes = m->hashes;
  l->result.n_hashes = m->n_hashes;
  l->result.absent = (const char *const *)m->absent;
  l->result.n_absent = m->n_absent;
}

static int add_shard(sp_loop *l, uint64_t pass, sp_pass_told *told, sp_err *err) {
  told->end = l->end == UINT64_MAX ? l->end : step_of(l, l->end);
  told->asked = l->asks ? l->asks(l->asks_arg) : 0;
  return sp_shards_add(l->m->shards, l->m, pass, told, &l->result, err);
}

int sp_collect(sp_loop *l, uint64_t step, sp_err *err) {
  const sp_machine *m = l->m;
  const sp_known *known = &m->known[step % (uint64_t)m->p->ring];
  sp_pass_told told = {0};
  int st = sp_timeline_collect(l, step, err);
  if (st) return st;
  l->result = (sp_result){
      .step = step, .epoch = m->feed.steps ? step / m->feed.steps : 0, .n = known->real, .lr = NAN, .time = sp_now()};
  if (l->end != UINT64_MAX) l->result.of = step_of(l, l->end - l->first) * m->stride;
  if ((known->n || m->shards) && (st = collect_metrics(l, step, known, &told, err))) return st;
  collect_hashes(l, step);
  if (m->p->training && m->g->train.on) {
    l->result.updated = updates(l, step);
    if (l->result.updated) l->lr = known->lr;
    l->result.lr = l->lr;
  }
  if (m->shards && (st = add_shard(l, step, &told, err))) return st;
  l->delivered = step + 1;
  answer_requests(l, step, known);
  return SP_OK;
}
