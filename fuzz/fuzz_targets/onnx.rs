//! Any bytes are an ONNX model or are refused with words.
#![no_main]

use graphmill_calculators::onnx::{OnnxModel, Runtime};
use libfuzzer_sys::fuzz_target;

// A panic of tract is one of its ways to refuse a file, and caught: by itself it is no finding.
fuzz_target!(
    init: std::panic::set_hook(Box::new(|_| ())),
    |bytes: &[u8]| {
        if let Err(error) = OnnxModel::from_bytes(bytes, Runtime::Tract) {
            assert!(!error.message.is_empty());
        }
    }
);
