# Sourced by demo.sh and serve.sh: start the server, wait until it is ready, stop it.

# start_server HOST PORT: runs the server in the background, its log in $server_log, its process id in $server.
start_server() {
    local host=$1 port=$2
    server_log=$(mktemp -t graphmill.XXXXXX)
    target/release/graphmill serve --config_path config.json --rest_bind_address "$host" --rest_port "$port" >"$server_log" 2>&1 &
    server=$!
    trap stop_server EXIT
    trap 'exit 130' INT TERM
    for _ in $(seq 600); do
        if ! kill -0 "$server" 2>/dev/null; then
            cat "$server_log" >&2
            echo "error: the server did not start" >&2
            exit 1
        fi
        # Its own word, not what answers at the port: that may be another server.
        grep -q 'ready after' "$server_log" && return 0
        sleep 0.1
    done
    cat "$server_log" >&2
    echo "error: the server was not ready within 60 seconds" >&2
    exit 1
}

stop_server() {
    [ -n "${server:-}" ] || return 0
    kill -TERM "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    rm -f "$server_log"
    server=
}
