# ffi.sh PYTHON CC INCLUDE BINDINGS OUT: weir_ffi.h is what flatten.py makes of the headers, and a compiler
# sees in it what it sees in them: the same functions, sizes and offsets. Leaves the latter in OUT.
set -eu
python=$1 cc=$2 include=$3 bindings=$4 out=$5
header=$bindings/python/weir/weir_ffi.h
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$python" -B "$bindings/ffi/flatten.py" "$cc" "$include" >"$folder/weir_ffi.h"
diff "$header" "$folder/weir_ffi.h" || {
  echo "make it anew: python3 src/bindings/ffi/flatten.py cc include >src/bindings/python/weir/weir_ffi.h"
  exit 1
}

# print WHICH: a program that prints sizes and offsets by one of the two.
print() {
  case $1 in
  flat) printf '#include <stddef.h>\n#include <stdint.h>\n#include "%s"\n' "$header" ;;
  real) printf '#include <weir/weir.h>\n' ;;
  esac
  printf '#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n'
  awk '/^typedef struct.*{$/ { n = $3; printf "printf(\"%s %%zu\\n\", sizeof(%s));\n", n, n; next }
    /^typedef|^enum|^}/ { if ($0 ~ /^}/) n = ""; next }
    n != "" { m = $0; if (sub(/.*\(\*/, "", m)) sub(/\).*/, "", m); else { sub(/(\[.*\])?;$/, "", m); sub(/.*[ *]/, "", m) }
      printf "printf(\"%s.%s %%zu\\n\", offsetof(%s, %s));\n", n, m, n, m }' "$header"
  printf 'return 0;\n}\n'
}
for which in flat real; do
  print $which >"$folder/$which.c"
  "$cc" -std=c11 -Wall -Wextra -Werror -pedantic -I"$include" -o "$folder/$which" "$folder/$which.c"
  "$folder/$which" >"$folder/$which.txt"
done
diff "$folder/flat.txt" "$folder/real.txt"

# Both at once: what is declared twice must be declared alike.
{
  echo '#include <weir/weir.h>'
  grep -E '^[a-z_].*\);$' "$header" | grep -v ^typedef
  echo 'extern int end;'
} >"$folder/both.c"
"$cc" -std=c11 -Wall -Wextra -Werror -pedantic -I"$include" -fsyntax-only "$folder/both.c"
test "$(wc -l <"$folder/flat.txt")" -gt 50
cp "$folder/flat.txt" "$out"
echo "$(grep -c ');$' "$header") functions, $(wc -l <"$out") sizes and offsets"
