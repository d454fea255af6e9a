# pages.sh PAGES PROGRAM INCLUDE: the manual pages have no fault that mandoc knows, show what help says, and each
# function of the headers has one.
set -eu
pages=$1 program=$2 include=$3
failed=0
fail() {
  echo "$*"
  failed=1
}

for page in "$pages"/*.1 "$pages"/man3/*.3 "$pages"/man5/*.5; do
  if read -r first <"$page" && [ "${first#.so }" != "$first" ]; then
    [ -s "$pages/${first#.so }" ] || fail "$page stands for ${first#.so }, which is not there"
  else
    mandoc -T lint -W warning "$page" || fail "$page: see above"
  fi
done

for command in take peek refund reset run replay simulate bench doctor; do
  mandoc -T ascii "$pages/weir-$command.1" | col -b | tr -s ' \n' ' ' >"$pages/shown"
  "$program" help $command | grep -oE '^  --[a-z-]+' | while read -r option; do
    grep -qF -e "$option" "$pages/shown" || echo "$option"
  done >"$pages/missing"
  [ -s "$pages/missing" ] && fail "weir-$command(1) lacks $(cat "$pages/missing")"
  grep -q "weir-$command" "$pages/weir.1" || grep -q "weir..$command" "$pages/weir.1" ||
    fail "weir(1) does not name weir-$command"
done

# Each key of the page of the configuration is an entry of weir.yaml(5).
sed -n 's/^| `\([a-z_0-9]*\)`.*/\1/p' ../../docs/configuration.md >"$pages/keys"
[ "$(wc -l <"$pages/keys")" -gt 50 ] || fail "docs/configuration.md has few keys"
while read -r key; do
  grep -A 1 '^\.TP$' "$pages/man5/weir.yaml.5" | grep -q "^\\\\fB$key\\\\fR" || fail "weir.yaml(5) lacks $key"
done <"$pages/keys"
if grep -n '^<!' "$pages"/man5/weir.yaml.5; then
  fail "weir.yaml(5) shows a comment of its page"
fi

for name in $(grep -ohE '^WEIR_EXPORT [^(]*' "$include"/weir/*.h | grep -oE 'weir_[a-z_0-9]+$'); do
  [ -s "$pages/man3/$name.3" ] || fail "$name has no page"
done
exit $failed
