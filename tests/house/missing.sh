# missing.sh CHECK: which listed tests tests/check.sh misses. Its function is taken from there; npm is a
# fake.
set -eu
check=$1
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
list=$logs/check.list
registry=yes

npm() {
  [ $registry = yes ]
}

expect() {
  failed=0
  missing "$1" >"$logs/said"
  if [ "$(sed 's/^missing: \(.*\) did not run.*/\1/' "$logs/said")" != "$2" ] ||
    [ $failed != "$(grep -c . "$logs/said")" ]; then
    echo "expected \"$2\", $failed failed:"
    cat "$logs/said"
    exit 1
  fi
}

eval "$(sed -n '/^missing() {$/,/^}$/p' "$check")"
cat >"$logs/asan.xml" <<'END'
	<testcase name="wire/good" classname="wire/good" time="1" status="run">
	<testcase name="wire/bad" classname="wire/bad" time="1" status="fail">
	<testcase name="wire/new" classname="wire/new" time="1" status="run">
END
printf '%s\n' 'asan wire/good' 'asan wire/bad' 'tsan wire/elsewhere' >"$list"
expect asan '' # what failed did run, and one more than listed is no harm
expect tsan 'tsan wire/elsewhere'
printf '%s\n' 'asan wire/gone' 'asan wire/goo' 'asan js/one npm' >>"$list"
expect asan "$(printf 'asan %s\n' js/one wire/gone wire/goo)"
registry=no
expect asan "$(printf 'asan %s\n' wire/gone wire/goo)"
