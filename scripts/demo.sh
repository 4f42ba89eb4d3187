#!/usr/bin/env bash
# Serves config.json with the model in this repository, asks it two questions over HTTP, stops. Usage: demo.sh HOST PORT
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/server.sh
host=$1 port=$2

start_server "$host" "$port"
echo "Graphmill serves config.json on http://$host:$port (graphs: $(curl -fsS "http://$host:$port/v3/models" | python3 -c 'import json,sys; print(", ".join(m["id"] for m in json.load(sys.stdin)["data"]))'))"
python3 demos/ask/ask.py "http://$host:$port/v3" graphmill/tiny-chat --stream "What is a side packet?"
python3 demos/ask/ask.py "http://$host:$port/v3" graphmill/tiny-chat "Say this is a test"
stop_server
echo "The server has stopped. 'make serve' keeps it running."
