#!/bin/sh
# SPDX-License-Identifier: MIT
# A rank of four that is lost, or goes wrong, in the middle of training: all others end, each with one line
# that names it, its step and stage; what the run has written is whole. On comm_local and comm_mpi, at steps drawn from
# SP_FAULTS_SEED. With SP_FAULTS=N: N of them drawn at random instead of each in turn, anew each time, and a table
# (tests/bench/ranks_faults.sh), which has those as well that take more than five seconds.
# needs: onednn images
set -u
spcore=$top_builddir/spcore
dir=$(mktemp -d) || exit 99
trap 'umount "$dir/small" 2>/dev/null; rm -rf "$dir"' EXIT
cd "$dir" || exit 99
ulimit -c 0
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT SPCORE_ADDR SPCORE_PORT SPCORE_JOB
case ${SP_SANITIZERS:-none} in
  none) short=4 ;; # seconds of silence, and without any rank that gets on
  *) short=8 ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"; export ASAN_OPTIONS ;;
esac
seed=${SP_FAULTS_SEED:-${SP_FAULTS:+$(date +%s)}}
seed=${seed:-1795466742} # which once found weights that differ before it was told why
echo "# SP_FAULTS_SEED=$seed"
draw() { # draw MOST: 1 to MOST, in $drawn
  seed=$(((seed * 1103515245 + 12345) % 2147483648))
  drawn=$((1 + seed / 65536 % $1))
}
failed=0

cat >job.lua <<'L'
local sp = require "spcore"
local opt = sp.args({ how = { "", "what goes wrong" }, at = { 10, "at which step" }, who = { 2, "on which rank" } },
  { checkpoints = true })
local how, sys = opt.how, require "spcore.sys"
local stage = how:match "^stage (.*)"
local g <close> = sp.graph(opt)
local data = g.reader { path = "shapes", batch = 2, size = 16, samples = 61 }
local val = g.reader { path = "shapes", batch = 2, size = 16, samples = 61, split = "val" }
local net = g.layers { g.to_float { data.image, scale = true }, layers = { { "conv", 24, kernel = 3, pad = 1 }, { "relu" }, { "conv", 24, kernel = 3, pad = 1 },
  { "relu" }, { "conv", data.classes, kernel = 1 } } }
local logits = g.mishap { net.features, rank = opt.who, at = opt.at, how = stage or "none" }
local o = g.adamw { lr = 1e-3, ema = opt.optimizer_shards and 0.9 or 0 }
g:train { g.cross_entropy { logits, data.mask }, optimizer = o }
g:evaluate { data = val, every = 50 }
local run <close> = sp.run { graph = g, opt = opt, steps = 100000 }
local pid <close> = assert(io.open("pid." .. sp.rank, "w"))
pid:write(io.open("/proc/self/stat"):read("n"), "\n")
pid:close()
if how:match "^moment" and sp.rank == opt.who then -- 0 to 0.8 s from here, wherever it is then
  local signal = how == "moment" and "KILL" or "STOP"
  os.execute(("(sleep %.2f; kill -%s $PPID; sh wake $PPID) >/dev/null 2>&1 &"):format(opt.at / 50, signal))
end
for step, m in g:steps(100000) do
  if how == "full" then m.filler = ("x"):rep(200000) end
  run:step(step, m)
  if how == "limit" and step == opt.at + 20 then run:finish() break end
  if step == opt.at and how == "limit" and sp.rank == 0 then os.execute "prlimit --fsize=24000 --pid $PPID" end
  if step == opt.at and how == "space" and sp.rank == 0 then os.execute("dd if=/dev/zero of=" .. run.dir .. "/hole 2>/dev/null") end
  if step == opt.at and sp.rank == opt.who then
    if how == "error" then error("no more", 0) end
    if how == "break" then break end
    if how == "exit" then sp.exit(3) end
    if how == "os" then os.exit(4) end
    if how == "lr" then o:set("lr", 0.5) end
    if how == "save" then
      local s = g._raw:snapshot("some/x.crash", "a", "b")
      s:start()
      s:wait()
    end
    if how == "stall" then while true do sys.sleep(0.1) end end
    if how == "more" then g:evaluate { data = val } end
    if how == "KILL" or how == "STOP" or how == "SEGV" then
      -- mpirun waits for who is stopped, after all others have ended
      os.execute(how == "STOP" and "kill -STOP $PPID; sh wake $PPID >/dev/null 2>&1 &" or "kill -" .. how .. " $PPID")
      sys.sleep(1)
    end
  end
end
L
cat >whole.lua <<'L'
local meta, why = require "spcore.core".examine(...)
if not meta then error(why) end
L

# wake PID: once the three others are gone, or the test has taken their numbers away
cat >wake <<'S'
alive() { case $(cat "/proc/$1/stat" 2>/dev/null) in '' | *') Z '*) return 1 ;; esac; }
for look in $(seq 600); do
  all=$(cat pid.* 2>/dev/null) left=
  for pid in $all; do [ "$pid" = "$1" ] || ! alive "$pid" || left=$pid; done
  [ -n "$all" ] && alive "$1" || exit
  [ "$(echo "$all" | wc -l)" = 4 ] && [ -z "$left" ] && break
  sleep 0.1
done
kill -CONT "$1"
S

# gone: no process of the job is left
gone() {
  for look in $(seq 200); do
    left=
    for pid in $(cat pid.* 2>/dev/null); do
      case $(cat "/proc/$pid/stat" 2>/dev/null) in '' | *') Z '*) ;; *) left="$left $pid" ;; esac
    done
    [ -z "$left" ] && break
    sleep 0.1
  done
  rm -f pid.*
  # shellcheck disable=SC2086
  [ -z "$left" ] || { kill -9 $left; return 1; }
}

# Who is expected to say what, with WHO in it, within how many seconds; and which ranks say it: all, or all but WHO.
place="at step [0-9]* in stage '\([a-z_0-9.]*[][0-9]*\|the save of [a-z0-9-]*\.safetensors\)'" # rank 0, of a slow disk
expect() {
  most=5 who_says=others
  case $1 in
    KILL | SEGV | os) words="rank WHO died $place" ;;
    STOP) words="rank WHO was silent for $silence s (stopped, or its host is gone) $place" most=10 ;;
    moment) words="rank WHO died \(at step [0-9]* in\|before its first step in\) stage '.*" ;;
    'moment stop') words="rank WHO was silent for $silence s (stopped, or its host is gone) \(at step\|before its first step\).*" most=10 ;;
    save) words="rank 0 is stalled (no rank got on for $short s) at step [0-9]* in stage 'the save of x.crash': rank [0-3] waits for '.*" most=10 ;;
    stall) words="rank WHO is stalled (no rank got on for $short s) $place: rank [0-3] waits for '.*" most=10 ;;
    exit) words="rank WHO failed $place: it ended with exit status 3" ;;
    error) words="rank WHO failed $place: .*no more" ;;
    break) words="the script of rank WHO stops at step [0-9]*, others go on: all ranks have to decide alike.*" who_says=all ;;
    more) words="call [0-9]* between ranks: .*" who_says=all ;;
    lr) words="step [0-9]*: the learning rate is [0-9.e-]* on rank 0, [0-9.e-]* on rank [0-3].*" who_says=all ;;
    full | space) words="rank 0 failed $place: .*metrics.jsonl.*" ;;
    limit) words="rank 0 failed $place: .*weights.safetensors.*" ;;
    'stage fail') words="rank WHO failed $place: .*stage 'mishap' (mishap.so) step [0-9]*: it does not work any more" ;;
    'stage loss') words="rank WHO: stage 'cross_entropy' step [0-9]*: the loss is not finite.*" who_says=all ;;
    'stage gradient') words="stage 'adamw' step [0-9]*: the gradients are not finite.*" who_says=all ;;
    'stage damage') words="weight 'mishap.gain' is not the same on rank WHO as on rank [0-3] before step .*" who_says=all ;;
    'stage cut') words="rank WHO lost its control connection to rank 0 $place: both processes live.*" who_says=all ;;
    'stage cut_data') words="the data connection between rank 0 and rank WHO broke" who_says=all ;;
  esac
}

# whole: what was written is, and there is a checkpoint of before
whole() {
  for file in "$1"/*.safetensors; do
    [ -e "$file" ] || continue
    "$spcore" run whole.lua "$file" >/dev/null 2>&1 || bad="$bad, $file is not whole"
  done
  ! tail -c 1 "$1/metrics.jsonl" | grep -q . || bad="$bad, a line of metrics.jsonl is cut"
  case $how in moment*) return ;; esac # which may have come before the first
  # The save of step 5 begins as the script is told of step 4 and may take its time; that of step 10 waits for it, and a stage is
  # up to three steps ahead of the script.
  [ "$at" -lt 14 ] || [ -e "$1/checkpoint-5.safetensors" ] || ls "$1" | grep -q "^checkpoint-[0-9]*5\.\|^checkpoint-[0-9]*0\." ||
    bad="$bad, there is no checkpoint"
}

# lost COMM HOW [AT]: as all ranks but the lost one say
lost() {
  comm=$1 how=$2 bad= folder=run blocks=unlimited
  draw 40; at=${3-$drawn}
  draw 4; who=$((drawn - 1))
  silence=20 # a rank that nobody stops may have to wait for a processor
  case $how in *STOP | *stop) silence=$short ;; esac
  expect "$how"
  case $how in
    save) who=0 ;;
    full) who=0 blocks=12000 ;; # of 512 bytes; the memory of comm_local is a file of 4 MiB
    limit) who=0 ;;
    space) who=0 folder=small/run ;;
    'stage cut'*) [ "$who" != 0 ] || who=3 ;;
  esac
  rm -rf "$folder"
  set -- "$spcore" run job.lua --device cpu --threads 1 --comm "$comm" --how "$how" --at "$at" --who "$who" --out "$folder" \
    --quiet --no-tensorboard --checkpoint-every 5 --check-replicas 10
  draw 2; shares=
  # with shares a weight that is damaged is its owner's again behind the next update, and a save takes all ranks
  [ "$drawn" = 1 ] || [ "$how" = "stage damage" ] || [ "$how" = save ] || { set -- "$@" --optimizer-shards; shares=", shares"; }
  export SPCORE_SILENCE_TIMEOUT=$silence SPCORE_STALL_TIMEOUT=20
  case $how in stall | save) SPCORE_STALL_TIMEOUT=$short ;; esac
  unset SP_TEST_END
  [ "$how" != save ] || { SP_TEST_END=never; export SP_TEST_END; set -- "$@" --plugin "$SP_TEST_PLUGINS/crash.so"; }
  begun=$(cut -d. -f1 /proc/uptime)
  (
    ulimit -f $blocks
    if [ "$comm" = mpi ]; then
      # a folder for each of two at once: Open MPI makes one of its own there, which fails now and then where both begin to
      TMPDIR=$PWD timeout -s KILL 600 mpirun -np 4 --allow-run-as-root --oversubscribe --mca mpi_yield_when_idle 1 \
        --enable-recovery --tag-output "$@" >out 2>&1 </dev/null
    else
      TMPDIR=$PWD timeout -s KILL 600 "$@" --ranks 4 >out 2>&1 </dev/null
    fi
  )
  got=$?
  took=$(($(cut -d. -f1 /proc/uptime) - begun))
  case="$comm: $how on rank $who at step $at$shares"
  [ "$got" -ne 0 ] || [ "$comm" = mpi ] || bad="exit status 0" # mpirun takes it for one that has recovered
  late=
  [ -z "${SP_FAULTS-}" ] || [ "$took" -le $most ] || late=", $took s"
  # lines of ranks begin with their number; the launcher itself says which signal ended one
  sed -n 's/^\[[0-9]*,\([0-9]*\)\]<stderr>:spcore: /\1 /p; s/^\[r\([0-9]*\)\] spcore: /\1 /p; s/^spcore: /0 /p' out |
    grep -v "^0 rank [0-9]* was ended by\|^[0-9] step [0-9]* was not saved" >lines
  unnamed=
  for rank in 0 1 2 3; do
    [ "$rank" != "$who" ] || [ $who_says = all ] || continue
    [ "$(grep -c "^$rank " lines)" = 1 ] && grep -q "^$rank $(echo "$words" | sed "s/WHO/$who/g")$" lines ||
      unnamed="$unnamed $rank"
  done
  [ -z "$unnamed" ] || bad="$bad, not said once and alone by rank$unnamed"
  gone || late="$late, processes are left"
  whole "$folder"
  bad=$bad$late
  if [ -z "$bad" ]; then echo "ok - $case ($took s)"; else
    echo "not ok - $case: $bad"
    sed 's/^/    /' out | head -20
    failed=1
  fi
}

comms=local
if [ -f "$top_builddir/.libs/comm_mpi.so" ] && command -v mpirun >/dev/null; then comms="local mpi"; fi
case ${SP_SANITIZERS:-none} in *thread*) comms=local ;; esac

if [ -n "${SP_FAULTS-}" ]; then
  : >table
  mkdir small
  hows="KILL STOP moment moment_stop exit error stall full limit stage_fail stage_loss stage_damage stage_cut stage_cut_data"
  mount -t tmpfs -o size=700k none small 2>/dev/null && hows="$hows space"
  n=0
  while [ $n -lt "$SP_FAULTS" ]; do
    n=$((n + 1))
    # shellcheck disable=SC2086
    set -- $comms
    draw $#; shift $((drawn - 1)); comm=$1
    # shellcheck disable=SC2086
    set -- $hows
    draw $#; shift $((drawn - 1))
    case $1 in stage_* | moment_*) lost "$comm" "${1%%_*} ${1#*_}" ;; *) lost "$comm" "$1" ;; esac
    echo "$comm|$how|${late:+late}|${unnamed:+unnamed}|${bad:+bad}|$took" >>table
  done
  echo "communicator  fault           runs  in time  all name it  all well  longest"
  sort table | awk -F'|' '
    { k = sprintf("%-12s  %-14s", $1, $2); n[k]++; t[k] += !$3; u[k] += !$4; b[k] += !$5; if ($6 > m[k]) m[k] = $6; all[k] }
    END { for (k in n) printf "%s  %4d  %7d  %11d  %8d  %5d s\n", k, n[k], t[k], u[k], b[k], m[k] }' | sort
  awk -F'|' '{ n++; t += !$3; u += !$4; b += !$5 } END { printf "all: %d runs, %d in time, %d named by all, %d well\n", n, t, u, b }' table
  exit $failed
fi

# beside COMM HOW: lost, while others are tried, since its ranks do nothing most of the time; one at once
besides=0 other=
beside() {
  await_other
  besides=$((besides + 1))
  mkdir beside.$besides
  cp job.lua whole.lua wake beside.$besides
  (cd beside.$besides || exit 99; failed=0; lost "$@"; exit $failed) &
  other=$!
  draw 40; draw 4; draw 2 # as it does
}
await_other() {
  [ -z "$other" ] || wait "$other" || failed=1
  other=
}

for comm in $comms; do
  hows="KILL STOP exit stage_fail stage_loss stage_cut full"
  [ $comm = local ] || [ -z "${SP_SKIP_ONCE-}" ] || hows="KILL stage_fail" # mpirun ends the others; check has all
  for how in $hows; do
    case $how in stage_*) how="stage ${how#*_}" ;; esac
    case $how in STOP | "stage cut") beside $comm "$how" ;; *) lost $comm "$how" ;; esac
  done
done
await_other # who may be taken for stalled has all processors
for how in SEGV os stall save error break more lr "stage gradient" "stage damage" "stage cut_data"; do
  case $how in "stage cut_data") beside local "$how" ;; *) lost local "$how" ;; esac
done
lost local lr 38 # of a step that has run, but is not told, when weights are compared before step 40
lost local "stage fail" 20 # while the others compare weights, and have begun that step
command -v prlimit >/dev/null && lost local limit # a checkpoint that does not fit, of a run that goes on
await_other
exit $failed
