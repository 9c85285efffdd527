/* SPDX-License-Identifier: MIT
 * pair.h - a stage that is two modules: NAME.so for the processor and NAME_cuda.so for CUDA. */
#ifndef KITS_PAIR_H
#define KITS_PAIR_H

#include <spcore/plugin.h>

/* What both twins have, in the stage's header: its name, flags, words about the module,
 * and members of its sp_stage_type.
 *
 *   #define ADD_PAIR SP_STAGE_PAIR(add, SP_STAGE_REENTRANT, "Sum of tensors", .doc = ..., .plan = add_plan)
 *
 * Behind it each twin has its own callbacks: SP_STAGE_CPU(ADD_PAIR, .forward = forward);
 * That for CUDA is CAPTURABLE too. */
#define SP_STAGE_PAIR(...) __VA_ARGS__
#define SP_STAGE_CPU(...) SP_STAGE_TWIN("cpu", "", 0, "", __VA_ARGS__)
#define SP_STAGE_CUDA(...) SP_STAGE_TWIN("cuda", "_cuda", SP_STAGE_CAPTURABLE, ", on CUDA", __VA_ARGS__)

#define SP_STAGE_TWIN(where, suffix, also, on, id, common_flags, words, ...)                                       \
  static const sp_stage_type id##_type = {                                                                         \
      .size = sizeof(sp_stage_type), .flags = (common_flags) | (also), .name = #id, .device = where, __VA_ARGS__}; \
  static const sp_stage_type *const stages[] = {&id##_type, NULL};                                                 \
  SP_PLUGIN(#id suffix, words on, stages)

#endif
