//! The tensors of a LoRA adapter. llama.cpp checks their names and their outer lengths only, and the
//! process would end at the first multiplication by a wrong one.

use std::collections::HashMap;

use super::ffi::multiplies;
use super::gguf_reader::{MAX_DIMENSIONS, shown};

/// Description of a tensor in a file.
#[derive(Debug)]
pub(super) struct TensorHeader {
    pub(super) name: String,
    /// Lengths, the fastest dimension first; 1 for those that the file leaves out.
    pub(super) shape: [u64; MAX_DIMENSIONS],
    /// Type of its elements, as ggml numbers it.
    pub(super) kind: u32,
}

impl TensorHeader {
    /// Checks that it is a matrix that can be multiplied by; or one for each expert.
    fn check(&self, experts: u64) -> Result<(), String> {
        let Self { name, shape, kind } = self;
        let name = shown(name);
        if !multiplies(*kind) {
            return Err(format!(
                "the tensor `{name}` has the type {kind}, which nothing can be multiplied by"
            ));
        }
        if shape.contains(&0) {
            return Err(format!("the tensor `{name}` has no elements"));
        }
        let matrices = if name.contains("_exps.") { experts } else { 1 };
        if shape[2..] != [matrices, 1] {
            return Err(format!(
                "the tensor `{name}` has the shape {shape:?}, expected {matrices} at the third place and 1 at the fourth"
            ));
        }
        Ok(())
    }
}

/// Refuses tensors that cannot be multiplied, with the name of the first of them. `experts` is the
/// number of experts of the model.
pub(super) fn check(tensors: &[TensorHeader], experts: u64) -> Result<(), String> {
    let mut ranks = HashMap::new();
    for tensor in tensors {
        let name = &tensor.name;
        // llama.cpp takes the suffix out of a name wherever it is.
        let (base, rank) = if name.ends_with(".lora_a") {
            let base = name.replace(".lora_a", "");
            // The first factor of embeddings is not transposed: its rows are looked up.
            let is_looked_up = base.ends_with("token_embd.weight");
            let rank = tensor.shape[usize::from(!is_looked_up)];
            (base, rank)
        } else if name.ends_with(".lora_b") {
            (name.replace(".lora_b", ""), tensor.shape[0])
        } else {
            continue; // llama.cpp ignores or refuses it
        };
        tensor.check(experts)?;
        let known = *ranks.entry(base.clone()).or_insert(rank);
        if known != rank {
            let base = shown(&base);
            return Err(format!(
                "the tensors `{base}.lora_a` and `{base}.lora_b` differ in their rank: {known} and {rank}"
            ));
        }
    }
    Ok(())
}
