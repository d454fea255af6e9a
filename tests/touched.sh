# Tests what a change touched, within a minute for a folder: sh tests/touched.sh [BASE]
#
# Takes the files that differ from BASE (a commit; HEAD unless given), new ones too. A file belongs to
# the tests of its folder: one of tests/NAME or of a folder NAME of the table in src/README.md to
# tests/NAME. Builds these in the preset `dev`, and runs all but the slow ones, and what looks at the
# sources. For algorithms and what a process knows of keys it also explores twelve short scopes of the
# model and replays a short trace. Exits 0 if everything passed.
#
#   sh tests/touched.sh --tests FILE...    only prints whose tests these files belong to
set -u
cd "$(dirname "$0")/.." || exit 1
# Where the tests of folders are that have no folder of tests with their name.
tests_of() {
  case $1 in
  policy) echo limiter ;;
  metrics) printf 'limiter\nmonitor\n' ;;
  protocol | turn | keep | tell) echo serve ;;
  logs) printf 'cli\nsimulate\n' ;;
  fuzz) ;; # of other presets
  ?*) [ ! -e "tests/$1/CMakeLists.txt" ] || echo "$1" ;;
  esac
}

# The last folder of FILE that the table has; or, of tests and bindings, the first.
folder_of() {
  case $1 in
  tests/*/*) echo "$1" | cut -d/ -f2 ;;
  src/bindings/*) echo bindings ;;
  include/weir/*) printf 'limiter\nbase\nstore\n' ;;
  docs/examples/*) echo examples ;;
  *)
    sed -n 's/^|[^|]*| `\([^`]*\)` |.*/\1/p' src/README.md | while read -r folder; do
      case $1 in "$folder"/*) basename "$folder" ;; esac
    done
    ;;
  esac
}

# tests_of_files FILE...
tests_of_files() {
  for file; do
    for name in $(folder_of "$file"); do
      tests_of "$name"
    done
  done | sort -u
}

if [ "${1-}" = --tests ]; then
  shift
  tests_of_files "$@"
  exit
fi

base=${1-HEAD}
git rev-parse -q --verify "$base^{commit}" >/dev/null || {
  echo "no commit: $base"
  exit 1
}

files=$(git diff --name-only "$base" && git ls-files --others --exclude-standard) || exit 1
folders=$(tests_of_files $files) # unquoted: no path of this tree has a space
[ -n "$files" ] || {
  echo "nothing differs from $base"
  exit 0
}
echo "touched: $(echo "$files" | wc -l) files, tests of:" ${folders:-"no folder"}

began=$(date +%s)
build=build/dev
[ -e $build/build.ninja ] || cmake --preset dev || exit
targets="weir weir_shared with_servers"
regex='^house/(includes|walk|kinds|format|words|paths|headers|again|missing)$'
model=
for folder in $folders; do
  targets="$targets tests/$folder/all"
  case $folder in
  house) regex="$regex|^house/" ;;
  *) regex="$regex|^$folder/" ;;
  esac
  case $folder in
  algorithm | memo) model=weir_model ;;
  cluster) targets="$targets tests/contract/all" ;; # which runs on a cluster as well
  esac
done
# A public header stands once more in the ABI and in the Python binding.
case $files in *include/weir/*) regex="$regex|^house/abi$|^bindings/ffi$" ;; esac
case $targets in *tests/cli/all*) ;; *) targets="$targets serve" ;; esac
# Unquoted: targets are words.
cmake --build $build --target $targets $model >$build/touched.log || {
  cat $build/touched.log
  exit 1
}
echo "built in $(($(date +%s) - began)) s"

failed=0
ctest --preset dev --progress -R "$regex" || failed=1

if [ -n "$model" ]; then
  while read -r scope; do
    $build/tests/model/weir_model "$scope" >$build/scope || {
      cat $build/scope
      echo "model: \"$scope\" FAILED"
      failed=1
    }
  done <<'END'
fixed window
full lanes
N=4, leases
N=4, strict, leases, a clock is set back
token bucket, SWAP
leaky bucket, SWAP
token bucket, RAISE, answer lost
quota, answer lost
two logs in one, the shorter denies
window and log, late, crash
a cost for every rule, SWAP
fixed window, outages, what is left
shared, a cell ends
END
  WEIR_TEST_MEMORY=memory: WEIR_PROGRAM=$PWD/$build/weir python3 -B tests/replay/differential.py \
    --trace tests/replay/data/nasa1995aug01.txt.gz --store MEMORY --prefix 50 --lines 10 || failed=1
fi
echo "touched: $([ $failed = 0 ] && echo passed || echo FAILED) in $(($(date +%s) - began)) s"
exit $failed
