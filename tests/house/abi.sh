# abi.sh compare|write LIBRARY INCLUDE: holds the shared library's interface against its description,
# tests/house/abi/libweir.abi, or writes that anew. What is added breaks no program and is accepted;
# what is changed or gone is a failure until the description is written anew:
#
#   sh tests/house/abi.sh write build/dev/libweir.so include
#
# Needs a library with debug information. What is behind opaque types is nobody's business.
set -eu
mode=$1 library=$2 include=$3
description=$(dirname "$0")/abi/libweir.abi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

opaque=$(sed -n 's/^typedef struct \(weir_[a-z_]*\) \1;.*/\1/p' "$include"/weir/*.h | sort -u | paste -sd'|')
[ -n "$opaque" ] || {
  echo "the headers have no opaque types"
  exit 1
}
printf '[suppress_type]\n  name_regexp = ^(%s)$\n  drop = yes\n' "$opaque" >"$folder/opaque"

abidw --headers-dir "$include" --drop-private-types --exported-interfaces-only --no-show-locs \
  --no-corpus-path --no-comp-dir-path --no-elf-needed --type-id-style hash \
  --suppressions "$folder/opaque" --out-file "$folder/now.abi" "$library"
if [ "$mode" = write ]; then
  # Where it was built is nobody's business either.
  sed -E "s,path='[^']*/((src|backends)/[^']*)',path='\1'," "$folder/now.abi" >"$description"
  exit
fi

abidiff --no-added-syms "$description" "$folder/now.abi" || {
  echo "the interface has changed: if that is meant, write its description anew (see $0)"
  exit 1
}

# The comparison itself sees what it must: a description with another size of a structure differs.
sed "s/\(name='weir_decision' size-in-bits='\)[0-9]*/\1320/" "$description" >"$folder/other.abi"
if cmp -s "$description" "$folder/other.abi" ||
  abidiff --no-added-syms "$folder/other.abi" "$folder/now.abi" >"$folder/said"; then
  echo "a structure of another size was not noticed"
  exit 1
fi
