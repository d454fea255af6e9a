# valkey.sh FOLDER: unpacks the valkey-server of Debian's backports into FOLDER, without installing it,
# and prints its path. Prints nothing where this machine cannot get it: then the tests do without.
set -eu
folder=$1
server=$folder/usr/bin/valkey-server

# Backports stand beside the release in the archive that this machine uses.
fetch() {
  release=$(. /etc/os-release && echo "$VERSION_CODENAME")
  archive=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
    sed -n "s/^$release //p" | head -n 1)
  [ -n "$archive" ] || return 1
  mkdir -p "$folder/lists/partial"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $release-backports main" \
    >"$folder/backports.list"
  apt="-qq -o Dir::Etc::sourcelist=$folder/backports.list -o Dir::Etc::sourceparts=-
    -o Dir::State::lists=$folder/lists -o APT::Sandbox::User=root"
  cd "$folder"
  # Unquoted: options are words.
  apt-get $apt update && apt-get $apt download valkey-server valkey-tools || return 1
  for package in ./*.deb; do
    dpkg-deb -x "$package" .
  done
}

[ -x "$server" ] || fetch >&2 || exit 0
# Its libraries are those of redis-server.
"$server" --version >&2 && echo "$server"
