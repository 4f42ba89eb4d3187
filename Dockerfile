# syntax=docker/dockerfile:1
# The server, with llama.cpp for CPUs of the level x86-64-v3 (AVX2, 2013 and later); the kernels of this project choose among
# AVX2, AVX-VNNI, AVX-512 and AMX when it starts. On other architectures, such as arm64, llama.cpp computes everything, compiled for
# any CPU of the architecture. Only x86-64 is tested.
#
#   docker build -t graphmill:0.1.0 .
#   docker build -t graphmill:native --build-arg TARGET_CPU=native .    for this machine alone
#
# With GPUs: Dockerfile.cuda.
ARG RUST=1.95

FROM rust:${RUST}-bookworm AS build
# Empty: x86-64-v3, or what every CPU of another architecture has.
ARG TARGET_CPU=
RUN apt-get update \
    && apt-get install -y --no-install-recommends cmake libclang-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
# RUSTFLAGS takes the place of the native CPU that .cargo/config.toml names.
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/source/target \
    case "$(uname -m)" in x86_64) default=x86-64-v3 ;; *) default=generic ;; esac \
    && RUSTFLAGS="-C target-cpu=${TARGET_CPU:-$default}" cargo build --release --locked --workspace --bin graphmill \
    && install -D target/release/graphmill /out/graphmill \
    && objcopy --strip-debug /out/graphmill

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates curl libgomp1 libstdc++6 \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 graphmill \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin graphmill
COPY --from=build /out/graphmill /usr/bin/graphmill
COPY config.json LICENSE packaging/container/health /usr/share/graphmill/
COPY graphs /usr/share/graphmill/graphs
COPY demos/tiny_chat/model.gguf demos/tiny_chat/chat_template.jinja /usr/share/graphmill/demos/tiny_chat/
COPY demos/tiny_chat/adapters /usr/share/graphmill/demos/tiny_chat/adapters
COPY demos/tiny_embed/*.gguf /usr/share/graphmill/demos/tiny_embed/
COPY deploy/kserve/config.json deploy/kserve/graph.pbtxt /usr/share/graphmill/kserve/
LABEL org.opencontainers.image.title=Graphmill \
      org.opencontainers.image.licenses=Apache-2.0 \
      org.opencontainers.image.version=0.1.0
USER 10001:10001
EXPOSE 8000
# Nothing is written: `docker run --read-only --tmpfs /tmp` works.
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s CMD ["/usr/share/graphmill/health"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/graphmill"]
ENV GRAPHMILL_REST_BIND_ADDRESS=0.0.0.0 GRAPHMILL_LOG_FORMAT=json
CMD ["serve", "--config_path", "/usr/share/graphmill/config.json"]
