/* SPDX-License-Identifier: MIT
 * check_abi.c - freezes size and layout of every public struct, on machines with 64-bit pointers. A difference here
 * means that plugins that were built before no longer fit: raise SP_ABI, or put the new member at the end. */
#include <check.h>
#include <stdlib.h>

#include <spcore/comm.h>
#include <spcore/device.h>
#include <spcore/ext/choices.h>
#include <spcore/ext/counters.h>
#include <spcore/ext/cuda.h>
#include <spcore/ext/parallel.h>
#include <spcore/ext/precision.h>
#include <spcore/ext/ranges.h>
#include <spcore/ext/times.h>
#include <spcore/format.h>
#include <spcore/plugin.h>
#include <spcore/rng.h>

#include "tests/kit/suite.h"

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), "the size of " #type " is frozen")
#define AT(type, member, bytes) \
  _Static_assert(offsetof(type, member) == (bytes), "the place of " #member " in " #type " is frozen")

#if UINTPTR_MAX == UINT64_MAX
SIZE(sp_spec, 88);
AT(sp_spec, dtype, 0);
AT(sp_spec, ndim, 4);
AT(sp_spec, shape, 8);
AT(sp_spec, order, 72);
AT(sp_spec, reserved, 76);

SIZE(sp_tensor, 96);
AT(sp_tensor, spec, 0);
AT(sp_tensor, data, 88);

SIZE(sp_list, 16);
AT(sp_list, n, 0);
AT(sp_list, reserved, 4);
AT(sp_list, t, 8);

SIZE(sp_host, 32);
AT(sp_host, size, 0);
AT(sp_host, abi, 4);
AT(sp_host, fail, 8);
AT(sp_host, log, 16);
AT(sp_host, get_extension, 24);

SIZE(sp_ctx, 32);
AT(sp_ctx, size, 0);
AT(sp_ctx, reserved, 4);
AT(sp_ctx, host, 8);
AT(sp_ctx, stream, 16);
AT(sp_ctx, impl, 24);

SIZE(sp_ints, 16);
AT(sp_ints, v, 0);
AT(sp_ints, n, 8);
AT(sp_ints, reserved, 12);

SIZE(sp_floats, 16);
AT(sp_floats, v, 0);
AT(sp_floats, n, 8);
AT(sp_floats, reserved, 12);

SIZE(sp_structs, 16);
AT(sp_structs, v, 0);
AT(sp_structs, n, 8);
AT(sp_structs, reserved, 12);

SIZE(sp_param, 144);
AT(sp_param, name, 0);
AT(sp_param, type, 8);
AT(sp_param, flags, 12);
AT(sp_param, offset, 16);
AT(sp_param, def, 24);
AT(sp_param, min, 32);
AT(sp_param, max, 40);
AT(sp_param, idef, 48);
AT(sp_param, imin, 56);
AT(sp_param, imax, 64);
AT(sp_param, def_str, 72);
AT(sp_param, choices, 80);
AT(sp_param, unit, 88);
AT(sp_param, doc, 96);
AT(sp_param, fields, 104);
AT(sp_param, fields_size, 112);
AT(sp_param, min_n, 120);
AT(sp_param, max_n, 124);
AT(sp_param, old, 128);
AT(sp_param, reserved, 136);

SIZE(sp_port, 48);
AT(sp_port, name, 0);
AT(sp_port, dtypes, 8);
AT(sp_port, ndim, 12);
AT(sp_port, flags, 16);
AT(sp_port, reserved0, 20);
AT(sp_port, doc, 24);
AT(sp_port, reserved, 32);

SIZE(sp_weight, 128);
AT(sp_weight, name, 0);
AT(sp_weight, spec, 8);
AT(sp_weight, flags, 96);
AT(sp_weight, init, 100);
AT(sp_weight, init_value, 104);
AT(sp_weight, part, 112);
AT(sp_weight, of, 116);
AT(sp_weight, reserved, 120);

SIZE(sp_attr, 40);
AT(sp_attr, name, 0);
AT(sp_attr, value, 8);
AT(sp_attr, text, 16);
AT(sp_attr, item, 24);
AT(sp_attr, reserved, 32);

SIZE(sp_speclist, 16);
AT(sp_speclist, n, 0);
AT(sp_speclist, cap, 4);
AT(sp_speclist, spec, 8);

SIZE(sp_factor, 104);
AT(sp_factor, spec, 0);
AT(sp_factor, forward, 88);
AT(sp_factor, part, 92);
AT(sp_factor, early, 96);
AT(sp_factor, reserved, 100);

SIZE(sp_plan, 216);
AT(sp_plan, size, 0);
AT(sp_plan, training, 4);
AT(sp_plan, n_in, 8);
AT(sp_plan, n_out, 12);
AT(sp_plan, batch, 16);
AT(sp_plan, frozen, 24);
AT(sp_plan, reserved0, 28);
AT(sp_plan, in, 32);
AT(sp_plan, out, 40);
AT(sp_plan, weights, 48);
AT(sp_plan, n_weights, 56);
AT(sp_plan, n_attrs, 60);
AT(sp_plan, attrs, 64);
AT(sp_plan, scratch_bytes, 72);
AT(sp_plan, saved_bytes, 80);
AT(sp_plan, length, 88);
AT(sp_plan, inplace, 96);
AT(sp_plan, restores, 100);
AT(sp_plan, request_max, 104);
AT(sp_plan, stepless, 112);
AT(sp_plan, averages, 116);
AT(sp_plan, max_parts, 120);
AT(sp_plan, n_parts, 124);
AT(sp_plan, part_bytes, 128);
AT(sp_plan, shards, 136);
AT(sp_plan, n_factors, 140);
AT(sp_plan, factors, 144);
AT(sp_plan, const_bytes, 152);
AT(sp_plan, slices, 160);
AT(sp_plan, slice, 164);
AT(sp_plan, separate, 168);
AT(sp_plan, grouped, 172);
AT(sp_plan, groups, 176);
AT(sp_plan, group_of, 184);
AT(sp_plan, n_groups, 192);
AT(sp_plan, n_phases, 196);
AT(sp_plan, draw, 200);
AT(sp_plan, repeats, 208);

SIZE(sp_group, 24);
AT(sp_group, lr, 0);
AT(sp_group, decay, 8);
AT(sp_group, phase, 16);

SIZE(sp_step, 96);
AT(sp_step, step, 0);
AT(sp_step, epoch, 8);
AT(sp_step, key, 16);
AT(sp_step, n, 24);
AT(sp_step, training, 28);
AT(sp_step, live, 32);
AT(sp_step, loss_scale, 64);
AT(sp_step, batch, 68);
AT(sp_step, shard, 72);
AT(sp_step, reserved, 76);

SIZE(sp_io, 176);
AT(sp_io, size, 0);
AT(sp_io, training, 4);
AT(sp_io, step, 8);
AT(sp_io, ids, 16);
AT(sp_io, n_in, 24);
AT(sp_io, n_out, 28);
AT(sp_io, n_weights, 32);
AT(sp_io, reserved0, 36);
AT(sp_io, in, 40);
AT(sp_io, out, 48);
AT(sp_io, dout, 56);
AT(sp_io, din, 64);
AT(sp_io, din_acc, 72);
AT(sp_io, weights, 80);
AT(sp_io, dweights, 88);
AT(sp_io, dw_acc, 96);
AT(sp_io, part, 100);
AT(sp_io, dw_scale, 104);
AT(sp_io, scratch, 112);
AT(sp_io, saved, 120);
AT(sp_io, factors, 128);
AT(sp_io, n_factors, 136);
AT(sp_io, reserved1, 140);
AT(sp_io, consts, 144);
AT(sp_io, sums, 152);
AT(sp_io, sum_at, 160);
AT(sp_io, n_sums, 168);

SIZE(sp_stage_type, 136);
AT(sp_stage_type, size, 0);
AT(sp_stage_type, flags, 4);
AT(sp_stage_type, name, 8);
AT(sp_stage_type, device, 16);
AT(sp_stage_type, doc, 24);
AT(sp_stage_type, inputs, 32);
AT(sp_stage_type, outputs, 40);
AT(sp_stage_type, params, 48);
AT(sp_stage_type, params_size, 56);
AT(sp_stage_type, status_doc, 64);
AT(sp_stage_type, create, 72);
AT(sp_stage_type, destroy, 80);
AT(sp_stage_type, plan, 88);
AT(sp_stage_type, prepare, 96);
AT(sp_stage_type, forward, 104);
AT(sp_stage_type, backward, 112);
AT(sp_stage_type, apply, 120);
AT(sp_stage_type, survey, 128);

SIZE(sp_plugin, 72);
AT(sp_plugin, size, 0);
AT(sp_plugin, abi, 4);
AT(sp_plugin, name, 8);
AT(sp_plugin, version, 16);
AT(sp_plugin, license, 24);
AT(sp_plugin, doc, 32);
AT(sp_plugin, stages, 40);
AT(sp_plugin, devices, 48);
AT(sp_plugin, formats, 56);
AT(sp_plugin, comms, 64);

SIZE(sp_device_info, 288);
AT(sp_device_info, size, 0);
AT(sp_device_info, reserved, 4);
AT(sp_device_info, name, 8);
AT(sp_device_info, detail, 104);
AT(sp_device_info, units, 264);
AT(sp_device_info, copy_engines, 268);
AT(sp_device_info, memory, 272);
AT(sp_device_info, free_memory, 280);

SIZE(sp_device_type, 224);
AT(sp_device_type, size, 0);
AT(sp_device_type, flags, 4);
AT(sp_device_type, name, 8);
AT(sp_device_type, doc, 16);
AT(sp_device_type, count, 24);
AT(sp_device_type, describe, 32);
AT(sp_device_type, open, 40);
AT(sp_device_type, close, 48);
AT(sp_device_type, alloc, 56);
AT(sp_device_type, free, 64);
AT(sp_device_type, stream_open, 72);
AT(sp_device_type, stream_close, 80);
AT(sp_device_type, stream_submit, 88);
AT(sp_device_type, stream_wait, 96);
AT(sp_device_type, stream_copy, 104);
AT(sp_device_type, stream_sync, 112);
AT(sp_device_type, stream_native, 120);
AT(sp_device_type, event_open, 128);
AT(sp_device_type, event_close, 136);
AT(sp_device_type, event_record, 144);
AT(sp_device_type, event_query, 152);
AT(sp_device_type, event_sync, 160);
AT(sp_device_type, event_elapsed, 168);
AT(sp_device_type, capture_begin, 176);
AT(sp_device_type, capture_end, 184);
AT(sp_device_type, graph_launch, 192);
AT(sp_device_type, graph_close, 200);
AT(sp_device_type, extension, 208);
AT(sp_device_type, stream_hash, 216);

SIZE(sp_entry, 104);
AT(sp_entry, name, 0);
AT(sp_entry, spec, 8);
AT(sp_entry, data, 96);

SIZE(sp_meta, 16);
AT(sp_meta, key, 0);
AT(sp_meta, value, 8);

SIZE(sp_format_type, 72);
AT(sp_format_type, size, 0);
AT(sp_format_type, flags, 4);
AT(sp_format_type, name, 8);
AT(sp_format_type, extension, 16);
AT(sp_format_type, doc, 24);
AT(sp_format_type, open, 32);
AT(sp_format_type, entries, 40);
AT(sp_format_type, read, 48);
AT(sp_format_type, close, 56);
AT(sp_format_type, write, 64);

SIZE(sp_comm_boot, 48);
AT(sp_comm_boot, size, 0);
AT(sp_comm_boot, rank, 4);
AT(sp_comm_boot, ranks, 8);
AT(sp_comm_boot, local_rank, 12);
AT(sp_comm_boot, local_ranks, 16);
AT(sp_comm_boot, reserved, 20);
AT(sp_comm_boot, job, 24);
AT(sp_comm_boot, impl, 32);
AT(sp_comm_boot, exchange, 40);

SIZE(sp_comm_gather, 24);
AT(sp_comm_gather, dst, 0);
AT(sp_comm_gather, src, 8);
AT(sp_comm_gather, each, 16);

SIZE(sp_comm_type, 112);
AT(sp_comm_type, size, 0);
AT(sp_comm_type, flags, 4);
AT(sp_comm_type, name, 8);
AT(sp_comm_type, device, 16);
AT(sp_comm_type, doc, 24);
AT(sp_comm_type, open, 32);
AT(sp_comm_type, close, 40);
AT(sp_comm_type, abort, 48);
AT(sp_comm_type, alloc, 56);
AT(sp_comm_type, free, 64);
AT(sp_comm_type, all_to_all, 72);
AT(sp_comm_type, all_gather, 80);
AT(sp_comm_type, broadcast, 88);
AT(sp_comm_type, poll, 96);
AT(sp_comm_type, all_gather_list, 104);

SIZE(sp_parallel, 24);
AT(sp_parallel, size, 0);
AT(sp_parallel, reserved, 4);
AT(sp_parallel, threads, 8);
AT(sp_parallel, run, 16);

SIZE(sp_precision, 8);
AT(sp_precision, size, 0);
AT(sp_precision, precision, 4);

SIZE(sp_counters, 32);
AT(sp_counters, size, 0);
AT(sp_counters, n, 4);
AT(sp_counters, names, 8);
AT(sp_counters, open, 16);
AT(sp_counters, read, 24);

SIZE(sp_ranges, 24);
AT(sp_ranges, size, 0);
AT(sp_ranges, reserved, 4);
AT(sp_ranges, push, 8);
AT(sp_ranges, pop, 16);

SIZE(sp_choice, 384);
AT(sp_choice, key, 0);
AT(sp_choice, value, 192);

SIZE(sp_choices, 24);
AT(sp_choices, size, 0);
AT(sp_choices, reserved, 4);
AT(sp_choices, taken, 8);
AT(sp_choices, hold, 16);

SIZE(sp_times_span, 40);
AT(sp_times_span, launch, 0);
AT(sp_times_span, call, 8);
AT(sp_times_span, begin, 16);
AT(sp_times_span, end, 24);
AT(sp_times_span, what, 32);

SIZE(sp_times, 56);
AT(sp_times, size, 0);
AT(sp_times, reserved, 4);
AT(sp_times, open, 8);
AT(sp_times, begin, 16);
AT(sp_times, call, 24);
AT(sp_times, launch, 32);
AT(sp_times, read, 40);
AT(sp_times, close, 48);

SIZE(sp_cuda, 88);
AT(sp_cuda, size, 0);
AT(sp_cuda, device, 4);
AT(sp_cuda, capability, 8);
AT(sp_cuda, multiprocessors, 12);
AT(sp_cuda, l2_bytes, 16);
AT(sp_cuda, shared_bytes, 24);
AT(sp_cuda, workspace_bytes, 32);
AT(sp_cuda, cublas, 40);
AT(sp_cuda, cublaslt, 48);
AT(sp_cuda, cudnn, 56);
AT(sp_cuda, workspace, 64);
AT(sp_cuda, tuned, 72);
AT(sp_cuda, set_tuned, 80);
#endif

/* Values that lie in files and in compiled plugins. */
START_TEST(numbers_are_frozen) {
  ck_assert_uint_eq(SP_ABI, 17); /* 0.17 */
  const int dtypes[] = {SP_U8, SP_I8, SP_I32, SP_I64, SP_F16, SP_BF16, SP_F32, SP_F64};
  for (int i = 0; i < 8; i++) ck_assert_int_eq(dtypes[i], i + 1);
  const int params[] = {SP_PARAM_BOOL,   SP_PARAM_INT,  SP_PARAM_FLOAT,  SP_PARAM_STRING,
                        SP_PARAM_CHOICE, SP_PARAM_INTS, SP_PARAM_FLOATS, SP_PARAM_LIST};
  for (int i = 0; i < 8; i++) ck_assert_int_eq(params[i], i + 1);
  ck_assert_int_eq(SP_E_INVALID, -1);
  ck_assert_int_eq(SP_E_INTERNAL, -16);
  ck_assert_int_eq(SP_MAX_DIMS, 8);
  ck_assert_int_eq(SP_MAX_LIVE, 8);
  ck_assert_int_eq(SP_CHANNELS_LAST, 0x0231);
}
END_TEST

/* The published test vector of Philox 4x32-10 for a counter and a key of zero. */
START_TEST(random_numbers_are_frozen) {
  sp_rng4 r = sp_rng(0, 0, 0);
  ck_assert_uint_eq(r.v[0], 0x6627e8d5u);
  ck_assert_uint_eq(r.v[1], 0xe169c58du);
  ck_assert_uint_eq(r.v[2], 0xbc57ac4cu);
  ck_assert_uint_eq(r.v[3], 0x9b00dbd8u);
}
END_TEST

int main(void) {
  Suite *s = suite_create("abi");
  TCase *tc = tcase_create("abi");
  tcase_add_test(tc, numbers_are_frozen);
  tcase_add_test(tc, random_numbers_are_frozen);
  suite_add_tcase(s, tc);
  return suite_run(s);
}
