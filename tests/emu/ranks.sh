# SPDX-License-Identifier: MIT
# ranks.sh - ranks that train on the CUDA emulator over comm_nccl.so and a stand-in of NCCL: the checksums of one process,
# eager and recorded; and with algorithms that the ranks have chosen differently.
# needs: onednn
. "$top_srcdir/tests/emu/env.sh"
unset SPCORE_EMU_PROTECT # whether hosts look into memory of the device other tests find out
if test ! -f "$emu/comm_nccl.so"; then
  echo "skipped: there is no header of NCCL"
  exit 77
fi
options="--size 16 --width 4 --levels 2 --samples 45 --device cuda --threads 1 --seed 3 --batch 2 --eval-every 3 --quiet --checksums
  --no-tensorboard --steps 6" # an epoch has four
shards=4
# The memory: 64 MiB of it are workspace, and what NCCL allocates takes 2 MiB at least, which 24 buckets cannot have each.
run() { # run RANKS STRATEGY CAPTURE TIMING [WIRE]
  wire=${5-fp32} bucket=$1
  [ "$1" != 2 ] || bucket=0 # a weight in each, and an update of each
  # shellcheck disable=SC2086
  SPCORE_EMU_MEMORY=90000000 SPCORE_EMU_TIMING=$4 "$top_builddir/spcore" run train_cls.lua $options --shards $shards --ranks "$1" --strategy "$2" --capture "$3" --bucket "$bucket" \
    --wire "$wire" --out "$tmp/$shards.$1.$2.$3.$wire" >"$tmp/log" 2>&1 || {
    echo "FAIL: $*: $(cat "$tmp/log")"
    exit 1
  }
  cmp "$tmp/$shards.$1.$2.$3.$wire/checksums.jsonl" "$tmp/$shards.1.serialized.off.$wire/checksums.jsonl" || {
    echo "FAIL: $*: other checksums than one process has"
    exit 1
  }
  echo "ok - $*"
}
few=${SP_SKIP_ONCE+yes} # the stage check of .ci/run compares the bits of each way; for memory some have to do
[ ! "$few" ] || options=$(echo "$options" | sed 's/--samples 45/--samples 29/; s/--steps 6/--steps 4/; s/--eval-every 3/--eval-every 2/')
run 1 serialized off early
[ "$few" ] || run 2 pipelined lane early
run 2 pipelined step late
if [ ! "$few" ]; then
  run 1 serialized off early bf16
  run 4 pipelined lane late bf16
fi

# six shards are halved twice: once by two ranks
if [ ! "$few" ]; then
  all=$options options=$(echo "$options" | sed 's/--steps 6/--steps 3/') shards=6
  for wire in fp32 bf16; do
    run 1 serialized off early $wire
    run 2 pipelined step late $wire
  done
  options=$all shards=4
fi

# The second rank has other algorithms in its file, whose bits are others, and those of a third of the network not at all.
tuned=$(ls "$tmp"/cuda-*.txt)
mkdir "$tmp/other"
awk -F'\t' -v OFS='\t' 'NR % 3 { if ($1 ~ /^conv/) $2 = ($2 + 1) % 4; print }' "$tuned" >"$tmp/other/${tuned##*/}"
cp "$tmp/other/${tuned##*/}" "$tmp/before"
for rank in 1 0; do
  (
    export RANK=$rank WORLD_SIZE=2 SPCORE_PORT=$((32300 + $$ % 400)) SPCORE_JOB=$$
    [ $rank = 0 ] || SPCORE_CACHE=$tmp/other
    # shellcheck disable=SC2086
    timeout 600 "$top_builddir/spcore" run train_cls.lua $options --shards $shards --out "$tmp/chosen" >"$tmp/chosen.$rank" 2>&1 || echo "status $?" >>"$tmp/chosen.$rank"
  ) &
done
wait
if cmp "$tmp/chosen/checksums.jsonl" "$tmp/$shards.1.serialized.off.fp32/checksums.jsonl" && cmp "$tmp/before" "$tmp/other/${tuned##*/}"; then
  echo "ok - rank 0's algorithms"
else
  echo "FAIL: rank 0's algorithms: $(cat "$tmp"/chosen.[01])"
  exit 1
fi

# wide RANKS CAPTURE OPTIMIZER PARTS PRECISION OPTIONS...: products over the rows of all shards
wide() {
  case $3 in adamw) how="--optimizer adamw --clip 0.5" ;; *) how="--momentum $3" ;; esac
  ranks=$1 capture=$2 parts=$4 file=$tmp/$3.$5
  shift 4
  # shellcheck disable=SC2086
  SPCORE_EMU_TIMING=late "$top_builddir/spcore" run "$top_srcdir/tests/kit/wide.lua" --device cuda --shards 4 --seed 3 $how --ranks "$ranks" \
    --capture "$capture" --parts "$parts" --precision "$@" --file "$file.$ranks.safetensors" >"$tmp/log" 2>&1 &&
    grep -q "^[12]$" "$tmp/log" && cmp "$file.$ranks.safetensors" "$file.1.safetensors" || {
    echo "FAIL: wide $ranks $capture $how $*: $(cat "$tmp/log")"
    exit 1
  }
  echo "ok - wide $ranks $capture $how $*"
}
# the kernel for large weights over few rows, made the choice wherever factors are of its shapes: the losses of the others, and
# the bits of one rank on two
outer() {
  wide 1 off 0 1 tf32 --fit
  grep ^loss "$tmp/log" >"$tmp/measured"
  awk -F'\t' -v OFS='\t' '/^product (in place|applied) cold .* n(192|256) k(192|256) -.rows.columns tf32/ { $2 = "outer"; n++ } { print } END { exit n != 4 }' \
    "$tuned" >"$tmp/before" && cp "$tmp/before" "$tuned" || {
    echo "FAIL: no products of factors: $(grep ^product "$tuned")"
    exit 1
  }
  wide 1 off 0 1 tf32 --fit
  grep ^loss "$tmp/log" >"$tmp/outer"
  wide 2 lane 0 2 tf32 --fit
  if cmp "$tmp/before" "$tuned" && paste "$tmp/measured" "$tmp/outer" | awk '{ d = $2 / $4 - 1; if (d * d > 1e-6) exit 1 } END { exit NR != 7 }'; then
    echo "ok - large weights over few rows"
  else
    echo "FAIL: large weights over few rows: $(paste "$tmp/measured" "$tmp/outer")"
    exit 1
  fi
}
if [ "$few" ]; then
  wide 1 off adamw 1 fp32
  wide 2 lane adamw 2 fp32 --optimizer-shards
else
  wide 1 off 0 1 fp32
  wide 2 lane 0 2 fp32
  wide 1 off 0.9 1 bf16
  wide 2 step 0.9 1 bf16
  wide 4 off 0.9 2 bf16
  # each rank keeps what the optimizer does of its slices
  wide 2 lane 0.9 1 bf16 --optimizer-shards
  wide 1 off adamw 1 fp32
  wide 2 step adamw 2 fp32 --optimizer-shards
  wide 4 lane adamw 1 fp32 --optimizer-shards
  # what a file gave moves to where ranks give each other weights
  cp "$tmp/adamw.fp32.1.safetensors" "$tmp/given.safetensors"
  wide 1 off adamw 1 fp32 --load "$tmp/given.safetensors"
  wide 2 lane adamw 1 fp32 --load "$tmp/given.safetensors" --optimizer-shards
  outer
fi

# NCCL's abort waits for the graphs that have calls of it, which the script's own end destroys: so that must come
cat >"$tmp/lost.lua" <<'L'
local sp = require "spcore"
local opt = sp.args({ fails = { false, "an error in the place of a death" } }, {})
local told <close> = setmetatable({}, { __close = function() io.stderr:write("rank ", sp.rank, " ends by itself\n") end })
local g <close> = sp.graph(opt) -- which is closed before that
local data = g.reader { path = "shapes", batch = 2, size = 16, samples = 61 }
local net = g.layers { g.to_float { data.image, scale = true }, layers = { { "conv", data.classes, kernel = 3, pad = 1 } } }
g:train { g.cross_entropy { net.features, data.mask }, optimizer = g.sgd { lr = 0.1 } }
for step in g:steps(1000) do
  if step == 6 and sp.rank == 1 then
    if opt.fails then error "its own words" end
    os.execute "kill -KILL $PPID"
  end
  while step == 6 do require "spcore.sys".sleep(0.05) end
end
L
lost() {
  timeout 600 "$top_builddir/spcore" run "$tmp/lost.lua" --device cuda --threads 1 --capture step --ranks 2 --shards 2 --quiet "$@" >"$tmp/log" 2>&1
}
lost
if grep -q "rank 1 died at step" "$tmp/log" && grep -q "rank 0 ends by itself" "$tmp/log"; then
  echo "ok - a rank with graphs ends when another one dies"
else
  echo "FAIL: a rank with graphs does not end when another one dies: $(cat "$tmp/log")"
  exit 1
fi
# also where that abort takes its time
SPCORE_EMU_NCCL_SLOW=1 lost
if grep -q "rank 1 died at step" "$tmp/log" && grep -q "rank 0 ends by itself" "$tmp/log"; then
  echo "ok - nobody waits for a slow abort"
else
  echo "FAIL: a rank waits for a slow abort: $(cat "$tmp/log")"
  exit 1
fi
# and ncclCommDestroy for all ranks, of which one has failed and the other waits for it
lost --fails
if grep -q "^spcore: rank 1 failed at step .* its own words" "$tmp/log" && grep -q "rank 0 ends by itself" "$tmp/log" &&
  grep -q "rank 1 ends by itself" "$tmp/log"; then
  echo "ok - a rank with graphs ends when it fails"
else
  echo "FAIL: a rank with graphs does not end when it fails: $(cat "$tmp/log")"
  exit 1
fi

# who is slow a device tells of one step in 16, some steps later; of a step that is one graph nothing
cat >"$tmp/slow.lua" <<'L'
local sp = require "spcore"
local opt = sp.args({}, { checkpoints = false })
local g <close> = sp.graph(opt)
local data = g.reader { path = "random", batch = 2, size = 8, classes = 3, samples = 640, target = "class" }
local val = g.reader { path = "random", batch = 2, size = 8, classes = 3, samples = 16, target = "class", split = "val" }
local net = g.layers { g.to_float { data.image, scale = true }, layers = { { "flatten" }, { "linear", 3 } } }
g:train { g.cross_entropy { net.features, data.label }, optimizer = g.sgd { lr = 0.1 } }
g:evaluate { data = val, every = 11 }
local first, last
for step, m in g:steps(34) do
  if sp.rank == 1 then require "spcore.sys".sleep(0.06) end
  if m.slowest_rank then first, last = first or step, m end
end
if sp.rank == 0 then print(last and ("from %d: rank %d, %.3f ms, %.3f"):format(first, last.slowest_rank, last.slowest_ms, last.comm_share) or "nothing") end
L
# a step is 60 ms longer on rank 1; with four shards each rank has two passes a step, whose collectives are made one by one
for capture in off lane step "lane --shards 4"; do
  [ "$few" ] && [ "$capture" != lane ] && continue
  # shellcheck disable=SC2086
  said=$(SPCORE_EMU_SLOWER=1 timeout 600 "$top_builddir/spcore" run "$tmp/slow.lua" --device cuda --threads 1 --ranks 2 --capture $capture --quiet 2>&1) ||
    said="exit status $?: $said"
  if echo "$said" | awk -v capture="${capture%% *}" '
    /^nothing$/ { ok = capture == "step" }
    /^from/ { ok = capture != "step" && $2 + 0 > 15 && $2 + 0 < 30 && $4 == "1," && $5 >= 15 && $7 > 0.1 && $7 <= 1 }
    END { exit !ok || NR != 1 }'; then
    echo "ok - the slow rank, $capture: $said"
  else
    echo "FAIL: the slow rank, $capture: $said"
    exit 1
  fi
done
