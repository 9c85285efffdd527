/* SPDX-License-Identifier: MIT
 * vec.h - the vector loops of the CPU layers, and how they are spread over threads. */
#ifndef NN_CPU_VEC_H
#define NN_CPU_VEC_H

#include <spcore/ext/parallel.h>

/* Compiled for several instruction sets, chosen when the module is loaded by what the processor can do: "arch=skylake"
 * and the like would choose by who made it. Sanitizers' runtimes are not up yet when the choice is made,
 * so not under them. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__gnu_linux__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(NN_ONE_TARGET)
#define NN_VEC __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define NN_VEC
#endif

/* Row blocks [rows][c], dense. */
/* y += bias[(first + j) % period] + plus, each of which may be NULL; plus lies as y does. */
void nn_bias_relu(float *y, const float *bias, const float *plus, int64_t rows, int64_t c, int64_t period,
                  int64_t first, int64_t ld, int relu);
void nn_relu(float *y, const float *x, int64_t n);
void nn_mask(float *d, const float *y, int64_t n); /* d = y > 0 ? d : 0 */
void nn_mask_to(float *d, const float *g, const float *y, int64_t n, int acc);
void nn_axpy(float *d, const float *s, float alpha, float beta, int64_t n);    /* d = beta d + alpha s */
void nn_give(float *d, const float *g, const float *mask, int64_t n, int acc); /* mask NULL: none */
void nn_add(float *d, const float *a, const float *b, int64_t n, int relu);
void nn_colsum(float *sum, const float *x, int64_t rows, int64_t c); /* overwrites sum */
void nn_stats(double *sum, double *sq, const float *x, int64_t rows, int64_t c);
void nn_stats_back(double *sum, double *dot, const float *dy, const float *x, const float *mean, const float *invstd,
                   int64_t rows, int64_t c);
void nn_scale_shift(float *y, const float *x, const float *scale, const float *shift, int64_t rows, int64_t c,
                    int relu);
void nn_norm_back(float *dx, const float *dy, const float *x, const float *a, const float *b, const float *e,
                  int64_t rows, int64_t c, int acc); /* dx = a dy + b x + e, per channel */

/* Products with few rows, bound by reading w once. y[m][n] (ldy) = x[m][k] w[n][k], rows n0..n1 of w. */
void nn_skinny(float *y, const float *x, const float *w, int64_t m, int64_t n0, int64_t n1, int64_t k, int64_t ldy);

/* ---- threads ----------------------------------------------------------------------------------------------------- */
typedef struct nn_par {
  sp_ctx *ctx;
  const sp_parallel *ext; /* NULL: none */
  int threads;
} nn_par;

nn_par nn_par_of(sp_ctx *ctx);
int nn_run(const nn_par *p, int64_t n, int (*fn)(void *arg, int64_t i, int worker), void *arg);

/* The part [*b, *e) of 0..n that piece i of `pieces` does; boundaries are multiples of `unit`. */
void nn_piece(int64_t n, int64_t unit, int64_t pieces, int64_t i, int64_t *b, int64_t *e);

#endif
