# example.sh PROGRAM: the suite on the backend of docs/examples, with a file of this run's own.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
WEIR_TEST_MAPPED="mapped://$folder/limits?slots=262144" "$1"
