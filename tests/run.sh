# SPDX-License-Identifier: MIT
# Runs one test: run.sh COMMAND... FILE. A line `needs: onednn images` in a comment of the file names what configure can leave
# out; where it did, the test is skipped.
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

# GCC 12's sanitizers now and then fail themselves: ThreadSanitizer asks for a shadow of negative size while threads start, and
# LeakSanitizer's tracer, which stops the threads as a program ends, crashes. Neither says anything of the program, so these get
# further tries; no other failure does.
case ${SP_SANITIZERS-} in
  *thread*) own='ThreadSanitizer failed to allocate 0xf' ;;
  *address*) own='LeakSanitizer has encountered a fatal error' ;;
  *) exec "$@" ;;
esac
out=$(mktemp) || exit 99
trap 'rm -f "$out"' EXIT
for try in 1 2 3 4 5 6 7; do
  "$@" >"$out" 2>&1
  status=$?
  cat "$out"
  [ $status -ne 0 ] && grep -q "$own" "$out" || exit $status
  echo "try $try ended by the sanitizer itself"
done
exit $status
