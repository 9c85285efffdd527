# SPDX-License-Identifier: MIT
# commands.sh - the program's commands: exit codes, one line of words for each mistake, JSON that is JSON.
set -u
spcore=$top_builddir/spcore
faulty=$SP_TEST_PLUGINS/faulty.so
tmp=$(mktemp -d) || exit 99
failed=0
trap 'rm -rf "$tmp"' EXIT

# try CODE TEXT ARGS...: the exit code, and TEXT somewhere in what is printed; on failure one line on stderr, that begins
# with "spcore: ".
try() {
  code=$1 text=$2
  shift 2
  "$spcore" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
  got=$?
  sed -i '/changed the floating-point mode; it is put back/d' "$tmp/err" # of faulty.so, said beside what follows
  why=
  test $got -eq "$code" || why="exit code $got, not $code"
  grep -qF -- "$text" "$tmp/out" "$tmp/err" || why="$why; not printed: $text"
  if test "$code" -ne 0; then
    test "$(wc -l <"$tmp/err")" -eq 1 && grep -q '^spcore: ' "$tmp/err" || why="$why; not one line of spcore on stderr"
  elif test -s "$tmp/err"; then
    why="$why; something on stderr"
  fi
  test -z "$why" && return
  failed=$((failed + 1))
  echo "spcore $*: $why"
  cat "$tmp/out" "$tmp/err"
}

try 0 'usage: spcore COMMAND' --help
try 0 'ABI 0.17' --version
try 2 'a command is wanted, such as: spcore run train_seg.lua (spcore help lists them)'
try 0 'usage: spcore COMMAND' help
try 2 "there is no command 'hlep', did you mean 'help'?" hlep
try 2 "there is no command 'insepct', did you mean 'inspect'?" help insepct
try 2 "one command at a time, not also 'check'" help run check
try 2 "there is no command 'train_seg.lua', did you mean: spcore run train_seg.lua (" train_seg.lua --steps 3
try 2 "there is no command 'train_seg', did you mean: spcore run train_seg (" train_seg
try 2 "there is no command 'trian_seg.lua', did you mean: spcore run train_seg.lua (" trian_seg.lua
try 2 "there is no command 'my.lua', did you mean: spcore run my.lua (" my.lua
try 0 'examples/branches.lua,' run --help
try 0 'make_shapes.lua, predict_cls.lua' help run
try 2 'a script is wanted, such as train_seg.lua' run
try 2 "/scripts; did you mean: spcore run train_seg.lua" run scripts/train_sge
try 2 "script 'nosuch.lua' not found, looked here and in " run nosuch.lua
printf '\033Lua' > "$tmp/compiled.lua"
try 1 "compiled.lua is compiled, as luac does it, or no script" run "$tmp/compiled.lua"
try 2 "script './train_seg.lua' not found, neither with nor without .lua; did you mean: spcore run train_seg.lua" run ./train_seg.lua
try 2 "; shipped are make_shapes.lua, " run nosuch.lua
try 2 "there is no command 'insepct', did you mean 'inspect'?" insepct
try 2 "there is no command 'xyzzy' (see" xyzzy
for cmd in run bench data inspect devices check diff strategies schedule report export timeline completion; do
  try 0 "usage: spcore $cmd" $cmd --help
  try 0 "usage: spcore $cmd" help $cmd
done

try 0 'STAGE' inspect --plugin "$faulty"
try 0 'WHAT IT DOES' inspect --plugin "$faulty"
try 0 'not loaded:' inspect
try 0 'was built for spcore ABI 0.18, this is 0.17' inspect
try 0 'what the input is multiplied by' inspect good --plugin "$faulty"
try 0 'gain                 number, -10..10, default 2, may change while running' inspect good --plugin "$faulty"
try 0 'rows                 integer, 1..9223372036854775806, default 1' inspect toy_fill --plugin "$SP_TEST_PLUGINS/toy.so"
try 0 '"min":1,"max":9223372036854775806' inspect toy_fill --json --plugin "$SP_TEST_PLUGINS/toy.so"
try 0 'plugin   faulty, version 1.2, licence MIT' inspect good --plugin "$faulty"
try 0 "communicator 'local' (cpu, comm_local.so): Between ranks" inspect
try 0 '"comms":["local"]' inspect --json
try 1 "unknown stage 'comm_loca': no plugin folder has comm_loca.so" inspect comm_loca
try 1 "comm_local.so has no stage 'comm_local'; spcore inspect lists what it has" inspect comm_local
try 0 '# no stages in it' check "$top_builddir/.libs/comm_local.so"
try 1 "unknown stage 'goood', did you mean 'good'?" inspect goood --plugin "$faulty"
cp "$faulty" "$tmp/copy.so" # rebuilt, say
"$spcore" inspect good --plugin "$faulty" --plugin "$tmp/copy.so" >"$tmp/out" 2>"$tmp/err"
test $? -eq 0 && grep -q "^spcore: stage 'good' (cpu) of .*/copy.so is already there, from .*/faulty.so, which is used$" "$tmp/err" ||
  { failed=$((failed + 1)); cat "$tmp/err"; }
try 1 "does not exist for device 'cuda'" inspect good --device cuda --plugin "$faulty"
try 1 "$SP_TEST_PLUGINS/bad_symbol.so: unresolved symbol 'sp_test_nowhere'" inspect --plugin "$SP_TEST_PLUGINS/bad_symbol.so"
try 1 'nowhere.so: No such file' inspect --plugin nowhere.so
try 2 'there is no option --jsno, did you mean --json?' inspect --jsno
try 2 '--plugin wants a value' inspect --plugin
try 2 '--json takes no value' inspect --json=3
try 2 'there is no option -z' inspect -z
try 2 'one stage at a time' inspect good bad
try 2 '--meta prints all stages' inspect --meta --json
try 2 'no stage is for --device gpu: there are stages for cpu' inspect --device gpu --plugin "$faulty"
try 2 'no stage is for --device gpu: there are stages for cpu' inspect --device gpu --json --plugin "$faulty"
try 0 'what the input' inspect good --device cpu --plugin "$faulty"
try 0 'STAGE' inspect --device cpu --plugin "$faulty"
try 0 '---@class spcore.good.params' inspect --meta --plugin "$faulty"

try 2 "there is no model 'resnet5'; did you mean 'resnet50'?" inspect --model resnet5
try 2 '--size is for --model' inspect --size 224
try 2 "--size is a number of pixels or HxW, up to 16384 each, not '0x7'" inspect --model resnet18 --size 0x7
try 1 "output_stride is 32, 16 or 8, not '5'" inspect --model resnet18 --output-stride 5
try 1 "no option 'output_stride'" inspect --model efficientnet_b0 --output-stride 16
try 2 "--model is a network, which is no stage; take blur out" inspect --model resnet18 blur
try 2 '--model is a network, which is no stage; take --meta out' inspect --meta --model resnet18

# No constructor runs but of the file that the name says.
mkdir "$tmp/plugins"
for name in toy other another; do cp "$SP_TEST_PLUGINS/toy.so" "$tmp/plugins/$name.so"; done
(
  failed=0
  SPCORE_PLUGIN_PATH=$tmp/plugins SP_TEST_MARKS=$tmp/marks
  export SPCORE_PLUGIN_PATH SP_TEST_MARKS
  echo 'local sp = require "spcore"; local g <close> = sp.graph { device = "mock" }; g.anohter {}' >"$tmp/mistyped.lua"
  try 1 "unknown stage 'anohter', did you mean 'another'?" inspect anohter
  try 1 "unknown stage 'anohter', did you mean 'another'?" run "$tmp/mistyped.lua"
  test ! -e "$tmp/marks" || { failed=$((failed + 1)); echo "a mistyped name opened $(tr '\n' ' ' <"$tmp/marks")"; }
  try 0 'momentum; 0 lets stages update in place' inspect toy_sgd
  test "$(cat "$tmp/marks")" = toy.so || { failed=$((failed + 1)); echo "toy_sgd opened $(tr '\n' ' ' <"$tmp/marks")"; }
  exit $failed
)
failed=$((failed + $?))

try 0 'cpu:0' devices
case ", ${SP_LEFT_OUT-}, " in
  *", cuda, "*) try 0 'cuda    not there: this spcore was built without the CUDA toolkit' devices ;;
  *) try 0 'cuda' devices ;;
esac
try 2 "'now' is not wanted" devices now

try 2 'a plugin FILE.so is wanted' check
try 2 '--threads 0' check --threads 0 x.so
try 2 '--set x: NAME=VALUE is wanted' check --set x x.so
try 2 "--set P: no stage that is checked has such a parameter, did you mean 'p'?" check "$top_builddir/.libs/dropout.so" --set P=0.1
[ ! -f "$top_builddir/.libs/reader.so" ] || # which lacks a path, with and without a size
  try 0 "reader: create() with the parameters of --set: not exercised" check "$top_builddir/.libs/reader.so" --set size=16
"$spcore" check "$top_builddir/.libs/dropout.so" --set p=2 >"$tmp/out" 2>&1
test $? -eq 1 && grep -q "^not ok .* dropout: create() with the parameters of --set$" "$tmp/out" ||
  { failed=$((failed + 1)); cat "$tmp/out"; }
try 1 'nowhere.so: No such file' check nowhere.so
try 1 'not ok' check "$faulty"
try 1 ' - half_output: forward() writes all of its output' check "$faulty"

if test -n "${PYTHON:-}"; then
  for args in 'inspect --json' "inspect good --json --plugin $faulty" 'devices --json'; do
    # shellcheck disable=SC2086
    "$spcore" $args | "$PYTHON" -m json.tool >/dev/null || { failed=$((failed + 1)); echo "spcore $args: not JSON"; }
  done
fi

if test -c /dev/full; then
  "$spcore" --help >/dev/full 2>"$tmp/err"
  test $? -eq 1 && grep -q 'standard output: ' "$tmp/err" || { failed=$((failed + 1)); echo "a full disk is not noticed"; }
fi

# What only prints ends without a word where nobody reads it, as in `| head`: by SIGPIPE, 141. The reader has gone before.
mkfifo "$tmp/pipe" || exit 99
for args in 'run train_seg.lua --help' strategies inspect 'data shapes' 'run train_seg.lua --explain' 'schedule train_seg.lua'; do
  case $args in
    data* | *--explain | schedule*) test -f "$top_builddir/.libs/reader.so" || continue ;;
  esac
  : <"$tmp/pipe" &
  # shellcheck disable=SC2086
  { wait $!; "$spcore" $args; } >"$tmp/pipe" 2>"$tmp/err"
  test $? -eq 141 && test ! -s "$tmp/err" || { failed=$((failed + 1)); echo "spcore $args without a reader:"; cat "$tmp/err"; }
done

test $failed -eq 0 || echo "$failed failed"
test $failed -eq 0
