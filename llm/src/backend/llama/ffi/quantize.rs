//! Rewriting a model's file with weights of another type.

use std::ffi::CStr;

use llama_cpp_sys_2 as sys;

/// Quantizes the model in `input` into `output`, on this number of threads; `false` if llama.cpp
/// refuses, which it logs. With `again`, weights that are already quantized may be quantized a
/// second time.
pub(crate) fn quantize(
    input: &CStr,
    output: &CStr,
    file_type: u32,
    threads: u32,
    again: bool,
) -> bool {
    // SAFETY: returns plain numbers and null pointers.
    let mut params = unsafe { sys::llama_model_quantize_default_params() };
    params.ftype = file_type;
    params.nthread = threads as i32;
    params.allow_requantize = again;
    // SAFETY: the paths end with a NUL, the parameters are llama.cpp's own, and what it throws it
    // catches itself.
    unsafe { sys::llama_model_quantize(input.as_ptr(), output.as_ptr(), &raw const params) == 0 }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use llama_cpp_sys_2 as sys;

    use crate::model::weights::TYPES;

    #[test]
    fn numbers_are_those_of_llama_cpp() {
        for (name, number) in TYPES {
            // SAFETY: returns a static NUL-terminated text for any number.
            let known = unsafe { CStr::from_ptr(sys::llama_ftype_name(number)) };
            let known = known.to_string_lossy().replace(" - ", "_");
            let short = name.trim_end_matches("_MOE");
            let family: String = short.chars().take(4).collect();
            assert!(known.contains(&family), "{name} is {known}");
        }
    }
}
