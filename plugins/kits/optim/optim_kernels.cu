/* SPDX-License-Identifier: MIT
 * optim_kernels.cu - the gradient norm of a list of tensors in two phases, and what an update must know beforehand. */
#include "optim_device.cuh"

static __global__ void squares(const opk_table t, double *part) {
  opk_share s = opk_share_of(t);
  double sum = 0;
  for (int i = threadIdx.x; i < s.n; i += OPK_THREADS) sum += (double)s.g[i] * s.g[i];
  sum = opk_block_sum(sum);
  if (threadIdx.x == 0) part[t.base + blockIdx.x] = sum;
}

/* What groups do not differ in. */
static __device__ opk_head common(const opk_rules &r, double sum) {
  opk_head h = {};
  float norm = (float)sqrt(sum);
  bool bad = !(sum < 1e300); /* NaN too; squares of floats can't overflow a double */
  h.clip = 1;
  if (r.clip_norm > 0) {
    float f = (float)r.clip_norm / (norm + 1e-6f);
    h.clip = f > 1 ? 1 : f;
  }
  if (r.norm) *r.norm = norm;

  if (r.first) r.status[0] = r.status[1] = r.status[2] = r.status[3] = 0;
  if (bad && !r.limit) { /* of slices the update sees its own */
    r.status[0] = SP_E_DATA;
    r.status[2] = r.status[3] = 1;
  }
  if (r.limit) {
    h.skip = bad;
    *r.skipped = bad;
    *r.in_a_row = bad ? *r.in_a_row + 1 : 0;
    if (*r.in_a_row >= r.limit) {
      r.status[0] = SP_E_DATA;
      r.status[2] = *r.in_a_row;
      r.status[3] = r.limit;
    }
  }
  return h;
}

/* The number of the update, from 1, which its first call counts; 0 where nobody does, or it is skipped. */
static __device__ int64_t count_update(const opk_rules &r, const opk_head &h) {
  if (!r.count || h.skip) return 0;
  for (uint32_t k = 0; r.later && k < r.n_later; k++)
    if (r.first) r.later[k] += r.begun >> k & 1;
  return *r.count += r.first;
}

static __device__ void set_group(const opk_rules &r, const sp_group &group, int64_t count, opk_head *h) {
  double lr = r.step->live[0] * group.lr, decay = r.weight_decay * group.decay;
  h->lr = (float)lr;
  h->decay = (float)decay;
  if (!count) return;
  h->first = count == 1;
  h->keep = count > 1 ? (float)(1 - r.dampening) : 1.0f;
  h->shrink = (float)(1 - lr * decay);
  h->rate = (float)(lr / (1 - pow(r.b1, (double)count)));
  h->root = (float)sqrt(1 - pow(r.b2, (double)count));
  h->aux_shrink = (float)(1 - lr * r.aux_lr * decay);
  h->aux_rate = (float)(lr * r.aux_lr / (1 - pow(r.b1, (double)count)));
  h->bias = (float)(1 - pow(r.b1, (double)count));
}

static __global__ void begin(const opk_rules r) {
  __shared__ opk_head h;
  __shared__ int64_t count;
  double sum = 0;
  for (int64_t i = threadIdx.x; i < r.parts; i += OPK_THREADS) sum += r.part[r.part_at ? r.part_at[i] : i];
  sum = opk_block_sum(sum);
  if (threadIdx.x == 0) {
    h = common(r, sum);
    count = count_update(r, h);
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < r.n_groups; i += OPK_THREADS) {
    opk_head own = h;
    uint32_t phase = r.group[i].phase;
    set_group(r, r.group[i], phase && count ? r.later[phase - 1] : count, &own);
    r.head[i] = own;
  }
}

/* As torch.lerp: from the nearer end. */
static __global__ void average(const opk_table t, float weight, const opk_head *head) {
  if (head->skip) return;
  opk_share s = opk_share_of(t);
  for (int i = threadIdx.x; i < s.n; i += OPK_THREADS) {
    float p = s.p[i], e = s.m[0][i], d = __fsub_rn(p, e);
    s.m[0][i] = head[s.group].first ? p
                : weight < 0.5f     ? __fmaf_rn(weight, d, e)
                                    : __fmaf_rn(__fsub_rn(weight, 1), d, p);
  }
}

/* One block a tensor: statistics are small. */
static __global__ void keep(const opk_kept list, const opk_head *head) {
  int64_t bytes = list.bytes[blockIdx.x], words = 0;
  char *now = (char *)list.now[blockIdx.x], *kept = (char *)list.kept[blockIdx.x];
  char *to = head->skip ? now : kept;
  const char *from = head->skip ? kept : now;
  if (((uintptr_t)now | (uintptr_t)kept) % sizeof(uint32_t) == 0) words = bytes / (int64_t)sizeof(uint32_t);
  for (int64_t i = threadIdx.x; i < words; i += OPK_THREADS) ((uint32_t *)to)[i] = ((const uint32_t *)from)[i];
  for (int64_t i = words * (int64_t)sizeof(uint32_t) + threadIdx.x; i < bytes; i += OPK_THREADS) to[i] = from[i];
}

int opk_squares(void *stream, const opk_table *t, double *part) {
  if (t->first[t->n]) SP_LAUNCH(squares, t->first[t->n], OPK_THREADS, 0, stream, *t, part);
  return cudaPeekAtLastError();
}

int opk_average(void *stream, const opk_table *t, float weight, const opk_head *head) {
  if (t->first[t->n]) SP_LAUNCH(average, t->first[t->n], OPK_THREADS, 0, stream, *t, weight, head);
  return cudaPeekAtLastError();
}

int opk_begin(void *stream, const opk_rules *r) {
  SP_LAUNCH(begin, 1, OPK_THREADS, 0, stream, *r);
  return cudaPeekAtLastError();
}

int opk_keep(void *stream, const opk_kept *list, const opk_head *head) {
  if (list->n) SP_LAUNCH(keep, list->n, OPK_THREADS, 0, stream, *list, head);
  return cudaPeekAtLastError();
}
