# matrix.sh [REGEX]: the tests of the preset `dev` that REGEX names, or all that meet a store, on the
# servers that other suites of Debian have today: sh tests/matrix.sh '^contract/'. Builds what is
# missing first; takes ten minutes a row, so it is no part of the check. Prints the versions that were
# there, a line for each row, and the tests that failed; exits 0 if none did. A row whose servers this
# machine cannot get is left out, and says so. Logs stay in build/matrix.
set -u
cd "$(dirname "$0")/.." || exit 1
tests=${1:-'^(contract|memcached|redis|store|wire|limiter|transcript|replay|race|cluster|faults|outage|attack|doctor|cli|serve|registry|bindings)/'}
logs=$PWD/build/matrix
mkdir -p "$logs"
cmake --preset dev >"$logs/build.log" && nice cmake --build --preset dev >>"$logs/build.log" || {
  tail -n 30 "$logs/build.log"
  exit 1
}
failed=0

# row MEMCACHED_SUITE REDIS_SUITE REDIS_PROGRAM
row() {
  memcached=$(sh tests/servers.sh "$logs/servers" "$1" memcached 2>"$logs/said")
  redis=$(sh tests/servers.sh "$logs/servers" "$2" "$3" 2>>"$logs/said")
  name=$(grep -v '^[EW]:' "$logs/said" | sed 's/ sha=.*//' | paste -s -d ,)
  if [ -z "$memcached" ] || [ -z "$redis" ]; then
    echo "$1 memcached, $2 $3: not to be had here: $(grep '^E:' "$logs/said" | head -n 1)"
    return
  fi
  log=$logs/$1-$2-$3.log
  WEIR_VALKEY_SERVER=$redis/redis-server PATH=$memcached:$redis:$PATH \
    ctest --preset dev -R "$tests" >"$log" 2>&1
  echo "$name: $(sed -n 's/.*tests passed, \(.*\) tests failed out of \(.*\)/\1 failed of \2/p' "$log")"
  sed -n '/^The following tests FAILED/,$s/^\t *[0-9]* - /  /p' "$log" | grep . && failed=1
}

row trixie trixie redis-server
row trixie trixie valkey-server
row sid sid redis-server
row sid experimental redis-server
row sid sid valkey-server
exit "$failed"
