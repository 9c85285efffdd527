#!/bin/sh
# SPDX-License-Identifier: MIT
# A plugin that crashes or leaves the program, wherever it does: one line that names stage, file, step and callback, or
# the file alone outside of stages.
set -u
if [ "${SP_SANITIZERS:-none}" != none ]; then
  echo "skipped: a sanitizer handles crashes itself, in words of its own"
  exit 77
fi
spcore=$top_builddir/spcore
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 99
ulimit -c 0
failed=0

# ended STATUS LINE COMMAND...: with that exit status, and with that line alone on stderr
ended() {
  want=$1; line=$2; shift 2
  (exec timeout -s KILL 600 "$@" > out 2> err < /dev/null) # what this shell says of a signal does not belong there
  got=$?
  if [ "$got" = "$want" ] && [ "$(cat err)" = "$line" ]; then
    echo "ok - $line"
  else
    printf 'not ok - exit %s, wanted %s and: %s\n' "$got" "$want" "$line"
    sed 's/^/    /' err | head -5
    failed=1
  fi
}

cat > crash.lua <<'L'
local sp = require "spcore"
local opt = sp.args { how = { "abort", "how" }, at = { "create", "where" } }
local g <close> = sp.graph(opt)
local data = g.toy_source { batch = 8 }
local mul = g.toy_mul { data.x }
local bad = g.crash { mul.y, name = "bad", how = opt.how, at = opt.at, step = 3 }
g:train { g.toy_loss { bad.y }, optimizer = g.toy_sgd {} }
for _ in g:steps(6) do end
L
crash() { # crash STATUS WORDS -- OPTION...
  want=$1; words=$2; shift 3
  ended "$want" "spcore: stage 'bad' (crash.so)$words" "$spcore" run crash.lua --quiet --threads 4 "$@"
}
memory="crashed the program: a bad memory access (SIGSEGV)"
stack="crashed the program: the stack is used up (SIGSEGV): endless recursion, or large local arrays"
zero="crashed the program: an integer division by zero or overflow (SIGFPE)"
abort="crashed the program: abort() (SIGABRT)"
case $(uname -m) in x86_64 | i?86) traps=yes ;; *) traps= ;; esac # elsewhere an integer division by zero gives 0

crash 134 ": create() $abort" --
crash 133 " step 4: forward() crashed the program: a trap (SIGTRAP)" -- --how trap --at forward
crash 159 " step 4: forward() crashed the program: a system call that is not allowed (SIGSYS)" -- --how system --at forward
crash 139 ": create() $stack" -- --how stack
crash 139 ": plan() $memory" -- --how nowhere --at plan
crash 139 ": what plan() returned $memory" -- --at planned
for where in forward backward; do
  crash 139 " step 4: $where() $memory" -- --how nowhere --at $where
  crash 139 " step 4: $where() $stack" -- --how stack --at $where
  [ ! "$traps" ] || crash 136 " step 4: $where() $zero" -- --how zero --at $where --strategy pipelined
done
# several helpers of one call, all at once
crash 139 " step 4: forward() $memory" -- --how nowhere --at helper
crash 139 " step 4: forward() $stack" -- --how stack --at helper
[ ! "$traps" ] || crash 136 " step 4: forward() $zero" -- --how zero --at helper

file=$SP_TEST_PLUGINS/crash.so
# on the main thread
for how in nowhere stack; do
  words=$memory; [ $how = nowhere ] || words=$stack
  ended 139 "spcore: stage 'crash' (crash.so) step 4: forward() $words" \
    "$spcore" check "$file" --set how=$how --set at=forward --set step=3
done
# far from its buffers, where a heap would be damaged or nothing be hit; what was found before is printed
for mistake in far_behind far_before; do
  ended 139 "spcore: stage 'mistakes' (mistakes.so) step 4: forward() $memory" \
    "$spcore" check "$SP_TEST_PLUGINS/mistakes.so" --set mistake=$mistake
  tail -n 1 out | grep -q '^ok [0-9]* - mistakes: plan() gives the same a second time$' ||
    { echo "not ok - lines before the crash of $mistake:"; cat out; failed=1; }
done
ended 139 "spcore: $file: loading it $memory" env SP_TEST_CRASH=nowhere "$spcore" inspect --plugin "$file" crash
ended 134 "spcore: $file: loading it $abort" env SP_TEST_CRASH=abort "$spcore" check "$file"

# exit() is no way out of a stage, and no success
left="called exit(), which ends the whole program: a plugin returns a status instead"
crash 1 ": create() $left" -- --how exit
for where in forward backward helper; do
  call=forward; [ $where != backward ] || call=backward
  crash 1 " step 4: $call() $left" -- --how exit --at $where
done
ended 1 "spcore: $file: loading it $left" env SP_TEST_CRASH=exit "$spcore" check "$file"
ended 1 "spcore: stage 'crash' (crash.so) step 4: forward() $left" \
  "$spcore" check "$file" --set how=exit --set at=forward --set step=3

crash 1 " step 4: forward() $left" -- --how quick_exit --at forward

# a thread that ends leaves whoever waits for it waiting
left_thread="ended its thread, by pthread_exit() or pthread_cancel(), which would leave the program waiting for ever"
left_thread="$left_thread: a plugin returns a status instead"
for how in thread_exit cancel; do
  crash 1 ": create() $left_thread" -- --how $how
  for where in forward backward helper; do
    call=forward; [ $where != backward ] || call=backward
    crash 1 " step 4: $call() $left_thread" -- --how $how --at $where --strategy pipelined
  done
  ended 1 "spcore: $file: loading it $left_thread" env SP_TEST_CRASH=$how "$spcore" inspect --plugin "$file" crash
  ended 1 "spcore: stage 'crash' (crash.so) step 4: forward() $left_thread" \
    "$spcore" check "$file" --set how=$how --set at=forward --set step=3
done

# what is too much is named, also where it is no buffer
ended 1 "spcore: crash.lua:8: the graph needs 1048576.0 MiB of memory, --memory-limit allows 100.0; the largest part is the scratch \
memory of 'bad': take a smaller batch or size, or a higher limit" \
  env SP_TEST_SCRATCH=1099511627776 "$spcore" run crash.lua --quiet --at forward --memory-limit 100

# handlers that a plugin takes away or sets are put back, which is said (tests/lua/guest.lua), and the crash is named
for handler in default own; do
  at="stage 'bad' (crash.so): create()"
  [ $handler = own ] || at="$file: loading it"
  SP_TEST_HANDLER=$handler; export SP_TEST_HANDLER
  crash_line="spcore: stage 'bad' (crash.so) step 4: forward() $memory"
  ended 139 "spcore: $at changed the handler of SIGSEGV; it is put back, since the whole program shares it
$crash_line" "$spcore" run crash.lua --threads 4 --how nowhere --at forward
done
unset SP_TEST_HANDLER

# os.exit() ends the program beside stages that work, so nothing is freed beneath them, as at the script's own end
cat > leaves.lua <<'L'
local sp = require "spcore"
local opt = sp.args { how = { "", "how" } }
local g <close> = sp.graph(opt)
local data = g.toy_source { batch = 8 }
g:train { g.toy_loss { g.crash { g.toy_mul { data.x }.y, at = "forward", step = 100 }.y }, optimizer = g.toy_sgd {} }
local f = io.open("left.txt", "w")
for step in g:steps(6) do
  if step == 2 and opt.how ~= "" then
    f:write "buffered"
    if opt.how == "true" then os.exit(true) elseif opt.how == "false" then os.exit(false) elseif opt.how == "close" then os.exit(5, true) end
    os.exit(tonumber(opt.how))
  end
end
L
export SP_TEST_ENDED=1
ended 0 "crash.so is gone" "$spcore" run leaves.lua --quiet
ended 3 "" "$spcore" run leaves.lua --quiet --how 3
[ "$(cat left.txt)" = buffered ] || { echo "not ok - os.exit() loses what was written"; failed=1; }
ended 0 "" "$spcore" run leaves.lua --quiet --how true
ended 1 "" "$spcore" run leaves.lua --quiet --how false
ended 5 "crash.so is gone" "$spcore" run leaves.lua --quiet --how close
unset SP_TEST_ENDED

# where no stage is called, the file is found on the stack
cat > format.lua <<'L'
local sp = require "spcore"
local opt = sp.args { load = { false, "load in the place of saving" } }
local g <close> = sp.graph(opt)
local data = g.toy_source { batch = 8 }
g:train { g.toy_loss { g.toy_mul { data.x }.y }, optimizer = g.toy_sgd {} }
for _ in g:steps(1) do end
if opt.load then g:load "w.crash" else g:save "w.crash" end
L
real=$(realpath "$file")
: > w.crash
ended 139 "spcore: $real $memory" env SP_TEST_END=nowhere "$spcore" run format.lua --quiet
ended 139 "spcore: $real $stack" env SP_TEST_END=stack "$spcore" run format.lua --quiet --load
ended 134 "spcore: $real $abort" env SP_TEST_END=abort "$spcore" run format.lua --quiet --load
ended 1 "spcore: $real $left" env SP_TEST_END=exit "$spcore" run format.lua --quiet
exit $failed
