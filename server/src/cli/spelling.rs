//! Spellings of a command line that clap does not know: flags with dashes inside, or with several
//! letters after one dash, and flags without a command.

use std::ffi::OsString;

/// Flags of llama-server with several letters after one dash, and the flags here.
const SINGLE_DASH: [(&str, &str); 19] = [
    ("-hf", "--hf_repo"),
    ("-hfr", "--hf_repo"),
    ("-hff", "--hf_file"),
    ("-m", "--model"),
    ("-a", "--alias"),
    ("-mm", "--mmproj"),
    ("-md", "--model_draft"),
    ("-c", "--ctx_size"),
    ("-np", "--parallel"),
    ("-b", "--max_num_batched_tokens"),
    ("-ub", "--ubatch_size"),
    ("-t", "--threads"),
    ("-tb", "--threads_batch"),
    ("-ngl", "--n_gpu_layers"),
    ("-fa", "--flash_attn"),
    ("-ctk", "--cache_type_k"),
    ("-ctv", "--cache_type_v"),
    ("-n", "--predict"),
    ("-cb", "--cont_batching"),
];

/// Rewrites flags with underscores, and adds the command that a command line of OpenVINO Model
/// Server leaves out.
pub(super) fn normalized(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut normalized: Vec<OsString> = Vec::new();
    let mut flags_ended = false;
    for argument in arguments {
        flags_ended |= argument == "--";
        let single = SINGLE_DASH.iter().find(|(flag, _)| argument == *flag);
        let single = single.filter(|_| !flags_ended);
        let argument = single.map_or(argument, |(_, flag)| OsString::from(flag));
        let flag = argument.to_str().and_then(|it| it.strip_prefix("--"));
        let Some(flag) = flag.filter(|_| !flags_ended) else {
            normalized.push(argument);
            continue;
        };
        let (name, value) = flag.find('=').map_or((flag, ""), |at| flag.split_at(at));
        if normalized.len() == 1 && !matches!(name, "help" | "version") {
            normalized.push("serve".into());
        }
        normalized.push(format!("--{}{value}", name.replace('-', "_")).into());
    }
    normalized
}
