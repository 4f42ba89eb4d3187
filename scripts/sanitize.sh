#!/usr/bin/env bash
# usage: scripts/sanitize.sh [address] [thread] [shim]   tests under sanitizers, all of these without arguments
#
#   address, thread   the tests of `kernels/`: minutes
#   shim              what attaches the kernels to llama.cpp, by the tests that use it; compiles llama.cpp once more, itself without a sanitizer
#
# Sanitizers are unstable in rustc, and this lets the stable one use them. The standard library is not instrumented: the address sanitizer
# misses what is wrong inside of it, and the thread sanitizer does not see what it synchronises with, except starts and ends of threads.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(rustc -vV | sed -n 's/^host: //p')
export TSAN_OPTIONS="suppressions=$PWD/scripts/sanitize.supp"

kernels() { # sanitizer, more flags, arguments of cargo test
    local sanitizer=$1 flags=$2
    shift 2
    # Debug assertions stay, and with them the checks of overflow and of the standard library's unsafe functions.
    RUSTC_BOOTSTRAP=1 \
        RUSTFLAGS="-C target-cpu=native -Z sanitizer=$sanitizer $flags" \
        CARGO_TARGET_DIR="target/sanitize-$sanitizer" \
        CARGO_PROFILE_TEST_OPT_LEVEL=2 \
        cargo test -p graphmill-kernels --target "$target" "$@"
}

shim() {
    # Leaks are not looked for: pools of threads give their queues back later than a process ends.
    ASAN_OPTIONS=detect_leaks=0 \
        RUSTC_WORKSPACE_WRAPPER="$PWD/scripts/sanitize-rustc.sh" \
        GRAPHMILL_SHIM_FLAGS="-fsanitize=address,undefined -fno-sanitize=vptr -fsanitize-undefined-trap-on-error" \
        CARGO_TARGET_DIR=target/sanitize-shim \
        cargo test --release -p graphmill-llm --features cpu-kernels --test suite llama::kernels:: -- --test-threads 1
}

[ $# -gt 0 ] || set -- address thread shim
for part; do
    echo "sanitizer: $part"
    case $part in
    address) kernels address "" --lib --tests ;;
    thread) kernels thread "-C unsafe-allow-abi-mismatch=sanitizer" --test suite threads:: ;;
    shim) shim ;;
    *) echo "there is no '$part' here: address, thread or shim" >&2 && exit 2 ;;
    esac
done
