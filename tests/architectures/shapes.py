"""What the tiny models look like: numbers of their files, and how tensors are filled."""

import zlib

import numpy as np

WIDTH, HEADS, KV_HEADS, HEAD, FEED_FORWARD, LAYERS, CONTEXT = 64, 4, 2, 16, 96, 4, 1024
# Tokens that a sliding window sees: fewer than prompts have.
WINDOW = 24

BASE = {
    "context_length": CONTEXT,
    "embedding_length": WIDTH,
    "block_count": LAYERS,
    "feed_forward_length": FEED_FORWARD,
    "attention.head_count": HEADS,
    "attention.head_count_kv": KV_HEADS,
    "attention.key_length": HEAD,
    "attention.value_length": HEAD,
    "rope.dimension_count": HEAD,
}

# What a file gets when llama.cpp asks for it.
ASKED = {
    "attention.layer_norm_rms_epsilon": 1e-6,
    "attention.layer_norm_epsilon": 1e-5,
    "attention.group_norm_epsilon": 1e-5,
    "attention.group_norm_groups": 2,
    "attention.sliding_window": WINDOW,
    "attention.sliding_window_pattern": 2,
    "attention.key_length_swa": HEAD,
    "attention.value_length_swa": HEAD,
    "attention.max_alibi_bias": 8.0,
    "attention.scale": 0.25,
    "attention.q_lora_rank": 32,
    "attention.kv_lora_rank": 32,
    "attention.key_length_mla": 24,
    "attention.value_length_mla": 16,
    "attention.decay_lora_rank": 8,
    "attention.iclr_lora_rank": 8,
    "attention.value_residual_mix_lora_rank": 8,
    "attention.gate_lora_rank": 8,
    # With few heads, many cells would have the same score, 0.
    "attention.indexer.head_count": 16,
    # At least 64, for the rotation of its keys.
    "attention.indexer.key_length": 64,
    "attention.indexer.top_k": 16,
    "attention.indexer.block_size": 8,
    "attention.indexer.local_blocks": 2,
    "attention.indexer.kpool": 4,
    "attention.kv_lora_rank_swa": 32,
    "attention.key_length_mla_swa": 24,
    "attention.value_length_mla_swa": 16,
    "attention.output_group_count": 2,
    "attention.output_lora_rank": 16,
    "attention.compress_rope_freq_base": 10000.0,
    "attn_res.block_size": 2,
    "activation.situ_beta": 1.0,
    "activation.situ_linear_beta": 1.0,
    "attention.temperature_length": 8192,
    "attention.temperature_scale": 0.1,
    "embedding_length_per_layer_input": 16,
    "expert_feed_forward_length": 32,
    "expert_shared_feed_forward_length": 32,
    "expert_chunk_feed_forward_length": 32,
    "expert_shared_count": 1,
    "expert_gating_func": 2,
    "expert_weights_scale": 1.0,
    "expert_weights_norm": True,
    "expert_group_scale": 0.05,
    "experts_per_group": 2,
    "expert_latent_length": 32,
    "hash_layer_count": 0,
    "swiglu_clamp_exp": 7.0,
    "moe_every_n_layers": 2,
    "moe_latent_size": 32,
    "interleave_moe_layer_step": 2,
    "leading_dense_block_count": 1,
    "logit_scale": 0.5,
    "residual_scale": 0.5,
    "embedding_scale": 2.0,
    "use_parallel_residual": True,
    "rope.dimension_sections": [2, 3, 3, 0],
    "rope.freq_base": 10000.0,
    "rope.freq_base_swa": 10000.0,
    "rope.scaling.yarn_log_multiplier": 0.1,
    "full_attention_interval": 2,
    "shortconv.l_cache": 3,
    "ssm.conv_kernel": 4,
    "ssm.group_count": 2,
    "ssm.inner_size": 2 * WIDTH,
    "ssm.state_size": 16,
    "ssm.time_step_rank": 8,
    "kda.head_dim": 16,
    "kda.gate_lower_bound": -5.0,
    "wkv.head_size": 16,
    "time_mix_extra_dim": 8,
    "time_decay_extra_dim": 8,
    "token_shift_count": 2,
    "hyper_connection.count": 2,
    "hyper_connection.sinkhorn_iterations": 2,
    "hyper_connection.epsilon": 1e-6,
    "hyper_connection.magnitude": 1.0,
    "hyper_connection.low_rank": 8,
    # Stacks times the cycles of both kinds: the number of layers.
    "hrm.layers_per_stack": 1,
    "hrm.h_cycles": 2,
    "hrm.l_cycles": 1,
}

EXPERTS = {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 32}
# Layers with cells and layers with a state by turns.
HYBRID = {"attention.head_count_kv": [0, KV_HEADS, 0, KV_HEADS]}
# Attention over a latent vector: a cell is one key, and its beginning is the value.
LATENT = {
    "attention.head_count_kv": 1,
    "attention.q_lora_rank": 32,
    "attention.kv_lora_rank": 32,
    "attention.key_length": 40,
    "attention.value_length": 32,
    "attention.key_length_mla": 24,
    "attention.value_length_mla": 16,
    "rope.dimension_count": 8,
}
# As `HYBRID`, of one key for all heads.
LATENT_HYBRID = LATENT | {"attention.head_count_kv": [0, 1, 0, 1]}
# Layers with cells after a number of layers with a state.
INTERVAL = {"full_attention_interval": 2}
# How the chosen experts are weighed: by softmax, or by sigmoid.
SOFTMAX, SIGMOID = {"expert_gating_func": 1}, {"expert_gating_func": 2}
# As many heads for keys as for queries.
ALL_HEADS = {"attention.head_count_kv": HEADS}
# The latent vector only makes the weights smaller: cells have all keys and values.
EXPANDED = LATENT | ALL_HEADS | {"attention.key_length": 24, "attention.value_length": 16}
# A choice of the cells that are looked at.
INDEXER = {name: ASKED[name] for name in ("attention.indexer.head_count", "attention.indexer.key_length", "attention.indexer.top_k")}
# No attention.
NO_HEADS = {"attention.head_count": 0, "attention.head_count_kv": 0}
# ggml computes the states of RWKV 7 in steps of up to 64 numbers.
HEADS_OF_64 = {"embedding_length": 2 * WIDTH, "wkv.head_size": 64}
# Layers with a state, with an attention layer, and with a feed-forward part, each by itself.
APART = {"attention.head_count_kv": [0, KV_HEADS, 0, 0], "feed_forward_length": [0, 0, 0, FEED_FORWARD]}
# Layers that see a window and layers that see all by turns.
WINDOWS = {"attention.sliding_window": WINDOW, "attention.sliding_window_pattern": [True, False, True, False]}

# The architectures that are compared, with what they need beside `BASE`.
ARCHITECTURES = {
    "afmoe": EXPERTS | WINDOWS,
    "apertus": {"xielu.alpha_n": [0.8] * LAYERS, "xielu.alpha_p": [0.8] * LAYERS, "xielu.beta": [0.5] * LAYERS, "xielu.eps": [-1e-6] * LAYERS},
    "arcee": {},
    "arctic": EXPERTS,
    "arwkv7": NO_HEADS | HEADS_OF_64 | {"token_shift_count": 1},
    "baichuan": {},
    "bailingmoe": EXPERTS,
    "bailingmoe2": EXPERTS | {"expert_group_count": 2, "expert_group_used_count": 1},
    "bailingmoe3": EXPERTS | LATENT_HYBRID,
    "bitnet": {},
    "bloom": ALL_HEADS,
    "chatglm": {},
    "codeshell": {},
    "cogvlm": {},
    "cohere2": {},
    "cohere2moe": EXPERTS | {"attention.layer_norm_epsilon": 1e-5},
    "command-r": {},
    "dbrx": EXPERTS | {"attention.clamp_kqv": 8.0},
    "deci": {},
    "deepseek": EXPERTS | ALL_HEADS,
    "deepseek2": EXPERTS | LATENT,
    "deepseek2-ocr": EXPERTS | ALL_HEADS,
    "deepseek32": EXPERTS | LATENT,
    "deepseek4": EXPERTS
    | LATENT
    | {
        "attention.key_length": 32,
        "attention.compress_ratios": [0, 4, 0, 4],
        "expert_gating_func": 4,
        "hyper_connection.count": 4,
    },
    "dots1": EXPERTS | SIGMOID | ALL_HEADS,
    "dots3note": EXPERTS
    | LATENT
    | {
        "attention.sliding_window_pattern": [False, True, False, True],
        "attention.indexer.types": [True, False, True, False],
        "attention.key_length_swa": 40,
        "attention.value_length_swa": 32,
    },
    "ernie4_5": {},
    "ernie4_5-moe": EXPERTS | {"interleave_moe_layer_step": 1},
    "exaone": {},
    "exaone4": {"block_count": 4, "attention.sliding_window": WINDOW},
    "exaone-moe": EXPERTS,
    "falcon": {},
    "falcon-h1": {},
    "gemma": {},
    "gemma2": {},
    "gemma3": {},
    "gemma3n": {},
    "gemma4": {
        "attention.sliding_window_pattern": [True, False, True, False],
        "attention.shared_kv_layers": 2,
        "rope.dimension_count_swa": HEAD,
    },
    "glm-dsa": EXPERTS | LATENT,
    "glm4": {},
    "glm4moe": EXPERTS,
    "glm5-next": EXPERTS
    | LATENT_HYBRID
    | {
        "attention.key_length": 32,
        "attention.key_length_mla": 16,
        "rope.dimension_count": 0,
        "hyper_connection.count": 4,
    },
    "gpt-oss": EXPERTS,
    "gpt2": ALL_HEADS,
    "gptneox": ALL_HEADS,
    "granite": {},
    "granite_swa": {},
    "granitehybrid": HYBRID,
    "granitemoe": EXPERTS,
    "graniteswitch": {
        "adapters.count": 1,
        "adapters.lora_rank": 8,
        "adapters.token_ids_activate": [5],
        "adapters.token_ids_substitute": [6],
    },
    "grok": EXPERTS,
    "grovemoe": EXPERTS,
    "hrm_text": {},
    "hunyuan-dense": {},
    "hunyuan-moe": EXPERTS,
    "hunyuan_vl": {},
    "hy_v3": EXPERTS,
    "hy_v4": EXPERTS | LATENT | SIGMOID | INDEXER | {"attention.indexer.types": [True, False, True, False]},
    "internlm2": {},
    "jais": ALL_HEADS,
    "jais2": {},
    "jamba": HYBRID | EXPERTS | {"ssm.time_step_rank": 4, "ssm.state_size": 8},
    "kimi-k3": EXPERTS | LATENT_HYBRID,
    "kimi-linear": EXPERTS | LATENT_HYBRID,
    "laguna": EXPERTS | WINDOWS | {"rope.dimension_count_swa": HEAD},
    "lfm2": HYBRID,
    "lfm2moe": HYBRID | EXPERTS,
    "llama": {},
    "llama4": EXPERTS,
    "maincoder": {},
    "mamba": NO_HEADS | {"ssm.time_step_rank": 4, "ssm.state_size": 8},
    "mamba2": NO_HEADS,
    "maple": EXPERTS | WINDOWS,
    "mellum": EXPERTS,
    "mimo2": {},
    "minicpm": {},
    "minicpm3": EXPANDED,
    "minimax-01": EXPERTS | INTERVAL,
    "minimax-m2": EXPERTS | SIGMOID,
    "minimax-m3": EXPERTS | {"attention.indexer.head_count": KV_HEADS},
    "mistral3": {},
    "mistral4": EXPERTS | LATENT,
    "mpt": ALL_HEADS,
    "muse-glimmer": {},
    "nanbeige": {},
    "nemotron": {},
    "nemotron_h": APART,
    "nemotron_h_moe": EXPERTS | APART | {"expert_shared_feed_forward_length": 32},
    "olmo": ALL_HEADS,
    "olmo2": {},
    "olmoe": EXPERTS | SOFTMAX | ALL_HEADS,
    "openelm": {
        "attention.head_count": [HEADS] * LAYERS,
        "attention.head_count_kv": [KV_HEADS] * LAYERS,
        "feed_forward_length": [FEED_FORWARD] * LAYERS,
    },
    "orion": {},
    "paddleocr": {"rope.dimension_sections": [2, 3, 3, 0]},
    "pangu-embedded": {},
    "phi2": ALL_HEADS,
    "phi3": {},
    "phimoe": EXPERTS,
    "plamo": {},
    "plamo2": HYBRID | {"ssm.group_count": 0, "ssm.time_step_rank": 4},
    "plamo3": {},
    "plm": EXPANDED,
    "pockettts": ALL_HEADS,
    "qwen": ALL_HEADS,
    "qwen2": {},
    "qwen2moe": EXPERTS,
    "qwen2vl": {},
    "qwen3": {},
    "qwen35": INTERVAL,
    "qwen35moe": EXPERTS | INTERVAL,
    "qwen3moe": EXPERTS,
    "qwen3next": EXPERTS | INTERVAL,
    "qwen3tts": {},
    "qwen3vl": {},
    "qwen3vlmoe": EXPERTS,
    "qwen4exp": EXPERTS,
    "refact": {},
    "rwkv6": NO_HEADS,
    "rwkv6qwen2": NO_HEADS | {"token_shift_count": 1},
    "rwkv7": NO_HEADS | HEADS_OF_64 | {"attention.gate_lora_rank": 8},
    "seed_oss": {},
    "smallthinker": EXPERTS | SOFTMAX,
    "smollm3": {},
    "stablelm": {},
    "spark2_5": {},
    "starcoder": {"attention.head_count_kv": 1},
    "starcoder2": {},
    "step35": EXPERTS,
    "talkie": {},
    "xverse": {},
}

# What is set for those that choose the cells that they look at. Where two are nearly alike, a key that is rounded to 16 bits another
# way makes the other choice, and another answer.
EXACT = {"kv_type_k": "f32", "kv_type_v": "f32"}
KNOBS = dict.fromkeys(("deepseek32", "deepseek4", "dots3note", "glm-dsa", "glm5-next", "hy_v4", "qwen4exp"), EXACT)
KNOBS["minimax-m3"] = EXACT

# Those that are compared once more with a layer that drafts (MTP), and so many others that this pays.
MTP, MTP_BELOW = "+mtp", 16
for name in ("cohere2moe", "deepseek2", "deepseek32", "glm-dsa", "glm4moe", "hy_v3", "mimo2", "qwen35", "qwen35moe", "step35"):
    ARCHITECTURES[name + MTP] = ARCHITECTURES[name] | {"block_count": MTP_BELOW + 1, "nextn_predict_layers": 1}

# Those that are compared once more with an EAGLE3 model: all of which llama.cpp gives hidden states between layers.
EAGLE3 = "+eagle3"
for name in (
    "bailingmoe3", "deepseek4", "gemma4", "gpt-oss", "hunyuan_vl", "lfm2", "lfm2moe", "llama", "mimo2", "minimax-m2",
    "muse-glimmer", "nanbeige", "nemotron_h", "nemotron_h_moe", "qwen3", "qwen35", "qwen35moe", "qwen3moe",
):  # fmt: skip
    ARCHITECTURES[name + EAGLE3] = ARCHITECTURES[name]

# Tensors of layers that llama.cpp does not ask for, as another would do, and that it cannot do without: their shapes, and in which
# layers they are.
INNER, STATES = ASKED["ssm.inner_size"], ASKED["ssm.group_count"] * ASKED["ssm.state_size"]
ALL_LAYERS, EVEN_LAYERS = range(LAYERS), range(0, LAYERS, 2)
INDEXER_HEADS, INDEXER_KEY = ASKED["attention.indexer.head_count"], ASKED["attention.indexer.key_length"]
INDEXER_TENSORS = {
    "indexer.k_norm.weight": ([INDEXER_KEY], ALL_LAYERS),
    "indexer.k_norm.bias": ([INDEXER_KEY], ALL_LAYERS),
    "indexer.proj.weight": ([WIDTH, INDEXER_HEADS], ALL_LAYERS),
    "indexer.attn_k.weight": ([WIDTH, INDEXER_KEY], ALL_LAYERS),
    "indexer.attn_q_b.weight": ([LATENT["attention.q_lora_rank"], INDEXER_HEADS * INDEXER_KEY], ALL_LAYERS),
}
DELTA_NET = {"attn_qkv.weight": ([WIDTH, INNER + 2 * STATES], EVEN_LAYERS), "attn_gate.weight": ([WIDTH, INNER], EVEN_LAYERS)}
UNASKED = {
    # Gates and ups of experts as halves of one matrix.
    "cohere2moe": {"ffn_gate_up_exps.weight": ([WIDTH, 2 * EXPERTS["expert_feed_forward_length"], EXPERTS["expert_count"]], range(1, LAYERS))},
    "falcon-h1": {"ssm_conv1d.bias": ([INNER + 2 * STATES], ALL_LAYERS)},
    "glm-dsa": INDEXER_TENSORS,
    "granitehybrid": {"ssm_conv1d.bias": ([INNER + 2 * STATES], EVEN_LAYERS)},
    "laguna": {"attn_gate.weight": ([WIDTH, HEADS], ALL_LAYERS)},
    "nemotron_h": {"ssm_conv1d.bias": ([INNER + 2 * STATES], EVEN_LAYERS)},
    "nemotron_h_moe": {"ssm_conv1d.bias": ([INNER + 2 * STATES], EVEN_LAYERS)},
    "phi3": {"attn_qkv.weight": ([WIDTH, (HEADS + 2 * KV_HEADS) * HEAD], ALL_LAYERS)},
    "pockettts": {f"attn_{part}.weight": ([WIDTH, WIDTH], ALL_LAYERS) for part in "qkv"},
    "qwen35": DELTA_NET,
    "qwen35moe": DELTA_NET,
    "qwen3next": DELTA_NET,
    "rwkv6": {"time_mix_lerp_fused.weight": ([WIDTH, 1, 1, 5], ALL_LAYERS)},
}
# Without these, llama.cpp takes the other layers, or the one that drafts, for left out.
MTP_TENSORS = {"blk.0.attn_norm.weight": [WIDTH], f"blk.{MTP_BELOW}.nextn.eh_proj.weight": [2 * WIDTH, WIDTH]}
# In these models, how much larger than what a layer adds the embedding of a token is: what comes next depends most on the last
# token, so that the layer that drafts is often right.
LAST_TOKEN = 60
for name in ("qwen35", "qwen35moe"):
    UNASKED[name + MTP] = {tensor: (shape, range(0, MTP_BELOW, 2)) for tensor, (shape, _) in DELTA_NET.items()}
UNASKED["glm-dsa" + MTP] = {tensor: (shape, range(MTP_BELOW + 1)) for tensor, (shape, _) in INDEXER_TENSORS.items()}
UNASKED["mimo2" + MTP] = {
    "attn_qkv.weight": ([WIDTH, (HEADS + 2 * KV_HEADS) * HEAD], [MTP_BELOW]),
    "ffn_gate.weight": ([WIDTH, FEED_FORWARD], [MTP_BELOW]),
    "ffn_up.weight": ([WIDTH, FEED_FORWARD], [MTP_BELOW]),
    "ffn_down.weight": ([FEED_FORWARD, WIDTH], [MTP_BELOW]),
}

for name in list(UNASKED):
    if name + EAGLE3 in ARCHITECTURES:
        UNASKED[name + EAGLE3] = UNASKED[name]


def eagle3(numbers):
    """The numbers and tensors of an EAGLE3 model for a model with these numbers. It takes embeddings and output matrix from that."""
    width = numbers["embedding_length"]
    own = BASE | {
        "embedding_length": width,
        "block_count": 1,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "target_hidden_size": width,
        "target_layers": [0, numbers["block_count"] // 2, numbers["block_count"] - 1],
    }
    shapes = {
        "attn_norm": [width],
        "attn_norm_2": [width],
        "attn_q": [2 * width, HEADS * HEAD],
        "attn_k": [2 * width, KV_HEADS * HEAD],
        "attn_v": [2 * width, KV_HEADS * HEAD],
        "attn_output": [HEADS * HEAD, width],
        "ffn_norm": [width],
        "ffn_gate": [width, FEED_FORWARD],
        "ffn_up": [width, FEED_FORWARD],
        "ffn_down": [FEED_FORWARD, width],
    }
    tensors = {f"blk.0.{name}.weight": shape for name, shape in shapes.items()}
    return own, tensors | {"fc.weight": [3 * width, width], "output_norm.weight": [width]}


def fill(name, shape, seed=0, drafts=False):
    """The numbers of a tensor, also of a model that drafts; `shape` is in ggml's order, innermost first."""
    dice = np.random.Generator(np.random.SFC64([seed, zlib.crc32(name.encode())]))
    noise = dice.standard_normal(tuple(reversed(shape)), np.float32)
    part = name.removesuffix(".weight").rsplit(".", 1)[-1]
    if part == "ssm_a":
        numbers = -0.05 - 0.2 * np.abs(noise)
    elif "norm" in part or part in ("ssm_d", "time_mix_ln", "layer_output_scale") or name.endswith(".scale"):
        numbers = np.ones_like(noise)
    elif name.endswith(".bias") or len(shape) == 1:
        numbers = 0.1 * noise
    elif part == "eh_proj":
        # It takes the token, and leaves out the hidden state behind it.
        numbers = LAST_TOKEN * np.eye(shape[1], shape[0])
    elif part == "token_embd" and drafts:
        numbers = LAST_TOKEN * noise
    elif part == "output" and drafts:
        numbers = 3 / np.sqrt(shape[0]) * noise
    elif part == "token_embd":
        # As it also makes the logits: few of them are close to each other.
        numbers = 3 / np.sqrt(shape[0]) * noise
    else:
        numbers = noise / np.sqrt(shape[0])
    return numbers.astype(np.float32)
