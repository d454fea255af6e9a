#!/bin/sh
# cross.sh [ARCHITECTURE] [FOLDER]: makes the Debian packages of HEAD for another architecture, else for
# arm64, and leaves them in FOLDER, else in build/cross. It works in a Debian 12 of its own under FOLDER,
# which takes 2 GB and the network, as root; this machine stays as it is.
set -eu
cd "$(dirname "$0")/../.."
architecture=${1:-arm64}
folder=${2:-build/cross}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
sh tests/packages.sh mmdebstrap git

# Build-Depends of debian/control: tools of this architecture, libraries of the other.
tools=debhelper,cmake,ninja-build,pkg-config,python3,file,qemu-user,crossbuild-essential-$architecture
libraries=$(sed -n '/^Build-Depends:/,/^[A-Z]/p' src/packaging/debian/control | grep -oE '(lib[a-z0-9.-]*|zlib1g)-dev' |
  sed "s/\$/:$architecture/" | paste -sd,)

root=$folder/root
if [ ! -e "$root/etc/debian_version" ]; then
  rm -rf "$root"
  mmdebstrap --mode=root --variant=buildd --architectures="$(dpkg --print-architecture),$architecture" \
    --include="$tools,$libraries" bookworm "$root"
fi
rm -rf "$root/weir"
mkdir "$root/weir" "$root/weir/tree"
git archive HEAD | tar -x -C "$root/weir/tree"
cp -R src/packaging/debian "$root/weir/tree/debian"
chroot "$root" sh -c "cd /weir/tree && DEB_BUILD_OPTIONS='noautodbgsym nocheck parallel=$(nproc) ${DEB_BUILD_OPTIONS-}' \
  dpkg-buildpackage -us -uc -b -d -a$architecture -Pcross"
mv "$root"/weir/*.deb "$folder"
rm -rf "$root/weir"
ls "$folder"/*.deb
