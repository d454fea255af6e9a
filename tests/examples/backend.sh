# backend.sh PREFIX CMAKE EXAMPLE: builds the backend of docs/examples/backend as a stranger does, against
# the installed package, and limits with it: processes share what they count.
set -eu
prefix=$1 cmake=$2 example=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$cmake" -S "$example" -B "$folder/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_C_FLAGS='-Wall -Wextra -Werror -pedantic -std=c11'
"$cmake" --build "$folder/build"
take() {
  "$folder/build/take" "$@"
}

url="mapped://$folder/limits?slots=64"
take "$url" fixed-window:2/400d alice bob alice >"$folder/said"
take "$url" fixed-window:2/400d alice bob >>"$folder/said"
diff - "$folder/said" <<END
alice: allowed, 1 left
bob: allowed, 1 left
alice: allowed, 0 left
alice: denied, 0 left
bob: allowed, 0 left
END

# A mistake is told.
fails() {
  text=$1
  shift
  if take "$@" >/dev/null 2>"$folder/said" || ! grep -q "$text" "$folder/said"; then
    cat "$folder/said"
    exit 1
  fi
}
fails 'No such file' "mapped://$folder/nowhere/limits" fixed-window:2/1h alice
echo 'something else' >"$folder/other"
fails 'no file of this kind' "mapped://$folder/other" fixed-window:2/1h alice
fails 'slots=1: ' "mapped://$folder/small?slots=1" fixed-window:2/1h alice

# As many processes at once as the machine likes: of 200 requests 50 are admitted.
for process in 1 2 3 4; do
  take "$url" fixed-window:50/400d $(yes carol | head -n 50) >"$folder/said-$process" &
done
wait
test "$(cat "$folder"/said-? | grep -c allowed)" -eq 50
