# typed.sh PACKAGE: mypy --strict reads typed.py as a user's program: what is right passes, and each line that
# says "refused" is refused, for each option that is not there or of another type.
set -eu
package=$1
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
MYPYPATH=$package mypy --strict --follow-imports=silent --enable-incomplete-feature=Unpack \
  --python-version 3.11 --cache-dir="$cache" typed.py >"$cache/said" || true
sed -n 's/^typed.py:\([0-9]*\): error.*/\1/p' "$cache/said" | sort -u >"$cache/found"
sed -n '/# refused/=' typed.py | sort -u >"$cache/wanted"
diff "$cache/wanted" "$cache/found" || {
  cat "$cache/said"
  exit 1
}
echo "$(wc -l <"$cache/wanted") lines are refused, and no others"
