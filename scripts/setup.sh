#!/usr/bin/env bash
# Installs what the build (and, with `--tests`, the tests, with `--nightly`, also those of every night, with `--venv`, Python environments) needs and this machine lacks. Debian and Ubuntu packages are
# installed with apt when we are root or may use sudo; otherwise the list of what to install is printed and we stop.
set -euo pipefail

with_tests=no
with_venv=no
clients=(tests/clients/apart/*/)
nodes=(tests/clients/node tests/clients/agents web)
case "${1:-}" in
    --tests) with_tests=yes with_venv=yes ;;
    --nightly) with_tests=yes with_venv=yes clients+=(tests/clients/nightly/*/) nodes+=(tests/clients/nightly/agents) ;;
    --venv) with_venv=yes ;;
esac

have() { command -v "$1" >/dev/null 2>&1; }

# The C interface of clang and the headers that come with it. `libclang-cpp.so`, which more machines have, is another library.
have_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] && return 0
    local library=no headers=no pattern
    for pattern in /usr/lib/llvm-*/lib /usr/lib/*-linux-gnu /usr/lib64 /usr/local/lib; do
        if compgen -G "$pattern/libclang.so*" >/dev/null || compgen -G "$pattern/libclang-[0-9]*.so*" >/dev/null; then library=yes; fi
    done
    for pattern in '/usr/lib/llvm-*/lib/clang' '/usr/lib/clang' '/usr/lib64/clang' '/usr/local/lib/clang'; do
        if compgen -G "$pattern/*/include/stddef.h" >/dev/null; then headers=yes; fi
    done
    [ "$library$headers" = yesyes ]
}

have_venv() { have python3 && python3 -c 'import ensurepip, venv' >/dev/null 2>&1; }

if ! have cargo; then
    echo "error: cargo was not found. Install a Rust toolchain first: https://rustup.rs" >&2
    exit 1
fi

packages=()
have cmake || packages+=(cmake)
{ have c++ && have cc; } || packages+=(build-essential)
have_libclang || packages+=(libclang-dev)
have git || packages+=(git)
have curl || packages+=(curl)
have python3 || packages+=(python3)
if [ "$with_venv" = yes ] && ! have_venv; then packages+=(python3-venv); fi
if [ "$with_tests" = yes ] && ! have npm; then packages+=(nodejs npm); fi
if [ "$with_tests" = yes ] && ! have chromium; then packages+=(chromium); fi
if [ "$with_tests" = yes ] && ! have openssl; then packages+=(openssl); fi

if [ ${#packages[@]} -gt 0 ]; then
    echo "missing on this machine: ${packages[*]}"
    if ! have apt-get; then
        echo "error: install them with this system's package manager (names above are Debian's), then run this again" >&2
        exit 1
    fi
    as_root=()
    if [ "$(id -u)" != 0 ]; then
        if have sudo; then
            as_root=(sudo)
        else
            echo "error: neither root nor sudo here. Ask an administrator for: apt-get install ${packages[*]}" >&2
            exit 1
        fi
    fi
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}"
fi

if [ "$with_tests" = yes ]; then
    environment() { # FOLDER REQUIREMENTS
        if ! cmp -s "$2" "$1/installed.txt"; then
            python3 -m venv "$1"
            "$1/bin/pip" install --quiet --disable-pip-version-check -r "$2"
            cp "$2" "$1/installed.txt"
        fi
    }
    environment .venv tests/clients/requirements.txt
    # Clients that need other versions of what the rest of them use.
    for client in "${clients[@]}"; do
        environment ".venv/apart/$(basename "$client")" "$client/requirements.txt"
    done
    for node in "${nodes[@]}"; do
        wanted=$node/package-lock.json how=(ci)
        # Agents have optional packages for other machines, which not all registries have: no lock would do.
        [ -f "$wanted" ] || { wanted=$node/package.json how=(install --no-package-lock); }
        if ! cmp -s "$wanted" "$node/node_modules/installed.json"; then
            npm "${how[@]}" --prefix "$node" --silent --no-audit --no-fund --ignore-scripts
            cp "$wanted" "$node/node_modules/installed.json"
        fi
    done
fi
