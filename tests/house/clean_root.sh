#!/bin/sh
# clean_root.sh [FOLDER]: the packages of HEAD in a Debian 12 that has nothing else: only what libweir-dev
# declares, a compiler, pkg-config and cmake are there. A program is built by pkg-config and by
# find_package, shared and static, and run; then everything is purged. As root, with the network; takes
# two minutes. With packages in FOLDER these are installed first and upgraded.
set -eu
cd "$(dirname "$0")/../.."
before=${1-}
sh tests/packages.sh mmdebstrap
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sh src/packaging/deb.sh "$work/debs" >"$work/log" 2>&1 || {
  tail -n 50 "$work/log"
  exit 1
}
root=$work/root
mmdebstrap --mode=root --variant=apt --include=gcc,g++,libc6-dev,pkg-config,cmake,make,ca-certificates bookworm "$root" \
  >"$work/log" 2>&1 || {
  tail -n 20 "$work/log"
  exit 1
}
inside() {
  chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive sh -euc "$1"
}
cp /etc/resolv.conf "$root/etc/"
inside "apt-get update -qq"
# install PACKAGE...: says why not.
install() {
  inside "apt-get install -y -q --no-install-recommends $*" >"$work/log" 2>&1 || {
    tail -n 20 "$work/log"
    exit 1
  }
}
mkdir "$root/debs" "$root/before" "$root/try"
cp "$work"/debs/*.deb "$root/debs"
if [ -n "$before" ]; then
  cp "$before"/*.deb "$root/before"
  install '/before/*.deb'
  inside 'dpkg-query -W "*weir*"'
  install '/debs/*.deb'
  inside 'dpkg-query -W "*weir*"; weir version'
  inside 'apt-get purge -y -qq "*weir*" >/dev/null 2>&1'
fi
install '/debs/libweir0_*.deb' '/debs/libweir-dev_*.deb'
sed -n '/^```c$/,/^```$/{/^```/!p; /^```$/q}' docs/c.md >"$root/try/program.c"
cat >"$root/try/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(try LANGUAGES C)
find_package(weir 0.9 REQUIRED)
foreach(way IN ITEMS weir static)
  add_executable(${way} program.c)
  target_link_libraries(${way} weir::${way})
endforeach()
END
inside 'cd /try
  cc program.c -o shared $(pkg-config --cflags --libs weir) && ./shared
  cc program.c -o mixed -Wl,-Bstatic $(pkg-config --cflags --libs weir) -Wl,-Bdynamic \
    $(pkg-config --static --libs weir | sed "s/-lweir//") && ./mixed
  cmake -S . -B build >/dev/null && cmake --build build >/dev/null && build/weir && build/static
  ! ldd build/static mixed | grep libweir'
install '/debs/*.deb'
inside 'weir version; getent passwd weir'
inside 'apt-get purge -y -qq "*weir*" >/dev/null 2>&1; apt-get autoremove --purge -y -qq >/dev/null 2>&1'
rm -rf "$root/debs" "$root/before" "$root/try"
left=$(find "$root" -xdev -iname '*weir*' -not -path "$root/proc/*")
[ -z "$left" ] || {
  echo "left behind: $left"
  exit 1
}
echo "installed, upgraded, built, purged"
