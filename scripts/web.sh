#!/usr/bin/env bash
# Builds the page, web/dist, from its sources in web/. With --check builds it elsewhere and compares, so that what is committed is what the
# sources make. Needs Node 18 or later; npm installs the rest into web/node_modules.
set -euo pipefail
cd "$(dirname "$0")/../web"

if ! cmp -s package-lock.json node_modules/installed.json; then
    npm ci --silent --no-audit --no-fund --ignore-scripts
    cp package-lock.json node_modules/installed.json
fi
node_modules/.bin/tsc --noEmit

if [ "${1:-}" != --check ]; then
    exec node build.mjs
fi
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
node build.mjs "$built" > /dev/null
if ! diff -r dist "$built"; then
    echo "error: web/dist is not what web/src makes; run \`make web\` and commit web/dist" >&2
    exit 1
fi
