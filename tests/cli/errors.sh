#!/bin/sh
# SPDX-License-Identifier: MIT
# Bad input of every kind, as a user meets it: one line that names file, place and cure, and exit status 1 (2 for usage).
# needs: onednn images jansson
set -u
spcore=$top_builddir/spcore
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 99
failed=0

# expect STATUS WORD... -- COMMAND...: all words stand in the one line on stderr
expect() {
  want=$1; shift
  : > words
  while [ "$1" != -- ]; do echo "$1" >> words; shift; done
  shift
  "$@" > out 2> err < /dev/null
  got=$?
  lines=$(grep -c . err)
  ok=1
  [ "$got" = "$want" ] || ok=0
  [ "$lines" = 1 ] || ok=0
  while IFS= read -r w; do grep -qF -- "$w" err || ok=0; done < words
  if [ $ok = 1 ]; then
    echo "ok - $(head -c 160 err)"
  else
    echo "not ok - exit $got (wanted $want), $lines lines (wanted 1), wanted words: $(tr '\n' '|' < words)"
    sed 's/^/    /' err | head -5
    failed=1
  fi
}

script() { cat > "$1.lua"; }
lua() { # lua NAME STATUS WORD...: runs the script given on stdin
  name=$1; want=$2; shift 2
  { echo 'local sp = require "spcore"; local opt = sp.args {}; local g <close> = sp.graph(opt)'; cat; } > "$name.lua"
  expect "$want" "$@" -- "$spcore" run "$name.lua" --quiet
}
train='for _ in g:steps(2) do end'
train_seg() { "$spcore" run train_seg.lua --quiet --steps 2 --batch 4 --train-encoder --out "$dir/run" "$@"; s=$?; rm -rf "$dir/run"; return $s; }

# ---- scripts and options ----
expect 2 nowhere.lua "looked" -- "$spcore" run nowhere.lua
printf 'local x = = 1\n' > syntax.lua
expect 1 "syntax.lua:1:" -- "$spcore" run syntax.lua
expect 2 "--stepz" "--steps" -- "$spcore" run train_seg.lua --stepz 3
expect 2 "--steps" "many" -- "$spcore" run train_seg.lua --steps many
expect 2 "inspekt" "inspect" -- "$spcore" inspekt
expect 1 "encodr" "encoder" -- "$spcore" inspect encodr
expect 1 "pipelind" "pipelined" -- "$spcore" run train_seg.lua --quiet --strategy pipelind

# ---- the graph ----
lua stage 1 "stage.lua:2" "encodr" "encoder" <<'E'
local e = g.encodr {}
E
lua param 1 "param.lua:2" "pth" "path" <<'E'
local d = g.reader { pth = "shapes" }
E
lua range 1 "range.lua:2" "workers" "0" <<'E'
local d = g.reader { path = "shapes", workers = 0, size = 16, batch = 2 }
E
lua type 1 "type.lua:2" "workers" "integer" "two" <<'E'
local d = g.reader { path = "shapes", workers = "two", size = 16, batch = 2 }
E
lua port 1 "port.lua:3" "imag" "image" <<'E'
local d = g.reader { path = "shapes", size = 16, batch = 2 }
local f = g.to_float { d.imag }
E
lua cycle 1 "cycle" "a" "b" <<'E'
local a, b = g.add { name = "a" }, g.add { name = "b" }
local d = g.reader { path = "shapes", size = 16, batch = 2 }
local f = g.to_float { d.image }
g:wire(a, "x", f.image)
g:wire(b, "x", a)
g:wire(a, "x", b)
E
lua open 1 "decoder" "not wired" "features" <<E
local d = g.decoder { classes = 3 }
$train
E
lua shape 1 "decoder" "skips" <<'E'
local d = g.reader { path = "shapes", size = 16, batch = 2 }
local f = g.to_float { d.image }
local e = g.encoder { f, model = "unet", width = 4, levels = 2 }
local c = g.decoder { e.features, skips = f.image, model = "unet", classes = 3 }
E
lua race 1 "encoder" "decoder" <<E
local d = g.reader { path = "shapes", size = 16, batch = 2 }
local e = g.encoder { g.to_float { d.image }, frozen = true }
local c = g.decoder { e.features, classes = data and 1 or 6 }
g:train { g.cross_entropy { c.logits, d.mask }, optimizer = g.sgd {} }
g:strategy({ { name = "early", stages = g:trained(), delay = 0 }, { name = "late", stages = g:frozen(), delay = 1 } }, "mine")
$train
E
lua delays 1 "encoder" "decoder" "two delays" <<E
local d = g.reader { path = "shapes", size = 16, batch = 2 }
local f = g.to_float { d.image }
local e = g.encoder { f }
local c = g.decoder { e.features, classes = 6 }
local l = g.cross_entropy { c.logits, d.mask }
local o = g.sgd {}
g:train { l, optimizer = o }
g:strategy({ { name = "a", stages = { f, e }, delay = 0 }, { name = "b", stages = { c, l, o }, delay = 1 } }, "mine")
$train
E

# ---- data ----
expect 1 "$dir/none" -- train_seg --data "$dir/none"
mkdir -p empty/images empty/masks
expect 1 "$dir/empty" -- train_seg --data "$dir/empty" --classes 6
if "$spcore" run make_shapes.lua "$dir/set" --quiet --samples 24 --size 32 > out 2>&1; then
  cp -r set nomask && rm "$(ls nomask/masks/*.png | head -1)"
  expect 1 "nomask/images/" -- train_seg --data "$dir/nomask" --size 32
  cp -r set othersize
  "$spcore" run make_shapes.lua "$dir/big" --quiet --samples 24 --size 40 > out 2>&1
  for f in big/masks/*; do cp "$f" othersize/masks/; done
  expect 1 "othersize/" "32" "40" -- train_seg --data "$dir/othersize" --size 32
  cp -r set range && echo background > range/classes.txt && echo disc >> range/classes.txt
  expect 1 "range/masks/" ": label " "there are 2 classes (0 to 1, and 255: no label)" -- train_seg --data "$dir/range" --size 32
  cp -r set broken
  for f in broken/images/*; do head -c 300 "$f" > cut && cp cut "$f"; done
  expect 1 "max_bad" "broken/images/" -- train_seg --data "$dir/broken" --size 32
else
  echo "not ok - make_shapes.lua:"; sed 's/^/    /' out; failed=1
fi

# ---- plugins ----
for kind in bad_abi bad_entry bad_symbol; do
  f=$(ls "$SP_TEST_PLUGINS"/*$kind*.so 2> /dev/null | head -1)
  [ -n "$f" ] || { echo "not ok - no test plugin for $kind"; failed=1; continue; }
  expect 1 "${f##*/}" -- "$spcore" inspect --plugin "$f" reader
done

head -c 3000 "$SP_TEST_PLUGINS/crash.so" > cut.so
expect 1 "cut.so" "cut short" -- "$spcore" inspect --plugin ./cut.so reader
mkdir rubbish && cp cut.so rubbish
SPCORE_PLUGIN_PATH="$SPCORE_PLUGIN_PATH:$dir/rubbish" "$spcore" inspect > out 2>&1 ||
  { echo "not ok - a file cut short in the plugin path: $(cat out)"; failed=1; }

# ---- the terminal, and what is printed ----
lua newline 1 "newline.lua:2: one two?" <<'E'
error("one\ntwo\27")
E
lua handle 1 "handle.lua:2" "'path'" "an open file" <<'E'
g.reader { path = io.stdout }
E
lua nothing 1 "nothing.lua:2" "no stages" <<'E'
for _ in g:steps(3) do end
E
cat > prints.lua <<'E'
local sp = require "spcore"
local opt = sp.args {}
local g <close> = sp.graph(opt)
local d = g.reader { path = "shapes", size = 16, batch = 2 }
local x = g.to_float { d.image }
local run <close> = sp.run { graph = g, opt = opt, steps = 2, weights = false }
for step, m in g:steps(2) do run:step(step, m) end
run:finish()
E
[ ! -w /dev/full ] || expect 1 "standard output" -- sh -c "exec '$spcore' run prints.lua --out full > /dev/full"
for path in none/trace.json . ; do # said before the first step
  expect 1 "prints.lua:3" "cannot write the trace '$path'" -- "$spcore" run prints.lua --out traced --trace $path
  [ ! -e traced ] || { echo "not ok - a run folder for a trace that cannot be"; failed=1; }
done
sed 's/ <close>//' prints.lua > forgets.lua
for script in prints forgets; do # whoever closes the graph
  [ ! -w /dev/full ] ||
    expect 1 "cannot write the trace '/dev/full'" -- "$spcore" run $script.lua --out $script --trace /dev/full
done
# the metrics must not take the number of a closed standard output
"$spcore" run prints.lua --out shut >&- 2> err
grep -v '^{' shut/metrics.jsonl > out && { echo "not ok - prints in metrics.jsonl: $(head -1 out)"; failed=1; }

# ---- nothing is lost ----
cat > gone.lua <<'E'
local sp = require "spcore"
local opt = sp.args {}
local g <close> = sp.graph(opt)
local d = g.reader { path = "shapes", size = 16, batch = 2 }
local e = g.encoder { g.to_float { d.image }, model = "unet", width = 4, levels = 2 }
local run <close> = sp.run { graph = g, opt = opt, steps = 2 }
for step, m in g:steps(2) do run:step(step, m) end
os.execute("rm -r gone") -- as bad as a full disk
run:finish()
E
mkdir tmp
expect 1 "gone/weights.safetensors" "instead" "$dir/tmp/" -- \
  env TMPDIR="$dir/tmp" "$spcore" run gone.lua --quiet --out gone
ls tmp/*/weights.safetensors > out || { echo "not ok - the weights are lost"; failed=1; }
mkdir -p own/images
expect 2 "own/images" "is there already" -- "$spcore" run make_shapes.lua own --quiet --samples 2

# ---- signals ----
# signals STATUS LINE SIGNAL...: stuck.lua, given on stdin, says "on", gets the signals, and ends so, with that last line
signals() {
  want=$1; line=$2; shift 2
  cat > stuck.lua
  # in the background a shell lets SIGINT be ignored; what earlier runs left must not be taken for this one's
  rm -f err pid got
  timeout -s KILL 600 sh -c "(trap - INT; exec '$spcore' run stuck.lua 2> err) & echo \$! > pid; wait \$!; echo \$? > got" &
  for _ in $(seq 300); do grep -qx on err 2> /dev/null && [ -s pid ] && break; sleep 0.1; done
  while [ $# -gt 0 ]; do
    kill "-$1" "$(cat pid)"
    shift
    # the second one comes when the first is heard
    for _ in $(seq 200); do
      [ $# != 0 ] && ! grep -q '^spcore: SIG' err || break
      sleep 0.1
    done
  done
  wait $!
  [ "$(cat got)" = "$want" ] && tail -n 1 err | grep -qx -- "$line" ||
    { echo "not ok - ended with $(cat got), wanted $want and: $line"; sed 's/^/    /' err; failed=1; }
}
# a script that waits in calls takes few instructions; a step that takes longer than that patience ends well
signals 130 "spcore: stuck.lua:10: interrupted by SIGINT" INT << 'E'
local sys = require "spcore.sys"
io.stderr:write("on\n")
local closed <close> = setmetatable({}, { __close = function()
  local n = 0
  for i = 1, 20000 do n = n + i end
  local f <close> = io.open("closed.txt", "w")
  f:write(n)
end })
local function wait()
  while true do sys.sleep(0.2) end
end
wait()
E
[ "$(cat closed.txt)" = 200010000 ] || { echo "not ok - what is open is not closed behind a signal"; failed=1; }
# where this process has to wait for a processor, the signal may be there before the step is
signals 130 'one step\|spcore: SIGINT: the script ends at its next step; .*' INT << 'E'
local g <close> = require "spcore".graph { device = "cpu", run_ahead = 0 }
g.sleep { g.toy_source { batch = 8 }.x, ms = 3500 }
io.stderr:write("on\n")
for step in g:steps(9) do
  local n = 0
  for i = 1, 20000 do n = n + i end
  io.stderr:write(step == 0 and "one step\n" or "another step\n")
end
E
# ThreadSanitizer holds signals back until the next system call, which these loops never make.
case ${SP_SANITIZERS-} in
  *thread*) ;;
  *)
    # whoever asks ends by himself; the second signal does not wait for that
    signals 143 "spcore: SIGINT: the script ends at its next step; a second signal ends it at once" INT TERM << 'E'
local sp = require "spcore"
io.stderr:write("on\n")
while true do sp.interrupted() end
E
    for signal in INT TERM; do
      case $signal in INT) status=130 ;; *) status=143 ;; esac
      signals $status "spcore: stuck.lua:2: interrupted by SIG$signal" $signal << 'E'
io.stderr:write("on\n")
while true do end
E
    done
    signals 143 "spcore: stuck.lua:1: stuck.lua:3: interrupted by SIGTERM" TERM << 'E'
coroutine.wrap(function()
  io.stderr:write("on\n")
  while true do end
end)()
E
    signals 143 "spcore: stuck.lua:6: interrupted by SIGTERM" TERM << 'E'
local sp = require "spcore"
local g <close> = sp.graph(sp.args {})
g.toy_source { batch = 8 }
local function endless()
  io.stderr:write("on\n")
  while true do end
end
g:strategy(endless, "endless")
for _ in g:steps(2) do end
E
    ;;
esac

# ---- weights ----
cat > small.lua <<'E'
local sp = require "spcore"
local opt = sp.args { width = { 4, "channels" }, load = { "", "weights" }, save = { "", "weights" } }
local g <close> = sp.graph(opt)
local d = g.reader { path = "shapes", size = 16, batch = 2 }
local e = g.encoder { g.to_float { d.image }, model = "unet", width = opt.width, levels = 2, weights = opt.load }
if opt.save ~= "" then g:save(opt.save) end
E
"$spcore" run small.lua --quiet --save w.safetensors || { echo "not ok - weights are not saved"; failed=1; }
expect 1 "w.safetensors" "encoder" "of another shape or type" -- "$spcore" run small.lua --quiet --width 8 --load w.safetensors
{ head -c -1 w.safetensors; tail -c 1 w.safetensors | tr '\000-\377' '\001-\377\000'; } > bad.safetensors
expect 1 "bad.safetensors: damaged: its tensors have the checksum" -- "$spcore" run small.lua --quiet --load bad.safetensors
traced="train_cls.lua --size 16 --samples 16 --batch 2 --steps 2 --device cpu --trace t.json"
# shellcheck disable=SC2086
"$spcore" run $traced --quiet --out traced >out && cp t.json t0.json && "$spcore" schedule $traced >out &&
  "$spcore" run $traced --explain >out && cmp t.json t0.json || { echo "not ok - a trace of no step replaces one"; failed=1; }
head -c 100 w.safetensors > cut.safetensors
expect 1 "cut.safetensors" -- "$spcore" run small.lua --quiet --load cut.safetensors
expect 1 "no.safetensors" -- "$spcore" run small.lua --quiet --load no.safetensors
exit $failed
