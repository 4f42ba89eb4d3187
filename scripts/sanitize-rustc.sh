#!/usr/bin/env bash
# rustc with the address sanitizer for what attaches the kernels to llama.cpp, and without it for all else. `scripts/sanitize.sh` has cargo use it.
set -euo pipefail
case " $* " in
*" --crate-name graphmill_kernels "* | *" --crate-name graphmill_llm "* | *" --crate-name llama "*)
    RUSTC_BOOTSTRAP=1 exec "$@" -Z sanitizer=address -C unsafe-allow-abi-mismatch=sanitizer
    ;;
esac
exec "$@"
