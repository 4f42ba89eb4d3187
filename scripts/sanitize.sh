#!/usr/bin/env bash
# usage: scripts/sanitize.sh [address] [thread]   the tests of `kernels/` under sanitizers, both without arguments: minutes
#
# Sanitizers are unstable in rustc, and this lets the stable one use them. The standard library is not instrumented: the address sanitizer
# misses what is wrong inside of it, and the thread sanitizer does not see what it synchronises with, except starts and ends of threads.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(rustc -vV | sed -n 's/^host: //p')
export RUSTC_BOOTSTRAP=1
export TSAN_OPTIONS="suppressions=$PWD/scripts/sanitize.supp"

run() { # sanitizer, more flags, arguments of cargo test
    local sanitizer=$1 flags=$2
    shift 2
    echo "sanitizer: $sanitizer"
    # Debug assertions stay, and with them the checks of overflow and of the standard library's unsafe functions.
    RUSTFLAGS="-C target-cpu=native -Z sanitizer=$sanitizer $flags" \
        CARGO_TARGET_DIR="target/sanitize-$sanitizer" \
        CARGO_PROFILE_TEST_OPT_LEVEL=2 \
        cargo test -p graphmill-kernels --target "$target" "$@"
}

[ $# -gt 0 ] || set -- address thread
for sanitizer; do
    case $sanitizer in
    address) run address "" --lib --tests ;;
    thread) run thread "-C unsafe-allow-abi-mismatch=sanitizer" --test threads ;;
    *) echo "there is no sanitizer '$sanitizer' here: address or thread" >&2 && exit 2 ;;
    esac
done
