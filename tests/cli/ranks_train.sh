#!/bin/sh
# SPDX-License-Identifier: MIT
# A step of eight shards trained by 1, 2, 4 and 8 ranks: the same weights, metrics and checksums byte for byte, whatever the
# strategy and the size of buckets and whether ranks share what the optimizer keeps, with a short step, evaluations between,
# and after a kill with another number of ranks.
# needs: onednn images
set -u
spcore=$top_builddir/spcore
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
cd "$dir" && dir=$(pwd -P) || exit 99
failed=0
ok() { echo "ok - $*"; }
not_ok() {
  echo "not ok - $*"
  failed=1
}

# left_out WAY KEPT...: the stage check of .ci/run compares the bits of each; for memory and threads some have to do.
left_out() {
  [ -n "${SP_SKIP_ONCE-}" ] || return 1
  that=$1; shift
  for kept; do [ "$kept" != "$that" ] || return 1; done
}

net="--width 8 --levels 4" # products of few rows, which have factors
long=100 # steps of a run that is killed after 20
case ${SP_SANITIZERS-} in
  *thread*) net="--width 4 --levels 2" long=60 ;; # that takes minutes there
  *address*) long=60 ;;
esac
seg="train_seg.lua --size 16 $net --train-encoder --unfreeze levels.0@0.5 --samples 124 --ema 0.9 --dropout 0.1"
cls="train_cls.lua --size 16 --samples 124"
common="--device cpu --threads 1 --seed 3 --batch 2 --shards 8 --eval-every 4 --quiet --checksums --no-tensorboard"

# train NAME WORKLOAD STEPS OPTIONS...: into the folder NAME
train() {
  name=$1 script=$2 steps=$3; shift 3
  # shellcheck disable=SC2086
  timeout 600 "$spcore" run $script $common --steps "$steps" --out "$name" "$@" >"$name${RANK-}.log" 2>&1
}

# What of a folder must be the same: time is not, nor who of several ranks takes the longest.
digest() {
  sha256sum <"$1/weights.safetensors"
  sha256sum <"$1/checksums.jsonl"
  sed 's/"\(time\|slowest_rank\|slowest_ms\|comm_share\|sum\)":[^,}]*,*//g' "$1/metrics.jsonl" | sha256sum
}

# same NAME OTHER
same() {
  if [ -s "$1/weights.safetensors" ] && [ "$(digest "$1")" = "$(digest "$2")" ]; then
    ok "$1 as $2"
  else
    not_ok "$1 is not $2"
    tail -5 "$1.log"
    "$spcore" diff "$2/checksums.jsonl" "$1/checksums.jsonl" 2>&1 | head -20
  fi
}

train seg1 "$seg" 10 || not_ok "seg on one rank: $(cat seg1.log)"
train cls1 "$cls" 10 || not_ok "cls on one rank: $(cat cls1.log)"
for way in "seg 2 serialized 8" "cls 8 pipelined 0" "seg 4 pipelined 0" "cls 4 deep 1" "seg 8 branches 1" "cls 2 double_buffer 8"; do
  left_out "$way" "seg 4 pipelined 0" "cls 4 deep 1" && continue
  # shellcheck disable=SC2086
  set -- $way
  eval "script=\$$1"
  train "$1.$2.$3" "$script" 10 --ranks "$2" --strategy "$3" --bucket "$4" || not_ok "$way: exit status $?"
  same "$1.$2.$3" "${1}1"
done
if ! left_out mixed; then
  train mixed "$seg" 10 --ranks 2 --prefetch 3 --run-ahead 2 --workers 3 || not_ok "exit status $?"
  same mixed seg1
fi
train parts "$seg" 10 --ranks 2 --parts 5 --bucket 0 || not_ok "parts: exit status $?"
same parts seg1

# ---- each rank keeps what the optimizer does of its share of the weights: the same bits, averages and evaluations too ----
for way in "2 serialized 8" "4 pipelined 0" "8 deep 1"; do
  left_out "$way" "4 pipelined 0" && continue
  # shellcheck disable=SC2086
  set -- $way
  train "share$1" "$seg" 10 --ranks "$1" --strategy "$2" --bucket "$3" --optimizer-shards || not_ok "shares, $way: exit status $?"
  same "share$1" seg1
done

# ---- bfloat16 between ranks: other bits, the same on any number of them ----
train half1 "$seg" 10 --wire bf16 || not_ok "bf16 on one rank: $(cat half1.log)"
for way in "2 serialized 8" "4 pipelined 0" "8 deep 1"; do
  left_out "$way" && continue
  # shellcheck disable=SC2086
  set -- $way
  train "half$1" "$seg" 10 --wire bf16 --ranks "$1" --strategy "$2" --bucket "$3" || not_ok "bf16, $way: exit status $?"
  same "half$1" half1
done
train halfshare "$seg" 10 --wire bf16 --ranks 4 --optimizer-shards || not_ok "bf16, shares: exit status $?"
same halfshare half1
if cmp -s half1/weights.safetensors seg1/weights.safetensors; then not_ok "bf16 rounds nothing"; fi

# ---- any number of shards: the tree halves them, and so do 2 and 4 ranks; 3 do not, which is said, but one shard each is ----
for wire in fp32 bf16; do
  left_out "$wire" fp32 && continue
  train "twelve1.$wire" "$cls" 6 --shards 12 --wire "$wire" || not_ok "12 shards: $(cat "twelve1.$wire.log")"
  for ranks in 2 4 12; do
    left_out "$wire $ranks" "fp32 4" && continue
    train "twelve$ranks.$wire" "$cls" 6 --shards 12 --wire "$wire" --ranks "$ranks" || not_ok "12 shards, $ranks ranks: exit status $?"
    same "twelve$ranks.$wire" "twelve1.$wire"
  done
done
loud=$(echo "$common" | sed 's/--quiet//')
for ranks in 2 3; do
  # shellcheck disable=SC2086
  timeout 600 "$spcore" run $cls $loud --steps 6 --shards 12 --ranks $ranks --out "loud$ranks" >"loud$ranks.log" 2>&1 ||
    not_ok "12 shards, $ranks ranks: exit status $?"
done
[ "$(grep -c "12 shards on 3 ranks are added in another order" loud3.log)" = 1 ] || not_ok "3 ranks: not said once: $(cat loud3.log)"
if cmp -s loud3/weights.safetensors twelve1.fp32/weights.safetensors; then not_ok "3 ranks add as one does, and it is denied"; fi
if grep "another order" loud2.log; then not_ok "2 ranks add as one does, and it is denied"; fi

# ---- products of the rows of all shards, which update weights in place or make gradients; shards without samples ----
for momentum in 0 0.9; do # with buckets of one weight, which are updated one by one, and with one bucket
  for way in "1 1 serialized 8" "2 4 serialized 0" "4 1 pipelined 8" "8 2 serialized 0"; do
    left_out "$way" "1 1 serialized 8" "2 4 serialized 0" && continue
    # shellcheck disable=SC2086
    set -- $way
    timeout 600 "$spcore" run "$top_srcdir/tests/kit/wide.lua" --shards 8 --threads 1 --momentum "$momentum" --file "$PWD/$momentum.$1.safetensors" --ranks "$1" --parts "$2" \
      --strategy "$3" --bucket "$4" >out 2>&1 || not_ok "wide $way: $(cat out)"
    # so many parts have such weights
    if grep -q "^[12]$" out && cmp "$momentum.$1.safetensors" "$momentum.1.safetensors"; then ok "factors, momentum $momentum, $way"; else
      not_ok "factors, momentum $momentum, $way: $(cat out)"
    fi
  done
done

# ---- what the optimizer keeps, in shares, and the norm of all gradients, of which a rank has a part ----
# wide NAME OPTIONS...: norms and the file NAME
wide() {
  name=$1; shift
  timeout 600 "$spcore" run "$top_srcdir/tests/kit/wide.lua" --shards 8 --threads 1 --file "$PWD/$name.safetensors" "$@" >out 2>&1 ||
    not_ok "wide $*: $(cat out)"
  sed -n 's/.*\(step .*norm 0x\)/\1/p' out >"$name.out"
}
for how in "optimizer adamw --clip 0.5 --freeze" "optimizer adamw --clip 0.5 --no-factors" "optimizer adamw --clip 0.5" "momentum 0.9 --nonfinite skip --clip 0.1" "optimizer lion --clip 0.5"; do
  left_out "$how" "optimizer adamw --clip 0.5" && continue
  # shellcheck disable=SC2086
  wide one --$how
  [ "$(wc -l <one.out)" = 7 ] || not_ok "no norms: $(cat out)"
  for way in "2 0" "4 8" "8 1"; do
    left_out "$way" "2 0" && continue
    # shellcheck disable=SC2086
    { set -- $way; wide many --$how --ranks "$1" --bucket "$2" --optimizer-shards; }
    if cmp one.safetensors many.safetensors && cmp one.out many.out; then ok "shares, $how, $way"; else not_ok "shares, $how, $way"; fi
  done
done
# norms and matrices are of all of a weight, so that there are no shares
for how in "optimizer lamb --clip 0.5" "optimizer muon"; do
  left_out "$how" "optimizer lamb --clip 0.5" && continue
  # shellcheck disable=SC2086
  { wide one --$how; wide many --$how --ranks 4 --bucket 8; }
  if cmp one.safetensors many.safetensors && cmp one.out many.out; then ok "whole weights, $how"; else not_ok "whole weights, $how"; fi
done
for name in lamb muon; do
  "$spcore" run "$top_srcdir/tests/kit/wide.lua" --shards 8 --optimizer $name --ranks 2 --optimizer-shards >out 2>&1
  if grep -q "optimizer_shards: optimizer '$name' takes whole gradients only; leave --optimizer-shards away" out; then
    ok "no shares of $name"
  else
    not_ok "no shares of $name: $(cat out)"
  fi
done
# a rank has its part of three for each weight, and no more
cat >memory.lua <<'L'
local sp = require "spcore"
local opt = sp.args({}, {})
local g <close> = sp.graph(opt)
local data = g.reader { path = "random", batch = 2, size = 8, classes = 3, samples = 37, target = "class" }
local layers = { { "flatten" }, { "linear", 2048 }, { "relu" }, { "linear", 3 } }
local net = g.layers { g.to_float { data.image, scale = true }, layers = layers }
g:train { g.cross_entropy { net.features, data.label }, optimizer = g.adamw { ema = 0.5 }, optimizer_shards = true }
print(("optimizer %d of %d"):format(g:memory().optimizer, 3 * 4 * (2048 * 192 + 2048 + 3 * 2048 + 3)))
L
"$spcore" run memory.lua --ranks 4 >out 2>&1
if awk '{ n++; sum += $(NF - 2); if ($(NF - 2) > 0.29 * $NF) most = 1; all = $NF } END { exit !(n == 4 && !most && sum >= all && sum < 1.01 * all) }' out; then
  ok "shares of what the optimizer keeps"
else
  not_ok "shares of what the optimizer keeps: $(cat out)"
fi

# ---- one trace of all, with evaluations in it ----
train traced "$seg" 10 --ranks 2 --trace "$dir/all.json" --trace-steps 6 || not_ok "exit status $?"
same traced seg1
"$spcore" timeline all.json --out all.svg >words 2>&1
first=$(sed -n 's/^all.json, rank 0: .*, steps \([0-9]* to [0-9]*\)$/\1/p' words)
if [ ! -e all-rank1.json ] && [ -n "$first" ] && [ "$first" != "0 to 0" ] && grep -q "^all.json, rank 1: .*, steps $first$" words &&
  grep -q '"pid":2,.*"args":{"name":"rank 1"}' all.json && grep -q '"pid":2,.*"stage":"comm"' all.json && grep -q "rank 1" all.svg; then
  ok "one trace of two ranks"
else
  not_ok "the trace of two ranks: $(cat words; ls)"
fi

# ---- as torchrun starts them ----
# torchrun's variables, and no name of the job
for rank in 1 0; do
  (
    export RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((29600 + $$ % 450 * 2))
    train torchrun "$cls" 10
  ) &
done
wait
same torchrun cls1
# What a rank says, be it of itself or, where it hears of the other one's failure first, of that.
differs_in() { sed -e 's/^spcore: rank [01] failed before its first step: /spcore: /' -e 's/^[^:]*: [^:]*:[0-9]*: //' "differ$1.log"; }
# differ WORDS SCRIPT OPTIONS...: what both ranks say, where the second one has that script and these options, too
differ() {
  left_out "$1" "$differ_here" && return # all are one comparison of two lists of words
  words=$1 script1=$2; shift 2
  rm -rf differ
  for rank in 1 0; do
    (
      export RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((30500 + $$ % 450 * 2))
      if [ $rank = 0 ]; then train differ "$cls" 10; else train differ "$script1 ${cls#* }" 10 "$@"; fi
    ) &
  done
  wait
  if grep -q "$words" differ0.log && [ -s differ1.log ] &&
    [ "$(differs_in 0)" = "$(differs_in 1)" ]; then
    ok "ranks that differ: $words"
  else
    not_ok "ranks that differ: $words: $(cat differ0.log differ1.log)"
  fi
}
differ_here="the ranks differ in the strategy: 'serialized' on rank 0, 'deep' on rank 1"
differ "the ranks differ in the graph, line .*lr = 0.006.* on rank 0, .*lr = 0.002.* on rank 1" train_cls.lua --lr 0.002
differ "the ranks differ in the seed (--seed): '3' on rank 0, '4' on rank 1" train_cls.lua --seed 4
differ "the ranks differ in threads (--threads N takes N on each host): '1' on rank 0, '2' on rank 1" train_cls.lua --threads 2
differ "the ranks differ in the steps between evaluations on 'reader_2': '4' on rank 0, '3' on rank 1" train_cls.lua --eval-every 3
differ "the ranks differ in the communicator (--comm): 'local' on rank 0, 'mpi' on rank 1" train_cls.lua --comm mpi
differ "the ranks differ in the type that gradients are sent as (--wire): 'fp32' on rank 0, 'bf16' on rank 1" train_cls.lua --wire bf16
differ "the ranks differ in the steps that metrics are late (--run-ahead): '2' on rank 0, '3' on rank 1" train_cls.lua --run-ahead 3
differ "the ranks differ in whether there is a trace (--trace): 'false' on rank 0, 'true' on rank 1" train_cls.lua --trace t.json
differ "the ranks differ in the strategy: 'serialized' on rank 0, 'deep' on rank 1" train_cls.lua --strategy deep
mkdir other
{ cat "$top_builddir/.libs/cross_entropy.so"; echo; } >other/cross_entropy.so
differ "the ranks differ in plugin cross_entropy.so (all have to load the same build): '[0-9a-f]*' on rank 0, '[0-9a-f]*' on rank 1" \
  train_cls.lua --plugin "$PWD/other/cross_entropy.so"
{ cat "$top_srcdir/scripts/train_cls.lua"; echo "-- of another day"; } >train_cls2.lua
differ "the ranks differ in the script: '[0-9a-f]*' on rank 0, '[0-9a-f]*' on rank 1" train_cls2.lua

# ---- on MPI, which has started the ranks ----
if [ -f "$top_builddir/.libs/comm_mpi.so" ] && command -v mpirun >/dev/null && case ${SP_SANITIZERS-} in *thread*) false ;; esac; then
  ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0" # MPI's own
  export ASAN_OPTIONS
  # shellcheck disable=SC2086
  TMPDIR=$dir timeout 600 mpirun -np 4 --allow-run-as-root --oversubscribe --mca mpi_yield_when_idle 1 "$spcore" run $cls $common \
    --steps 10 --comm mpi --strategy pipelined --out cls.4.mpi >cls.4.mpi.log 2>&1 || not_ok "mpirun: exit status $?"
  same cls.4.mpi cls1
fi

# ---- one rank that is slow ----
cat >slow.lua <<'L'
local sp = require "spcore"
local opt = sp.args({}, { checkpoints = false })
local g <close> = sp.graph(opt)
local data = g.reader { path = "random", batch = 4, size = 8, classes = 3, samples = 640, target = "class" }
local val = g.reader { path = "random", batch = 4, size = 8, classes = 3, samples = 640, target = "class", split = "val" }
local x = g.mishap { g.to_float { data.image, scale = true }, rank = 2, ms = 40, how = "slow" }
local net = g.layers { x, layers = { { "flatten" }, { "linear", 3 } } }
g:train { g.cross_entropy { net.features, data.label }, optimizer = g.sgd { lr = 0.1 } }
g:evaluate { data = val, every = 15 }
local run <close> = sp.run { graph = g, opt = opt, steps = 40, every = 20 }
for step, m in g:steps(40) do
  assert((m.slowest_rank ~= nil) == (step > 0))
  run:step(step, m)
end
run:finish()
L
"$spcore" run slow.lua --device cpu --threads 1 --ranks 4 --no-tensorboard --out slow >slow.log 2>&1 || not_ok "slow: exit status $?"
"$spcore" report slow >>slow.log 2>&1 || not_ok "a report of it: exit status $?"
tail -1 slow/metrics.jsonl >>slow.log
ms=$(sed -n 's/.*"slowest_ms":\([0-9]*\).*"slowest_rank":2.*/\1/p' slow/metrics.jsonl | tail -1)
share=$(sed -n 's/.*"comm_share":0\.\([0-9]\).*/\1/p' slow/metrics.jsonl | tail -1)
lines=$(grep -c '"slowest_rank":' slow/metrics.jsonl) of2=$(grep -c '"slowest_rank":2' slow/metrics.jsonl)
who=$(sed -n 's/.*"slowest_rank":\([0-9]\).*/\1/p' slow/metrics.jsonl | tail -1)
# A busy machine adds to all of them, so that another one may be the slowest of a few steps, and of the last; the others wait.
# What is exact is in tests/core/check_pace.c.
if [ "${ms:-0}" -ge 10 ] && [ "${share:-0}" -ge 1 ] && [ $((2 * of2)) -gt "$lines" ] &&
  grep -q "^step 40/40 .*  rank $who slowest: +[0-9.]* ms a step  [0-9]* % in comm" slow.log &&
  grep -q "^Rank 2 is the slowest: +[0-9.]* of [0-9.]* ms a step\|^Ranks wait for each other [0-9.]* % of the time" slow.log &&
  grep -q "rank 2 is the slowest" slow/report.html; then
  ok "a slow rank: +$ms ms in $of2 of $lines lines, 0.$share of the time in comm"
else
  not_ok "a slow rank: $(cat slow.log)"
fi

# ---- a rank that fails saves what one process would: the steps in flight come to their end before the others hear of it ----
cat >fails.lua <<'L'
local sp = require "spcore"
local opt = sp.args({}, { checkpoints = false })
local g <close> = sp.graph(opt)
local data = g.reader { path = "random", batch = 2, size = 8, classes = 3, samples = 61, target = "class" }
local x = g.sleep { g.to_float { data.image, scale = true }, ms = 150 } -- longer than it takes until they have heard
local net = g.layers { x, layers = { { "flatten" }, { "linear", 8 }, { "relu" }, { "linear", 3 } } }
g:train { g.cross_entropy { net.features, data.label }, optimizer = g.sgd { lr = 0.1 } }
local run <close> = sp.run { graph = g, opt = opt, steps = 40 }
local other <close> = sp.graph { device = "cpu" } -- which closes first
for step, m in g:steps(40) do
  run:step(step, m)
  if step == 1 and sp.rank == 0 then error "its own words" end
end
L
for ranks in 1 2; do
  timeout 600 "$spcore" run fails.lua --device cpu --threads 1 --ranks $ranks --shards 2 --bucket 0 --strategy pipelined --no-tensorboard --quiet \
    --out fails$ranks >fails$ranks.log 2>&1 && not_ok "fails.lua on $ranks ranks does not fail"
done
if cmp fails1/weights.safetensors fails2/weights.safetensors && grep -q "^spcore: fails.lua:12: its own words" fails2.log &&
  grep -q "^.r1. spcore: rank 0 failed at step .*: fails.lua:12: its own words" fails2.log; then
  ok "a rank that fails saves its weights"
else
  not_ok "a rank that fails saves its weights: $(cat fails2.log)"
fi

# ---- killed, and on with other ranks ----
train long1 "$seg" $long || not_ok "$long steps on one rank: $(cat long1.log)"
# alive NAME: the launcher of its run, and its ranks. Not those of another build whose tests run beside these.
alive() {
  ps -eo pid=,args= | awk -v out="--out $1 " 'index($0, "spcore run") && index($0, out) && !/timeout|awk/ { print $1 }' |
    while read -r pid; do
      [ "$(readlink "/proc/$pid/cwd")" != "$dir" ] || echo "$pid"
    done
}
# killed RANKS SIGNAL OPTIONS...: when there is a checkpoint, long before the end; once more where nobody looked in time
killed() {
  ranks=$1 signal=$2; shift 2
  for turn in 1 2 3; do
    rm -rf "$ranks.$signal"
    train "$ranks.$signal" "$seg --checkpoint-every 10" $long --ranks "$ranks" "$@" &
    train=$!
    while ! ls "$ranks.$signal" 2>/dev/null | grep -q '^checkpoint-\([2-9]\|1[0-4]\)0\.' && kill -0 $train 2>/dev/null; do sleep 0.01; done
    pid=$(alive "$ranks.$signal" | sed -n 1p)
    [ -n "$pid" ] && kill "-$signal" "$pid"
    wait $train
    # its ranks die with the launcher, a moment later
    for look in $(seq 100); do
      [ -n "$(alive "$ranks.$signal")" ] || break
      sleep 0.1
    done
    [ -e "$ranks.$signal/summary.json" ] || return
  done
  not_ok "$ranks.$signal was over before it was killed"
}
# on NAME RANKS OPTIONS...
on() {
  name=$1 ranks=$2; shift 2
  # shellcheck disable=SC2086
  timeout 600 "$spcore" run ${seg%% *} --resume "$name" --ranks "$ranks" --quiet "$@" >"$name.log" 2>&1 ||
    not_ok "$name with $ranks ranks: $(cat "$name.log")"
  same "$name" long1
}
# apart NAME: on two ranks of different hosts, of which the second one has not the folder
apart() {
  mkdir elsewhere
  for rank in 1 0; do
    (
      export RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((31400 + $$ % 450 * 2))
      [ $rank = 0 ] || cd elsewhere
      timeout 600 "$spcore" run "${seg%% *}" --resume "$1" --quiet >"$dir/$1$rank.log" 2>&1
    ) &
  done
  wait
  cat "$1"[01].log >"$1.log"
  same "$1" long1
  [ -z "$(ls elsewhere)" ] || not_ok "rank 1 wrote $(ls elsewhere)"
}
killed 4 KILL --optimizer-shards
apart 4.KILL
killed 2 TERM
grep -q "go on with\|stopped after" 2.TERM.log || not_ok "SIGTERM: $(cat 2.TERM.log)"
on 2.TERM 8 --optimizer-shards

# ---- what is said ----
"$spcore" run train_cls.lua --device cpu --size 8 --samples 64 --batch 4 --steps 1 --ranks 2 --strategy auto --out told >told.log 2>&1
if [ "$(grep -c "each of the 2 ranks has" told.log)" = 1 ] && [ "$(grep -c "device cpu" told.log)" = 1 ] &&
  [ "$(tr '\n' ' ' <told.log | grep -c "stay serialized, because several ranks do not measure")" = 1 ]; then ok "one rank speaks"; else
  not_ok "$(cat told.log)"
fi

# ---- what does not go ----
said() {
  words=$1; shift
  if "$@" >out 2>&1; then not_ok "$*: no failure"; elif grep -q "$words" out; then ok "$words"; else not_ok "$(cat out)"; fi
}
for file in 4.KILL/checkpoint-*.safetensors; do truncate -s 100 "$file"; done
said "no checkpoint there can be gone on with: 4.KILL/checkpoint-" "$spcore" run "${seg%% *}" --resume 4.KILL --override --ranks 2 --quiet
[ "$(grep -c "no checkpoint there can" out)" = 2 ] && [ -s 4.KILL/summary.json ] || not_ok "one line a rank, and nothing removed: $(cat out)"
# shellcheck disable=SC2086
said "train: 1 shards on 2 ranks: each rank has as many, so take a multiple" \
  "$spcore" run $seg $common --steps 2 --ranks 2 --shards 1 --out no1
# shellcheck disable=SC2086
said "train: 6 shards on 4 ranks: each rank has as many, so take a multiple" \
  "$spcore" run $seg $common --steps 2 --ranks 4 --shards 6 --out no1
# shellcheck disable=SC2086
said "there is no communicator 'pigeon', only: local" "$spcore" run $seg $common --steps 2 --ranks 2 --comm pigeon --out no2
cat >own.lua <<'L'
local sp = require "spcore"
local opt = sp.args({ what = { "toy_sgd", "an optimizer" }, one = { false, "a rank alone saves" } }, {})
local g <close> = sp.graph(opt)
local data = g.reader { path = "random", batch = 2, size = 8, classes = 3, samples = 37, target = "class" }
local net = g.layers { g.to_float { data.image, scale = true }, layers = { { "flatten" }, { "linear", 3 } } }
g:train { g.cross_entropy { net.features, data.label }, optimizer = g[opt.what] { lr = 0.1 } }
for _ in g:steps(2) do end
if opt.one and sp.rank == 0 then g:save("one.safetensors", { optimizer = true }) end
for _ in g:steps(2) do end
print "trained"
L
said "train: optimizer_shards: optimizer 'toy_sgd' takes whole gradients only; leave --optimizer-shards away" \
  "$spcore" run own.lua --ranks 2 --optimizer-shards
said "rank 0 is stalled .*: it waits for 'exchange'" \
  "$spcore" run own.lua --ranks 2 --comm-timeout 8 --optimizer-shards --what adamw --one
for way in "2 --what sgd" "1"; do
  # shellcheck disable=SC2086
  "$spcore" run own.lua --optimizer-shards --ranks $way >out 2>&1 || not_ok "nothing to share: exit status $?"
  if [ "$(grep -c "'sgd' keeps nothing of a weight that ranks could share" out)" = "$((${way%% *} - 1))" ] && grep -q trained out; then
    ok "nothing to share, --ranks $way"
  else
    not_ok "nothing to share, --ranks $way: $(cat out)"
  fi
done
# A graph that could not begin is asked again, and another one after it.
cat >again.lua <<'L'
local sp = require "spcore"
for _, comm in ipairs { "pigeon", "local" } do
  local g <close> = sp.graph { device = "cpu", threads = 1, comm = comm }
  local data = g.reader { path = "random", batch = 4, size = 8, classes = 3, samples = 21, target = "class" }
  local net = g.layers { g.to_float { data.image, scale = true }, layers = { { "flatten" }, { "linear", 3 } } }
  g:train { g.cross_entropy { net.features, data.label }, optimizer = g.sgd { lr = 0.1 } }
  for _ = 1, 2 do
    local ok, why = pcall(function() for _ in g:steps(2) do end end)
    print(ok and "trained" or why)
  end
end
L
"$spcore" run again.lua --ranks 2 >out 2>&1 || not_ok "again: exit status $?"
if [ "$(grep -c "no communicator 'pigeon'" out)" = 4 ] && [ "$(grep -c "trained$" out)" = 4 ]; then ok "asked again"; else
  not_ok "asked again: $(cat out)"
fi
exit $failed
