# promtool.sh PROMTOOL METRICS_PAGE: what Prometheus' own checker says of the text: nothing.
set -eu
page=$(mktemp)
said=$(mktemp)
trap 'rm -f "$page" "$said"' EXIT

"$2" "$WEIR_TEST_MEMCACHED_THREE" "$WEIR_TEST_REDIS" >"$page"
grep -q '^weir_server_breaker{store="counts",server="127.0.0.1:[0-9]*",state="closed"} 1$' "$page"
"$1" check metrics <"$page" >"$said" 2>&1 || {
  cat "$said"
  exit 1
}
if [ -s "$said" ]; then
  cat "$said"
  exit 1
fi
# It does look: a page that is wrong is told so.
! sed 's/# TYPE weir_decisions_total counter/# TYPE weir_decisions_total gauge/' "$page" |
  "$1" check metrics >/dev/null 2>&1
echo "$(wc -l <"$page") lines, and nothing to say"
