#!/bin/sh
# image.sh [FOLDER]: makes what a container image of `weir serve` holds in FOLDER/root, else in
# build/image/root: the program, the libraries that it is linked with, certificates, a user. No registry,
# no shell, no package manager. src/packaging/Containerfile makes an image of it:
#
#   sh src/packaging/image.sh
#   podman build -t weir -f src/packaging/Containerfile build/image
#
# WEIR_PROGRAM names the program; else build/weir is built as docs/quickstart.sh does.
set -eu
cd "$(dirname "$0")/../.."
folder=${1:-build/image}
program=${WEIR_PROGRAM:-build/weir}
sh tests/packages.sh ca-certificates binutils
if [ -z "${WEIR_PROGRAM-}" ]; then
  cmake --preset release
  cmake --build --preset release
fi

root=$folder/root
rm -rf "$root"
mkdir -p "$root/usr/bin" "$root/etc/ssl/certs" "$root/etc/weir" "$root/run/weir" "$root/tmp"
chmod 1777 "$root/tmp"
strip -o "$root/usr/bin/weir" "$program"

# Each library where the loader of this machine finds it, which is the loader of the image.
ldd "$program" | awk '$2 == "=>" {print $3} $1 ~ /^\// {print $1}' | while read -r library; do
  mkdir -p "$root$(dirname "$library")"
  cp -L "$library" "$root$library"
done
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
cp LICENSE "$root/etc/weir/LICENSE"

# Names are looked up in files, then by DNS. Numbers above 65000 are no user's of a Debian machine.
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
echo 'weir:x:65432:65432:weir serve:/:/usr/sbin/nologin' >"$root/etc/passwd"
echo 'weir:x:65432:' >"$root/etc/group"
if [ "$(id -u)" = 0 ]; then
  chown -R 65432:65432 "$root/run/weir"
fi
du -sm "$root" | sed 's/\t.*/ MB in/' | tr '\n' ' '
echo "$root"
