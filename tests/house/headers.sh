# headers.sh INCLUDE CC CXX: each installed header compiles alone, as C11 and as C++.
set -eu
include=$1 cc=$2 cxx=$3
failed=0

# alone HEADER COMPILER...
alone() {
  header=$1
  shift
  if ! printf '#include <weir/%s>\nextern int not_empty;\n' "$header" |
    "$@" -I"$include" -Wall -Wextra -pedantic -Werror -fsyntax-only -; then
    echo "weir/$header does not compile alone: $*"
    failed=1
  fi
}

for path in "$include"/weir/*.h; do
  alone "${path##*/}" "$cc" -std=c11 -x c
  alone "${path##*/}" "$cxx" -std=c++11 -x c++
done
exit $failed
