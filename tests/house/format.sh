# format.sh CLANG_FORMAT ROOT: every C file is as clang-format leaves it.
# weir_ffi.h is made for readers without a preprocessor.
set -eu
clang_format=$1 root=$2
find "$root/include" "$root/src" "$root/backends" "$root/tests" -name '*.[ch]' ! -name weir_ffi.h \
  -exec "$clang_format" --dry-run --Werror {} +
