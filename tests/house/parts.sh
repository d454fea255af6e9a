# parts.sh CMAKE CC SOURCE: the library alone, for the store memory: alone, builds where pkg-config knows
# libsodium and nothing else; and what another build would need there is named, with the way around it.
set -eu
cmake=$1 cc=$2 source=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
  echo "$*"
  exit 1
}

mkdir "$folder/known"
cp "$(pkg-config --variable=pcfiledir libsodium)/libsodium.pc" "$folder/known"
export PKG_CONFIG_LIBDIR="$folder/known"

# refused NAME WORD...: not configured with the options in `options`; the message has the words.
refused() {
  name=$1
  shift
  if "$cmake" -G Ninja -S "$source" -B "$folder/$name" -DCMAKE_C_COMPILER="$cc" $options >"$folder/said" 2>&1; then
    fail "configured with $options, without what that needs"
  fi
  tr '\n' ' ' <"$folder/said" | tr -s ' ' >"$folder/line"
  for word; do
    grep -qF -e "$word" "$folder/line" || fail "\"$word\" is not said: $(cat "$folder/said")"
  done
}

options=
refused all libmemcached-dev -DWEIR_WITH_MEMCACHED=OFF
options="-DWEIR_WITH_MEMCACHED=OFF"
refused redis libhiredis-dev -DWEIR_WITH_REDIS=OFF
options="$options -DWEIR_WITH_REDIS=OFF"
refused program zlib1g-dev -DWEIR_BUILD_PROGRAM=OFF
options="$options -DWEIR_BUILD_PROGRAM=OFF -DWEIR_BUILD_TESTS=ON"
refused tests "tests are of all parts"

"$cmake" -G Ninja -S "$source" -B "$folder/alone" -DCMAKE_C_COMPILER="$cc" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS=-O0 \
  -DWEIR_WITH_MEMCACHED=OFF -DWEIR_WITH_REDIS=OFF -DWEIR_BUILD_PROGRAM=OFF -DWEIR_BUILD_MANUAL=OFF \
  -DCMAKE_INSTALL_PREFIX="$folder/prefix" -DCMAKE_INSTALL_LIBDIR=lib >"$folder/said" 2>&1 &&
  "$cmake" --build "$folder/alone" >"$folder/said" 2>&1 &&
  "$cmake" --install "$folder/alone" >"$folder/said" 2>&1 || fail "$(tail -n 30 "$folder/said")"

cat >"$folder/program.c" <<'END'
#include <stdio.h>
#include <string.h>
#include <weir/weir.h>

int main(void) {
  weir_store *store;
  weir_message why;
  if (weir_store_open("memory:", &store, &why) != WEIR_OK) return 1;
  weir_store_close(store);
  if (weir_store_open("redis://localhost", &store, &why) == WEIR_OK) return 2;
  puts(why.text);
  return strstr(why.text, "accepted are memory") == NULL;
}
END
export PKG_CONFIG_LIBDIR="$folder/prefix/lib/pkgconfig"
"$cc" -o "$folder/shared" "$folder/program.c" $(pkg-config --cflags --libs weir)
LD_LIBRARY_PATH="$folder/prefix/lib" "$folder/shared"
"$cc" -o "$folder/static" "$folder/program.c" $(pkg-config --cflags weir) "$folder/prefix/lib/libweir.a" \
  $(pkg-config --static --libs weir | sed 's/-lweir\>//')
"$folder/static"
if LD_LIBRARY_PATH="$folder/prefix/lib" ldd "$folder/shared" | grep -E 'memcached|hiredis|ssl|zlib|jansson'; then
  fail "the library alone is linked with what it does not use"
fi
for flag in hiredis _FILE_OFFSET_BITS; do
  if pkg-config --cflags weir | grep "$flag"; then fail "users of the shared library are told of $flag"; fi
done
