# format.sh CLANG_FORMAT ROOT: every C file is as clang-format leaves it.
set -eu
clang_format=$1 root=$2
find "$root/include" "$root/src" "$root/backends" "$root/tests" -name '*.[ch]' \
  -exec "$clang_format" --dry-run --Werror {} +
