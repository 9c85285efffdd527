#!/bin/sh
# SPDX-License-Identifier: MIT
# A rank of four that is lost in the middle of training: all others end within five seconds, each with one line that names
# it, its step and stage; what the run has written is whole. On comm_local and comm_mpi, at steps drawn anew each time.
# needs: onednn images
set -u
spcore=$top_builddir/spcore
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 99
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT SPCORE_ADDR SPCORE_PORT SPCORE_JOB
case ${SP_SANITIZERS:-none} in
  none) timed=yes ;;
  *) timed=no ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"; export ASAN_OPTIONS ;;
esac
seed=${SP_FAULTS_SEED:-$(date +%s)}
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
local g <close> = sp.graph(opt)
local data = g.reader { path = "shapes", batch = 2, size = 16, samples = 61 }
local val = g.reader { path = "shapes", batch = 2, size = 16, samples = 61, split = "val" }
local x = g.to_float { data.image, scale = true }
local net = g.layers { x, layers = { { "conv", 4, kernel = 3, pad = 1 }, { "relu" }, { "conv", data.classes, kernel = 1 } } }
local o = g.adamw { lr = 1e-3 }
g:train { g.cross_entropy { net.features, data.mask }, optimizer = o }
g:evaluate { data = val, every = 50 }
local how, sys = opt.how, require "spcore.sys"
local run <close> = sp.run { graph = g, opt = opt, steps = 100000 }
local pid <close> = assert(io.open("pid." .. sp.rank, "w"))
pid:write(io.open("/proc/self/stat"):read("n"), "\n")
pid:close()
for step, m in g:steps(100000) do
  if how == "full" then m.filler = ("x"):rep(200000) end
  run:step(step, m)
  if step == opt.at and sp.rank == opt.who then
    if how == "error" then error("no more", 0) end
    if how == "break" then break end
    if how == "exit" then sp.exit(3) end
    if how == "os" then os.exit(4) end
    if how == "lr" then o:set("lr", 0.5) end
    if how == "sleep" then while true do sys.sleep(0.1) end end
    if how == "more" then g:evaluate { data = val } end
    if how == "KILL" or how == "STOP" or how == "SEGV" then
      -- mpirun waits for who is stopped, after all others have ended
      os.execute(how == "STOP" and "kill -STOP $PPID; (sleep 4; kill -CONT $PPID) >/dev/null 2>&1 &" or "kill -" .. how .. " $PPID")
      sys.sleep(1)
    end
  end
end
L

# gone: no process of the job is left
gone() {
  for look in 1 2 3 4 5 6 7 8 9 10; do
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

# lost COMM HOW WORDS SECONDS: as all ranks but the lost one say
lost() {
  comm=$1 how=$2 words=$3 most=$4
  draw 40; at=$drawn
  draw 4; who=$((drawn - 1))
  rm -rf run
  set -- "$spcore" run job.lua --device cpu --threads 1 --comm "$comm" --how "$how" --at "$at" --who "$who" --out run \
    --quiet --no-tensorboard --checkpoint-every 5
  export SPCORE_SILENCE_TIMEOUT=1.5 SPCORE_STALL_TIMEOUT=2
  begun=$(cut -d. -f1 /proc/uptime)
  if [ "$comm" = mpi ]; then
    TMPDIR=$dir timeout -s KILL 60 mpirun -np 4 --allow-run-as-root --oversubscribe --mca mpi_yield_when_idle 1 \
      --enable-recovery --tag-output "$@" >out 2>&1 </dev/null
  else
    timeout -s KILL 60 "$@" --ranks 4 >out 2>&1 </dev/null
  fi
  got=$?
  took=$(($(cut -d. -f1 /proc/uptime) - begun))
  case="$comm: $how on rank $who at step $at"
  bad=
  [ "$got" -ne 0 ] || [ "$comm" = mpi ] || bad="exit status 0" # mpirun takes it for one that has recovered
  # five seconds are promised, of a machine that has the time
  [ $timed = no ] || [ "$took" -le $((4 * most)) ] || bad="$bad, $took s"
  said=$(sed 's/^\[[^]]*\]<std[a-z]*>://; s/^\[r[0-9]*\] //' out | grep -c "^spcore: $(echo "$words" | sed "s/WHO/$who/g")")
  [ "$said" -ge 3 ] || bad="$bad, said $said times"
  gone || bad="$bad, processes are left"
  # what was written is whole
  for file in run/*.safetensors; do
    [ -e "$file" ] || continue
    "$spcore" run whole.lua "$file" >/dev/null 2>&1 || bad="$bad, $file is not whole"
  done
  if [ -z "$bad" ]; then echo "ok - $case ($took s)"; else echo "not ok - $case: $bad"; sed 's/^/    /' out | head -20; failed=1; fi
}
cat >whole.lua <<'L'
local meta, why = require "spcore.core".examine(...)
if not meta then error(why) end
L

comms=local
if [ -f "$top_builddir/.libs/comm_mpi.so" ] && command -v mpirun >/dev/null; then comms="local mpi"; fi
case ${SP_SANITIZERS:-none} in *thread*) comms=local ;; esac
place="at step [0-9]* in stage '[a-z_0-9.]*[][0-9]*'"
for comm in $comms; do
  lost $comm KILL "rank WHO died $place" 5
  lost $comm STOP "rank WHO was silent for 1.5 s (stopped, or its host is gone) $place" 7
  lost $comm exit "rank WHO failed $place: it ended with exit status 3" 5
  lost $comm error "rank WHO failed $place: .*no more" 5
done
lost local SEGV "rank WHO died $place" 5
lost local os "rank WHO died $place" 5
lost local sleep "rank WHO is stalled (no rank got on for 2 s) $place: rank [0-3] waits for '" 8
lost local break "the script of rank WHO stops at step [0-9]*, others go on: all ranks have to decide alike" 5
lost local more "call [0-9]* between ranks: " 5
lost local lr "step [0-9]*: the learning rate is [0-9.e-]* on rank 0, [0-9.e-]* on rank [0-3]" 5

# A disk that is full is rank 0's, who alone writes; the weights are somewhere else then.
rm -rf run
(
  ulimit -f 12000 # blocks of 512 bytes; the memory of comm_local is a file of 4 MiB
  TMPDIR=$dir timeout -s KILL 60 "$spcore" run job.lua --device cpu --threads 1 --how full --out run --quiet --no-tensorboard \
    --ranks 4 >out 2>&1
)
if [ "$(grep -c "rank 0 failed $place: .*metrics.jsonl" out)" -ge 3 ]; then echo "ok - a full disk"; else
  echo "not ok - a full disk"
  sed 's/^/    /' out
  failed=1
fi
gone || { echo "not ok - processes are left"; failed=1; }
exit $failed
