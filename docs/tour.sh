#!/bin/sh
# A tour of two minutes: a memcached, a server of weir and three clients, of which one is greedy. It says
# what to look at, and which page to open. It ends by itself and leaves nothing behind; Ctrl-C ends it
# earlier. It needs build/weir: sh docs/quickstart.sh makes it.
#
# WEIR_TOUR_SECONDS: how long it takes, 8 to 600; 120 unless set. WEIR_PROGRAM: another build/weir.
set -eu
cd "$(dirname "$0")/.."

seconds=${WEIR_TOUR_SECONDS:-120}
program=${WEIR_PROGRAM:-$PWD/build/weir}
case $seconds in
*[!0-9]* | '') seconds=0 ;;
esac
if [ "$seconds" -lt 8 ] || [ "$seconds" -gt 600 ]; then
  echo "WEIR_TOUR_SECONDS must be 8 to 600"
  exit 2
fi
if ! [ -x "$program" ]; then
  echo "there is no $program: sh docs/quickstart.sh builds it"
  exit 2
fi
sh tests/packages.sh memcached curl

folder=$(mktemp -d)
servers=
shells=
finish() {
  trap - EXIT
  trap '' HUP INT TERM
  for process in $servers; do
    kill "$process" 2>/dev/null || true
  done
  for process in $shells; do # one that has just been made may miss any other signal
    kill -KILL "$process" 2>/dev/null || true
  done
  wait
  rm -rf "$folder"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' HUP TERM

# The first port from $1 on at which nothing listens: curl says 7, cannot connect.
free_port() {
  port=$1
  while [ "$port" -lt 65000 ]; do
    code=0
    curl -s -o "$folder/free" --max-time 1 "127.0.0.1:$port" || code=$?
    [ $code = 7 ] && break
    port=$((port + 1))
  done
  echo "$port"
}

begin_store() {
  user=
  [ "$(id -u)" != 0 ] || user='-u nobody'
  [ -z "$user" ] || chmod 711 "$folder"
  rm -f "$folder/store/socket"
  memcached $user -m 16 -s "$folder/store/socket" -a 777 2>"$folder/memcached.log" &
  store=$!
  servers="$servers $store"
}

mkdir -m 777 "$folder/store"
begin_store
http=$(free_port 8080)
admin=$(free_port $((http > 9090 ? http + 1 : 9090)))
cat >"$folder/weir.yaml" <<END
listen:
  http: {address: "127.0.0.1:$http"}
  admin: {address: "127.0.0.1:$admin"}
stores:
  main: {url: "memcached+unix://$folder/store/socket?probe=100ms"}
limiters:
  api: {rule: "sliding-window:30/10s,strict", log_keys: plain}
limits: {logged_denials: 1}
END
"$program" serve "$folder/weir.yaml" 2>"$folder/log" &
server=$!
servers="$servers $server"
ready=0
until curl -s -f -o "$folder/ready" --max-time 1 "127.0.0.1:$admin/readyz"; do
  ready=$((ready + 1))
  if [ $ready = 100 ] || ! kill -0 $server 2>/dev/null; then
    echo "the server does not start:"
    cat "$folder/log"
    exit 3
  fi
  sleep 0.1
done

# Asks $3 times as $1, pauses $2 seconds, and so on; a line of its file for each answer.
client() {
  asks=
  times=0
  while [ $times -lt "$3" ]; do
    asks="$asks -o /dev/null 127.0.0.1:$http/check/api?key=$1"
    times=$((times + 1))
  done
  while :; do
    # Unquoted: addresses are words.
    curl -s -w '%{http_code}\n' --max-time 5 $asks || true
    sleep "$2"
  done >"$folder/$1"
}
client alice 2 1 &
shells="$shells $!"
client bob 1 1 &
shells="$shells $!"
client greedy 0.2 5 &
shells="$shells $!"

cat <<END

For $seconds seconds these run:
  a memcached              it keeps the counts, and knows nothing of limits
  weir serve               it limits each client to 30 requests in any 10 seconds
  alice                    asks every two seconds
  bob                      asks once a second
  greedy                   asks as fast as it can

Open this page in a browser and leave it open:

  http://127.0.0.1:$admin/status

Ask yourself, in another terminal:

  curl -i 'http://127.0.0.1:$http/check/api?key=me'

END

# $1: a title. How often each client was served and denied until now.
table() {
  echo "$1"
  for name in alice bob greedy; do
    served=$(grep -c '^200' "$folder/$name" || true)
    denied=$(grep -c '^429' "$folder/$name" || true)
    printf '  %-8s %4d served  %4d denied\n' $name "$served" "$denied"
  done
  echo
}
at=0
until_second() {
  sleep $(($1 - at)) & # waited for, as a shell may miss a Ctrl-C while it starts a command
  pause=$!
  shells="$shells $pause"
  wait $pause
  at=$1
}

until_second $((seconds / 4))
table "After $at seconds. greedy soon stands on the page, under \"keys denied most\":"

until_second $((seconds / 2))
table "After $at seconds. alice and bob are never denied, whatever greedy does:"
cat <<END
A denial says when to come back. This is the last one in the server's log:
  $(grep 'denied' "$folder/log" | tail -n 1 || true)

END
kill $store
cat <<END
Now the memcached is stopped. Look at the store on the page: the server goes on answering, at once. It
admits its own share of what was left, as its policy says (docs/failure.md).

END

# Eight seconds at most: less than a window, so that what is paid afterwards leaves alice and bob room.
until_second $((seconds / 2 + (seconds / 4 < 8 ? seconds / 4 : 8)))
table "After $at seconds. Without the memcached greedy still has its limit:"
begin_store
cat <<END
A new memcached starts, with nothing in it. The server finds it by itself, and charges to it what it
admitted meanwhile. The counts of the old one are lost, so greedy may have its limit once more.

END

until_second "$seconds"
table "At the end, after $at seconds:"
curl -s -f --max-time 2 "127.0.0.1:$admin/metrics" >"$folder/metrics"
cat <<END
The decisions by source, as /metrics tells a Prometheus:
$(grep '^weir_serve_decisions_total' "$folder/metrics" | grep -v ' 0$' | sed 's/^/  /')

That was all. Next: docs/README.md has an answer for most questions.
END
