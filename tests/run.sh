# SPDX-License-Identifier: MIT
# Runs one test: run.sh COMMAND... FILE. A line `needs: onednn images` in a comment of the file names what configure can leave
# out; where it did, the test is skipped. What is not named after CUDA runs as on a machine without a GPU, but for the examples
# of the documents, which a user runs on what there is. Where SP_SECONDS names a file, it gets a line for each test: seconds of
# the clock, of processors, the test.
for file; do :; done
case $file in
  *.lua | *.py | *.sh) needs=$(sed -n -e 's/^# needs: //p' -e 's/^-- needs: //p' "$file") ;;
  *) needs= ;; # a program
esac
for need in $needs; do
  case ", ${SP_LEFT_OUT-}, " in
    *", $need, "*)
      echo "skipped: this build is without $need (configure's summary says why)"
      exit 77
      ;;
  esac
done
case $file in
  *cuda* | *readme.sh) ;;
  *) CUDA_VISIBLE_DEVICES= && export CUDA_VISIBLE_DEVICES ;;
esac
[ -n "${SP_SECONDS-}" ] || exec "$@"
read -r begun _ </proc/uptime
"$@"
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
