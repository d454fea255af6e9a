# completion.sh SCRIPT PROGRAM: drives what bash completes after "weir", as readline does. Run by bash.
set -eu
script=$1 program=$2
. "$script"
complete -p weir >/dev/null

# offered WORD...: what is offered for the last word.
offered() {
  COMP_WORDS=(weir "$@")
  COMP_CWORD=$#
  _weir
  echo "${COMPREPLY[*]-}"
}

# expect EXPECTED WORD...
expect() {
  local expected=$1 said
  shift
  said=$(offered "$@")
  if [ "$said" != "$expected" ]; then
    echo "weir $*: \"$said\" is offered, not \"$expected\""
    exit 1
  fi
}

expect "take" ta
expect "refund reset replay" re
expect "refund reset replay" help re
expect "--deadline" take --de
expect "--wait" take key --wa
expect "" peek --wai
expect "--attack" simulate --att
expect "auto trace access-log json" simulate --format ""
expect "trace" simulate --format = tr
expect "redis:// redis+unix:// rediss:// redis+sentinel:// rediss+sentinel://" take --store redis
expect "sliding-window: sliding-log:" take --rule sli
expect "" take --cost ""
expect "" take k

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
touch "$folder/trace.gz"
expect "$folder/trace.gz" replay "$folder/tr"
for command in check serve; do
  expect "$folder/trace.gz" "$command" "$folder/tr"
done
expect "" take "$folder/tr"

# Each command is offered the options that its help names, and each value begins one that is known.
for command in take peek refund settle reset run replay simulate bench doctor check serve; do
  named=$("$program" help "$command" | grep -oE '^  --[a-z-]+' | tr -d ' ' | tr '\n' ' ')
  expect "${named% }" "$command" --
done
accepted=$("$program" take --store x:// --rule quota:1/1d k 2>&1 || true)
for scheme in $(offered take --store ""); do
  case $accepted in
  *" ${scheme%%:*}"*) ;;
  *)
    echo "$scheme is offered and not accepted: $accepted"
    exit 1
    ;;
  esac
done
[ "$(offered take --store "" | wc -w)" = "$(echo "${accepted#*accepted are }" | tr ',' '\n' | wc -l)" ]
accepted=$("$program" take --store memory: --rule x:1/1d k 2>&1 || true)
for algorithm in $(offered take --rule ""); do
  case $accepted in
  *" ${algorithm%:}"*) ;;
  *)
    echo "$algorithm is offered and not accepted: $accepted"
    exit 1
    ;;
  esac
done
[ "$(offered take --rule "" | wc -w)" = "$(echo "${accepted#*accepted are }" | sed 's/ and /,/' | tr ',' '\n' | wc -l)" ]
