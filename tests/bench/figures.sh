#!/bin/sh
# The figures of docs/performance.md, each with the command that makes it, as Markdown.
#
#     sh tests/bench/figures.sh [PROGRAM] [DURATION]
#
# PROGRAM: build/weir unless given, built as a release. DURATION of each contestant: 5s unless given.
# Starts a memcached with one thread and a redis-server on free ports, both on core 1, and for the
# rows of one core a second pair on core 0; ends them by their ids. Wants two cores that nobody else
# uses.
set -eu
weir=${1:-build/weir}
duration=${2:-5s}
servers=
trap 'for id in $servers; do kill "$id"; done' EXIT
trap 'exit 1' INT TERM

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# start CORE: sets `memcached` and `redis` to the URLs of a new pair.
start() {
  port=$(free_port)
  taskset -c "$1" memcached -u root -l 127.0.0.1 -p "$port" -t 1 -m 512 >/dev/null &
  servers="$servers $!"
  memcached=memcached://127.0.0.1:$port
  port=$(free_port)
  taskset -c "$1" redis-server --bind 127.0.0.1 --port "$port" --save '' >/dev/null &
  servers="$servers $!"
  redis=redis://127.0.0.1:$port
  sleep 1
}

# show TITLE [COMMAND BEFORE IT --] OPTION...: runs the benchmark and prints what it prints.
show() {
  title=$1
  shift
  before=
  case $1 in taskset*) before=$1; shift ;; esac
  shown=$(echo "$*" | sed "s,$memcached,MEMCACHED,g; s,$redis,REDIS,g")
  printf '### %s\n\n    %sweir bench %s\n\n```\n' "$title" "${before:+$before }" "$shown"
  $before "$weir" bench --duration "$duration" "$@" | sed -n '3,$p' |
    sed "s,$memcached,$(printf "%-${#memcached}s" memcached),; s,$redis,$(printf "%-${#redis}s" redis),"
  printf '```\n\n'
}

never=1000000000/1h
window=sliding-window:$never
rounds='--rounds 21' # short turns: what slows the machine for a while slows neighbours alike
one_thread="--keys 100 $rounds"
start 1
show 'One thread, server and client on a core each' 'taskset -c 0' --store "$memcached" --store "$redis" --baseline $one_thread --rule "$window"
show '32 threads, 10,000 keys' $rounds --store "$memcached" --store "$redis" --baseline --threads 32 --keys 10000 --rule "$window"
show '32 threads, one key' $rounds --store "$memcached" --store "$redis" --baseline --threads 32 --hot --rule "$window"
show '32 threads, one key, token bucket' $rounds --store "$memcached" --store "$redis" --baseline --threads 32 --hot --rule "token-bucket:$never"
show 'Batches of 64 different keys' $rounds --store "$memcached" --store "$redis" --baseline --batch 64 --keys 1000 --rule "$window"
show 'Batches of 64 different keys, token bucket' $rounds --store "$redis" --baseline --batch 64 --keys 1000 --rule "token-bucket:$never"
show 'A key over its limit, answered by the process' --store "$memcached" --hot --rule fixed-window:1/1d
for keys in 1000 100000; do
  show "The embedded store, one thread, $keys keys" --store memory: --keys "$keys" --rule "$window"
  show "The embedded store, two threads, $keys keys" --store memory: --keys "$keys" --threads 2 --rule "$window"
done
for cells in 1 16 64; do
  show "One thread, $cells cells" 'taskset -c 0' --store "$memcached" --baseline $one_thread --rule "$window,cells=$cells"
done
for rule in "fixed-window:$never" "quota:$never" "token-bucket:$never" "leaky-bucket:$never" "$window;token-bucket:$never" \
  "$window;token-bucket:$never;quota:$never"; do
  show "One thread, $rule" 'taskset -c 0' --store "$memcached" --store "$redis" --baseline $one_thread --rule "$rule"
done
show 'Entering a place' 'taskset -c 0' --store "$memcached" --store "$redis" --baseline $one_thread --rule in-flight:1000/10s
show 'Entering a place that a lease has kept' 'taskset -c 0' --store "$memcached" --store "$redis" --baseline --hot $rounds --rule in-flight:1000/10s,lease=1s
for threads in 2 4 8 16; do
  show "$threads threads, 10,000 keys" $rounds --store "$memcached" --baseline --threads "$threads" --keys 10000 --rule "$window"
done
for keys in 10000 100000; do
  show "One thread, $keys keys" 'taskset -c 0' --store "$memcached" --baseline --keys "$keys" $rounds --rule "$window"
done
for batch in 8 256; do
  show "Batches of $batch different keys" $rounds --store "$memcached" --baseline --batch "$batch" --keys 1000 --rule "$window"
done
show '32 threads, 10,000 keys, without pipelining across threads' --store "$memcached?pipelining=off" --threads 32 --keys 10000 --rule "$window"
show '32 threads, one key, without combining' --store "$memcached" --threads 32 --hot --no-combining --rule "$window"
show 'A key over its limit, without local denial' --store "$memcached" --hot --no-local-denial --rule fixed-window:1/1d
show 'One thread, without cached cells' 'taskset -c 0' --store "$memcached" --no-cached-cells --rule "$window"
start 0
show 'One thread, server and client on one core' 'taskset -c 0' --store "$memcached" --store "$redis" --baseline $one_thread --rule "$window"
