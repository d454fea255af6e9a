# install.sh PYTHON PACKAGE PREFIX LIBDIR: pip installs the package from a copy of its folder and from an
# sdist, each time alone; README's first program runs; uninstalled, nothing is left. Needs with_servers
# around it. No network: the build needs what Debian has.
set -eu
python=$1 package=$2 library=$3/$4/libweir.so.0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset PYTHONPATH WEIR_LIBRARY

pip() {
  "$python" -m pip --quiet --disable-pip-version-check --python "$folder/venv" "$@"
}

# README's first program, on a memcached of this machine.
sed -n '/^```python run$/,/^```$/{/^```/!p; /^```$/q}' "$package/README.md" |
  sed "s,memcached://localhost,$WEIR_TEST_MEMCACHED_META\&timeout=10s\&namespace=$$," >"$folder/program.py"
grep -q "$WEIR_TEST_MEMCACHED_META" "$folder/program.py"

# try WHAT: installs it, runs the program, uninstalls.
try() {
  "$python" -m venv --system-site-packages --without-pip "$folder/venv"
  find "$folder/venv" | sort >"$folder/before"
  pip install --no-index --no-build-isolation "$1"
  said=$(cd "$folder/venv" && WEIR_LIBRARY=$library "$folder/venv/bin/python" -B "$folder/program.py")
  [ "$said" = "go on, $2 left" ] || {
    echo "it says: $said"
    exit 1
  }
  [ "$(cd / && WEIR_LIBRARY=$library "$folder/venv/bin/python" -B -c 'import weir; print(weir.__file__)' |
    grep -c "^$folder/venv/")" = 1 ]
  pip uninstall --yes weir
  find "$folder/venv" | sort | diff "$folder/before" -
  rm -rf "$folder/venv"
}

cp -r "$package" "$folder/copy"
find "$folder/copy" -name __pycache__ -prune -exec rm -rf {} +
try "$folder/copy" 99
cd "$folder/copy"
"$python" -c 'from setuptools import build_meta; build_meta.build_sdist("..")' >/dev/null 2>&1
try "$folder"/weir-*.tar.gz 98

# Without the library it says so.
cd /
said=$(PYTHONPATH=$package WEIR_LIBRARY='' PKG_CONFIG_LIBDIR=/nowhere "$python" -B -c 'import weir' 2>&1) || true
case $said in
*"is not installed"*WEIR_LIBRARY*) ;;
*) [ -e "$(ldconfig -p | sed -n 's/.*libweir.so.0 .*=> //p')" ] || {
  echo "it says: $said"
  exit 1
} ;;
esac
echo "installed from a folder and from an sdist"
