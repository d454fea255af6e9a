#!/bin/sh
# Runs a proof on a checkout that nobody has built yet, or that docs/quickstart.sh has built:
#
#   sh tests/prove.sh model/explored             the tests whose names the regular expression finds
#   sh tests/prove.sh run weir_faults --strict   a program of the tests, with its arguments
#   sh tests/prove.sh names model/explored       only says what either would run; fails where that is nothing
#   sh tests/prove.sh names run weir_faults
#
# It installs the Debian packages that unit tests need, and builds in build/ what the proof needs.
# WEIR_BUILD names another folder, which was configured with tests.
set -eu
cd "$(dirname "$0")/.."

build=${WEIR_BUILD-build}
only_names=
if [ "${1-}" = names ]; then
  only_names=yes
  shift
fi
program=
if [ "${1-}" = run ]; then
  program=${2-}
  shift
fi
if [ $# -eq 0 ] || { [ -z "$program" ] && [ $# -gt 1 ]; }; then
  sed -n 's/^#   //p' "$0"
  exit 2
fi

if [ -z "${WEIR_BUILD-}" ]; then
  [ -n "$only_names" ] || sh tests/check.sh --packages unit
  cmake --preset release -DWEIR_BUILD_TESTS=ON >/dev/null
fi

# Where a program is, below the build folder.
place_of() {
  ninja -C "$build" -t targets all | sed -n "s,^\(tests/[a-z_/]*/$1\): .*EXECUTABLE_LINKER.*,\1,p"
}

names_of_tests() {
  ctest --test-dir "$build" -N -R "$1" | sed -n 's/^ *Test *#[0-9]*: *//p'
}

if [ -n "$program" ]; then
  path=$(place_of "$program")
  [ -n "$path" ] || {
    echo "no program of the tests is called $program"
    exit 1
  }
  [ -z "$only_names" ] || {
    echo "$path"
    exit
  }
  shift
  cmake --build "$build" --target "$program"
  exec "$build/$path" "$@"
fi

names=$(names_of_tests "$1")
[ -n "$names" ] || {
  echo "no test is called $1"
  exit 1
}
[ -z "$only_names" ] || {
  echo "$names"
  exit
}
folders=$(echo "$names" | sed 's,/.*,,' | sort -u)
targets="weir weir_shared with_servers serve"
for folder in $folders; do
  targets="$targets tests/$folder/all"
done
cmake --build "$build" --target $targets # unquoted: targets are words
exec ctest --test-dir "$build" -R "$1" --output-on-failure --no-tests=error
