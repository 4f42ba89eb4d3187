//! What layers are made of.

use graphmill_testkit::weights::Fill;

use super::{
    EXPERT_WIDTH, EXPERTS, HEAD, HEADS, INDEXER_HEADS, INDEXER_KEY, LATENT, TURNED, WIDTH,
};

/// The name of a tensor, its shape, and what it is filled with.
pub(super) type Part = (&'static str, Vec<u64>, Fill);

pub(super) fn latent_attention() -> [Part; 13] {
    let (key, of_heads) = (HEAD + TURNED, INDEXER_HEADS * INDEXER_KEY);
    [
        ("attn_q_a.weight", vec![WIDTH, LATENT], Fill::Matrix),
        ("attn_q_a_norm.weight", vec![LATENT], Fill::Ones),
        ("attn_q_b.weight", vec![LATENT, HEADS * key], Fill::Matrix),
        (
            "attn_kv_a_mqa.weight",
            vec![WIDTH, LATENT + TURNED],
            Fill::Matrix,
        ),
        ("attn_kv_a_norm.weight", vec![LATENT], Fill::Ones),
        ("attn_k_b.weight", vec![HEAD, LATENT, HEADS], Fill::Matrix),
        ("attn_v_b.weight", vec![LATENT, HEAD, HEADS], Fill::Matrix),
        (
            "attn_output.weight",
            vec![HEADS * HEAD, WIDTH],
            Fill::Matrix,
        ),
        ("indexer.k_norm.weight", vec![INDEXER_KEY], Fill::Ones),
        ("indexer.k_norm.bias", vec![INDEXER_KEY], Fill::Random(0.1)),
        (
            "indexer.proj.weight",
            vec![WIDTH, INDEXER_HEADS],
            Fill::Matrix,
        ),
        (
            "indexer.attn_k.weight",
            vec![WIDTH, INDEXER_KEY],
            Fill::Matrix,
        ),
        (
            "indexer.attn_q_b.weight",
            vec![LATENT, of_heads],
            Fill::Matrix,
        ),
    ]
}

pub(super) fn recurrent() -> [Part; 9] {
    let (inner, state, rank) = (2 * WIDTH, 8, 4);
    [
        ("ssm_in.weight", vec![WIDTH, 2 * inner], Fill::Matrix),
        ("ssm_conv1d.weight", vec![4, inner], Fill::Matrix),
        ("ssm_conv1d.bias", vec![inner], Fill::Random(0.1)),
        ("ssm_x.weight", vec![inner, rank + 2 * state], Fill::Matrix),
        ("ssm_dt.weight", vec![rank, inner], Fill::Matrix),
        ("ssm_dt.bias", vec![inner], Fill::Random(1.0)),
        ("ssm_a", vec![state, inner], Fill::Decay),
        ("ssm_d", vec![inner], Fill::Ones),
        ("ssm_out.weight", vec![inner, WIDTH], Fill::Matrix),
    ]
}

pub(super) fn delta_net() -> [Part; 9] {
    let (groups, heads, state) = (2, 4, 16);
    let mixed = 2 * groups * state + heads * state;
    [
        ("attn_qkv.weight", vec![WIDTH, mixed], Fill::Matrix),
        ("attn_gate.weight", vec![WIDTH, heads * state], Fill::Matrix),
        ("ssm_conv1d.weight", vec![4, mixed], Fill::Matrix),
        ("ssm_dt.bias", vec![heads], Fill::Random(1.0)),
        ("ssm_a", vec![heads], Fill::Decay),
        ("ssm_beta.weight", vec![WIDTH, heads], Fill::Matrix),
        ("ssm_alpha.weight", vec![WIDTH, heads], Fill::Matrix),
        ("ssm_norm.weight", vec![state], Fill::Ones),
        ("ssm_out.weight", vec![heads * state, WIDTH], Fill::Matrix),
    ]
}

/// Attention over cells of a window and, where it is not 0, of as many tokens each as `ratio` says.
pub(super) fn compressed_attention(ratio: u64) -> Vec<Part> {
    let groups = 2;
    let mut parts = vec![
        ("attn_sinks.weight", vec![HEADS], Fill::Random(0.1)),
        ("attn_q_a.weight", vec![WIDTH, LATENT], Fill::Matrix),
        ("attn_q_a_norm.weight", vec![LATENT], Fill::Ones),
        (
            "attn_q_b.weight",
            vec![LATENT, HEADS * LATENT],
            Fill::Matrix,
        ),
        ("attn_kv.weight", vec![WIDTH, LATENT], Fill::Matrix),
        ("attn_kv_a_norm.weight", vec![LATENT], Fill::Ones),
        (
            "attn_output_a.weight",
            vec![HEADS * LATENT / groups, LATENT * groups],
            Fill::Matrix,
        ),
        (
            "attn_output_b.weight",
            vec![LATENT * groups, WIDTH],
            Fill::Matrix,
        ),
    ];
    if ratio > 0 {
        parts.extend(compressor(
            [
                "attn_compressor_kv.weight",
                "attn_compressor_gate.weight",
                "attn_compressor_ape.weight",
                "attn_compressor_norm.weight",
            ],
            LATENT,
            ratio,
        ));
        parts.extend(compressor(
            [
                "indexer_compressor_kv.weight",
                "indexer_compressor_gate.weight",
                "indexer_compressor_ape.weight",
                "indexer_compressor_norm.weight",
            ],
            INDEXER_KEY,
            ratio,
        ));
        let of_heads = INDEXER_HEADS * INDEXER_KEY;
        parts.extend([
            (
                "indexer.proj.weight",
                vec![WIDTH, INDEXER_HEADS],
                Fill::Matrix,
            ),
            (
                "indexer.attn_q_b.weight",
                vec![LATENT, of_heads],
                Fill::Matrix,
            ),
        ]);
    }
    parts
}

/// What makes one key of several: what keys are made with, what weighs them, what is added for each
/// place, and the norm of the outcome.
fn compressor([keys, gate, places, norm]: [&'static str; 4], width: u64, ratio: u64) -> [Part; 4] {
    [
        (keys, vec![WIDTH, 2 * width], Fill::Matrix),
        (gate, vec![WIDTH, 2 * width], Fill::Matrix),
        (places, vec![2 * width, ratio], Fill::Random(0.1)),
        (norm, vec![width], Fill::Ones),
    ]
}

/// What takes the streams of a layer together, and its outcome to each of them, so many streams.
pub(super) fn hyper_connection(streams: u64) -> [Part; 6] {
    let mixed = (2 + streams) * streams;
    let matrix = || vec![streams * WIDTH, mixed];
    [
        ("hc_attn_fn.weight", matrix(), Fill::Matrix),
        ("hc_attn_base.weight", vec![mixed], Fill::Random(0.1)),
        ("hc_attn_scale.weight", vec![3], Fill::Ones),
        ("hc_ffn_fn.weight", matrix(), Fill::Matrix),
        ("hc_ffn_base.weight", vec![mixed], Fill::Random(0.1)),
        ("hc_ffn_scale.weight", vec![3], Fill::Ones),
    ]
}

/// A mixture of experts, and one that all tokens go through.
pub(super) fn experts() -> [Part; 9] {
    let (count, width) = (EXPERTS, EXPERT_WIDTH);
    [
        ("ffn_norm.weight", vec![WIDTH], Fill::Ones),
        ("ffn_gate_inp.weight", vec![WIDTH, count], Fill::Matrix),
        ("exp_probs_b.bias", vec![count], Fill::Random(0.1)),
        (
            "ffn_gate_exps.weight",
            vec![WIDTH, width, count],
            Fill::Matrix,
        ),
        (
            "ffn_up_exps.weight",
            vec![WIDTH, width, count],
            Fill::Matrix,
        ),
        (
            "ffn_down_exps.weight",
            vec![width, WIDTH, count],
            Fill::Matrix,
        ),
        ("ffn_gate_shexp.weight", vec![WIDTH, width], Fill::Matrix),
        ("ffn_up_shexp.weight", vec![WIDTH, width], Fill::Matrix),
        ("ffn_down_shexp.weight", vec![width, WIDTH], Fill::Matrix),
    ]
}
