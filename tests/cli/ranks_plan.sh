#!/bin/sh
# SPDX-License-Identifier: MIT
# What `spcore schedule` and --explain say of a step of several ranks: where buckets, rows and updates are. ranks_train.sh
# compares the bits.
# needs: onednn images
# once: what a schedule says is the same in every build
set -u
spcore=$top_builddir/spcore
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 99
failed=0
ok() { echo "ok - $*"; }
not_ok() {
  echo "not ok - $*"
  failed=1
}
net="--width 8 --levels 4" # products of few rows, which have factors
seg="train_seg.lua --size 16 $net --train-encoder --samples 124 --ema 0.9 --dropout 0.1"
cls="train_cls.lua --size 16 --samples 124"
common="--device cpu --threads 1 --seed 3 --batch 2 --shards 8 --eval-every 4 --quiet --checksums --no-tensorboard"

# shellcheck disable=SC2086
"$spcore" run $seg $common --steps 1 --ranks 2 --bucket 0 --explain --out no0 >plan 2>&1
# behind its part a bucket is on its way while the backward goes on
if awk '/CALL .*comm.scatter|COMM .*comm.scatter/ { sent = 1 } /CALL .*decoder.backward\[[1-9]/ { if (sent) late = 1 } END { exit !late }' plan; then
  ok "buckets behind their parts"
else
  not_ok "buckets behind their parts: $(cat plan)"
fi
# rows of forward() come in behind it, and no backward waits for them
if ! grep -q "WAIT .*backward.* <- comm" plan && grep -q "COMM .*comm.rows" plan; then
  ok "no backward waits for rows"
else
  not_ok "a backward waits for rows: $(cat plan)"
fi
# with a shard a rank the sums are in lane comm, too, so that the other one is not cut for them
# shellcheck disable=SC2086
"$spcore" run $seg $common --shards 2 --steps 1 --ranks 2 --explain --out no0 >plan1 2>&1
if grep -q "CALL  *comm  *shard_sum.forward" plan1 && ! grep -q "WAIT .*\(shard_sum\|shard_scale\|backward\).* <- comm" plan1; then
  ok "a shard a rank"
else
  not_ok "a shard a rank: $(cat plan1)"
fi
# updates begin before the last buckets are there, each of which its own update waits for
if awk '/^ *CALL .*adamw.update\[1\]/ { begun = 1 } /^ *WAIT .*adamw.update\[[0-9]*\] <- comm.gather/ { if (begun) late = 1 }
  END { exit !late }' plan && ! grep -q 'CALL .*adamw.update$' plan; then
  ok "updates bucket by bucket"
else
  not_ok "updates bucket by bucket: $(cat plan)"
fi
# rows that are wanted as soon as they come do not wait for the last bucket, which is wanted behind all of them
"$spcore" schedule reference_seg.lua --size 64 --batch 2 --device cpu --ranks 2 --parts 4 >plan1 2>&1
if grep -q '^  comm .*comm.rows.decoder.6., comm.rows.decoder.4., comm.rows.decoder.2., shard_sum.forward, comm.scatter.1.' plan1 &&
  grep -q 'comm.rows.decoder.4.  *<-  all *decoder.backward.1.' plan1; then
  ok "the last bucket behind rows"
else
  not_ok "the last bucket behind rows: $(cat plan1)"
fi
# rows that come together go in one call
if "$spcore" schedule reference_seg.lua --size 64 --batch 2 --device cpu --ranks 2 --parts 2 >plan2 2>&1 &&
  grep -q '^  comm .*comm.rows.decoder.1,3,5., shard_count.forward, .*comm.rows.decoder.6,4,2., shard_sum' plan2; then
  ok "rows in one call, those of the forward before the totals"
else
  not_ok "rows in one call: $(cat plan2)"
fi
# what other ranks wait for goes before what this one computes: on a GPU the trained lane would keep it waiting
if grep -q '^  comm  *delay  *[0-9]  *highest ' plan2 && [ "$(grep -c highest plan2)" = 1 ]; then
  ok "lane comm before all"
else
  not_ok "lane comm before all: $(cat plan2)"
fi
# what plain SGD updates behind its sum waits for no product of factors, and is made beside them
if grep -q '^  comm .*comm.gather.1., sgd.update$' plan2 && ! grep -q 'sgd.update .*<- .*apply' plan2 &&
  grep -q 'decoder.forward  *<-  comm  *sgd.update  *1 step back' plan2; then
  ok "updates beside products"
else
  not_ok "updates beside products: $(cat plan2)"
fi
# nor does a product wait for running statistics, which come with that sum
cat >norm.lua <<'EOF'
local sp = require "spcore"
local g <close> = sp.graph { shards = 2 }
local data = g.reader { path = "shapes", size = 16, batch = 2, samples = 20 }
local net = g.layers {
  g.to_float { data.image, scale = true },
  layers = {
    { "conv", 16, kernel = 4, stride = 4 }, { "batch_norm" }, { "relu" }, { "conv", 64, kernel = 4, stride = 4 }, { "relu" },
    { "conv", 64, kernel = 1 }, { "relu" }, { "conv_transpose", data.classes, kernel = 16, stride = 16 },
  },
}
g:train { g.cross_entropy { net.features, data.mask }, optimizer = g.sgd { lr = 0.01 } }
for _ in g:steps(2) do end
EOF
if "$spcore" schedule norm.lua --ranks 2 >plan2 2>&1 && grep -q '^  comm .*comm.gather.1., comm.counts, sgd.update$' plan2 &&
  grep -q 'layers.apply  *<-  comm  *comm.rows' plan2 && ! grep -q 'layers.apply .*<- .*comm.\(gather\|counts\)' plan2; then
  ok "statistics beside products"
else
  not_ok "statistics beside products: $(cat plan2)"
fi
# but the update of several buckets is on the trained lane, each part where its bucket is there
if "$spcore" schedule reference_seg.lua --size 64 --batch 2 --device cpu --ranks 2 --parts 2 --bucket 0 >plan2 2>&1 &&
  grep -q '^  all .*sgd.update.1., .*sgd.update.2.' plan2; then
  ok "updates of several buckets"
else
  not_ok "updates of several buckets: $(cat plan2)"
fi
# products of factors are made where their rows are there, between the updates
# shellcheck disable=SC2086
"$spcore" run train_seg.lua --size 16 --width 8 --levels 4 --train-encoder --samples 124 $common --steps 1 --ranks 2 --bucket 0 --explain \
  --out no00 >plan 2>&1
if awk -F '[][]' '/COMM .*comm.gather/ { bucket = $2 } /COMM .*comm.rows.decoder.2/ { first = bucket } /CALL .*adamw.update/ { update = $2 }
  /CALL .*decoder.apply/ { right = update == first && first > 1 } END { exit !right || update <= first }' plan; then
  ok "products between updates"
else
  not_ok "products between updates: $(cat plan)"
fi
# gradients of one part in several buckets: what is done with one of them waits for no other one
# shellcheck disable=SC2086
"$spcore" run $cls $common --steps 1 --ranks 2 --parts 1 --bucket 0 --explain --out no00 >plan 2>&1
if awk -F '[][]' '/WAIT .*shard_sum.forward <- comm/ { late = 1 } /WAIT .*update.* <- comm.gather/ { seen = 1; late += $(NF - 3) != $(NF - 1) }
  END { exit late || !seen }' plan; then
  ok "buckets of one part"
else
  not_ok "buckets of one part: $(cat plan)"
fi
# refused, and by itself within a job
"$spcore" schedule train_cls.lua --ranks 0 >out 2>&1
[ $? = 2 ] && grep -q "^spcore: schedule: --ranks 0: a whole number from 1 to 256 is wanted" out || not_ok "schedule --ranks 0: $(cat out)"
RANK=1 WORLD_SIZE=2 "$spcore" schedule --ranks 2 train_cls.lua >out 2>&1
[ $? = 2 ] && grep -q "^spcore: schedule: --ranks 2: this is rank 1 of 2 already" out || not_ok "schedule of a rank: $(cat out)"
RANK=1 WORLD_SIZE=2 "$spcore" schedule $cls --comm-timeout 5 >out 2>&1
[ $? = 0 ] && ! grep -q comm.gather out || not_ok "schedule within a job: $(cat out)"
# rank 0 alone prints a schedule, which is that of several ranks
# shellcheck disable=SC2086
"$spcore" schedule --ranks 2 $cls $common --bucket 0 >schedule 2>&1 && "$spcore" schedule --json $cls $common --ranks 2 --bucket 0 >schedule.json 2>&1
if [ "$(grep -c "^lane comm:\|^strategy .* capture" plan schedule | tr '\n' ' ')" = "plan:1 schedule:1 " ] && grep -q "comm.gather.24. " schedule &&
  [ "$(grep -c '"device": "cpu"' schedule.json)" = 1 ] && grep -q '"comm.gather.24."' schedule.json; then
  ok "schedules of ranks"
else
  not_ok "schedules of ranks: $(cat schedule schedule.json)"
fi
exit $failed
