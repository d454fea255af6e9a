# page.sh COMMANDS_PAGE PAGE: the page says what the table in the code says.
set -eu
"$1" | diff -u "$2" -
