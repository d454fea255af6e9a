# reference.sh DOXYGEN ROOT: the reference is written without a warning, and has what it must.
set -eu
doxygen=$1 root=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$root"
{
  cat docs/Doxyfile
  echo "OUTPUT_DIRECTORY = $folder"
} | "$doxygen" - >"$folder/log" 2>&1 || {
  cat "$folder/log"
  exit 1
}
if [ -s "$folder/log" ]; then
  cat "$folder/log"
  exit 1
fi
grep -q "Decides one request of" "$folder/html/limiter_8h.html" || {
  echo "weir_limiter_take has no text"
  exit 1
}
