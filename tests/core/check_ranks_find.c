/* SPDX-License-Identifier: MIT
 * check_ranks_find.c - which rank a process is: the variables of torchrun, mpirun, srun and others,
 * and mistakes in them. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "ranks/ranks.h"
#include "tests/kit/suite.h"

static const char *const all[] = {"RANK",
                                  "WORLD_SIZE",
                                  "LOCAL_RANK",
                                  "LOCAL_WORLD_SIZE",
                                  "OMPI_COMM_WORLD_RANK",
                                  "OMPI_COMM_WORLD_SIZE",
                                  "OMPI_COMM_WORLD_LOCAL_RANK",
                                  "OMPI_COMM_WORLD_LOCAL_SIZE",
                                  "OMPI_MCA_ess_base_jobid",
                                  "PMI_RANK",
                                  "PMI_SIZE",
                                  "MPI_LOCALRANKID",
                                  "MPI_LOCALNRANKS",
                                  "PMIX_RANK",
                                  "PMIX_NAMESPACE",
                                  "SLURM_PROCID",
                                  "SLURM_NTASKS",
                                  "SLURM_LOCALID",
                                  "SLURM_JOB_ID",
                                  "SLURM_STEP_ID",
                                  "SLURM_STEP_NODELIST",
                                  "SLURM_JOB_NODELIST",
                                  "MASTER_ADDR",
                                  "MASTER_PORT",
                                  "SPCORE_ADDR",
                                  "SPCORE_PORT",
                                  "SPCORE_JOB",
                                  "SPCORE_START_TIMEOUT",
                                  "SPCORE_SILENCE_TIMEOUT",
                                  "SPCORE_STALL_TIMEOUT"};

/* "RANK=1 WORLD_SIZE=4": these variables, and none of the others */
static int find(const char *variables, sp_rank_opts *o, sp_err *err) {
  char text[1024], *save;
  for (size_t i = 0; i < SP_ARRAY(all); i++) unsetenv(all[i]);
  snprintf(text, sizeof text, "%s", variables);
  for (char *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
    char *value = strchr(word, '=');
    *value = 0;
    setenv(word, value + 1, 1);
  }
  return sp_ranks_find(o, err);
}

static const struct {
  const char *variables;
  int rank, ranks, local_rank, local_ranks, port; /* port 0: one that the job's number says */
  const char *address, *job, *origin;
} good[] = {
    {"", 0, 1, 0, 1, 0, "", "", ""},
    {"RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 MASTER_ADDR=gpu1 MASTER_PORT=29500 SPCORE_JOB=x", 5, 8, 1, 4,
     29501, "gpu1", "x", "WORLD_SIZE"},
    {"RANK=1 WORLD_SIZE=2", 1, 2, 1, 2, 29501, "127.0.0.1", "", "WORLD_SIZE"},
    {"RANK=0 WORLD_SIZE=1 MASTER_PORT=nonsense", 0, 1, 0, 1, 0, "", "", "WORLD_SIZE"},
    {"RANK=1 WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4", 1, 2, 1, 2, 29501, "127.0.0.1", "",
     "WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 "
     "PMIX_RANK=3 "
     "PMIX_NAMESPACE=77 SPCORE_ADDR=h SPCORE_PORT=4000",
     3, 4, 1, 2, 4000, "h", "77", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK=2 PMI_SIZE=3 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1 MASTER_ADDR=h", 2, 3, 0, 1, 29501, "h", "", "PMI_SIZE"},
    {"PMIX_RANK=1 SLURM_NTASKS=4 SLURM_LOCALID=1 SLURM_JOB_ID=9 SLURM_STEP_ID=0", 1, 4, 1, 4, 0, "127.0.0.1", "9.0",
     "SLURM_NTASKS"},
    {"SLURM_PROCID=6 SLURM_NTASKS=8 SLURM_LOCALID=2 SLURM_JOB_ID=9 SLURM_STEP_ID=1 "
     "SLURM_STEP_NODELIST=gpu[07-12,15],login",
     6, 8, 2, 8, 0, "gpu07", "9.1", "SLURM_NTASKS"},
    {"SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=0 SLURM_JOB_NODELIST=a,b[1-2] SPCORE_JOB=j", 1, 2, 0, 2, 29501, "a",
     "j", "SLURM_NTASKS"},
    /* a batch script by itself */
    {"SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_LOCALID=0 SLURM_JOB_ID=9", 0, 1, 0, 1, 0, "", "", ""},
    {"SLURM_NTASKS=8 SLURM_JOB_ID=9 SLURM_STEP_ID=0", 0, 1, 0, 1, 0, "", "", ""},
};

START_TEST(who_starts_ranks) {
  sp_rank_opts o;
  sp_err err;
  ck_assert_msg(!find(good[_i].variables, &o, &err), "%s: %s", good[_i].variables, err.msg);
  ck_assert_int_eq(o.rank, good[_i].rank);
  ck_assert_int_eq(o.ranks, good[_i].ranks);
  ck_assert_int_eq(o.local_rank, good[_i].local_rank);
  ck_assert_int_eq(o.local_ranks, good[_i].local_ranks);
  ck_assert_str_eq(o.address, good[_i].address);
  ck_assert_str_eq(o.job, good[_i].job);
  ck_assert_str_eq(o.origin, good[_i].origin);
  if (good[_i].port) ck_assert_int_eq(o.port, good[_i].port);
  else if (o.ranks > 1) ck_assert(o.port >= 16384 && o.port < 28672);
}
END_TEST

/* Two jobs of one host do not meet, and all ranks of one do. */
START_TEST(a_port_for_each_job) {
  sp_rank_opts a, b, c;
  sp_err err;
  find("SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_JOB_ID=9 SLURM_STEP_ID=0", &a, &err);
  find("SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_JOB_ID=9 SLURM_STEP_ID=0", &b, &err);
  find("SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_JOB_ID=9 SLURM_STEP_ID=1", &c, &err);
  ck_assert_int_eq(a.port, b.port);
  ck_assert_int_ne(a.port, c.port);
}
END_TEST

static const struct {
  const char *variables, *words;
} bad[] = {
    {"RANK=1", "RANK=1 is set, but WORLD_SIZE is not"},
    {"WORLD_SIZE=4", "WORLD_SIZE=4 is set, but RANK is not"},
    {"RANK=x WORLD_SIZE=4", "RANK=x: a whole number from 0 to 4095 is wanted"},
    {"RANK=-1 WORLD_SIZE=4", "RANK=-1: a whole number from 0 to 4095 is wanted"},
    {"RANK=1 WORLD_SIZE=99999999999999999999",
     "WORLD_SIZE=99999999999999999999: a whole number from 1 to 4096 is wanted"},
    {"RANK=4 WORLD_SIZE=4", "RANK=4 of WORLD_SIZE=4: ranks count from 0"},
    {"RANK=1 WORLD_SIZE=4 LOCAL_RANK=2 LOCAL_WORLD_SIZE=4", "LOCAL_RANK=2 is more than RANK=1"},
    {"RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=1", "LOCAL_RANK=1 of LOCAL_WORLD_SIZE=1: ranks count from 0"},
    {"RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=8", "LOCAL_WORLD_SIZE=8 is more than WORLD_SIZE=4"},
    {"RANK=0 WORLD_SIZE=2 LOCAL_RANK=0", "LOCAL_RANK=0 is set, but LOCAL_WORLD_SIZE is not"},
    {"PMI_RANK=0 PMI_SIZE=2 MPI_LOCALNRANKS=2", "MPI_LOCALNRANKS=2 is set, but MPI_LOCALRANKID is not"},
    {"OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_SIZE=4 is set, but OMPI_COMM_WORLD_RANK is not"},
    {"PMIX_RANK=2", "PMIX_RANK=2 is set, but SLURM_NTASKS is not"},
    {"RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2",
     "2 of 4 ranks are on this host, and no variable says where rank 0 is: SPCORE_ADDR=HOST"},
    {"RANK=1 WORLD_SIZE=2 SPCORE_PORT=0", "SPCORE_PORT=0: a whole number from 1 to 65535 is wanted"},
    {"RANK=1 WORLD_SIZE=2 MASTER_PORT=65535", "MASTER_PORT=65535: a whole number from 1 to 65534 is wanted"},
    {"RANK=1 WORLD_SIZE=2 SPCORE_STALL_TIMEOUT=soon",
     "SPCORE_STALL_TIMEOUT=soon: seconds are wanted, more than 0 and at most 1000000"},
    {"RANK=1 WORLD_SIZE=2 SPCORE_START_TIMEOUT=nan",
     "SPCORE_START_TIMEOUT=nan: seconds are wanted, more than 0 and at most 1000000"},
    {"RANK=1 WORLD_SIZE=2 SPCORE_JOB=0123456789012345678901234567890123456789012345678901234567890123",
     "SPCORE_JOB=0123456789012345678901234567890123456789012345678901234567890123...: longer than 63 bytes"},
};

START_TEST(mistakes) {
  sp_rank_opts o;
  sp_err err;
  ck_assert(find(bad[_i].variables, &o, &err));
  ck_assert_str_eq(err.msg, bad[_i].words);
}
END_TEST

START_TEST(times) {
  sp_rank_opts o;
  sp_err err;
  find("RANK=1 WORLD_SIZE=2", &o, &err);
  ck_assert(o.start == 60 && o.silence == 10 && o.timeout == 60 && o.grace == 0 && o.listener == -1);
  find("RANK=1 WORLD_SIZE=2 SPCORE_START_TIMEOUT=1 SPCORE_SILENCE_TIMEOUT=0.5 SPCORE_STALL_TIMEOUT=600", &o, &err);
  ck_assert(o.start == 1 && o.silence == 0.5 && o.timeout == 600);
}
END_TEST

int main(void) {
  Suite *s = suite_create("ranks_find");
  TCase *c = tcase_create("find");
  tcase_add_loop_test(c, who_starts_ranks, 0, (int)SP_ARRAY(good));
  tcase_add_loop_test(c, mistakes, 0, (int)SP_ARRAY(bad));
  tcase_add_test(c, a_port_for_each_job);
  tcase_add_test(c, times);
  suite_add_tcase(s, c);
  return suite_run(s);
}
