# again.sh CHECK: what tests/check.sh runs once more. Its function is taken from there; ctest is a fake
# that knows four failed tests: "steady" fails always, "late" passes alone, "wrong" has no label.
set -eu
check=$1
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
steady=

ctest() {
  case "$*" in
  *"-N -L timing") printf '  Test   #1: wire/late\n  Test #12: wire/steady\n  Test #3: wire/good\n' ;;
  *'-R ^wire/late$') return 0 ;;
  *'-R ^wire/steady$') return 8 ;;
  *)
    echo "unexpected: ctest $*"
    exit 1
    ;;
  esac
}

fail() {
  echo "$1: \"$said\", $passed passed, $failed failed"
  exit 1
}

eval "$(sed -n '/^again() {$/,/^}$/p' "$check")"
cat >"$logs/dev.xml" <<'END'
	<testcase name="wire/good" classname="wire/good" time="1" status="run">
	<testcase name="wire/late" classname="wire/late" time="1" status="fail">
	<testcase name="wire/steady" classname="wire/steady" time="1" status="fail">
	<testcase name="race/wrong" classname="race/wrong" time="1" status="fail">
END
passed=1 failed=3 again_most=8
again dev >"$logs/said"
said=$(cat "$logs/said")
[ $passed = 2 ] && [ $failed = 2 ] || fail "one passes alone"
grep -q "dev wire/late PASSED ONLY ALONE" "$logs/said" || fail "it is said"
grep -q "dev wire/steady failed alone as well" "$logs/said" || fail "a second failure is one"
! grep -q "wrong\|good" "$logs/said" || fail "no other is run"

passed=1 failed=3 again_most=0
again dev >"$logs/said"
said=$(cat "$logs/said")
[ $passed = 1 ] && [ $failed = 3 ] || fail "many failures are no accident"
again other # never ran: nothing to do
