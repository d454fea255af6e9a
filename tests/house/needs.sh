# needs.sh CMAKE CC SOURCE: where the programs are missing that single tests need, the tests are
# configured all the same, and what is left out is named.
set -eu
cmake=$1 cc=$2 source=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
gone="chromium promtool caddy php ruby doxygen zsh clang-tidy node nodejs valgrind"

mkdir "$folder/programs"
ln -s /usr/bin/* "$folder/programs"
for program in $gone; do
  rm -f "$folder/programs/$program"
done
PATH=$folder/programs "$cmake" -G Ninja -S "$source" -B "$folder/built" -DCMAKE_C_COMPILER="$(command -v "$cc")" \
  -DCMAKE_BUILD_TYPE=Release -DWEIR_BUILD_TESTS=ON -DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF >"$folder/said" 2>&1 || {
  cat "$folder/said"
  exit 1
}

# left PROGRAM TEST...: said of it; and below, disabled.
left() {
  grep "^-- There is no $1, so these are left out: " "$folder/said" | tr ' ' '\n' >"$folder/named"
  shift
  for test; do
    grep -qxF "$test" "$folder/named" || {
      echo "$test is not named: $(cat "$folder/named")"
      exit 1
    }
    echo "$test" >>"$folder/left"
  done
}
left chromium serve/browser
left promtool serve/status monitor/promtool
left caddy serve/caddy
left php serve/clients
left ruby serve/clients
left doxygen house/reference
left zsh house/completion_zsh
left clang-tidy house/tidy
left node bindings/node examples/pages examples/stream_proxy_node
left valgrind bench/weight

# What is left out stays in ctest's lists, as disabled, which tests/check.sh counts as failed.
"$(dirname "$cmake")/ctest" --test-dir "$folder/built" --output-junit "$folder/results.xml" \
  -R "^($(paste -sd '|' "$folder/left"))\$" >"$folder/ran" 2>&1
while read -r test; do
  grep -q "<testcase name=\"$test\".*status=\"disabled\"" "$folder/results.xml" || {
    echo "$test would run"
    exit 1
  }
done <"$folder/left"
