// SPDX-License-Identifier: MIT
// negate.cc - the same stage in C++17: members are set by name, once, when the module is loaded.
#define SP_PLUGIN_VERSION "1.0"
#define SP_PLUGIN_LICENSE "MIT"
#include <spcore/plugin.h>

#include <new>

namespace {

struct Params {
  double gain;
};

struct Negate {
  double gain;
};

int create(sp_ctx *ctx, const void *params, void **self) {
  auto *stage = new (std::nothrow) Negate{static_cast<const Params *>(params)->gain};
  if (!stage) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory");
  *self = stage;
  return SP_OK;
}

void destroy(void *self) { delete static_cast<Negate *>(self); }

int plan(sp_ctx *, void *, sp_plan *p) {
  p->out[0].spec[0] = p->in[0].spec[0];
  p->out[0].spec[0].order = SP_ROW_MAJOR;
  p->out[0].n = 1;
  return SP_OK;
}

int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const sp_tensor &x = io->in[0].t[0], &y = io->out[0].t[0];
  int64_t n = 1;
  if (x.spec.order != SP_ROW_MAJOR) return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "only row-major input");
  for (int i = 0; i < x.spec.ndim; i++) n *= x.spec.shape[i];
  const auto gain = static_cast<float>(static_cast<Negate *>(self)->gain);
  for (int64_t i = 0; i < n; i++) static_cast<float *>(y.data)[i] = -gain * static_cast<const float *>(x.data)[i];
  return SP_OK;
}

sp_port port(const char *name, const char *doc) {
  sp_port p{};
  p.name = name;
  p.dtypes = SP_DT(SP_F32);
  p.ndim = -1;
  p.doc = doc;
  return p;
}

sp_param gain_param() {
  sp_param p{};
  p.name = "gain";
  p.type = SP_PARAM_FLOAT;
  p.offset = offsetof(Params, gain);
  p.def = 1;
  p.doc = "factor";
  return p;
}

const sp_port inputs[] = {port("x", "what to negate"), {}};
const sp_port outputs[] = {port("y", "gain times -x"), {}};
const sp_param params[] = {gain_param(), {}};

sp_stage_type stage_type() {
  sp_stage_type t{};
  t.size = sizeof t;
  t.name = "negate_cc";
  t.device = "cpu";
  t.doc = "Negates and scales";
  t.inputs = inputs;
  t.outputs = outputs;
  t.params = params;
  t.params_size = sizeof(Params);
  t.create = create;
  t.destroy = destroy;
  t.plan = plan;
  t.forward = forward;
  return t;
}

const sp_stage_type negate = stage_type();
const sp_stage_type *const stages[] = {&negate, nullptr};

} // namespace

SP_PLUGIN("negate_cc", "A stage outside the tree, in C++", stages);
