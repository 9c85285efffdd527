# SPDX-License-Identifier: MIT
# inspect_model.sh - spcore inspect --model: layers, shapes, parameters and GFLOP of known networks.
# once: words
# needs: onednn images
set -u
tmp=$(mktemp -d "${TMPDIR:-/tmp}/spcore-inspect.XXXXXX") || exit 99
trap 'rm -rf "$tmp"' EXIT
failed=0

# inspect MODEL [options], into $tmp/out
inspect() {
  "$top_builddir/spcore" inspect --model "$@" >"$tmp/out" 2>"$tmp/err" && test ! -s "$tmp/err" && return
  echo "spcore inspect --model $*: failed, or something on stderr"
  cat "$tmp/err"
  failed=1
}

# has TEXT...: each is a part of a line, where any number of blanks is one.
has() {
  tr -s ' ' <"$tmp/out" >"$tmp/narrow"
  for text in "$@"; do
    grep -qF -- "$text" "$tmp/narrow" || { echo "not printed: $text"; failed=1; }
  done
}

# torchvision says 25,557,032, 5,483,032 and 5,288,548 parameters, and 4.09, 0.22 and 0.39 thousand million multiply-adds.
inspect resnet50 --classes 1000 --json
has '"flop":8178368512,' '"parameters":25557032,'
inspect mobilenet_v3_large --classes 1000 --json
has '"parameters":5483032,'
inspect efficientnet_b0 --classes 1000 --json
has '"parameters":5288548,'
inspect resnet50 --classes 1000
has 'ResNet-50, 224 x 224' '25.56 M parameters, 8.178 GFLOP an image' 'fc linear 173 1000 2049000 0.0041'
grep -q '^map' "$tmp/out" && { echo 'a classifier has no maps'; failed=1; }
inspect mobilenet_v3_large --classes 1000
has '5.48 M parameters, 0.433 GFLOP an image'
inspect efficientnet_b0 --classes 1000
has '5.29 M parameters, 0.772 GFLOP an image'

inspect resnet18 --size 64x96 --output-stride 16
has 'ResNet-18, 64 x 96' 'layer type from shape parameters GFLOP' 'conv1 conv input 64 x 32 x 48 9408 0.0289' \
  '64 add layer4.1.bn2 layer4.0 512 x 4 x 6' 'map 5: layer4.1, 512 channels, 1/16' \
  'images for torchvision_v1: shorter side 256, bilinear, middle 224 x 224, 0 to 1, mean 0.485 0.456 0.406, std 0.229 0.224 0.225'
inspect mobilenet_v3_small --output-stride 16
has 'features.1.block.0.0 conv features.0.2 16 x 56 x 56 144' 'map 5: features.12.2, 576 channels, 1/16'
exit $failed
