#!/bin/sh
# build_on.sh SUITE: builds HEAD on another Debian (trixie, sid) in a root that has nothing else: the
# quickstart, then a release with its tests and with warnings as errors, and the unit tests, by that
# suite's compiler. As root, with the network; takes ten minutes, so it is no part of the check. Prints
# the versions of the compiler and of the servers, and "SUITE: built and tested" at the end; or what
# failed, and each warning.
set -eu
cd "$(dirname "$0")/../.."
suite=${1?build_on.sh: a suite of Debian is needed: trixie, sid}
sh tests/packages.sh mmdebstrap
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
# The archive's dates may be older than it wants them; its keys are checked all the same.
mmdebstrap --quiet --aptopt='Acquire::Check-Valid-Until "false"' --mode=root --variant=apt --include=ca-certificates "$suite" "$work/root"
cp /etc/resolv.conf "$work/root/etc/"
mkdir "$work/root/weir"
git archive HEAD | tar -x -C "$work/root/weir"
# Tests want loopback by its name, and numbers from /dev.
grep -qs localhost "$work/root/etc/hosts" || echo '127.0.0.1 localhost' >>"$work/root/etc/hosts"
chroot "$work/root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive sh -euc '
  cd /weir
  sh docs/quickstart.sh >/tmp/quickstart.log 2>&1 || { tail -n 40 /tmp/quickstart.log; exit 1; }
  sh tests/check.sh --packages unit >/tmp/packages.log 2>&1 || { tail -n 40 /tmp/packages.log; exit 1; }
  cc --version | head -n 1
  memcached --version
  redis-server --version | sed "s/ sha=.*//"
  ! grep -A 8 "warning:" /tmp/quickstart.log
  cmake --preset release -DWEIR_BUILD_TESTS=ON -DWEIR_WARNINGS_AS_ERRORS=ON >/tmp/build.log 2>&1
  cmake --build --preset release >>/tmp/build.log 2>&1 || { grep -A 8 -E "error|warning" /tmp/build.log; exit 1; }
  ctest --preset release -LE "house|slow" -E "^(serve|cli|bindings|examples|race|outage|cluster|faults)/" \
    >/tmp/tests.log 2>&1 || { sed -n "/tests passed/,\$p" /tmp/tests.log; grep -B 3 -A 12 "ERROR   \]" /tmp/tests.log; exit 1; }
  sed -n "s/.*tests passed.*/&/p" /tmp/tests.log'
echo "$suite: built and tested"
