# touched.sh ROOT: every folder of the table in src/README.md has tests that tests/touched.sh would run.
set -eu
cd "$1"
found=0
for folder in $(sed -n 's/^|[^|]*| `\([^`]*\)` |.*/\1/p' src/README.md); do
  [ -n "$(sh tests/touched.sh --tests "$folder/file.c")" ] || {
    echo "tests/touched.sh knows no tests of $folder"
    exit 1
  }
  found=$((found + 1))
done
[ $found -gt 10 ]
[ "$(sh tests/touched.sh --tests src/limits/memo/file.c tests/wire/test_file.c README.md | xargs)" = "memo wire" ]
