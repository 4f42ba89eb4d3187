#!/usr/bin/env bash
# Serves config.json in the foreground until Ctrl-C. Usage: serve.sh HOST PORT
set -euo pipefail
cd "$(dirname "$0")/.."
host=$1 port=$2

cat <<EOF
Try this in another terminal:

  curl -N http://$host:$port/v3/chat/completions -H 'content-type: application/json' \\
    -d '{"model": "graphmill/tiny-chat", "stream": true, "messages": [{"role": "user", "content": "What is a side packet?"}]}'

EOF
exec target/release/graphmill serve --config_path config.json --rest_bind_address "$host" --rest_port "$port"
