# SPDX-License-Identifier: MIT
# train.sh - whole training runs on the CUDA emulator: the cpu's losses, and the same bits whatever the strategy, the
# capture, the order of blocks and threads and the timing of the streams.
# needs: onednn images
. "$top_srcdir/tests/emu/env.sh"
failed=0

# run NAME "VARIABLE=VALUE ..." OPTION...: a short training by $script, kept in $tmp/NAME
script=train_seg.lua
run() {
  name=$1 vars=$2
  shift 2
  env $vars "$top_builddir/spcore" run "$top_srcdir/scripts/$script" --batch 2 --steps 4 --size 32 --samples 16 \
    --checksums --pictures 0 --out "$tmp/$name" "$@" >"$tmp/$name.log" 2>&1 && return 0
  echo "$name:"
  cat "$tmp/$name.log"
  failed=1
}

same() {
  "$top_builddir/spcore" diff "$tmp/$1" "$tmp/$2" >"$tmp/diff" 2>&1 && return 0
  echo "$1 and $2 differ:"
  cat "$tmp/diff"
  failed=1
}

losses() { sed -n 's/^step \([0-9]*\).*  loss \([0-9.]*\).*/\1 \2/p' "$tmp/$1.log"; }

run cpu "" --device cpu --pictures 1
run fp32 "" --device cuda --precision fp32 --pictures 1
for picture in input truth last; do
  cmp "$tmp/cpu/samples/$picture-00000.png" "$tmp/fp32/samples/$picture-00000.png" || failed=1
done
if test -z "$(losses cpu)" || test "$(losses cpu)" != "$(losses fp32)"; then
  echo "the losses are not the cpu's:"
  losses cpu
  losses fp32
  failed=1
fi
# features that are kept, read by kernels from either memory
run kept "" --device cuda --precision fp32 --cache device
run kept_late "SPCORE_EMU_TIMING=late SPCORE_EMU_ORDER=reverse" --device cuda --precision fp32 --cache host --strategy pipelined
for name in kept kept_late; do
  grep -q "^spcore: filling the cache of 'encoder' from 'reader_2'" "$tmp/$name.log" || { cat "$tmp/$name.log"; failed=1; }
  cmp "$tmp/fp32/weights.safetensors" "$tmp/$name/weights.safetensors" || failed=1
done
precisions="tf32 bf16"
test "${SP_SANITIZERS-none}" = none || precisions=tf32 # the other takes as many minutes
for precision in $precisions; do
  run plain "" --device cuda --precision $precision --strategy serialized --capture off
  run reverse SPCORE_EMU_ORDER=reverse --device cuda --precision $precision --strategy serialized --capture off
  run late SPCORE_EMU_TIMING=late --device cuda --precision $precision --strategy pipelined --capture off
  run captured "" --device cuda --precision $precision --strategy pipelined
  run auto SPCORE_EMU_SLOWER=1 --device cuda --precision $precision --strategy auto --auto-budget 0.5
  grep -q '^strategy auto: ' "$tmp/auto.log" || { echo "auto says nothing:"; cat "$tmp/auto.log"; failed=1; }
  for other in reverse late captured auto; do same plain $other; done
  rm -rf "$tmp/plain" "$tmp/reverse" "$tmp/late" "$tmp/captured" "$tmp/auto"
done

# means over maps of bfloat16 are not rounded to it
cat >"$tmp/mean.lua" <<'L'
local sp = require "spcore"
local opt = sp.args({}, {})
local g <close> = sp.graph(opt)
local data = g.reader { path = "random", batch = 2, size = 9, classes = 3, samples = 8, target = "class" }
local net = g.layers { g.to_float { data.image, scale = true }, layers = { { "conv", 16, kernel = 3 }, { "mean" } }, frozen = true }
local head = g.classifier { net.features, layers = sp.models.probe { classes = 3, pooled = true }, classes = 3 }
g:train { g.cross_entropy { head.logits, data.label }, optimizer = g.sgd { lr = 0.1 } }
g:results { net.features }
local rounded, n = 0, 0
local function look(v)
  if type(v) == "table" then for _, x in ipairs(v) do look(x) end return end
  n, rounded = n + 1, rounded + (string.unpack("<I4", string.pack("<f", v)) & 0xffff == 0 and 1 or 0)
end
for _, m in g:steps(1) do look(m.features) end
print(n == 32 and rounded < 4 and "float32" or ("%d of %d are bfloat16"):format(rounded, n))
L
means=$("$top_builddir/spcore" run "$tmp/mean.lua" --device cuda --precision bf16 --quiet 2>&1)
test "$means" = float32 || { echo "mean: $means"; failed=1; }

# augmentation on the device draws what the cpu draws
script=train_cls.lua
run cpu_cls "" --device cpu
run gpu_cls "" --device cuda --precision fp32
run reverse_cls SPCORE_EMU_ORDER=reverse --device cuda --precision fp32 --strategy pipelined --capture off
for capture in lane step; do
  run $capture SPCORE_EMU_TIMING=late --device cuda --precision fp32 --strategy pipelined --capture $capture
  same gpu_cls $capture
done
if test -z "$(losses cpu_cls)" || test "$(losses cpu_cls)" != "$(losses gpu_cls)"; then
  echo "train_cls.lua: the losses are not the cpu's:"
  losses cpu_cls
  losses gpu_cls
  failed=1
fi
same gpu_cls reverse_cls
for test in optimizer ema; do
  SP_TEST_DEVICES=cuda SPCORE_EMU_PROTECT=0 "$top_builddir/spcore" run "$top_srcdir/tests/lua/$test.lua" || failed=1
done
# a frozen encoder whose batch norms are folded and whose sums are products' own, in another precision than what is trained
cat >"$tmp/own.lua" <<'L'
local sp = require "spcore"
local opt = sp.args({ encoder = { "", "its precision" }, channels = { 16, "of its maps" }, size = { 32, "of images" } }, { checkpoints = true })
local g <close> = sp.graph(opt)
local data = g.reader { path = "shapes", batch = 2, size = opt.size, samples = 16 }
local conv = function(name, from, k, s) return { "conv", opt.channels, kernel = k, stride = s or 1, pad = k // 2, bias = false, name = name, from = from } end
local enc = g.layers {
  g.to_float { data.image, scale = true }, name = "enc", frozen = true, precision = opt.encoder ~= "" and opt.encoder or nil,
  layers = { conv("a", nil, 7, 2), { "batch_norm" }, { "relu", name = "x" }, conv("b", nil, 3), { "batch_norm" }, { "relu" },
    conv("c", nil, 1), { "batch_norm", name = "y" }, { "add", from = { "y", "x" } }, { "relu", name = "z" }, conv("d", nil, 3, 2),
    { "batch_norm", name = "p" }, conv("e", "z", 1, 2), { "batch_norm", name = "q" }, { "add", from = { "p", "q" } }, { "relu" } },
}
local head = g.layers { enc.features, layers = { { "conv", data.classes, kernel = 1 }, { "upsample", scale = 4 } } }
g:train { g.cross_entropy { head.features, data.mask }, optimizer = g.sgd { lr = 0.1 } }
local run <close> = sp.run { graph = g, opt = opt, steps = 4 }
for step, m in g:steps(4) do run:step(step, m) end
run:finish()
L
own() {
  name=$1 vars=$2
  shift 2
  env $vars "$top_builddir/spcore" run "$tmp/own.lua" --checksums --out "$tmp/$name" "$@" >"$tmp/$name.log" 2>&1 && return 0
  echo "$name:"
  cat "$tmp/$name.log"
  failed=1
}
own own_cpu "" --device cpu
own own_fp32 "" --device cuda --precision fp32
own own_tf32 "" --device cuda --precision tf32
own own_bf16 "" --device cuda --precision bf16
own own_both "" --device cuda --precision tf32 --encoder bf16
own own_late SPCORE_EMU_TIMING=late --device cuda --precision tf32 --encoder bf16 --strategy pipelined --capture off
own own_step SPCORE_EMU_ORDER=reverse --device cuda --precision tf32 --encoder bf16 --strategy pipelined --capture step
same own_both own_late
same own_both own_step
test -n "$(losses own_cpu)" && test "$(losses own_cpu)" = "$(losses own_fp32)" || { echo "frozen: the losses are not the cpu's"; failed=1; }
weights() { cksum <"$tmp/$1/weights.safetensors"; }
# the kernels for many channels, made the choice where they are one
tuned=$tmp/many
own own_f SPCORE_CACHE="$tuned" --device cuda --precision bf16 --channels 64 --size 16
awk -F'\t' -v OFS='\t' '$1 ~ / wide/ { $2 = "own" } { print }' "$tuned"/*.txt >"$tmp/chosen" && cp "$tmp/chosen" "$tuned"/*.txt
own own_wide SPCORE_CACHE="$tuned" --device cuda --precision bf16 --channels 64 --size 16
if [ "$(grep -c ' wide.*own$' "$tmp/chosen")" = 3 ] && cmp "$tmp/chosen" "$tuned"/*.txt && losses own_f >"$tmp/f" && losses own_wide >"$tmp/wide" &&
  paste "$tmp/f" "$tmp/wide" | awk '{ d = $2 / $4 - 1; if (d * d > 1e-5) bad = 1 } END { exit bad || NR != 4 }'; then
  echo "ok - convolutions of many channels"
else
  echo "FAIL: convolutions of many channels: $(cat "$tmp/chosen") $(paste "$tmp/f" "$tmp/wide")"
  failed=1
fi
for other in own_tf32 own_bf16; do
  test "$(weights own_both)" != "$(weights $other)" || { echo "precision = bf16 on the encoder computes as $other"; failed=1; }
done
exit $failed
