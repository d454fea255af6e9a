# consumer.sh PREFIX LIBDIR CC SOURCE [weir-doctor]: builds a program against the installed copy of
# weir, shared and static, and runs it; one that inspects stores only as its package says. From a
# Markdown page it takes the first block of C.
set -eu
prefix=$1 libdir=$2 cc=$3 source=$4 package=${5:-weir}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

case $source in
*.md) sed -n '/^```c$/,/^```$/{/^```/!p; /^```$/q}' "$source" >"$folder/program.c" ;;
*) cp "$source" "$folder/program.c" ;;
esac
if ! [ -s "$folder/program.c" ]; then
  echo "$source has no C in it"
  exit 1
fi

weir() {
  PKG_CONFIG_PATH="$prefix/$libdir/pkgconfig" pkg-config "$@" "$package"
}

# Unquoted: flags are words. _POSIX_C_SOURCE is the program's own affair, so none is given. The static
# library's objects hold plain code as well, which links in a moment; package.sh links one the long way.
strict='-Wall -Wextra -Werror -pedantic -std=c11 -fno-lto'
if [ "$package" = weir-doctor ]; then
  "$cc" $strict -o "$folder/program" "$folder/program.c" $(weir --cflags --libs)
  "$folder/program"
  exit
fi
"$cc" $strict -o "$folder/shared" "$folder/program.c" $(weir --cflags --libs)
LD_LIBRARY_PATH="$prefix/$libdir" "$folder/shared"

"$cc" $strict -o "$folder/static" "$folder/program.c" $(weir --cflags) \
  "$prefix/$libdir/libweir.a" $(weir --static --libs | sed 's/-lweir\>//')
"$folder/static"
