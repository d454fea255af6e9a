# right.sh COMMAND...: runs it while the right to INCREX is taken away and given back, over and over, on
# the server of WEIR_TEST_REDIS_INCREX; then says how often that server has run the command, and has
# turned it away. What it runs must not notice. A hunt:
#
#   WEIR_PROGRAM=build/weir build/tests/fixture/with_servers sh tests/redis/right.sh \
#     python3 -B tests/replay/differential.py \
#     --trace tests/replay/data/nasa1995aug01.txt.gz --prefix 500 --lines 30 --whole --store REDIS_INCREX
set -eu
port=${WEIR_TEST_REDIS_INCREX##*:}
(
  while :; do
    redis-cli -p "$port" ACL SETUSER default -increx >&2
    sleep 0.02
    redis-cli -p "$port" ACL SETUSER default +increx >&2
    sleep 0.1
  done
) 2>/dev/null &
changing=$!
code=0
"$@" || code=$?
kill "$changing"
wait "$changing" 2>/dev/null || :
redis-cli -p "$port" ACL SETUSER default +increx >/dev/null
redis-cli -p "$port" INFO commandstats | grep cmdstat_increx
redis-cli -p "$port" CONFIG RESETSTAT >/dev/null # with_servers looks for commands that no store sends
exit $code
