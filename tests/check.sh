#!/bin/sh
# Builds three presets, runs every test and ends with one line, "N passed, N failed"; the exit code is 0
# only if none failed. Whatever did not run has failed: a skipped test, a build and all that hangs on it,
# a test that tests/check.list names. Installs the Debian packages it lacks. Logs stay in build/check.
#
#   sh tests/check.sh          the check
#   sh tests/check.sh --list   only writes tests/check.list anew, from the tests that there are
#   sh tests/check.sh --packages unit   only installs what unit tests need; "all": what the check needs
#
# A test runs where its kind of fault shows: in `release`, which is what users build, bounds, figures, races of
# processes at a store, mutants, the house and the examples; with `asan` each path of the code once, and the
# fuzzers; with `tsan` what has threads.
#
# Presets are built one after the other, each while the tests of those before it run: these wait for
# servers and windows much of the time, and a build of lower priority does not disturb them.
set -u
cd "$(dirname "$0")/.." || exit 1
exec </dev/null
started=$(date +%s)
unset WEIR_STORE WEIR_RULE
export UBSAN_OPTIONS=print_stacktrace=1

logs=$PWD/build/check
passed=0
failed=0
presets="release asan tsan"
list=$PWD/tests/check.list
mkdir -p "$logs"
rm -f "$logs"/*.xml

# Tests that fail in the crowd and are run again, alone, at the most: more of them is no accident.
again_most=8

# Of what a shell has waited for `times` knows the seconds of processors.
finish() {
  for preset in $presets; do
    show_failures "$preset"
  done
  times >"$logs/times"
  computed=$(awk -F'[ms ]+' 'NR == 2 {printf "%d", 60 * $1 + $2 + 60 * $3 + $4}' "$logs/times")
  echo "check: $(($(date +%s) - started)) s in all, $computed s of processors"
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ]
  exit
}

# The end of what each failed test of a preset said, the last in the print: a long one is cut in the middle. The
# rest is in build/check.
show_failures() {
  python3 - "$logs/$1.xml" "$1" <<'END'
import os, sys, xml.etree.ElementTree as tree
path, preset = sys.argv[1:]
for test in tree.parse(path).iter("testcase") if os.path.exists(path) and os.path.getsize(path) > 0 else ():
    if test.get("status") != "run":
        lines = test.findtext("system-out", "").rstrip().split("\n")
        print(f"--- {preset} {test.get('name')}: {test.get('status')} after {test.get('time')} s; it said last:")
        print("\n".join(line[:500] for line in lines[-40:]))
END
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
  return 1
}

# What users build has neither tests nor warnings that stop it. -g: the ABI is read from debugging
# symbols. The prefix: the tests of packages look at one that is laid out as a distribution's.
configure() {
  case $1 in
    release)
      cmake --preset release -DWEIR_BUILD_TESTS=ON -DWEIR_WARNINGS_AS_ERRORS=ON -DCMAKE_C_FLAGS=-g \
        -DCMAKE_INSTALL_PREFIX=/usr
      ;;
    *) cmake --preset "$1" ;;
  esac
}

# Leaves what it has to say in built-PRESET; last of all "yes" or "no".
build_all() {
  for preset in $presets; do
    {
      step "configure-$preset" configure "$preset" &&
        step "build-$preset" nice -n 10 cmake --build --preset "$preset" && echo yes || echo no
    } >"$logs/building"
    mv "$logs/building" "$logs/built-$preset"
  done
}

# Shows how the build went; whether it went well.
await_build() {
  built=$logs/built-$1
  while [ ! -e "$built" ] && kill -0 "$builder" 2>/dev/null; do
    sleep 1
  done
  if [ ! -e "$built" ]; then
    echo "build-$1: FAILED, as nobody builds any more"
    return 1
  fi
  sed '$d' "$built"
  [ "$(tail -n 1 "$built")" = yes ]
}

# Some kernels place mappings more randomly than the sanitizers of Debian 12 can bear.
steady=
if setarch "$(uname -m)" -R true 2>/dev/null; then
  steady="setarch $(uname -m) -R"
fi

# run_tests PRESET OPTION...: options are ctest's.
run_tests() {
  results=$logs/$1.xml
  rm -f "$results"
  began=$(date +%s)
  $steady ctest --preset "$@" --output-junit "$results" >"$logs/test-$1.log" 2>&1
  status=$?
  total=$(grep -c '<testcase ' "$results" 2>/dev/null)
  good=$(grep -c '<testcase .*status="run"' "$results" 2>/dev/null)
  bad=$((${total:-0} - ${good:-0}))
  if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then
    bad=1 # there were no tests, or ctest itself went wrong
  fi
  if [ "${total:-0}" -eq 0 ]; then
    tail -n 40 "$logs/test-$1.log"
  fi
  passed=$((passed + ${good:-0}))
  failed=$((failed + bad))
  echo "test-$1: ${good:-0} passed, $bad failed in $(($(date +%s) - began)) s; longest: $(longest "$results")"
}

# longest RESULTS: the tests that took longest, beside what ran at the same time.
longest() {
  sed -n 's/.*<testcase name="\([^"]*\)".* time="\([0-9.]*\)".*/\2 \1/p' "$1" 2>/dev/null | sort -rn | head -n 5 |
    awk '{printf "%s%s %d s", separator, $2, $1; separator = ", "}'
}

# missing PRESET: those of its tests that the list names must be among the results, whatever became of
# them. Lines that end in "npm" need its registry, and may be missing where that cannot be reached.
missing() {
  [ -e "$logs/$1.xml" ] || : >"$logs/$1.xml"
  sed -n 's/.*<testcase name="\([^"]*\)".*/\1/p' "$logs/$1.xml" | sort >"$logs/ran-$1"
  sed -n "s/^$1 //p" "$list" >"$logs/listed-$1"
  if grep -q ' npm$' "$logs/listed-$1" && ! npm ping >/dev/null 2>&1; then
    sed -i '/ npm$/d' "$logs/listed-$1"
  fi
  sed 's/ npm$//' "$logs/listed-$1" | sort | comm -23 - "$logs/ran-$1" >"$logs/missing-$1"
  while read -r name; do
    failed=$((failed + 1))
    echo "missing: $1 $name did not run; if it is gone for good: sh tests/check.sh --list"
  done <"$logs/missing-$1"
}

# check PRESET: what CMakePresets.json leaves out of a preset's tests is run in another.
check() {
  if ! await_build "$1"; then
    failed=$((failed + 1))
    return
  fi
  run_tests "$1"
  missing "$1"
}

# Which tests each preset would run. Lines that need npm keep their mark.
write_list() {
  for preset in $presets; do
    step "configure-$preset" configure "$preset" >&2 || return
    ctest --preset "$preset" -N | sed -n "s/ (Disabled)\$//; s/^ *Test *#[0-9]*: */$preset /p"
  done >"$logs/list.new"
  while read -r line; do
    grep -Fx "$line npm" "$list" || echo "$line"
  done <"$logs/list.new" | LC_ALL=C sort >"$logs/list"
  mv "$logs/list" "$list"
  echo "$list: $(wc -l <"$list") tests"
}

# again PRESET: runs its failed tests of label "timing" once more; what passes is counted as passed, and
# said. Their verdict depends on a machine that is on time, which one that runs everything else is not.
again() {
  results=$logs/$1.xml
  [ -e "$results" ] || return 0
  ctest --preset "$1" -N -L timing 2>/dev/null | sed -n 's/.*Test *#[0-9]*: //p' >"$logs/timing"
  sed -n 's/.*<testcase name="\([^"]*\)".*status="fail".*/\1/p' "$results" |
    grep -Fx -f "$logs/timing" >"$logs/again"
  while read -r name; do
    again_most=$((again_most - 1))
    if [ "$again_most" -lt 0 ]; then
      echo "again: too many tests failed to run $1 $name alone"
      continue
    fi
    log=$logs/again-$1-$(echo "$name" | tr / -).log
    if $steady ctest --preset "$1" -R "^$name\$" >"$log" 2>&1; then
      passed=$((passed + 1))
      failed=$((failed - 1))
      echo "again: $1 $name PASSED ONLY ALONE; it failed in the crowd, see below"
    else
      tail -n 40 "$log"
      echo "again: $1 $name failed alone as well"
    fi
  done <"$logs/again"
}

# What unit tests need: a compiler, the libraries and the stores.
install_unit() {
  sh tests/packages.sh gcc g++ cmake ninja-build pkg-config python3 libmemcached-dev libssl-dev libhiredis-dev \
    libsodium-dev zlib1g-dev libjansson-dev libyaml-dev libevent-dev libnghttp2-dev libcmocka-dev memcached \
    redis-server nutcracker openssl curl gnuplot-nox
}

install_all() {
  # A Node.js of another origin brings its headers along, and Debian's would not go beside it.
  node=
  if ! command -v node >/dev/null || [ ! -e /usr/include/node/node_api.h ]; then
    node="nodejs libnode-dev"
  fi
  install_unit && sh tests/packages.sh $node clang lld libclang-rt-dev clang-format clang-tidy abigail-tools doxygen \
    mandoc bsdextrautils dpkg-dev debhelper lintian file zsh prometheus systemd valgrind nginx-light caddy haproxy \
    python3-redis node-redis python3-grpcio python3-protobuf nghttp2-client chromium python3-pip \
    python3-setuptools python3-wheel python3-venv python3-flask python3-django python3-starlette \
    python3-uvicorn python3-fastapi python3-httpx python3-gevent uwsgi-core uwsgi-plugin-python3 mypy gunicorn \
    php-cli php-redis ruby ruby-redis libcurl4-openssl-dev
}

case "${1-} ${2-}" in
" ") ;;
"--list ")
  write_list
  exit
  ;;
"--build ") # the check's own
  build_all
  exit
  ;;
"--packages unit")
  install_unit
  exit
  ;;
"--packages all")
  install_all
  exit
  ;;
*)
  echo "check.sh: --list, --packages unit and --packages all are accepted" >&2
  exit 2
  ;;
esac

step packages install_all || {
  failed=1
  finish
}

WEIR_NPM_MODULES=$(sh tests/npm.sh "$logs/npm" 2>"$logs/npm.log")
if [ -n "$WEIR_NPM_MODULES" ]; then
  export WEIR_NPM_MODULES
else
  unset WEIR_NPM_MODULES
  echo "npm: its registry is not to be had here, so Express, Fastify, grpc-js and clients of Redis are not tried"
fi

rm -f "$logs"/built-*
setsid sh tests/check.sh --build & # a group of its own, to which cmake, ninja and what it starts belong
builder=$!
trap 'kill -TERM "-$builder" 2>/dev/null; exit 1' HUP INT TERM

# Tests need it, and no build does.
valkey=$(sh tests/servers.sh "$logs/servers" bookworm-backports valkey-server 2>"$logs/valkey.log")
if [ -n "$valkey" ]; then
  export WEIR_VALKEY_SERVER="$valkey/redis-server"
else
  unset WEIR_VALKEY_SERVER
  echo "valkey: not to be had here, so the stores are tested without it"
fi

for preset in $presets; do
  check "$preset"
done
wait "$builder"
for preset in $presets; do
  again "$preset"
done
finish
