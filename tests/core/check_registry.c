/* SPDX-License-Identifier: MIT
 * check_registry.c - plugins are found by name, loaded once, and refused in one clear line. */
#include <check.h>
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "device/cpu.h"
#include "host/registry.h"
#include "tests/kit/suite.h"

static const char *plugins = SP_TEST_BUILDDIR "/tests/plugins/.libs";
static char dir[64];
static sp_registry *reg;
static sp_err err;

static void set_up(void) {
  snprintf(dir, sizeof dir, "%s", "/tmp/check_registry.XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(dir));
  ck_assert_int_eq(sp_registry_new(&reg, &err), SP_OK);
}

static const char *in_dir(const char *name) {
  static char path[2][256];
  static int turn;
  turn = !turn;
  snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
  return path[turn];
}

static const char *plugin(const char *name) {
  static char path[512];
  snprintf(path, sizeof path, "%s/%s.so", plugins, name);
  return path;
}

static void tear_down(void) {
  const char *names[] = {"faulty.so", "good.so",    "aaa.so",     "text.so",        "folder.so",
                         "toy.so",    "other.so",   "toy_gpu.so", "toy_mul_gpu.so", "device_gpu.so",
                         "marks",     "toy_mul.so", "toy_two.so"};
  sp_registry_free(reg);
  for (size_t i = 0; i < SP_ARRAY(names); i++) remove(in_dir(names[i]));
  rmdir(dir);
}

static const struct {
  const char *name, *words;
  int status;
} refused[] = {
    {"bad_abi", "bad_abi.so was built for spcore ABI 0.18, this is 0.17: rebuild it against this version's headers",
     SP_E_ABI},
    {"bad_none", "bad_none.so: holds nothing for spcore ABI 0.17: rebuild it against this version's headers", SP_E_ABI},
    {"bad_old", "bad_old.so was built for spcore ABI 0.2, this is 0.17: rebuild it against this version's headers",
     SP_E_ABI},
    {"bad_entry", "bad_entry.so: has no symbol 'spcore_plugin', so it is no spcore plugin", SP_E_FORMAT},
    {"bad_symbol", "bad_symbol.so: unresolved symbol 'sp_test_nowhere': link the library that has it into the plugin",
     SP_E_FORMAT},
    {"bad_callback", "bad_callback.so: stage 'bad': 'forward' is missing", SP_E_INVALID},
    {"bad_comm", "bad_comm.so: communicator 'bad': 'open' is missing", SP_E_INVALID},
    {"bad_table", "bad_table.so: stage 'bad': parameter 'x': bytes 8..16 lie outside the struct of 8 bytes",
     SP_E_INVALID},
    {"bad_port", "bad_port.so: stage 'bad': output 'y' is there twice", SP_E_INVALID},
    {"bad_size", "bad_size.so: stage 1: its size is 16, not ", SP_E_ABI},
    {"not_there", "not_there.so: No such file or directory", SP_E_NOTFOUND},
};

START_TEST(refusals) {
  const sp_plugin_file *f;
  ck_assert_int_eq(sp_registry_load(reg, plugin(refused[_i].name), &f, &err), refused[_i].status);
  ck_assert_msg(strstr(err.msg, refused[_i].words) != NULL, "%s", err.msg);
  ck_assert_ptr_null(strchr(err.msg, '\n'));
  ck_assert_uint_eq(sp_registry_count(reg), 0);
}
END_TEST

/* The file is asked for this host's version, and its answer is the one that counts. */
START_TEST(a_file_may_hold_several_versions) {
  const sp_plugin_file *f;
  ck_assert_msg(sp_registry_load(reg, plugin("good_two"), &f, &err) == SP_OK, "%s", err.msg);
  ck_assert_str_eq(f->plugin.name, "two");
  ck_assert_uint_eq(f->plugin.abi, SP_ABI);
}
END_TEST

START_TEST(what_is_no_library_is_refused) {
  FILE *f = fopen(in_dir("text.so"), "w");
  fputs("this is text\n", f);
  fclose(f);
  ck_assert_int_eq(sp_registry_load(reg, in_dir("text.so"), NULL, &err), SP_E_FORMAT);
  ck_assert_ptr_nonnull(strstr(err.msg, "text.so: not a shared object that can be loaded: "));
  ck_assert_int_eq(mkdir(in_dir("folder.so"), 0700), 0);
  ck_assert_int_eq(sp_registry_load(reg, in_dir("folder.so"), NULL, &err), SP_E_INVALID);
  ck_assert_ptr_nonnull(strstr(err.msg, "folder.so: is a folder"));
}
END_TEST

START_TEST(one_file_is_loaded_once) {
  const sp_plugin_file *a, *b;
  ck_assert_int_eq(symlink(plugin("faulty"), in_dir("faulty.so")), 0);
  ck_assert_int_eq(sp_registry_load(reg, plugin("faulty"), &a, &err), SP_OK);
  ck_assert_int_eq(sp_registry_load(reg, in_dir("faulty.so"), &b, &err), SP_OK);
  ck_assert_ptr_eq(a, b);
  ck_assert_uint_eq(sp_registry_count(reg), 1);
  ck_assert_str_eq(a->plugin.name, "faulty");
  ck_assert_str_eq(a->plugin.version, "1.2");
  ck_assert_uint_ge(a->n_stages, 2);
  ck_assert_int_eq(a->path[0], '/');
}
END_TEST

START_TEST(a_file_leaves_no_floating_point_mode) {
  volatile float small = 1e-30f;
  setenv("SP_TEST_MODE", "1", 1);
  ck_assert_int_eq(sp_registry_load(reg, plugin("faulty"), NULL, &err), SP_OK);
  ck_assert_int_eq(fegetround(), FE_TONEAREST);
  ck_assert(small * 1e-10f > 0);
  unsetenv("SP_TEST_MODE");
}
END_TEST

/* The folder holds a link good.so, so that only that file is opened for the stage `good`. */
START_TEST(a_stage_is_found_by_its_file) {
  const sp_stage_type *t;
  const sp_plugin_file *f;
  ck_assert_int_eq(symlink(plugin("faulty"), in_dir("good.so")), 0);
  ck_assert_int_eq(symlink(plugin("bad_abi"), in_dir("aaa.so")), 0);
  ck_assert_int_eq(sp_registry_add_dir(reg, "/nowhere/at/all", &err), SP_OK);
  ck_assert_int_eq(sp_registry_add_dir(reg, dir, &err), SP_OK);
  ck_assert_int_eq(sp_registry_stage(reg, "good", "cpu", &t, &f, &err), SP_OK);
  ck_assert_str_eq(t->name, "good");
  ck_assert_ptr_eq(f, sp_registry_at(reg, 0));
  /* no_words.so is not there, but the file that has it is loaded */
  ck_assert_int_eq(sp_registry_stage(reg, "no_words", "cpu", &t, &f, &err), SP_OK);
}
END_TEST

/* A copy, no link: each is opened for itself, and runs its constructor. */
static void put_toy(const char *name) {
  char command[1024];
  snprintf(command, sizeof command, "cp '%s' '%s'", plugin("toy"), in_dir(name));
  ck_assert_int_eq(system(command), 0);
}

/* The files whose constructors ran, in order, a space behind each. */
static const char *opened(void) {
  static char text[256];
  FILE *f = fopen(in_dir("marks"), "r");
  size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
  text[n] = 0;
  if (f) fclose(f);
  for (char *p = text; *p; p++)
    if (*p == '\n') *p = ' ';
  return text;
}

static void put_toys(void) {
  setenv("SP_TEST_MARKS", in_dir("marks"), 1);
  put_toy("toy.so");
  put_toy("other.so");
  put_toy("toy_mul_gpu.so");
  put_toy("device_gpu.so");
  ck_assert_int_eq(sp_registry_add_dir(reg, dir, &err), SP_OK);
}

START_TEST(a_lookup_opens_what_its_name_says) {
  const sp_stage_type *t;
  const sp_plugin_file *f;
  put_toys();
  ck_assert_int_eq(sp_registry_stage(reg, "toy_sgd", "cpu", &t, &f, &err), SP_OK);
  ck_assert_ptr_nonnull(strstr(f->path, "/toy.so"));
  ck_assert_str_eq(opened(), "toy.so ");
  ck_assert_int_eq(sp_registry_stage(reg, "toy_mul", "cpu", &t, &f, &err), SP_OK);
  ck_assert_str_eq(opened(), "toy.so ");
  ck_assert_int_eq(sp_registry_stage(reg, "toy_mul", "gpu", &t, &f, &err), SP_E_NOTFOUND);
  ck_assert_str_eq(err.msg, "stage 'toy_mul' does not exist for device 'gpu', only for 'cpu'");
  ck_assert_str_eq(opened(), "toy.so toy_mul_gpu.so ");
}
END_TEST

/* other.so holds what toy.so does; its links are its stages' names. */
START_TEST(a_file_of_several_stages_has_a_link_for_each) {
  const sp_stage_type *t;
  const sp_plugin_file *f, *g;
  setenv("SP_TEST_MARKS", in_dir("marks"), 1);
  put_toy("other.so");
  ck_assert_int_eq(symlink("other.so", in_dir("toy_mul.so")), 0);
  ck_assert_int_eq(symlink("other.so", in_dir("toy.so")), 0);
  ck_assert_int_eq(symlink("nowhere.so", in_dir("toy_two.so")), 0);
  ck_assert_int_eq(sp_registry_add_dir(reg, dir, &err), SP_OK);
  ck_assert_int_eq(sp_registry_stage(reg, "othe", "cpu", &t, NULL, &err), SP_E_NOTFOUND);
  ck_assert_ptr_null(strstr(err.msg, "did you mean")); /* which is no stage */
  ck_assert_int_eq(sp_registry_stage(reg, "toy_mu", "cpu", &t, NULL, &err), SP_E_NOTFOUND);
  ck_assert_ptr_nonnull(strstr(err.msg, "did you mean 'toy_mul'?"));
  ck_assert_str_eq(opened(), "other.so ");
  ck_assert_int_eq(sp_registry_stage(reg, "toy_mul", "cpu", &t, &f, &err), SP_OK);
  ck_assert_int_eq(sp_registry_stage(reg, "toy_sgd", "cpu", &t, &g, &err), SP_OK);
  ck_assert_ptr_eq(f, g);
  ck_assert_ptr_nonnull(strstr(f->path, "/other.so"));
  ck_assert_str_eq(opened(), "other.so ");
}
END_TEST

static void any_bad(void *arg, const char *path, const sp_err *why) {
  (void)path;
  (void)why;
  ++*(int *)arg;
}

static void one_bad(void *arg, const char *path, const sp_err *why) {
  (void)why;
  ck_assert_ptr_nonnull(strstr(path, "toy_two.so"));
  ++*(int *)arg;
}

/* Each is loaded by its own name only; a link to what is gone is said to be one. */
START_TEST(a_scan_passes_links_over) {
  int bad = 0;
  put_toy("other.so");
  ck_assert_int_eq(symlink("other.so", in_dir("toy_mul.so")), 0);
  ck_assert_int_eq(symlink("nowhere.so", in_dir("toy_two.so")), 0);
  ck_assert_int_eq(sp_registry_add_dir(reg, dir, &err), SP_OK);
  ck_assert_int_eq(sp_registry_scan(reg, one_bad, &bad, &err), SP_OK);
  ck_assert_int_eq(bad, 1);
  ck_assert_uint_eq(sp_registry_count(reg), 1);
  ck_assert_int_eq(remove(in_dir("other.so")), 0);
  ck_assert_int_eq(symlink(plugin("bad_abi"), in_dir("other.so")), 0);
  sp_registry_free(reg);
  ck_assert_int_eq(sp_registry_new(&reg, &err), SP_OK);
  ck_assert_int_eq(sp_registry_add_dir(reg, dir, &err), SP_OK);
  bad = 0;
  ck_assert_int_eq(sp_registry_scan(reg, any_bad, &bad, &err), SP_OK);
  ck_assert_int_eq(bad, 2); /* and not once more for its link */
}
END_TEST

/* The folder has a file of the whole name: that of its first words has other stages. */
START_TEST(a_broken_family_is_not_in_the_way) {
  const sp_stage_type *t;
  put_toy("toy_mul.so");
  ck_assert_int_eq(symlink(plugin("bad_abi"), in_dir("toy.so")), 0);
  ck_assert_int_eq(sp_registry_add_dir(reg, dir, &err), SP_OK);
  ck_assert_int_eq(sp_registry_stage(reg, "toy_mul", "gpu", &t, NULL, &err), SP_E_NOTFOUND);
  ck_assert_str_eq(err.msg, "stage 'toy_mul' does not exist for device 'gpu', only for 'cpu'");
  ck_assert_int_eq(sp_registry_stage(reg, "toy_none", "cpu", &t, NULL, &err), SP_E_ABI);
  ck_assert_ptr_nonnull(strstr(err.msg, "stage 'toy_none': "));
}
END_TEST

/* toy.so, but in want of a library that is nowhere. */
static void put_needy(const char *name) {
  static char text[1 << 22];
  const char wanted[] = "libc.so.6", none[] = "libz.so.0";
  FILE *f = fopen(plugin("toy"), "rb");
  ck_assert_ptr_nonnull(f);
  size_t n = fread(text, 1, sizeof text, f);
  fclose(f);
  ck_assert_uint_lt(n, sizeof text);
  char *at = memmem(text, n, wanted, sizeof wanted);
  ck_assert_ptr_nonnull(at);
  memcpy(at, none, sizeof none);
  ck_assert_ptr_nonnull(f = fopen(in_dir(name), "wb"));
  ck_assert_uint_eq(fwrite(text, 1, n, f), n);
  ck_assert_int_eq(fclose(f), 0);
}

/* Else a graph would take the stage for the cpu, and say that there is no other. */
START_TEST(a_missing_library_is_no_missing_stage) {
  const sp_stage_type *t;
  put_toy("toy.so");
  put_needy("toy_gpu.so");
  ck_assert_int_eq(sp_registry_add_dir(reg, dir, &err), SP_OK);
  ck_assert_int_eq(sp_registry_stage(reg, "toy_mul", "gpu", &t, NULL, &err), SP_E_IO);
  ck_assert_ptr_nonnull(strstr(err.msg, "stage 'toy_mul': "));
  ck_assert_ptr_nonnull(strstr(err.msg, "toy_gpu.so: needs the library libz.so.0, which is not installed"));
}
END_TEST

START_TEST(all_devices_of_a_name_are_opened_for_it) {
  put_toys();
  sp_registry_load_stage(reg, "toy_mul");
  ck_assert_str_eq(opened(), "toy.so toy_mul_gpu.so ");
}
END_TEST

START_TEST(nothing_is_opened_for_a_name_that_no_file_has) {
  const sp_stage_type *t;
  const sp_format_type *format;
  put_toys();
  ck_assert_int_eq(sp_registry_stage(reg, "otter", "cpu", &t, NULL, &err), SP_E_NOTFOUND);
  ck_assert_ptr_nonnull(strstr(err.msg, "unknown stage 'otter', did you mean 'other'?"));
  ck_assert_int_eq(sp_registry_stage(reg, "tyo_mul", "gpu", &t, NULL, &err), SP_E_NOTFOUND);
  ck_assert_ptr_nonnull(strstr(err.msg, "unknown stage 'tyo_mul', did you mean 'toy_mul'?"));
  ck_assert_int_eq(sp_registry_stage(reg, "elsewhere", "cpu", &t, NULL, &err), SP_E_NOTFOUND);
  ck_assert_ptr_nonnull(strstr(err.msg, "unknown stage 'elsewhere': no plugin folder has elsewhere.so; "
                                        "spcore inspect lists what there is, --plugin takes a file of another name"));
  ck_assert_int_eq(sp_registry_format(reg, "weights.xyz", &format, &err), SP_E_NOTFOUND);
  ck_assert_str_eq(opened(), "");
}
END_TEST

START_TEST(unknown_names_get_the_nearest) {
  const sp_stage_type *t;
  ck_assert_int_eq(sp_registry_stage(reg, "good", "cpu", &t, NULL, &err), SP_E_NOTFOUND);
  ck_assert_ptr_nonnull(strstr(err.msg, "unknown stage 'good': no plugin was found"));
  ck_assert_int_eq(symlink(plugin("bad_abi"), in_dir("aaa.so")), 0);
  ck_assert_int_eq(sp_registry_add_dir(reg, dir, &err), SP_OK);
  ck_assert_int_eq(sp_registry_load(reg, plugin("faulty"), NULL, &err), SP_OK);
  ck_assert_int_eq(sp_registry_stage(reg, "overrnu", "cpu", &t, NULL, &err), SP_E_NOTFOUND);
  ck_assert_ptr_nonnull(strstr(err.msg, "unknown stage 'overrnu', did you mean 'overrun'?"));
  ck_assert_int_eq(sp_registry_stage(reg, "good", "cuda", &t, NULL, &err), SP_E_NOTFOUND);
  ck_assert_str_eq(err.msg, "stage 'good' does not exist for device 'cuda', only for 'cpu'");
  ck_assert_int_eq(sp_registry_stage(reg, "../../x", "cpu", &t, NULL, &err), SP_E_NOTFOUND);
}
END_TEST

/* The stage's own file is there, but cannot be used: that is what the user must hear. */
START_TEST(a_broken_file_of_that_name_is_named) {
  const sp_stage_type *t;
  ck_assert_int_eq(symlink(plugin("bad_abi"), in_dir("good.so")), 0);
  ck_assert_int_eq(sp_registry_add_dir(reg, dir, &err), SP_OK);
  ck_assert_int_eq(sp_registry_stage(reg, "good", "cpu", &t, NULL, &err), SP_E_ABI);
  ck_assert_ptr_nonnull(strstr(err.msg, "stage 'good': "));
  ck_assert_ptr_nonnull(strstr(err.msg, "ABI 0.18"));
}
END_TEST

static int n_bad;
static void count_bad(void *arg, const char *path, const sp_err *why) {
  ck_assert_ptr_eq(arg, &n_bad);
  ck_assert_ptr_nonnull(strstr(path, "aaa.so"));
  ck_assert_int_eq(why->status, SP_E_ABI);
  n_bad++;
}

START_TEST(a_scan_reports_what_does_not_load_each_time) {
  ck_assert_int_eq(symlink(plugin("faulty"), in_dir("faulty.so")), 0);
  ck_assert_int_eq(symlink(plugin("bad_abi"), in_dir("aaa.so")), 0);
  ck_assert_int_eq(sp_registry_add_dir(reg, dir, &err), SP_OK);
  for (int i = 1; i <= 2; i++) {
    ck_assert_int_eq(sp_registry_scan(reg, count_bad, &n_bad, &err), SP_OK);
    ck_assert_int_eq(n_bad, i);
    ck_assert_uint_eq(sp_registry_count(reg), 1);
  }
}
END_TEST

START_TEST(devices_formats_and_communicators_that_are_not_there) {
  const sp_comm_type *c;
  const sp_device_type *d;
  const sp_format_type *f;
  ck_assert_int_eq(sp_registry_device(reg, "tpu", &d, &err), SP_E_NOTFOUND);
  ck_assert_str_eq(err.msg, "there is no device 'tpu': spcore devices lists what there is");
  ck_assert_int_eq(sp_registry_format(reg, "a.b/weights", &f, &err), SP_E_NOTFOUND);
  ck_assert_ptr_nonnull(strstr(err.msg, "is known by its extension"));
  ck_assert_int_eq(sp_registry_format(reg, "weights.xyz", &f, &err), SP_E_NOTFOUND);
  ck_assert_ptr_eq(strstr(err.msg, "weights.xyz: no plugin reads or writes '.xyz' files"), err.msg);
  ck_assert_int_eq(sp_registry_comm(reg, "pigeon", &c, &err), SP_E_NOTFOUND);
  ck_assert_str_eq(err.msg, "there is no communicator 'pigeon', only: none at all");
}
END_TEST

START_TEST(one_device_of_a_type) {
  static const struct {
    const char *name;
    int index;
  } good[] = {{"cpu", 0}, {"cpu:0", 0}, {"cpu:7", 7}, {"cpu:1023", 1023}, {"cpu:007", 7}};
  const sp_device_type *d;
  int index;
  ck_assert_int_eq(sp_registry_add_device(reg, &sp_device_cpu, &err), SP_OK);
  for (size_t i = 0; i < SP_ARRAY(good); i++) {
    ck_assert_msg(sp_registry_device_at(reg, good[i].name, &d, &index, &err) == SP_OK, "%s", err.msg);
    ck_assert_ptr_eq(d, &sp_device_cpu);
    ck_assert_int_eq(index, good[i].index);
  }
  ck_assert_int_eq(sp_registry_device_at(reg, "tpu:1", &d, &index, &err), SP_E_NOTFOUND);
  ck_assert_str_eq(err.msg, "there is no device 'tpu': spcore devices lists what there is");
}
END_TEST

static void refuses_device(const char *name) {
  const sp_device_type *d;
  int index;
  char want[512];
  snprintf(want, sizeof want,
           "device '%s': NAME or NAME:NUMBER is wanted, NAME of 1 to 63 characters, NUMBER from 0 to %d", name,
           SP_DEVICE_NUMBER_MAX);
  ck_assert_int_eq(sp_registry_device_at(reg, name, &d, &index, &err), SP_E_INVALID);
  ck_assert_str_eq(err.msg, want);
}

START_TEST(names_that_are_no_device) {
  static const char *const bad[] = {"",
                                    ":",
                                    ":1",
                                    "cpu:",
                                    "cpu:x",
                                    "cpu:1x",
                                    "cpu:-1",
                                    "cpu:+1",
                                    "cpu: 1",
                                    "cpu:1 ",
                                    "cpu:1:1",
                                    "cpu:0x1",
                                    "cpu:1024",
                                    "cpu:99999999999",
                                    "cpu:99999999999999999999999"};
  char longer[301];
  sp_device_name name;
  ck_assert_int_eq(sp_registry_add_device(reg, &sp_device_cpu, &err), SP_OK);
  for (size_t i = 0; i < SP_ARRAY(bad); i++) refuses_device(bad[i]);
  memset(longer, 'a', 300);
  longer[300] = 0;
  refuses_device(longer);
  longer[64] = 0;
  refuses_device(longer);
  longer[63] = 0; /* is one, though nobody has it */
  ck_assert_int_eq(sp_device_name_parse(longer, &name, &err), SP_OK);
  ck_assert_str_eq(name.type, longer);
}
END_TEST

int main(void) {
  Suite *s = suite_create("registry");
  TCase *tc = tcase_create("registry");
  tcase_add_checked_fixture(tc, set_up, tear_down);
  tcase_add_loop_test(tc, refusals, 0, (int)SP_ARRAY(refused));
  tcase_add_test(tc, a_file_may_hold_several_versions);
  tcase_add_test(tc, what_is_no_library_is_refused);
  tcase_add_test(tc, one_file_is_loaded_once);
  tcase_add_test(tc, a_file_leaves_no_floating_point_mode);
  tcase_add_test(tc, a_stage_is_found_by_its_file);
  tcase_add_test(tc, a_lookup_opens_what_its_name_says);
  tcase_add_test(tc, a_file_of_several_stages_has_a_link_for_each);
  tcase_add_test(tc, a_scan_passes_links_over);
  tcase_add_test(tc, a_broken_family_is_not_in_the_way);
  tcase_add_test(tc, a_missing_library_is_no_missing_stage);
  tcase_add_test(tc, all_devices_of_a_name_are_opened_for_it);
  tcase_add_test(tc, nothing_is_opened_for_a_name_that_no_file_has);
  tcase_add_test(tc, unknown_names_get_the_nearest);
  tcase_add_test(tc, a_broken_file_of_that_name_is_named);
  tcase_add_test(tc, a_scan_reports_what_does_not_load_each_time);
  tcase_add_test(tc, devices_formats_and_communicators_that_are_not_there);
  tcase_add_test(tc, one_device_of_a_type);
  tcase_add_test(tc, names_that_are_no_device);
  suite_add_tcase(s, tc);
  return suite_run(s);
}
