# tidy.sh CLANG_TIDY BUILD ROOT: clang-tidy finds none of the common mistakes in the library and the
# program. Of .clang-tidy's checks this leaves out those that follow every path (clang-analyzer), which
# take minutes, and matters of taste: `cmake --workflow --preset tidy` has all, over the tests as well.
# What gcc alone knows of how to optimise is none of its business.
set -eu
clang_tidy=$1 build=$2 root=$3
said=$(mktemp)
trap 'rm -f "$said"' EXIT
cd "$root"
[ -s "$build/compile_commands.json" ] || {
  echo "$build has no compile_commands.json"
  exit 1
}
find src backends -name '*.c' -print0 |
  xargs -0 -n 20 -P 2 "$clang_tidy" -p "$build" --quiet --warnings-as-errors='*' \
    --extra-arg=-Wno-ignored-optimization-argument \
    --checks="-clang-analyzer-*,-readability-*,-bugprone-implicit-widening*,-bugprone-integer-division,\
-performance-no-int-to-ptr" >"$said" 2>/dev/null || {
  cat "$said"
  exit 1
}
