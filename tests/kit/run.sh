# SPDX-License-Identifier: MIT
# Runs one test: run.sh COMMAND... FILE. A line `needs: onednn images` in a comment of the file names what configure
# can leave out; where it did, the test is skipped. A line `once: WHY` says why a test shows the same in every build
# of one source: where SP_SKIP_ONCE is set, as in all stages of .ci/run but one, it is skipped. What is not named
# after CUDA runs as on a machine without a GPU, but for the examples of the documents, which a user runs on what
# there is. Where SP_SECONDS names a file, it gets a line for each test: seconds of the clock, of processors, the
# test. Where SP_LIMIT is a number of seconds, a test that takes longer is taken for one that hangs: all processes are
# listed, and it is killed and fails.
for file; do :; done

# says WORD: what stands behind `WORD: ` in a comment of the file
says() {
  case $file in
    *.lua | *.py | *.sh) sed -n -e "s/^# $1: //p" -e "s/^-- $1: //p" "$file" ;;
  esac # else a program
}

skip() {
  echo "skipped: $*"
  exit 77
}

for need in $(says needs); do
  case ", ${SP_LEFT_OUT-}, ${SP_LEFT_OUT_FORMATS-} , " in
    *", $need, "* | *" $need "*) skip "this build is without $need (configure's summary says why)" ;;
  esac
done
if [ -n "${SP_SKIP_ONCE-}" ]; then
  case $file in
    *.py) once="PyTorch's own code is no matter of ours" ;;
    *) once=$(says once) ;;
  esac
  [ -z "$once" ] || skip "SP_SKIP_ONCE is set: $once"
fi
case $file in
  *cuda* | *readme.sh) ;;
  *) CUDA_VISIBLE_DEVICES= && export CUDA_VISIBLE_DEVICES ;;
esac

# limited COMMAND...: in a process group of its own, so that nothing of it is left. Nor is the clock, whenever TERM arrives:
# it has the pipes of this process, and a make that shares its jobs waits until all of them are closed.
limited() {
  [ -n "${SP_LIMIT-}" ] || { "$@"; return; }
  {
    clock= over=
    trap 'over=yes; [ -z "$clock" ] || kill -KILL "$clock" 2>/dev/null' TERM
    sleep "$SP_LIMIT" &
    clock=$!
    [ -z "$over" ] || kill -KILL "$clock" 2>/dev/null
    wait "$clock" 2>/dev/null
    [ -z "$over" ] || exit
    echo "FAIL: no end within $SP_LIMIT s, of these processes (SP_LIMIT of tests/kit/run.sh):"
    ps -eo pid,ppid,stat,etimes,wchan:24,args --forest | cut -c 1-160
  } &
  watch=$!
  timeout -k 5 $((SP_LIMIT + 5)) "$@"
  code=$?
  kill $watch 2>/dev/null
  wait $watch
  return $code
}
[ -n "${SP_SECONDS-}${SP_LIMIT-}" ] || exec "$@"
[ -n "${SP_SECONDS-}" ] || { limited "$@"; exit; }
read -r begun _ </proc/uptime
limited "$@"
code=$?
read -r ended _ </proc/uptime
own=$SP_SECONDS.$$ # `times` tells a pipe of its own subshell
times >"$own"
line=$(sed 's/[ms]/ /g' "$own" | awk -v wall="$begun $ended" -v test="tests/${file##*tests/}" '
  { cpu = $1 * 60 + $2 + $3 * 60 + $4; split(wall, at, " ") }
  END { printf "%.1f %.1f %s", at[2] - at[1], cpu, test }')
rm -f "$own"
printf '%s\n' "$line" >>"$SP_SECONDS"
exit $code
