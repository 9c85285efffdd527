#!/bin/sh
# SPDX-License-Identifier: MIT
# Ranks as a user meets them: `spcore run --ranks`, and the variables of torchrun, mpirun and srun. What they print, exit
# codes, who is named when one fails, and that no process is left behind.
set -u
spcore=$top_builddir/spcore
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 99
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT SPCORE_ADDR SPCORE_PORT SPCORE_JOB PMI_RANK PMI_SIZE \
  PMIX_RANK OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE SLURM_PROCID SLURM_JOB_ID
failed=0
# Sanitized processes take seconds to begin and to look for leaks at their end, where the launcher waits five: no times are
# asked of them, and leaks are looked for where fewer processes are.
case ${SP_SANITIZERS:-none} in
  none) timed=yes ;;
  *) timed=no ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"; export ASAN_OPTIONS ;;
esac
ok() { echo "ok - $*"; }
not_ok() {
  echo "not ok - $*"
  sed 's/^/    /' out err 2>/dev/null | head -20
  failed=1
}

# run STATUS SECONDS COMMAND...: its output in `out`, `err`, sorted, since lines of several ranks come in any order
run() {
  want=$1 most=$2; shift 2
  begun=$(cut -d. -f1 /proc/uptime)
  timeout -s KILL 300 "$@" >out 2>err </dev/null
  got=$?
  took=$(($(cut -d. -f1 /proc/uptime) - begun))
  sort -o out out; sort -o err err
  [ "$got" = "$want" ] || not_ok "exit status $got, wanted $want: $*"
  # the machine may have other things to do, too
  [ $timed = no ] || [ "$took" -le $((4 * most)) ] || not_ok "$took s, at most $most wanted: $*"
}

# printed FILE LINE...: these and no others
printed() {
  file=$1; shift
  printf '%s\n' "$@" | sort >wanted
  if cmp -s "$file" wanted; then ok "$1"; else not_ok "in $file is wanted: $(tr '\n' '|' <wanted)"; fi
}

# all_gone: of the processes whose numbers are in pid.* none is left; a moment is given to what was killed
all_gone() {
  wait=0
  while [ $wait -lt 200 ]; do
    wait=$((wait + 1))
    left=
    for pid in $(cat pid.*); do
      case $(cat "/proc/$pid/stat" 2>/dev/null) in '' | *') Z '*) ;; *) left="$left $pid" ;; esac
    done
    [ -z "$left" ] && break
    sleep 0.1
  done
  if [ -z "$left" ]; then ok "$1: none is left after $wait looks"; else not_ok "$1: left are$left"; fi
  # shellcheck disable=SC2086
  [ -z "$left" ] || kill -9 $left
  rm -f pid.*
}

# ---- what they print ----
cat >hello.lua <<'L'
local sp = require "spcore"
print("hello", sp.rank, sp.ranks, ...)
io.stderr:write("from " .. sp.rank .. "\nand more")
if sp.rank == 1 then print(("x"):rep(100000)) end
L
tab=$(printf '\t')
run 0 5 "$spcore" run hello.lua --ranks 3 -- --ranks 2
long=$(grep -n x out | awk '{ print length($0) }')
[ "$long" = 100007 ] || not_ok "a long line came as $long bytes" # 2: its number, 5: the prefix
grep -v xxx out >short && mv short out
printed out "hello${tab}0${tab}3${tab}--${tab}--ranks${tab}2" "[r1] hello${tab}1${tab}3${tab}--${tab}--ranks${tab}2" \
  "[r2] hello${tab}2${tab}3${tab}--${tab}--ranks${tab}2"
printed err "from 0" "and more" "[r1] from 1" "[r1] and more" "[r2] from 2" "[r2] and more"

cat >alone.lua <<'L'
local sp = require "spcore"
print(sp.rank, sp.ranks, os.getenv "RANK", io.read())
L
echo word | "$spcore" run --ranks 1 alone.lua >out
printed out "0${tab}1${tab}nil${tab}word"

# ---- mistakes ----
for n in 0 x 257 ''; do
  run 2 2 "$spcore" run --ranks "$n" hello.lua
  printed err "spcore: run: --ranks $n: a whole number from 1 to 256 is wanted (see spcore run --help)"
  run 2 2 "$spcore" run hello.lua --ranks=$n
  printed err "spcore: run: --ranks $n: a whole number from 1 to 256 is wanted (see spcore run --help)"
done
run 2 2 "$spcore" run --ranks 2 --comm-timeout 1e9 hello.lua
printed err "spcore: run: --comm-timeout 1e9: seconds are wanted, more than 0 and at most 1000000 (see spcore run --help)"
RANK=1 WORLD_SIZE=2 run 2 2 "$spcore" run --ranks 2 hello.lua
printed err "spcore: run: --ranks 2: this is rank 1 of 2 already (WORLD_SIZE) (see spcore run --help)"
RANK=1 run 1 2 "$spcore" run hello.lua
printed err "spcore: RANK=1 is set, but WORLD_SIZE is not"
run 2 3 "$spcore" run --ranks 2 nowhere.lua
grep -q "^spcore: script 'nowhere.lua' not found" err || not_ok "a script that is not there is not named"

# ---- one fails, the others name it ----
cat >fails.lua <<'L'
local sp = require "spcore"
local sleep = require "spcore.sys".sleep
local how = ...
local f <close> = assert(io.open("pid." .. sp.rank, "w"))
f:write(io.open("/proc/self/stat"):read("n"), "\n")
f:close()
sleep(0.3)
if sp.rank == 2 then
  if how == "error" or how == "caught" then error("no more") end
  if how == "exit" then sp.exit(3) end
  if how == "os" then os.exit(4) end
  if how then os.execute("kill -" .. how .. " $PPID") end
end
local function wait() while true do sleep(0.01) end end
while how == "caught" do pcall(wait) end
if how == "os" and not pcall(wait) then sp.exit(9) end
wait()
L
# same WORDS LINE...: ranks 0, 1 and 3 say so, and those lines are all that there are beside
same() {
  words=$1; shift
  printed err "spcore: $words" "[r1] spcore: $words" "[r3] spcore: $words" "$@"
  all_gone "$words"
}
# A script that takes no notice is ended all the same; meanwhile the others are tried.
mkdir caught
(
  cd caught || exit 99
  run 1 8 "$spcore" run --ranks 4 ../fails.lua caught
  same "rank 2 failed before its first step: ../fails.lua:9: no more" "[r2] spcore: ../fails.lua:9: no more"
  exit $failed
) >caught.log &
caught=$!
run 1 3 "$spcore" run --ranks 4 fails.lua error
same "rank 2 failed before its first step: fails.lua:9: no more" "[r2] spcore: fails.lua:9: no more"
run 3 3 "$spcore" run --ranks 4 fails.lua exit
same "rank 2 failed before its first step: it ended with exit status 3"
run 4 3 "$spcore" run --ranks 4 fails.lua os
same "rank 2 died before its first step"
run 137 3 "$spcore" run --ranks 4 fails.lua KILL
same "rank 2 died before its first step" "spcore: rank 2 was ended by SIGKILL"
SPCORE_SILENCE_TIMEOUT=4 run 1 10 "$spcore" run --ranks 4 fails.lua STOP
stopped="rank 2 was silent for 4 s (stopped, or its host is gone) before its first step"
same "$stopped" "[r2] spcore: $stopped" # it is woken up, and hears of it

# A rank whose own error comes of another one's death, as a device's may, says both.
cat >own.lua <<'L'
local sp = require "spcore"
if sp.rank == 0 then
  assert(io.open("of0", "w")):write((io.open "/proc/self/stat":read "n"), "\n"):close()
  -- it decides nothing more, and dies a little later
  os.execute "(for _ in $(seq 3000); do [ -e seen ] && break; sleep 0.01; done; sleep 0.2; kill -KILL $PPID) & kill -STOP $PPID"
end
local function stands()
  local f = io.open("of0")
  local pid = f and f:read "n"
  return pid and io.open("/proc/" .. pid .. "/stat"):read("a"):find "%) T "
end
while not stands() do require "spcore.sys".sleep(0.001) end
io.open("seen", "w"):close()
error "its own words"
L
run 137 3 "$spcore" run --ranks 2 own.lua
printed err "[r1] spcore: own.lua:14: its own words" "[r1] spcore: rank 0 died before its first step" "spcore: rank 0 was ended by SIGKILL"


# ---- signals ----
cat >waits.lua <<'L'
local sp = require "spcore"
local f <close> = assert(io.open("pid." .. sp.rank, "w"))
f:write(io.open("/proc/self/stat"):read("n"), "\n")
f:close()
while not sp.interrupted() do require "spcore.sys".sleep(0.01) end
print("saved")
L
# begin COMMAND...: in the background, until three ranks are there
begin() {
  timeout -s KILL 300 "$@" >out 2>err </dev/null &
  timeout=$!
  while [ "$(cat pid.* 2>/dev/null | wc -l)" != 3 ] && kill -0 $timeout 2>/dev/null; do sleep 0.05; done
  launcher=$(ps -o ppid= -p "$(cat pid.0)" | tr -d ' ')
}
for signal in 2 15 1; do # SIGINT, SIGTERM, SIGHUP
  begin "$spcore" run --ranks 3 waits.lua
  kill -$signal "$launcher"
  wait $timeout
  got=$?
  [ $got = $((128 + signal)) ] || not_ok "signal $signal: exit status $got"
  sort -o out out
  printed out saved "[r1] saved" "[r2] saved"
  all_gone "signal $signal"
done
begin "$spcore" run --ranks 3 waits.lua
kill -9 "$launcher"
wait $timeout 2>/dev/null
all_gone "SIGKILL of the launcher"


# What makes no sense on all ranks is said by one.
echo 'require("spcore").args {}' >options.lua
run 2 60 "$spcore" run --ranks 2 options.lua --zzzzzz
printed err "spcore: options.lua: unknown option '--zzzzzz' (--help lists all)"

# Nobody reads what they print, so the launcher waits for a reader: it hears signals all the same.
cat >loud.lua <<'L'
local sp = require "spcore"
local f <close> = assert(io.open("pid." .. sp.rank, "w"))
f:write(io.open("/proc/self/stat"):read("n"), "\n")
f:close()
while true do print(("x"):rep(79)) end
L
mkfifo nobody
exec 9<>nobody
"$spcore" run --ranks 2 loud.lua >&9 2>err </dev/null &
launcher=$!
while [ "$(cat pid.* 2>/dev/null | wc -l)" != 2 ] && kill -0 $launcher 2>/dev/null; do sleep 0.05; done
sleep 0.3 # a pipe is full by then
# Two of which the first is not heard yet are one, so that it may take more.
# no watchdog beside it: a shell that is killed as soon as it is forked may still have our trap, which removes the folder
look=0
while kill -15 $launcher 2>/dev/null && [ $look -lt 200 ]; do look=$((look + 1)); sleep 0.1; done
[ $look -lt 200 ] || kill -9 $launcher
wait $launcher 2>/dev/null
got=$?
exec 9>&-
[ $got = 143 ] || not_ok "two signals, and nobody reads: exit status $got"
cp err out
! grep -q "interrupted by" err || not_ok "two signals, and nobody reads: the second one was not heard"
all_gone "two signals, and nobody reads"

# states: of the launcher and three ranks, "TTTT" where all are stopped
states() { for pid in "$launcher" $(cat pid.*); do sed 's/.*) \(.\).*/\1/' "/proc/$pid/stat" 2>/dev/null; done | tr -d '\n'; }
# Ctrl-Z, where a shell can wake it
if command -v bash >/dev/null; then
  # no loop: bash leaves it when a job stops
  begin bash -c 'set -m; "$@" & wait -f $!' bash "$spcore" run --ranks 3 waits.lua
  kill -TSTP "$launcher"
  for wait in $(seq 200); do
    stopped=$(states)
    [ "$stopped" = TTTT ] && break
    sleep 0.1
  done
  kill -CONT "$launcher"
  for wait in $(seq 200); do
    awake=$(states)
    case $awake in *T*) sleep 0.1 ;; *) break ;; esac
  done
  kill -15 "$launcher"
  wait $timeout
  case $stopped,$awake in
    *T*,*T*) not_ok "Ctrl-Z: after a stop they are $stopped, after a wake $awake" ;;
    TTTT,*) ok "Ctrl-Z" ;;
    *) not_ok "Ctrl-Z: after a stop they are $stopped, after a wake $awake" ;;
  esac
  all_gone "Ctrl-Z"
fi
# A terminal that stops who writes to it from the background, where rank 0 is
if command -v script >/dev/null; then
  run 0 5 script -qec "stty tostop; '$spcore' run --ranks 2 hello.lua" /dev/null
  # in the middle of a long line of rank 1, perhaps
  if grep -q "hello${tab}0${tab}2" out; then ok "stty tostop"; else not_ok "stty tostop"; fi
fi
# Those that are there already are ended without a word.
run 1 3 sh -c 'ulimit -n 16; exec "$@"' sh "$spcore" run --ranks 16 waits.lua
printed err "spcore: rank $(sed 's/[^0-9]*\([0-9]*\).*/\1/;q' err) cannot be started: Too many open files (ulimit -n says how many)"
rm -f pid.*

# ---- started by others ----
# each FAMILY: two ranks with these variables; $rank and $n are replaced
each() {
  for rank in 1 0; do
    eval "env $2 timeout -s KILL 300 \"\$spcore\" run hello.lua >out.$rank 2>err.$rank </dev/null &"
    eval "pid$rank=\$!"
  done
  code=0
  wait "$pid0" || code=$?
  wait "$pid1" || code=$?
  cat err.0 err.1 >err
  grep -hv xxx out.0 out.1 >out
  [ $code = 0 ] || not_ok "$1: exit status $code"
  printed out "hello${tab}0${tab}2" "hello${tab}1${tab}2"
}
port=$((28700 + $$ % 350 * 2)) # no job of mpirun or srun gets one from 28672 on, nor may a connection below 32768
each torchrun 'RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT='$port
each mpirun 'OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=$rank OMPI_COMM_WORLD_LOCAL_SIZE=2 \
  PMIX_RANK=$rank PMIX_NAMESPACE=17.'$$
each srun 'SLURM_PROCID=$rank SLURM_NTASKS=2 SLURM_LOCALID=$rank SLURM_JOB_ID='$$' SLURM_STEP_ID=0 SLURM_STEP_NODELIST=localhost'

# ---- of another job ----
RANK=0 WORLD_SIZE=2 SPCORE_PORT=$port SPCORE_JOB=mine timeout -s KILL 300 "$spcore" run hello.lua >out.0 2>err.0 </dev/null &
first=$!
export RANK=1 WORLD_SIZE=2 SPCORE_PORT=$port
SPCORE_JOB=yours run 1 5 "$spcore" run hello.lua
printed err "spcore: port $port of this host is a job's of spcore, and you are none of its ranks: it is of another job (SPCORE_JOB)"
SPCORE_JOB=mine run 0 5 "$spcore" run hello.lua
unset RANK WORLD_SIZE SPCORE_PORT
wait $first || not_ok "the job that a stranger came to: exit status $?"
cp err.0 err
grep -q "^spcore: a stranger from .* was sent away: it is of another job (SPCORE_JOB)" err || not_ok "the stranger is not told of"

wait $caught || failed=1
cat caught.log
exit $failed
