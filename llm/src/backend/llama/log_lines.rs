//! Facts that llama.cpp reports only in its log: allocated buffers, the device of each layer, and
//! the chosen kernels.

use crate::model::info::BufferInfo;

/// Returns the buffers in lines such as `load_tensors:   CPU_Mapped model buffer size =   137.94
/// MiB`.
pub(super) fn buffers(lines: &[String]) -> Vec<BufferInfo> {
    lines.iter().filter_map(|line| buffer(line)).collect()
}

/// Sums the bytes of all buffers with this name in llama.cpp, such as `KV` or `RS`.
pub(super) fn buffer_bytes(lines: &[String], called: &str) -> u64 {
    let parts = lines.iter().filter_map(|line| buffer_parts(line));
    let wanted = parts.filter(|(name, ..)| *name == called);
    wanted.map(|(.., bytes)| bytes).sum()
}

fn buffer(line: &str) -> Option<BufferInfo> {
    let (called, memory, bytes) = buffer_parts(line)?;
    let content = match called {
        "model" => "weights",
        "KV" | "RS" => "kv",
        "output" => "output",
        "compute" => "compute",
        _ => return None,
    };
    Some(BufferInfo {
        content,
        memory: memory.to_owned(),
        bytes,
    })
}

/// Splits a line about a buffer into the buffer's name, its memory and its size in bytes.
fn buffer_parts(line: &str) -> Option<(&str, &str, u64)> {
    let (before, size) = line.split_once(" buffer size = ")?;
    let mut words = before.split_whitespace().rev();
    let (called, memory) = (words.next()?, words.next()?);
    let mebibytes: f64 = size.trim().strip_suffix("MiB")?.trim().parse().ok()?;
    Some((called, memory, (mebibytes * f64::from(1 << 20)) as u64))
}

/// Returns true if some weights are in a buffer other than the mapped file.
pub(super) fn copies_weights(lines: &[String]) -> bool {
    let mut buffers = lines.iter().filter_map(|line| buffer(line));
    buffers.any(|buffer| buffer.content == "weights" && !is_mapped(&buffer))
}

/// Returns true if a buffer is a part of a mapped file.
pub(super) fn is_mapped(buffer: &BufferInfo) -> bool {
    buffer.memory.ends_with("_Mapped")
}

/// Counts the layers on each device, from lines such as `load_tensors: layer   3 assigned to device
/// CUDA0, is_swa = 0`.
pub(super) fn layers(lines: &[String]) -> Vec<(String, u32)> {
    let mut devices: Vec<(String, u32)> = Vec::new();
    let device = |line: &str| {
        let (_, rest) = line.split_once(" assigned to device ")?;
        Some(rest.split(',').next()?.trim().to_owned())
    };
    for name in lines.iter().filter_map(|line| device(line)) {
        match devices.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => devices.push((name, 1)),
        }
    }
    devices
}

/// Returns true if llama.cpp turned flash attention off because the devices do not support it.
pub(super) fn flash_attention_refused(lines: &[String]) -> bool {
    let refused = |line: &String| {
        line.contains("Flash Attention") && line.contains("not supported, set to disabled")
    };
    lines.iter().any(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let lines = [
            "load_tensors: layer   0 assigned to device CPU, is_swa = 0",
            "load_tensors: layer   1 assigned to device CUDA0, is_swa = 0",
            "load_tensors: layer   2 assigned to device CUDA0, is_swa = 0",
            "load_tensors:   CPU_Mapped model buffer size =   137.94 MiB",
            "llama_context:        CPU  output buffer size =     0.50 MiB",
            "llama_memory_recurrent:        CPU RS buffer size =     0.25 MiB",
            "llama_memory_recurrent:      CUDA0 RS buffer size =     0.50 MiB",
            "sched_reserve: Flash Attention not supported, set to disabled",
        ]
        .map(str::to_owned);
        assert_eq!(
            layers(&lines),
            [("CPU".to_owned(), 1), ("CUDA0".to_owned(), 2)]
        );
        let found = buffers(&lines);
        assert_eq!(found.len(), 4);
        assert_eq!(
            (
                found[0].content,
                found[0].memory.as_str(),
                found[0].bytes >> 20
            ),
            ("weights", "CPU_Mapped", 137)
        );
        assert_eq!((found[1].content, found[1].bytes), ("output", 1 << 19));
        assert!(flash_attention_refused(&lines));
        assert!(!flash_attention_refused(&lines[..7]));
        assert_eq!(buffer_bytes(&lines, "RS"), 3 << 18);
        assert_eq!(buffer_bytes(&lines, "KV"), 0);
    }
}
