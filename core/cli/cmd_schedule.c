/* SPDX-License-Identifier: MIT
 * cmd_schedule.c - spcore schedule: what a script's graph would do in a step, in place of doing it. */
#include <getopt.h>
#include <stdlib.h>

#include "cli/cmd.h"
#include "host/env.h"

static int schedule_main(int argc, char **argv) {
  const char **plugins = sp_calloc((size_t)argc, sizeof *plugins);
  sp_env_opts opts = {.plugins = plugins};
  sp_cmd_script s = {.cmd = &sp_cmd_schedule, .env = &opts, .debug = sp_cmd_debug(), .schedule = "text"};
  sp_err err;
  if (!plugins) {
    sp_nomem(&err, (size_t)argc * sizeof *plugins, "the command line");
    return sp_cmd_failed(&err);
  }
  int code = -1;
  for (int c; code < 0 && (c = sp_cmd_next(&sp_cmd_schedule, argc, argv, &code));) {
    if (c == 'j' || c == 'd') code = sp_cmd_read_form(&s, c == 'j' ? "json" : "dot", NULL);
    else if (c == 's') code = sp_cmd_read_form(&s, "svg", optarg);
    else if (c == 'p') plugins[opts.n_plugins++] = optarg;
    else if (c == 'r') code = sp_cmd_read_ranks(&s, optarg);
    else code = sp_cmd_read_timeout(&s, optarg);
  }
  if (code < 0 && optind >= argc) code = sp_cmd_usage(&sp_cmd_schedule, "a script is wanted, such as train_seg.lua");
  if (code < 0) code = sp_cmd_run_script(&s, argc - optind, argv + optind);
  free(plugins);
  return code;
}

static const sp_cmd_option options[] = {
    {"json", NULL, 'j', "as one JSON document; behind SCRIPT, too, as the next two"},
    {"dot", NULL, 'd', "as a graph for Graphviz: spcore schedule SCRIPT --dot | dot -Tsvg"},
    {"svg", "FILE.svg", 's', "draw the first steps: a row for each lane, a column for each tick; -: standard output"},
    SP_CMD_PLUGIN('p'),
    SP_CMD_RANKS('r', "that of N ranks of one job, of which each has the same; behind SCRIPT, too"),
    SP_CMD_TIMEOUT('t', "as of spcore run; behind SCRIPT, too"),
    {0}};

const sp_cmd sp_cmd_schedule = {
    .name = "schedule",
    .args = "[options] SCRIPT [the script's options]",
    .doc = "Prints the schedule of a script's graph, and what it costs",
    .options = options,
    .options_first = true,
    .help = "Runs SCRIPT as spcore run does until its graph is about to run, prints lanes, edges, waits, segments and "
            "memory,\n"
            "and ends. The script's options choose the strategy: spcore schedule SCRIPT --strategy NAME.\n",
    .main = schedule_main,
};
