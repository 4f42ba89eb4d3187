//! Effective values of an engine as lines for people.

use std::fmt;

use super::info::{BufferInfo, DraftInfo, KernelsInfo, LlmEngineInfo, Mebibytes, WeightsInfo};

/// Formats one line for each concern.
impl fmt::Display for LlmEngineInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "model     {} ({})", self.model, self.path.display())?;
        if let Some(weights) = &self.backend.weights {
            writeln!(f, "weights   {weights}")?;
        }
        for device in &self.backend.devices {
            let (name, about, layers) = (&device.name, &device.description, device.layers);
            writeln!(f, "device    {name} ({about}), {layers} layers")?;
        }
        writeln!(
            f,
            "sequences {} at once, {} tokens each at most, {} more may wait",
            self.max_num_seqs, self.context_length, self.max_waiting
        )?;
        if let Some(kv) = &self.backend.kv {
            writeln!(
                f,
                "kv cache  {} cells of {} bytes ({}, {}), {}, {}; {}",
                self.kv_cells,
                kv.bytes_per_cell,
                kv.type_k,
                kv.type_v,
                Mebibytes(kv.bytes),
                if kv.unified {
                    "unified"
                } else {
                    "per sequence"
                },
                kv.bound
            )?;
            if kv.state_bytes > 0 {
                let size = Mebibytes(kv.state_bytes);
                writeln!(f, "states    {size} of recurrent layers")?;
            }
        } else {
            writeln!(f, "kv cache  {} cells", self.kv_cells)?;
        }
        let size = Mebibytes(self.prefix_cache_bytes);
        write!(f, "prefixes  {size} of host memory for finished sequences")?;
        if self.checkpoint_cache_bytes > 0 {
            let size = Mebibytes(self.checkpoint_cache_bytes);
            write!(f, ", {size} for checkpoints")?;
        }
        writeln!(f)?;
        let prompts = if self.dynamic_split_fuse {
            "split"
        } else {
            "whole"
        };
        let tokens = self.max_num_batched_tokens;
        write!(
            f,
            "step      {tokens} tokens at most, prompts are {prompts}"
        )?;
        if let Some(compute) = &self.backend.compute {
            write!(f, ", {} at once", compute.ubatch)?;
        }
        if let Some(draft) = &self.draft {
            write!(f, "\n{draft}")?;
        }
        for adapter in &self.adapters {
            let (name, scale, path) = (&adapter.name, adapter.scale.get(), adapter.path.display());
            write!(f, "\nadapter   {name}, times {scale} ({path})")?;
        }
        if let Some(vision) = &self.vision {
            let (path, size) = (vision.mmproj.display(), Mebibytes(vision.cache_size));
            write!(
                f,
                "\nmedia     by {path}, {size} of host memory for what is encoded"
            )?;
        }
        let Some(compute) = &self.backend.compute else {
            return Ok(());
        };
        let (threads, for_prompts) = (compute.threads, compute.batch_threads);
        write!(
            f,
            "\ncompute   {threads} threads, {for_prompts} for prompts"
        )?;
        if !compute.cpu_affinity.is_empty() {
            write!(f, " on CPUs {:?}", compute.cpu_affinity)?;
        }
        if compute.cpu_strict {
            write!(f, ", one each")?;
        }
        writeln!(
            f,
            ", priority {}, NUMA {}, flash attention {}",
            compute.thread_priority,
            compute.numa,
            if compute.flash_attention { "on" } else { "off" }
        )?;
        if let Some(kernels) = &self.backend.kernels {
            writeln!(f, "kernels   {kernels}")?;
        }
        writeln!(f, "memory    {}", buffers(&self.backend.buffers))?;
        write!(f, "features  {}", compute.features)
    }
}

/// Formats two lines, or one for a backend without weights.
impl fmt::Display for DraftInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "drafts    by {}{}, {} sequences, {} tokens each at most, {} KV cells, {} tokens at once",
            if self.mtp { "the MTP layers of " } else { "" },
            self.path.display(),
            self.max_num_seqs,
            self.context_length,
            self.kv_cells,
            self.max_num_batched_tokens
        )?;
        let Some(weights) = &self.backend.weights else {
            return Ok(());
        };
        write!(
            f,
            "\n          {weights}; {}",
            buffers(&self.backend.buffers)
        )
    }
}

impl fmt::Display for WeightsInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}, {} parameters, {}{}",
            self.architecture,
            self.quantization,
            RoundedCount(self.parameters),
            Mebibytes(self.bytes),
            if self.shared {
                ", shared with another engine"
            } else {
                ""
            }
        )
    }
}

impl fmt::Display for KernelsInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} for {} matrices, {} packed",
            self.instructions,
            self.matrices,
            Mebibytes(self.bytes)
        )?;
        if self.left.is_empty() {
            return Ok(());
        }
        let left = self.left.iter();
        let left = left.map(|(name, count)| format!("{count} {name}"));
        let left: Vec<_> = left.collect();
        write!(f, "; llama.cpp's for {}", left.join(", "))
    }
}

/// Lists the buffers in one line.
fn buffers(buffers: &[BufferInfo]) -> String {
    let buffers = buffers.iter().map(|buffer| {
        let bytes = Mebibytes(buffer.bytes);
        format!("{} {bytes} ({})", buffer.content, buffer.memory)
    });
    buffers.collect::<Vec<_>>().join(", ")
}

/// Formats a large number for people, such as `7.62 billion`.
struct RoundedCount(u64);

impl fmt::Display for RoundedCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.0 as f64;
        let scales = [(1e9, "billion"), (1e6, "million"), (1e3, "thousand")];
        match scales.iter().find(|(scale, _)| number >= *scale) {
            Some((scale, name)) => write!(f, "{:.2} {name}", number / scale),
            None => write!(f, "{}", self.0),
        }
    }
}
