#!/bin/sh
# Builds every preset, runs every test and ends with one line, "N passed, N failed"; the exit code is 0
# only if none failed. Whatever did not run has failed: a skipped test, a build and all that hangs on it.
# Installs the Debian packages it lacks. Logs stay in build/check.
set -u
cd "$(dirname "$0")/.." || exit 1
exec </dev/null
unset WEIR_STORE WEIR_RULE
export UBSAN_OPTIONS=print_stacktrace=1

logs=$PWD/build/check
passed=0
failed=0
mkdir -p "$logs"

finish() {
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ]
  exit
}

# step NAME COMMAND...: silent while it goes well.
step() {
  step_name=$1
  shift
  began=$(date +%s)
  if "$@" >"$logs/$step_name.log" 2>&1; then
    echo "$step_name: ok in $(($(date +%s) - began)) s"
    return
  fi
  cat "$logs/$step_name.log"
  echo "$step_name: FAILED"
  failed=$((failed + 1))
  return 1
}

# Some kernels place mappings more randomly than the sanitizers of Debian 12 can bear.
steady=
if setarch "$(uname -m)" -R true 2>/dev/null; then
  steady="setarch $(uname -m) -R"
fi

run_tests() {
  results=$logs/$1.xml
  rm -f "$results"
  began=$(date +%s)
  $steady ctest --preset "$1" --output-junit "$results" >"$logs/test-$1.log" 2>&1
  status=$?
  total=$(grep -c '<testcase ' "$results" 2>/dev/null)
  good=$(grep -c '<testcase .*status="run"' "$results" 2>/dev/null)
  bad=$((${total:-0} - ${good:-0}))
  if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then
    bad=1 # there were no tests, or ctest itself went wrong
  fi
  if [ "$bad" -ne 0 ]; then
    cat "$logs/test-$1.log"
  fi
  passed=$((passed + ${good:-0}))
  failed=$((failed + bad))
  echo "test-$1: ${good:-0} passed, $bad failed in $(($(date +%s) - began)) s"
}

# check PRESET OPTION...: what CMakePresets.json leaves out of a preset's tests is run in another.
check() {
  preset=$1
  shift
  step "configure-$preset" cmake --preset "$preset" "$@" &&
    step "build-$preset" cmake --build --preset "$preset" &&
    run_tests "$preset"
}

step packages sh tests/packages.sh gcc g++ clang libclang-rt-dev clang-format cmake ninja-build \
  pkg-config python3 libmemcached-dev libssl-dev libhiredis-dev libsodium-dev zlib1g-dev libjansson-dev \
  libcmocka-dev memcached redis-server nutcracker || finish

WEIR_VALKEY_SERVER=$(sh tests/valkey.sh "$logs/valkey" 2>"$logs/valkey.log")
if [ -n "$WEIR_VALKEY_SERVER" ]; then
  export WEIR_VALKEY_SERVER
else
  unset WEIR_VALKEY_SERVER
  echo "valkey: not to be had here, so the stores are tested without it"
fi

check dev
check release -DWEIR_BUILD_TESTS=ON -DWEIR_WARNINGS_AS_ERRORS=ON
check asan
check tsan
check fuzz
finish
