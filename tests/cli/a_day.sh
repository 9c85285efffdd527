# SPDX-License-Identifier: MIT
# a_day.sh - a user's project from data to predictions, by documented commands alone: images of which one is damaged, a training
# that is killed and goes on, predictions, the network in PyTorch. The run that was killed ends with the bytes of one that was not.
# needs: onednn images jansson
# once: what it runs is tested part by part in every build
set -u
case ${SP_SANITIZERS-} in
  *thread* | *address*) echo 'skipped: minutes under sanitizers, of what other tests do as well'; exit 77 ;;
esac
build=${top_builddir:?}
dir=$(mktemp -d "${TMPDIR:-/tmp}/spcore-day.XXXXXX") || exit 99
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 99
PATH=$build:$PATH
fail() {
  echo "FAIL: $*"
  cat log
  exit 1
}
# says WORDS: they are in what the last command printed
says() { grep -q -- "$1" log || fail "'$1' is not in what was printed"; }

# ---- data: one file is no picture ----
spcore run make_shapes.lua photos --samples 48 --size 48 >log 2>&1 || fail make_shapes.lua
echo 'not what it seems' >photos/images/00005.jpg

spcore data photos >log 2>&1 || fail data
says '6 classes'
spcore data photos --check >log 2>&1 && fail 'data --check finds nothing'
says 'photos/images/00005.jpg: neither JPEG nor PNG'
says '1 of 48 samples cannot be used'

# ---- a training that is killed, goes on, and ends early since no validation is better by 1 than the first ----
train() { spcore run train_seg.lua --device cpu --quiet "$@" >log 2>&1; }
options='--data photos --size 32 --batch 4 --steps 240 --checkpoint-every 20 --eval-every 60 --patience 1 --min-delta 1'
# shellcheck disable=SC2086
train $options --out whole || fail 'train_seg.lua'
for turn in 1 2 3; do # once more where nobody looked in time
  rm -rf run
  # shellcheck disable=SC2086
  spcore run train_seg.lua --device cpu --quiet $options --out run >log 2>&1 &
  pid=$!
  until ls run/checkpoint-*.safetensors >/dev/null 2>&1; do
    kill -0 $pid 2>/dev/null || break
    sleep 0.02
  done
  kill -9 $pid 2>/dev/null
  wait $pid 2>/dev/null
  [ -f run/weights.safetensors ] || break
done
[ ! -f run/weights.safetensors ] || fail 'it ended before it was killed'
ls run/checkpoint-*.safetensors >/dev/null 2>&1 || fail 'it ended before its first checkpoint'
spcore run predict_seg.lua --weights run --out early photos/images >log 2>&1
says 'its run has not ended; go on with: spcore run train_seg.lua --resume run'
train --resume run || fail 'train_seg.lua --resume'
grep -q '"stopped_early"' run/summary.json || fail 'it did not end early'
cmp whole/weights.safetensors run/weights.safetensors || fail 'the run that was killed learned something else'

# ---- predictions: the bad one is named, the others are there ----
spcore run predict_seg.lua --weights run --out predictions photos/images --device cpu >log 2>&1
[ $? -eq 1 ] || fail 'a bad image is no failure'
says '1 of 48 images could not be read; they are named in predictions/bad.txt'
grep -q '^photos/images/00005.jpg: neither JPEG nor PNG' predictions/bad.txt || fail 'bad.txt does not name it'
[ "$(find predictions/masks predictions/overlays -name '*.png' | wc -l)" -eq 94 ] || fail 'there are other files than 47 masks and overlays'
printf '%s\n' photos/images/0000[1-4].jpg | spcore run predict_seg.lua --weights run --out again --list - --device cpu >log 2>&1 ||
  fail 'predict_seg.lua --list -'
for k in 1 2 3 4; do cmp predictions/masks/0000$k.png again/masks/0000$k.png || fail 'other masks'; done

# ---- the same network in PyTorch ----
spcore export run --torch torch >log 2>&1 || fail export
if [ -n "${PYTHON-}" ] && "$PYTHON" -c 'import torch, numpy, PIL' 2>/dev/null; then
  "$PYTHON" -B torch/model.py photos/images/00001.jpg >log 2>&1 || fail model.py
  says 'pixels  ground'
  "$PYTHON" -c 'import sys, numpy as np
from PIL import Image
a, b = (np.asarray(Image.open(path)) for path in sys.argv[1:])
sys.exit(int(a.shape != b.shape or (a == b).mean() < 0.999))' predictions/masks/00001.png 00001_mask.png || fail 'PyTorch gives another mask'
  echo 'ok: from data to PyTorch'
else
  echo 'ok: from data to predictions; PyTorch is not there'
fi
