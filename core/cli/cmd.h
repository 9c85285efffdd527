/* SPDX-License-Identifier: MIT
 * cmd.h - the program's commands: one file per command, ending in one const descriptor. */
#ifndef SP_CORE_CMD_H
#define SP_CORE_CMD_H

#include "base/util.h"

/* Exit codes: 0; SP_EXIT_FAILED with one line on stderr; SP_EXIT_USAGE for a command line that makes no sense. */
enum { SP_EXIT_FAILED = 1, SP_EXIT_USAGE = 2 };

/* A row for each option of a command: what getopt_long is told, and the words of help. */
typedef struct sp_cmd_option {
  const char *name;  /* "plugin"; of the last row NULL */
  const char *value; /* what help calls its value: "FILE.so"; NULL: it has none */
  int key;           /* what sp_cmd_next gives, more than 0 */
  const char *help;  /* no full stop */
} sp_cmd_option;

typedef struct sp_cmd {
  const char *name; /* "inspect" */
  const char *args; /* "[STAGE] [options]" */
  const char *doc;  /* one sentence, no full stop */
  const sp_cmd_option *options; /* NULL: none but --help, which every command has */
  bool options_first;           /* the first word that is no option ends them */
  const char *help;             /* what help says below the options, every line ended by a newline; NULL: nothing */
  /* argv[0] is the command's name, so that getopt_long takes argc, argv as they are (optind is 1, opterr 0). Returns
   * the exit code. */
  int (*main)(int argc, char **argv);
  int (*put_more)(sp_sb *text); /* appends to help; NULL: nothing. 0, or an exit code */
} sp_cmd;

extern const sp_cmd sp_cmd_bench, sp_cmd_check, sp_cmd_completion, sp_cmd_data, sp_cmd_devices, sp_cmd_diff,
    sp_cmd_export, sp_cmd_inspect, sp_cmd_report, sp_cmd_run, sp_cmd_schedule, sp_cmd_strategies, sp_cmd_timeline;

/* The key of the next option, whose value is in optarg; then optind is behind it. 0: there is none any more, or *code
 * is an exit code, of --help or of a command line that makes no sense; else it stays as it is. */
int sp_cmd_next(const sp_cmd *cmd, int argc, char **argv, int *code);
/* Prints "spcore CMD: WORDS (see spcore CMD --help)"; returns SP_EXIT_USAGE. */
int sp_cmd_usage(const sp_cmd *cmd, const char *fmt, ...) SP_PRINTF(2, 3);
/* Prints "spcore: " and err's words; returns SP_EXIT_FAILED. */
int sp_cmd_failed(const sp_err *err);
/* cmd_run.c: runs a script in a Lua state, with everything of the process around it. `schedule` and `picture`: as
 * sp_lua has them. Returns the exit code. */
struct sp_env;
struct sp_env_opts;
/* In this env, which is freed at the end; argv are the script's words. */
int sp_cmd_run_in(struct sp_env *env, bool debug, const char *schedule, const char *picture, const char *script,
                  int argc, char **argv);
typedef struct sp_cmd_script {
  const sp_cmd *cmd; /* who is told where options make no sense */
  const struct sp_env_opts *env;
  bool debug;
  const char *schedule, *picture;
  int ranks; /* 0: as many as the script's words, or the environment, say */
} sp_cmd_script;
/* argv[0] is the script. By all ranks of a job, of which this process is one or starts all. */
int sp_cmd_run_script(sp_cmd_script *s, int argc, char **argv);
/* What stands behind --ranks, and behind --comm-timeout, which all ranks find in their environment; -1,
 * or the exit code. */
#define SP_CMD_RANKS(key, words) {"ranks", "N", key, words}
#define SP_CMD_TIMEOUT(key, words) {"comm-timeout", "S", key, words}
#define SP_CMD_PLUGIN(key) {"plugin", "FILE.so", key, "load this plugin first; may be repeated"}
int sp_cmd_read_ranks(sp_cmd_script *s, const char *text);
int sp_cmd_read_timeout(const sp_cmd_script *s, const char *text);
/* What `schedule` is to print: form json, dot or svg, the last to a file; the same. */
int sp_cmd_read_form(sp_cmd_script *s, const char *form, const char *file);
/* cmd_lua.c: runs scripts/spcore/commands/NAME.lua, where argv[0] is NAME. Returns the exit code. */
int sp_cmd_lua(int argc, char **argv);
bool sp_cmd_debug(void); /* SPCORE_DEBUG is set, and not to 0 */
/* Writes what was collected to stdout; returns the exit code: a full disk or a closed pipe is a failure. */
int sp_cmd_print(const sp_sb *sb);

/* The same for people: on a terminal lines break between words, and what follows stays below its column. */
int sp_cmd_print_folded(const sp_sb *sb);

#endif
