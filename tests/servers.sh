# servers.sh FOLDER SUITE PROGRAM: unpacks the memcached, redis-server or valkey-server of a suite of
# Debian's archive (bookworm-backports, trixie, sid, experimental) into FOLDER, without installing it.
# Prints a folder that has it as `memcached` or as `redis-server`: in front of PATH it is the server of
# every test, for a valkey-server understands all options of redis-server. Prints nothing where this
# machine cannot get it, or where it does not run; on standard error, its version or why not.
#
#   PATH=$(sh tests/servers.sh build/servers sid memcached):$PATH ctest --preset dev -R '^contract/'
#
# A program runs by the loader and the libraries of its own suite, so that no other of the machine
# matters. Lists of packages may be older than the archive wants them: its keys are checked all the same.
set -eu
[ $# -eq 3 ] || {
  echo "servers.sh: FOLDER SUITE PROGRAM are needed" >&2
  exit 2
}
mkdir -p "$1/$2-$3"
folder=$(cd "$1/$2-$3" && pwd)
suite=$2
program=$3
case $program in
memcached) name=memcached ;;
redis-server | valkey-server) name=redis-server ;;
*)
  echo "servers.sh: $program is no program: memcached, redis-server and valkey-server are" >&2
  exit 2
  ;;
esac

# A suite that adds to another needs the libraries of both.
suites() {
  case $suite in
  *-backports) echo "${suite%-backports} $suite" ;;
  experimental) echo "sid experimental" ;;
  *) echo "$suite" ;;
  esac
}

fetch() {
  release=$(. /etc/os-release && echo "$VERSION_CODENAME")
  archive=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
    sed -n "s/^$release //p" | head -n 1)
  [ -n "$archive" ] || return 1
  rm -rf "$folder/root" "$folder/lists" "$folder/debs"
  mkdir -p "$folder/root" "$folder/lists/partial" "$folder/debs/partial"
  : >"$folder/nothing"
  for each in $(suites); do
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $each main"
  done >"$folder/sources.list"
  apt="-qq -o Dir::Etc::sourcelist=$folder/sources.list -o Dir::Etc::sourceparts=-
    -o Dir::State::lists=$folder/lists -o Dir::State::status=$folder/nothing
    -o Dir::Cache::archives=$folder/debs -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
    -o APT::Sandbox::User=root -o Acquire::Check-Valid-Until=false -o Acquire::Retries=2"
  # Unquoted: options are words.
  apt-get $apt update || return 1
  packages=$program
  [ "$program" = memcached ] || packages="$program ${program%-server}-tools"
  # Programs need the libraries alone, of all that these need, as if nothing were installed.
  needed=$(apt-get $apt --no-install-recommends --print-uris -y -t "$suite" install $packages |
    sed -n "s/%2b/+/g; s/^'[^']*\/\([^_/']*\)_.*/\1/p" | grep -E '^lib|^zlib|^(memcached|redis|valkey)') || return 1
  (cd "$folder/debs" && apt-get $apt -t "$suite" download $needed) || return 1
  for package in "$folder"/debs/*.deb; do
    dpkg-deb -x "$package" "$folder/root"
  done
  rm -rf "$folder/debs" "$folder/lists"
}

# lend NAME PROGRAM: a script that becomes the unpacked program, so that its process is the server's.
lend() {
  mkdir -p "$folder/bin"
  loader=$(find "$folder/root" -name 'ld-linux-*.so.*' | head -n 1)
  libraries=$(find "$folder/root" -name '*-linux-gnu' -type d | paste -s -d :)
  printf '#!/bin/sh\nexec %s --library-path %s %s "$@"\n' \
    "$loader" "$libraries" "$folder/root/usr/bin/$2" >"$folder/bin/$1"
  chmod 755 "$folder/bin/$1"
}

[ -x "$folder/root/usr/bin/$program" ] || fetch >&2 || exit 0
lend "$name" "$program"
[ "$name" != redis-server ] || lend redis-cli "${program%-server}-cli"
"$folder/bin/$name" --version >&2 && echo "$folder/bin"
