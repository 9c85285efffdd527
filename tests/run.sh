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

# GCC 12's ThreadSanitizer now and then asks for a shadow of negative size while threads start, and ends the program. That says
# nothing of the program, so it gets further tries; no other failure does.
case ${SP_SANITIZERS-} in
  *thread*)
    out=$(mktemp) || exit 99
    trap 'rm -f "$out"' EXIT
    for try in 1 2 3 4 5 6 7; do
      "$@" >"$out" 2>&1
      status=$?
      cat "$out"
      [ $status -ne 0 ] && grep -q 'ThreadSanitizer failed to allocate 0xf' "$out" || exit $status
      echo "try $try ended by ThreadSanitizer itself"
    done
    exit $status
    ;;
esac
"$@"
