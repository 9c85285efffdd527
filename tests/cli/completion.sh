# SPDX-License-Identifier: MIT
# completion.sh - what bash and zsh complete: commands, scripts, options, their values, stages, parameters, files.
# once: words and two shells
set -u
tmp=$(mktemp -d "${TMPDIR:-/tmp}/spcore-completion.XXXXXX") || exit 99
trap 'rm -rf "$tmp"' EXIT
spcore=$(cd "$top_builddir" && pwd)/spcore
blur=$(cd "$top_builddir" && pwd)/.libs/blur.so
failed=0

"$spcore" completion bash >"$tmp/bash" && "$spcore" completion zsh >"$tmp/zsh" || exit 1
cmp "$tmp/bash" "$top_srcdir/scripts/completion/spcore" || failed=1
cmp "$tmp/zsh" "$top_srcdir/scripts/completion/_spcore" || failed=1
"$spcore" completion fish 2>"$tmp/err" && failed=1
grep -qx 'spcore: completion: one of bash, zsh is wanted' "$tmp/err" || { cat "$tmp/err"; failed=1; }
cd "$tmp" || exit 99
mkdir 'a folder' && : >mine.lua && : >'a script.lua' && : >notes.txt
# The first would leave a file behind if it were run: it has no options.
echo 'io.open("ran", "w")' >mine.lua
cat >'a script.lua' <<'END'
local opt = require "spcore".args { fast = { false, "go fast" }, mode = { "a", "which", choices = { "a", "b" } } }
END

# ---- bash, as readline calls it ----
cat >cases.bash <<'END'
source "$1" || exit 1
spcore=$2 blur=$3 failed=0
[ "$(complete -p spcore)" = "complete -F _spcore spcore" ] || { echo "bash: no completion for spcore"; exit 1; }

# try WANTED WORD...: candidates with spaces between, sorted. WANTED may end in *: they begin so.
try() {
  local wanted=$1 got
  shift
  COMP_WORDS=("$spcore" "$@") COMP_CWORD=$# COMPREPLY=()
  _spcore
  got=$(printf '%s\n' "${COMPREPLY[@]}" | LC_ALL=C sort | paste -sd' ')
  # shellcheck disable=SC2053
  [[ $got == $wanted ]] || { echo "bash: spcore $*: got '$got', wanted '$wanted'"; failed=1; }
}
try '--help --version bench check *schedule*' ''
try 'schedule strategies' s
try 'bench' help b
try 'a folder a script.lua *branches.lua*mine.lua*train_seg.lua' run ''
try 'train_cls.lua train_map.lua train_seg.lua' run train
try 'mine.lua' run mi
try 'mine.lua' run --debug mi
try '--label-smoothing --layer-decay --levels --limit --log-every --loss --lr' run train_seg.lua --l
try 'cross_entropy dice focal jaccard lovasz tversky' run train_seg.lua --loss ''
try 'focal' run train_seg.lua --loss = f
try 'cross_entropy dice focal jaccard lovasz tversky' run train_seg.lua --batch = 4 --loss =
try '--loss=focal' run train_seg.lua --loss=f
try 'pipelined' run train_seg.lua --strategy pi
try 'serialized,pipelined' bench train_seg.lua --strategy serialized,pi
try '--std --steps --strategy' bench train_seg.lua --st
try '--dot' schedule --d
try '' schedule --dot train_seg.lua --dot
try '--fast' run 'a script.lua' --fa
try 'a b' run 'a script.lua' --mode ''
try '' run mine.lua --
try '' run train_seg.lua --rotate ''
try 'notes.txt' run train_seg.lua --data no
try 'a folder' diff a
try 'blur' inspect bl
try 'auto cpu*' inspect --device ''
try 'resnet101 resnet18 resnet34 resnet50' inspect --model re
try 'always= kernel= *sigma=' check "$blur" --set ''
try 'kernel=' check "$blur" --set ker
try 'bash zsh' completion ''
try '' devices ''
try '' nothing ''
exit $failed
END
bash --norc cases.bash "$tmp/bash" "$spcore" "$blur" || failed=1
test -e ran && { echo 'a script without options was run for them'; failed=1; }

# ---- zsh, without its editor: what its own functions are given ----
if command -v zsh >/dev/null; then
  cat >cases.zsh <<'END'
function compdef { [[ "$*" == "_spcore spcore" ]] || { print "zsh: compdef $*"; exit 1 } }
source $1 || exit 1
spcore=$2
function compset { value=${words[CURRENT]#*=} }
function _describe { shift; print -r -- ${(P)1%%:*} $argv[2,-1] }
function _files { print -r -- files $@ }
failed=0
function try {
  local wanted=$1 got
  shift
  words=($spcore "$@") CURRENT=$(( $# + 1 )) value=
  got=$(_spcore | paste -sd' ')
  [[ $got == ${~wanted} ]] || { print -r -- "zsh: spcore $*: got '$got', wanted '$wanted'"; failed=1 }
}
try 'strategies schedule' s
try 'files -g [*].lua train_cls.lua train_map.lua train_seg.lua' run train
try 'files -g [*].lua' run mine
try 'cross_entropy dice focal jaccard lovasz tversky' run train_seg.lua --loss ''
try 'focal' run train_seg.lua --loss=f
try 'kernel= -S' check $3 --set ker
try 'files -/' report ''
try 'files' run train_seg.lua --data ''
exit $failed
END
  zsh -f cases.zsh "$tmp/zsh" "$spcore" "$blur" || failed=1
else
  echo 'zsh is not there: left out'
fi
exit $failed
