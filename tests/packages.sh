# packages.sh PACKAGE...: installs the Debian packages that are missing, as root or through sudo, and
# touches nothing where none is. On another system the build itself names what it lacks.
#
# A server that comes with a package is neither started nor left to start at boot: the tests run their
# own. One that was installed before stays as it is.
set -eu

command -v dpkg-query >/dev/null || exit 0
missing=
for package; do
  dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
    missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "please install as root:$missing"
    exit 1
  fi
  exec sudo sh "$0" "$@"
fi

policy=/usr/sbin/policy-rc.d # its 101 forbids packages to start services
if ! [ -e $policy ]; then
  trap 'rm -f $policy' EXIT
  trap 'exit 1' HUP INT TERM
  printf '#!/bin/sh\nexit 101\n' >$policy
  chmod 755 $policy
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq -y --no-install-recommends -o DPkg::Lock::Timeout=120 $missing

for package in $missing; do
  case $package in
  memcached | redis-server | nutcracker | prometheus | nginx-light | caddy | haproxy)
    # The helper works without systemd too; it wants to be told for which package.
    service=${package%-light}
    DPKG_MAINTSCRIPT_PACKAGE=$package deb-systemd-helper disable "$service.service"
    ! [ -e "/etc/init.d/$service" ] || update-rc.d "$service" disable
    ;;
  esac
done
