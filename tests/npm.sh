# npm.sh FOLDER: installs the modules of npm's registry that tests use into FOLDER, once, and prints where
# they are. Prints nothing where this machine cannot get them: then those tests are left out.
set -eu
folder=$1
modules="express@4.18.2 express5@npm:express@5.3.0 fastify@4.28.1 typescript@5.9.3
  @types/express@5.0.6 @types/node@20 @grpc/grpc-js@1.14.3 @grpc/proto-loader@0.8.0
  redis@6.3.1 ioredis@6.0.0 @valkey/valkey-glide@2.5.2"

fetch() {
  command -v npm && mkdir -p "$folder" && cd "$folder" || return 1
  echo '{"private": true}' >package.json
  # Unquoted: modules are words.
  timeout 300 npm install --ignore-scripts --no-audit --no-fund --loglevel=error $modules &&
    echo $modules >installed
}

[ "$(cat "$folder/installed" 2>/dev/null)" = "$(echo $modules)" ] || fetch >&2 || exit 0
echo "$folder/node_modules"
