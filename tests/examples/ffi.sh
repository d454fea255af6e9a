# ffi.sh PYTHON CC INCLUDE FFI OUT: weir_ffi.h is what flatten.py makes of the headers, and a compiler
# sees in it what it sees in them: the same functions, sizes and offsets. Leaves the latter in OUT.
set -eu
python=$1 cc=$2 include=$3 ffi=$4 out=$5
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$python" -B "$ffi/flatten.py" "$cc" "$include" >"$folder/weir_ffi.h"
diff "$ffi/weir_ffi.h" "$folder/weir_ffi.h" || {
  echo "make it anew: python3 docs/examples/ffi/flatten.py cc include >docs/examples/ffi/weir_ffi.h"
  exit 1
}

# print WHICH: a program that prints sizes and offsets by one of the two.
print() {
  case $1 in
  flat) printf '#include <stddef.h>\n#include <stdint.h>\n#include "%s"\n' "$ffi/weir_ffi.h" ;;
  real) printf '#include <weir/weir.h>\n' ;;
  esac
  printf '#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n'
  awk '/^typedef struct.*{$/ { n = $3; printf "printf(\"%s %%zu\\n\", sizeof(%s));\n", n, n; next }
    /^typedef|^enum|^}/ { if ($0 ~ /^}/) n = ""; next }
    n != "" { m = $0; if (sub(/.*\(\*/, "", m)) sub(/\).*/, "", m); else { sub(/(\[.*\])?;$/, "", m); sub(/.*[ *]/, "", m) }
      printf "printf(\"%s.%s %%zu\\n\", offsetof(%s, %s));\n", n, m, n, m }' "$ffi/weir_ffi.h"
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
  grep -E '^[a-z_].*\);$' "$ffi/weir_ffi.h" | grep -v ^typedef
  echo 'extern int end;'
} >"$folder/both.c"
"$cc" -std=c11 -Wall -Wextra -Werror -pedantic -I"$include" -fsyntax-only "$folder/both.c"
test "$(wc -l <"$folder/flat.txt")" -gt 50
cp "$folder/flat.txt" "$out"
echo "$(grep -c ');$' "$ffi/weir_ffi.h") functions, $(wc -l <"$out") sizes and offsets"
