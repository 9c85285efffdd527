#!/bin/sh
# SPDX-License-Identifier: MIT
# ranks_netns.sh - two hosts as two network namespaces with a cable between them, two ranks on each, started by mpirun: the checksums of
# one process; then the cable is cut in the middle of a run, and each rank has to name one on the other side and end within the
# silence timeout and 5 s. Needs root, ip and Open MPI, and changes nothing outside of the namespaces.
#
#   tests/bench/ranks_netns.sh BUILD-DIR [TIMES]
set -u
if [ $# -lt 1 ]; then
  sed -n '7s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
skip() {
  echo "skipped: $1"
  exit 77
}
build=$(cd "$1" && pwd) times=${2-1} silence=3
[ "$(id -u)" = 0 ] || skip "it takes root to make network namespaces"
command -v ip >/dev/null || skip "there is no ip (iproute2)"
command -v mpirun >/dev/null || skip "there is no mpirun"
[ -f "$build/.libs/comm_mpi.so" ] || skip "comm_mpi.so was not built"
tmp=$(mktemp -d) || exit 1
a=spcore-a-$$ b=spcore-b-$$
clean() {
  for ns in $a $b; do
    # shellcheck disable=SC2046
    kill -9 $(ip netns pids $ns 2>/dev/null) 2>/dev/null
    ip netns del $ns 2>/dev/null
  done
  rm -rf "$tmp"
}
trap clean EXIT
trap 'exit 1' INT TERM
ip netns add $a && ip netns add $b && ip -n $a link add cable type veth peer name cable netns $b || skip "no network namespaces here"
ip -n $a addr add 10.213.77.1/24 dev cable
ip -n $b addr add 10.213.77.2/24 dev cable
for ns in $a $b; do
  ip -n $ns link set lo up
  ip -n $ns link set cable up
done
cd "$tmp" || exit 1
export SPCORE_PLUGIN_PATH="$build/.libs"

# What mpirun takes for ssh: the other host is the other namespace, with a name of its own.
cat >agent <<L
#!/bin/sh
shift
exec ip netns exec $b unshare --uts sh -c 'hostname other-side; exec sh -c "\$*"' sh "\$@"
L
cat >rank <<L
#!/bin/sh
echo \$\$ >"$tmp/pid.\$OMPI_COMM_WORLD_RANK"
exec "$build/spcore" run "\$@" >"$tmp/out.\$OMPI_COMM_WORLD_RANK" 2>&1
L
chmod +x agent rank

# over OPTIONS...: four ranks, two in each namespace, of a script with these options
over() {
  ip netns exec $a unshare --uts sh -c 'hostname this-side; exec "$@"' sh timeout -s KILL 120 mpirun --allow-run-as-root -np 4 \
    --host this-side:2,other-side:2 --map-by slot --mca plm_rsh_agent "$tmp/agent" --mca btl tcp,self --mca btl_tcp_if_include cable \
    --mca oob_tcp_if_include cable --mca mpi_yield_when_idle 1 --enable-recovery \
    -x SPCORE_PLUGIN_PATH -x SPCORE_ADDR=10.213.77.1 -x SPCORE_SILENCE_TIMEOUT=$silence "$tmp/rank" "$@" >mpirun.out 2>&1 </dev/null
}

job="train_cls.lua --device cpu --threads 1 --size 16 --samples 124 --batch 2 --shards 4 --seed 3 --quiet --no-tensorboard"
# shellcheck disable=SC2086
"$build/spcore" run $job --steps 18 --checksums --out one >one.log 2>&1 || { cat one.log; exit 1; }
# shellcheck disable=SC2086
over $job --steps 18 --checksums --comm mpi --out two
if cmp one/checksums.jsonl two/checksums.jsonl; then echo "ok - two hosts: the checksums of one process"; else
  cat mpirun.out out.*
  exit 1
fi

now() { awk '{ printf "%d", 100 * $1 }' /proc/uptime; } # hundredths of a second
steps() { cat cut/metrics.jsonl 2>/dev/null | wc -l; }
left() { # ranks that are there
  for pid in $(cat pid.*); do
    case $(cat "/proc/$pid/stat" 2>/dev/null) in '' | *') Z '*) ;; *) echo "$pid" ;; esac
  done
}

failed=0 n=0
while [ $n -lt "$times" ]; do
  n=$((n + 1))
  rm -rf cut pid.* out.*
  # shellcheck disable=SC2086
  over $job --steps 1000000 --comm mpi --checkpoint-every 50 --out cut &
  mpirun=$!
  while [ "$(steps)" -lt $((60 + n * 17)) ] && kill -0 $mpirun; do sleep 0.05; done
  ip -n $a link set cable down
  begun=$(now)
  while [ -n "$(left)" ] && [ $(($(now) - begun)) -lt 6000 ]; do sleep 0.05; done
  took=$(($(now) - begun))
  words=
  for rank in 0 1 2 3; do
    case $rank in [01]) other='[23]' ;; *) other='[01]' ;; esac
    line="spcore: rank $other was silent for $silence s (stopped, or its host is gone) at step"
    [ "$(grep -c "^spcore: " out.$rank)" = 1 ] && grep -q "^$line" out.$rank || words="$words, rank $rank says '$(cat out.$rank)'"
  done
  [ $took -le $((100 * silence + 500)) ] || words="$words, too late"
  took=$((took / 100)).$((took / 10 % 10))
  if [ -z "$words" ]; then echo "ok - cut at step $(steps): all gone after $took s, a rank of the other side named by each"; else
    echo "not ok - cut: $took s$words"
    failed=1
  fi
  # shellcheck disable=SC2046
  kill -9 $(ip netns pids $a) $(ip netns pids $b) 2>/dev/null
  wait $mpirun 2>/dev/null
  ip -n $a link set cable up
done
exit $failed
