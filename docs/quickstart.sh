#!/bin/sh
# Builds weir into build/ and shows it limiting. Installs the Debian packages that the build lacks.
set -eu
cd "$(dirname "$0")/.."

packages="cmake ninja-build pkg-config libmemcached-dev libssl-dev libhiredis-dev libsodium-dev zlib1g-dev libjansson-dev libyaml-dev libevent-dev libnghttp2-dev"
if ! command -v cc >/dev/null; then
  packages="gcc libc6-dev make $packages" # the linker runs `make` to compile on all processors
fi
sh tests/packages.sh $packages

cmake --preset release
cmake --build --preset release

rule=sliding-window:3/10s
cat <<END

One key asks once a second, twelve times. The rule is $rule: three requests in any ten seconds, of which
the past is known in four cells. The columns are time_ms, key, cost, the decision, limit, remaining, and in
microseconds the waits until a retry succeeds, until nothing counts any more, and before acting.

END
second=0
while [ $second -lt 12 ]; do
  echo "$((1700000000 + second))000 visitor 1"
  second=$((second + 1))
done | build/weir replay --store memory: --rule $rule -

cat <<END

Three requests pass; the others are denied and told how long to wait. The last one passes again: the first
three are about to leave the window and count only in part.

One request now, on a store that lives as long as the command (exit code 0 means allowed, 1 denied):

END
build/weir take --store memory: --rule $rule visitor
cat <<END

The same on a memcached that every process and machine shares:
  build/weir take --store memcached://localhost --rule $rule visitor
END
