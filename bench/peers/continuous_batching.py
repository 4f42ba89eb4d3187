"""The speed of OpenVINO GenAI's continuous batching on a GGUF file, in the words of `graphmill-bench ceiling`.

    pip install openvino-genai
    python bench/peers/continuous_batching.py MODEL.gguf --sequences 1,8,16,32

Prefill is one request of so many tokens, timed to its first token. Decode adds as many requests at once, computes their prompts, and
times steps in which each of them gets a token. Requests are greedy and go on past the end of the text. With
ONEDNN_MAX_CPU_ISA=AVX512_CORE_VNNI, OpenVINO leaves AMX alone.
"""

import argparse
import time

import numpy
import openvino
import openvino_genai

VOCABULARY = 10_000
WARM_UP = 2


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("model")
    arguments.add_argument("--sequences", default="1,8,16,32", help="sequences that decode at once")
    arguments.add_argument("--prompt-tokens", type=int, default=16)
    arguments.add_argument("--tokens", type=int, default=32)
    arguments.add_argument("--prefill-tokens", type=int, default=512)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--batch-tokens", type=int, default=512, help="max_num_batched_tokens")
    arguments.add_argument("--precision", default=None, help="type that is computed in, such as f32 or bf16; OpenVINO's own choice without it")
    arguments.add_argument("--kv-cache", default=None, help="type of the KV cache, such as f16 or u8; OpenVINO's own choice without it")
    options = arguments.parse_args()

    scheduler = openvino_genai.SchedulerConfig()
    scheduler.cache_size = 1
    scheduler.max_num_batched_tokens = options.batch_tokens
    scheduler.max_num_seqs = 64
    properties = {} if options.kv_cache is None else {"KV_CACHE_PRECISION": options.kv_cache}
    started = time.perf_counter()
    if options.precision is not None:
        properties["INFERENCE_PRECISION_HINT"] = options.precision
    pipeline = openvino_genai.ContinuousBatchingPipeline(options.model, scheduler, "CPU", properties)
    print(f"load: {time.perf_counter() - started:.1f} s", flush=True)
    random = numpy.random.default_rng(1)
    number = 0

    def ask(prompt_tokens, tokens):
        nonlocal number
        number += 1
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens, config.ignore_eos, config.do_sample = tokens, True, False
        prompt = random.integers(1, VOCABULARY, (1, prompt_tokens), dtype=numpy.int64)
        return pipeline.add_request(number, openvino.Tensor(prompt), config)

    def finish():
        while pipeline.has_non_finished_requests():
            pipeline.step()

    def prefill():
        handle = ask(options.prefill_tokens, 1)
        started = time.perf_counter()
        finish()
        took = time.perf_counter() - started
        del handle
        return options.prefill_tokens / took

    def decode(sequences):
        handles = [ask(options.prompt_tokens, options.tokens + 8) for _ in range(sequences)]
        computed = 0
        while computed < sequences * options.prompt_tokens:
            pipeline.step()
            computed += options.batch_tokens
        for _ in range(WARM_UP):
            pipeline.step()
        started = time.perf_counter()
        for _ in range(options.tokens):
            pipeline.step()
        took = time.perf_counter() - started
        finish()
        del handles
        return sequences * options.tokens / took

    prefill()
    for round_number in range(options.rounds):
        print(f"round {round_number}: prefill, {options.prefill_tokens} tokens: {prefill():.1f} tok/s", flush=True)
        for sequences in map(int, options.sequences.split(",")):
            print(f"round {round_number}: decode, {sequences} sequences: {decode(sequences):.1f} tok/s", flush=True)


if __name__ == "__main__":
    main()
