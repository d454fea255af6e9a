#!/bin/sh
# deb.sh [FOLDER]: makes the Debian packages of HEAD and leaves them in FOLDER, else in build/package.
#
# Changes that are not committed are not in them. DEB_BUILD_OPTIONS is dpkg-buildpackage's; "noopt" builds in a
# third of the time.
set -eu
cd "$(dirname "$0")/../.."
folder=${1:-build/package}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

sh tests/packages.sh git gcc libc6-dev make dpkg-dev debhelper file cmake ninja-build pkg-config python3 \
  libmemcached-dev libssl-dev libhiredis-dev libsodium-dev zlib1g-dev libjansson-dev libyaml-dev libevent-dev libnghttp2-dev

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$(sed -n 's/^#define WEIR_VERSION_TEXT "\(.*\)"/\1/p' include/weir/version.h)
tree=$work/weir-$version
mkdir "$tree"
git archive HEAD | tar -x -C "$tree"
cp -R "$tree/src/packaging/debian" "$tree/debian"

cd "$tree"
described=$(dpkg-parsechangelog -S Version)
[ "$described" = "$version" ] || {
  echo "src/packaging/debian/changelog is of $described, include/weir/version.h of $version"
  exit 1
}
# Two builds of one commit are equal: the date is the commit's.
SOURCE_DATE_EPOCH=$(cd "$OLDPWD" && git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
DEB_BUILD_OPTIONS="noautodbgsym parallel=$(nproc) ${DEB_BUILD_OPTIONS-}" dpkg-buildpackage -us -uc -b -d
rm -f "$folder"/*.deb
mv "$work"/*.deb "$folder"
ls "$folder"/*.deb
