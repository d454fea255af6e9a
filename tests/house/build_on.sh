#!/bin/sh
# build_on.sh SUITE: builds HEAD on another Debian (trixie, sid) in a root that has nothing else: the
# quickstart, then the tests that compute and need no servers, and runs these, by that suite's compiler.
# As root, with the network; takes some minutes, so it is no part of the check. Prints what it does and
# when, the version of the compiler, and "SUITE: built and tested" at the end. The first warning of
# compiler or linker ends it, with its text, as any failure does.
set -eu
cd "$(dirname "$0")/../.."
suite=${1?build_on.sh: a suite of Debian is needed: trixie, sid}
folders="algorithm base common config http key memo memory monitor rule"
sh tests/packages.sh mmdebstrap
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
echo "$(date +%T) a root of $suite"
# The archive's dates may be older than it wants them; its keys are checked all the same.
mmdebstrap --quiet --aptopt='Acquire::Check-Valid-Until "false"' --mode=root --variant=apt --include=ca-certificates "$suite" "$work/root"
cp /etc/resolv.conf "$work/root/etc/"
mkdir "$work/root/weir"
git archive HEAD | tar -x -C "$work/root/weir"
# Tests want loopback by its name, and numbers from /dev.
grep -qs localhost "$work/root/etc/hosts" || echo '127.0.0.1 localhost' >>"$work/root/etc/hosts"
cat >"$work/root/steps.sh" <<'STEPS'
set -eu
# step NAME COMMAND...: silent while it goes well; a warning in what it says is a failure.
step() {
  name=$1
  shift
  echo "$(date +%T) $name"
  "$@" >"/tmp/$name.log" 2>&1 || {
    grep -A 8 -E "error:|warning:|FAILED|ERROR   ]" "/tmp/$name.log" || tail -n 40 "/tmp/$name.log"
    exit 1
  }
  # Packages warn of what is no fault of the code.
  if [ "$name" != packages ] && grep -A 8 "warning:" "/tmp/$name.log"; then
    exit 1
  fi
}
cd /weir
step quickstart sh docs/quickstart.sh
step packages sh tests/check.sh --packages unit
cc --version | head -n 1
# The same folder and options as the quickstart's: nothing of it is compiled again.
step configure cmake --preset release -DWEIR_BUILD_TESTS=ON
step build cmake --build --preset release --target $(printf "tests/%s/all " $folders)
step test ctest --test-dir build -j "$CMAKE_BUILD_PARALLEL_LEVEL" -LE "house|slow" \
  -R "^($(echo $folders | tr ' ' '|'))/" --output-on-failure
grep "tests passed" /tmp/test.log
STEPS
# Packages set themselves up by /proc, which is gone with the shell that mounts it.
unshare --mount sh -c 'mount -t proc proc "$1/proc" && shift && exec "$@"' - "$work/root" \
  chroot "$work/root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
  CMAKE_BUILD_PARALLEL_LEVEL="$(nproc)" folders="$folders" sh /steps.sh
echo "$(date +%T) $suite: built and tested"
