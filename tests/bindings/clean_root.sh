# clean_root.sh [FOLDER]: the packages for Python and Node in a root that has nothing but Debian 12: as a
# stranger installs them, with Debian's Python, Node 18 and npm. FOLDER has the Debian packages, made by
# src/packaging/deb.sh; without it they are made. Needs root, mmdebstrap and Debian's archive; takes
# minutes, so it is no part of the check, which tries the same in folders of its own.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'kill "$(cat "$work/root/tmp/memcached.pid" 2>/dev/null)" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
debs=${1:-$work/debs}
[ -n "${1-}" ] || sh src/packaging/deb.sh "$debs"

mmdebstrap --quiet --variant=apt bookworm "$work/root" \
  --include=python3-pip,python3-venv,python3-setuptools,python3-wheel,nodejs,npm,libnode-dev,g++,make,pkg-config,memcached
mkdir "$work/root/tmp/weir"
cp "$debs"/*.deb "$work/root/tmp/weir"
git archive HEAD src/bindings | tar -x -C "$work/root/tmp/weir"

cat >"$work/root/tmp/inside" <<'INSIDE'
set -eu
cd /tmp/weir
apt-get update -qq
grep -qs localhost /etc/hosts || echo '127.0.0.1 localhost' >>/etc/hosts
apt-get install -qq -y ./libweir0_*.deb ./libweir-dev_*.deb >/dev/null 2>&1
memcached -d -u nobody -l 127.0.0.1 -P /tmp/memcached.pid

# program LANGUAGE README: its first that is tried.
program() {
  sed -n "/^\`\`\`$1 run\$/,/^\`\`\`\$/{/^\`\`\`/!p; /^\`\`\`\$/q}" "$2"
}

python3 -m venv --system-site-packages /tmp/env
find /tmp/env | sort >/tmp/before
/tmp/env/bin/pip install --quiet --no-index --no-build-isolation ./src/bindings/python
program python src/bindings/python/README.md >/tmp/program.py
/tmp/env/bin/python -B /tmp/program.py | grep -x 'go on, 9[0-9] left'
/tmp/env/bin/pip uninstall --quiet --yes weir
find /tmp/env -name __pycache__ -prune -o -print | sort >/tmp/after
! comm -13 /tmp/before /tmp/after | grep . || exit 1

mkdir /tmp/project
cd /tmp/project
echo '{"private": true}' >package.json
packed=$(npm pack --silent /tmp/weir/src/bindings/node | tail -n 1)
# By scripts in the background npm 9 ends where there is no /proc.
npm install --no-audit --no-fund --foreground-scripts --nodedir=/usr "./$packed" >/tmp/npm.log 2>&1 || {
  cat /tmp/npm.log
  exit 1
}
program js /tmp/weir/src/bindings/node/README.md >program.js
node program.js | grep -x 'go on, 9[0-9] left'
npm uninstall --silent weir
! find node_modules -path '*weir*' | grep . || exit 1

apt-get install -qq -y /tmp/weir/python3-weir_*.deb >/dev/null 2>&1
python3 /tmp/program.py | grep -x 'go on, 9[0-9] left'
apt-get purge -qq -y python3-weir >/dev/null 2>&1
! find /usr/lib/python3 -path '*weir*' | grep . || exit 1
echo "installed, used and removed: Python $(python3 -V | cut -d' ' -f2), Node $(node --version)"
INSIDE
chroot "$work/root" sh /tmp/inside
