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

# Beside the stage check of .ci/run two small networks have to do, each in two ways: what memory they touch is that of all.
if test "${SP_SKIP_ONCE-}"; then
  run plain "" --device cuda --precision tf32 --strategy serialized --capture off
  run captured SPCORE_EMU_TIMING=late --device cuda --precision tf32 --strategy pipelined
  same plain captured
  script=train_cls.lua
  run lane "" --device cuda --precision bf16 --capture lane
  run step "SPCORE_EMU_TIMING=late SPCORE_EMU_ORDER=reverse" --device cuda --precision bf16 --strategy pipelined --capture step
  same lane step
  exit $failed
fi

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
for precision in tf32 bf16; do
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
for test in optimizer ema groups phases; do
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
# here FILE NAME "VARIABLE=VALUE ..." OPTION...: runs $tmp/FILE.lua
here() {
  file=$1 name=$2 vars=$3
  shift 3
  env $vars "$top_builddir/spcore" run "$tmp/$file.lua" --checksums --out "$tmp/$name" "$@" >"$tmp/$name.log" 2>&1 && return 0
  echo "$name:"
  cat "$tmp/$name.log"
  failed=1
}
own() { here own "$@"; }
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
if [ "$(grep -c ' wide.*own$' "$tmp/chosen")" = 4 ] && cmp "$tmp/chosen" "$tuned"/*.txt && losses own_f >"$tmp/f" && losses own_wide >"$tmp/wide" &&
  paste "$tmp/f" "$tmp/wide" | awk '{ d = $2 / $4 - 1; if (d * d > 1e-5) bad = 1 } END { exit bad || NR != 4 }'; then
  echo "ok - convolutions of many channels"
else
  echo "FAIL: convolutions of many channels: $(cat "$tmp/chosen") $(paste "$tmp/f" "$tmp/wide")"
  failed=1
fi
# what lies between two blocks of bottlenecks: apart, and as one kernel, also where a map in between goes out, in time another
# value could lie where its results go, and the last batch is smaller. What the first convolution of a block is added to is a
# product behind the last one (resnet), or before it (before); not as one where somebody else reads the 3x3's result (read)
cat >"$tmp/neck.lua" <<'L'
local sp = require "spcore"
local opt = sp.args({ kind = { "resnet", "of network", choices = { "resnet", "before", "read" } } }, { checkpoints = true })
local g <close> = sp.graph(opt)
local data = g.reader { path = "shapes", batch = 2, size = 40, samples = 15 }
local list = {}
if opt.kind == "resnet" then
  for i, l in ipairs(sp.models.get "resnet50") do
    list[i] = l
    if l.name == "layer2.0.bn1" then list[i + 1] = { "relu" } break end
  end
else
  local function add(name, channels, kernel, from, stride)
    list[#list + 1] = { "conv", channels, kernel = kernel, pad = kernel // 2, stride = stride, from = from, name = name .. "0" }
    list[#list + 1] = { "relu", name = name }
  end
  add("a", 64, 7, nil, 4)
  list[#list].tap = true
  add("b", 64, 1)
  add("i", 64, 3)
  list[#list + 1] = { "conv", 256, kernel = 1, from = "a", name = "s" }
  list[#list + 1] = { "conv", 256, kernel = 1, from = "i", name = "o" }
  list[#list + 1] = { "add", from = { "o", "s" } }
  list[#list + 1] = { "relu", tap = true }
  add("z", 64, 1)
  if opt.kind == "read" then list[#list + 1] = { "add", from = { "z", "i" } } end
end
local enc = g.encoder { g.to_float { data.image, scale = true }, name = "enc", frozen = true, layers = list }
local last = g.layers { enc.maps[2], name = "last", layers = { { "conv", 8, kernel = 1 }, { "relu" } } }
local head = g.decoder { enc.features, skips = { last.features }, layers = { { "conv", data.classes, kernel = 1, name = "x" },
  { "conv", data.classes, kernel = 1, from = "skips.1", name = "y" }, { "add", from = { "x", "y" } }, { "upsample", scale = 4 } },
  classes = data.classes }
g:train { g.cross_entropy { head.logits, data.mask }, optimizer = g.sgd { lr = 0.1 } }
local run <close> = sp.run { graph = g, opt = opt, steps = 8 }
for step, m in g:steps(8) do run:step(step, m) end
run:finish()
L
neck() {
  name=$1 kind=$2
  shift 2
  here neck "$name" "SPCORE_CACHE=$tmp/$kind" --kind "$kind" --device cuda --precision bf16 "$@"
}
# necks KIND HOW: makes it the choice of all of them
necks() {
  awk -F'\t' -v OFS='\t' -v how="$2" '$1 ~ /^neck / { $2 = how } { print }' "$tmp/$1"/*.txt >"$tmp/chosen" && cp "$tmp/chosen" "$tmp/$1"/*.txt
}
for want in resnet:6 before:2 read:0; do
  kind=${want%:*}
  neck "found_$kind" "$kind"
  necks "$kind" apart
  neck "apart_$kind" "$kind"
  necks "$kind" one
  neck "one_$kind" "$kind"
  if [ "$(grep -c '^neck .*one$' "$tmp/chosen")" = "${want#*:}" ] && cmp "$tmp/chosen" "$tmp/$kind"/*.txt && losses "apart_$kind" >"$tmp/f" &&
    losses "one_$kind" >"$tmp/wide" && paste "$tmp/f" "$tmp/wide" | awk '{ d = $2 / $4 - 1; if (d * d > 1e-6) bad = 1 } END { exit bad || NR != 8 }'; then
    echo "ok - blocks of bottlenecks, $kind"
  else
    echo "FAIL: blocks of bottlenecks, $kind: $(cat "$tmp/chosen") $(paste "$tmp/f" "$tmp/wide")"
    failed=1
  fi
done
cmp -s "$tmp/apart_resnet/weights.safetensors" "$tmp/one_resnet/weights.safetensors" && { echo "the choice changes nothing"; failed=1; }
neck late resnet --strategy pipelined
same one_resnet late
for other in own_tf32 own_bf16; do
  test "$(weights own_both)" != "$(weights $other)" || { echo "precision = bf16 on the encoder computes as $other"; failed=1; }
done
exit $failed
