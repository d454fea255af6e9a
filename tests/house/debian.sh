# debian.sh PAGE CC: makes the Debian packages of HEAD and uses them as a fresh machine would, in a root
# of its own: lintian, who depends on what, installation, the page's program on a memcached, upgrade, purge.
# Needs with_servers around it. The machine stays as it is: dpkg has a private root and a private list of
# what is installed, and what packages run is run without the real ldconfig.
set -eu
readme=$1 cc=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
root=$folder/root admin=$folder/admin

fail() {
  echo "$*"
  exit 1
}

# field PACKAGE NAME
field() {
  dpkg-deb -f "$folder/$1"_*.deb "$2"
}

# expect PACKAGE NAME PATTERN: what a field must say; "!" before a pattern: must not.
expect() {
  case $3 in
  !*) ! field "$1" "$2" | grep -qE "${3#!}" || fail "$1 $2 has ${3#!}: $(field "$1" "$2")" ;;
  *) field "$1" "$2" | grep -qE "$3" || fail "$1 $2 lacks $3: $(field "$1" "$2")" ;;
  esac
}

# --- what is in them

# Debugging symbols would be compiled to be stripped.
DEB_BUILD_OPTIONS=noopt DEB_CFLAGS_STRIP=-g sh ../../src/packaging/deb.sh "$folder" >"$folder/log" 2>&1 ||
  fail "$(tail -n 50 "$folder/log")"
lintian --fail-on error,warning "$folder"/*.deb >"$folder/said" 2>&1 || fail "$(cat "$folder/said")"
[ "$(ls "$folder"/*.deb | wc -l)" = 5 ] || fail "not five packages: $(ls "$folder")"
for library in libc6 libhiredis libmemcached libsodium libssl; do
  expect libweir0 Depends "$library[0-9.]* \(>= "
done
expect libweir0 Depends '!zlib|jansson|gnuplot|libevent|libnghttp2|libyaml'
expect libweir0 Suggests '!.'
expect libweir-dev Depends "libweir0 \(= $(field libweir0 Version)\)"
expect libweir-dev Depends '!zlib|jansson|gnuplot|libevent|libnghttp2|libyaml'
for library in zlib1g libjansson libevent-core libnghttp2 libyaml; do
  expect weir-tools Depends "$library"
done
expect weir-tools Suggests gnuplot
expect weir-tools Depends '!gnuplot|libweir'
expect weir-serve Depends "weir-tools \(>= $(field weir-tools Version)\)"
expect weir-serve Architecture '^all$'
expect python3-weir Depends "libweir0 \(>= $(field libweir0 Version)\)"
expect python3-weir Architecture '^all$'
for package in libweir0 libweir-dev weir-tools weir-serve python3-weir; do
  # Folders and files that another package has as well would not install together.
  dpkg-deb -c "$folder/${package}"_*.deb | awk '!/\/$/ {print $6}' >>"$folder/files"
done
[ -z "$(sort "$folder/files" | uniq -d)" ] || fail "in two packages: $(sort "$folder/files" | uniq -d)"
dpkg-deb -I "$folder"/libweir0_*.deb symbols | grep -q '^ weir_limiter_take@Base ' || fail "no symbols"
dpkg-deb -I "$folder"/libweir0_*.deb triggers | grep -q 'ldconfig$' || fail "ldconfig is not triggered"
for package in libweir0 libweir-dev; do
  expect "$package" Multi-Arch '^same$'
done

# --- installed

mkdir -p "$root/etc" "$admin/info" "$admin/updates"
cp /var/lib/dpkg/status "$admin/status" # of what is installed here, without its scripts
private_dpkg() {
  PATH=$PATH:/usr/sbin:/sbin dpkg --instdir="$root" --admindir="$admin" --no-triggers \
    --force-not-root --force-script-chrootless --log="$folder/dpkg.log" "$@" >"$folder/log" 2>&1 ||
    fail "$(cat "$folder/log")"
}

# The same packages as an older version; what they are upgraded from.
older() {
  dpkg-deb -R "$1" "$folder/older"
  sed -i "s/^Version: .*/Version: 0.8/; s/= $version)/= 0.8)/g" "$folder/older/DEBIAN/control"
  dpkg-deb -Znone -b "$folder/older" "$folder/old/${1##*/}" >"$folder/log"
  rm -r "$folder/older"
}
version=$(field libweir0 Version)
mkdir "$folder/old"
for package in "$folder"/*.deb; do
  older "$package"
done
private_dpkg -i "$folder"/old/*.deb
private_dpkg -i "$folder"/*.deb
[ "$(dpkg-query --admindir="$admin" -W -f '${Version}\n' libweir0 weir-serve | sort -u)" = "$version" ] ||
  fail "not upgraded"
grep -q '^weir:' "$root/etc/passwd" || fail "no user for the server"
libraries=$(dirname "$(find "$root" -name libweir.so.0)")

# --- the page's program, by the line that is printed there, on a memcached

line=$(tr '\n' ' ' <"$readme" | grep -o 'cc example\.c [^`]*' | head -n 1)
[ -n "$line" ] || fail "the page has no line that builds example.c"
sed -n '/^```c$/,/^```$/{/^```/!p; /^```$/q}' "$readme" |
  sed "s,\"memory:\",\"$WEIR_TEST_MEMCACHED_META\&timeout=10s\"," >"$folder/example.c"
grep -q "$WEIR_TEST_MEMCACHED_META" "$folder/example.c" || fail "the page's program names no memory:"
cd "$folder"
cc() {
  "$cc" "$@"
}
export PKG_CONFIG_PATH="$libraries/pkgconfig"
eval "$line"
LD_LIBRARY_PATH=$libraries ./a.out >said
printf 'allowed, 1 left\nallowed, 0 left\ndenied, 0 left\n' | diff - said

"$root/usr/bin/weir" take --store "$WEIR_TEST_MEMCACHED_META" --rule quota:1/1h packaged >said
grep -q '^allowed ' said || fail "weir says $(cat said)"
for times in once twice; do # leaves what Python compiles
  WEIR_LIBRARY=$libraries/libweir.so.0 PYTHONPATH=$root/usr/lib/python3/dist-packages python3 -c "import weir
with weir.Store('$WEIR_TEST_MEMCACHED_META&timeout=10s') as store:
    print(weir.__version__, weir.Limiter(store, 'quota:1/1h').take('python').allowed)" >>said
done
grep -q "^$(field python3-weir Version) True$" said && grep -q ' False$' said || fail "Python says $(cat said)"
for page in man1/weir.1 man1/weir-take.1 man3/libweir.3 man3/weir_limiter_take.3 man5/weir.yaml.5; do
  [ -s "$root/usr/share/man/$page.gz" ] || fail "no page $page"
done
[ -s "$root/usr/share/bash-completion/completions/weir" ] || fail "no completion for bash"
[ -s "$root/usr/share/zsh/vendor-completions/_weir" ] || fail "no completion for zsh"

# --- the server's configuration, as it comes, which an upgrade leaves as its owner has it

[ "$(dpkg-deb -I "$folder"/weir-serve_*.deb conffiles)" = /etc/weir/weir.yaml ] || fail "no configuration"
"$root/usr/bin/weir" check "$root/etc/weir/weir.yaml" >said 2>&1 || fail "$(cat said)"

# --- the server's units: systemd understands them, and finds them tight

mkdir units
for unit in "$root"/lib/systemd/system/*; do
  sed "s,=/usr/bin/weir,=$root/usr/bin/weir," "$unit" >"units/${unit##*/}"
done
[ "$(ls units | wc -l)" = 5 ] || fail "units: $(ls units)"
systemd-analyze verify --man=no units/* >said 2>&1 || fail "$(cat said)"
! grep . said || fail "systemd complains"
systemd-analyze security --offline=true --threshold=15 units/weir-serve.service >said 2>&1 ||
  fail "$(tail -n 3 said)"

# --- gone without a trace, but for the user, whose number may own files elsewhere

private_dpkg -P python3-weir weir-serve weir-tools libweir-dev libweir0
rm -f "$root"/etc/passwd* "$root"/etc/group* "$root"/etc/shadow* "$root"/etc/gshadow* "$root"/etc/.pwd.lock
left=$(find "$root" -mindepth 1 ! -type d)
[ -z "$left" ] || fail "left behind: $left"
