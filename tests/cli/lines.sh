# SPDX-License-Identifier: MIT
# No line of the sources is too long to be read: each that is, is named by file and line.
# once: it reads sources alone
set -u
# long COLUMNS WHERE ENDING...: FILE:LINE: columns, of all files below WHERE with such an ending
long() {
  columns=$1 where=$2
  shift 2
  for ending; do set -- "$@" "--include=*.$ending"; shift; done
  LC_ALL=C.UTF-8 grep -rnE "$@" ".{$((columns + 1))}" "$where" | cut -d : -f 1,2 |
    sed "s/\$/: more than $columns columns/"
}

dir=$(mktemp -d "${TMPDIR:-/tmp}/spcore-lines.XXXXXX") || exit 99
trap 'rm -rf "$dir"' EXIT
printf 'int a;\n/* %0115d */\n/* %0114d */\n' 0 0 >"$dir/a.c"
case $(long 120 "$dir" c h) in
  "$dir/a.c:2: "*) ;;
  *) echo "FAIL: a line of 121 columns is not found, or one of 120 is"; exit 1 ;;
esac

cd "${top_srcdir:?}" || exit 99
for folder in include core plugins scripts tests; do
  long 120 "$folder" c h cpp cu cuh
  long 150 "$folder" lua
done >"$dir/found"
for script in scripts/train_*.lua; do # a user reads each in a minute
  [ "$(wc -l <"$script")" -le 80 ] || echo "$script: more than 80 lines; what trainings share is in scripts/spcore/trainer.lua" >>"$dir/found"
done
[ -s "$dir/found" ] || exit 0
cat "$dir/found"
echo "FAIL: $(wc -l <"$dir/found") lines"
exit 1
