# package.sh PREFIX CMAKE LIBDIR CXX: a stranger's project finds the installed package by
# find_package(weir), in C and C++, shared and static, and what it runs is the version that it was
# compiled with; in C++ also by pkg-config (consumer.sh does so in C).
set -eu
prefix=$1 cmake=$2 libdir=$3 cxx=$4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat >"$folder/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(stranger LANGUAGES C CXX)
find_package(weir 0.9 REQUIRED)
foreach(way IN ITEMS weir static)
  add_executable(c_${way} stranger.c)
  target_link_libraries(c_${way} weir::${way})
  add_executable(cxx_${way} stranger.cpp)
  target_link_libraries(cxx_${way} weir::${way})
endforeach()
add_executable(doctor doctor.c)
target_link_libraries(doctor weir::doctor)
END
cat >"$folder/stranger.c" <<'END'
#include <stdio.h>
#include <string.h>
#include <weir/weir.h>

int main(void) {
  char text[32];
  weir_store *store;
  weir_limiter *limiter;
  weir_decision decision;
  weir_message why;
  weir_limiter_options options = WEIR_LIMITER_OPTIONS_INIT;
  snprintf(text, sizeof text, "%d.%d.%d", WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR,
           WEIR_VERSION_PATCH);
  if (strcmp(text, WEIR_VERSION_TEXT) != 0 || strcmp(text, weir_version()) != 0) return 1;
  if (weir_store_open("memory:", &store, &why) != WEIR_OK) return 2;
  if (weir_limiter_create(store, "fixed-window:1/1h", &options, &limiter, &why) != WEIR_OK) return 3;
  if (weir_limiter_take(limiter, "a", 1, 1, &decision, &why) != WEIR_OK) return 4;
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  return decision.allowed ? 0 : 5;
}
END
cp "$folder/stranger.c" "$folder/stranger.cpp"
cp doctor.c "$folder"

# The static library's objects hold plain code as well, which links in a moment. The program of the build, `weir`,
# is optimised across files and links the same objects.
"$cmake" -S "$folder" -B "$folder/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_EXE_LINKER_FLAGS=-fno-lto
"$cmake" --build "$folder/build"
for program in c_weir c_static cxx_weir cxx_static doctor; do
  "$folder/build/$program"
done

export PKG_CONFIG_PATH="$prefix/$libdir/pkgconfig"
"$cxx" -o "$folder/shared" "$folder/stranger.cpp" $(pkg-config --cflags --libs weir)
LD_LIBRARY_PATH="$prefix/$libdir" "$folder/shared"
"$cxx" -fno-lto -o "$folder/static" "$folder/stranger.cpp" $(pkg-config --cflags weir) \
  "$prefix/$libdir/libweir.a" $(pkg-config --static --libs weir | sed 's/-lweir\>//')
"$folder/static"

# A version of headers that are not there is refused.
sed 's/weir 0.9 REQUIRED/weir 0.10 REQUIRED/' "$folder/CMakeLists.txt" >"$folder/later"
mv "$folder/later" "$folder/CMakeLists.txt"
if "$cmake" -S "$folder" -B "$folder/later" -DCMAKE_PREFIX_PATH="$prefix" 2>"$folder/error"; then
  echo "a version that is not there was found"
  exit 1
fi
grep -q 'requested version "0.10"' "$folder/error"
