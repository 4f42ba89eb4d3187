//! The table of the families of models, with the patterns of their calls.

use super::CallFamily;
use super::spelling::Pattern;
use crate::text::formats::{Formats, NamedFormat};

/// The source of the ids of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ids {
    /// Random, with the prefix `call_`.
    Random,
    /// Random, with nine letters and digits: Mistral's templates refuse any other.
    Nine,
    /// The one that the model wrote, or a random one if it wrote none.
    Written,
}

/// Base pattern, of which others override fields.
const PLAIN: Pattern = Pattern {
    call: "$object",
    section: ("", ""),
    between: "",
    parameter: "",
    taught_by: "",
    bare: false,
    single: false,
};
const ARRAY: Pattern = Pattern {
    between: ", ",
    ..PLAIN
};
const NAMED: &str = "<parameter name=\"$key\">$value</parameter>\n";
const QWEN: &str = "<parameter=$key>\n$value\n</parameter>\n";
const DSML: Pattern = Pattern {
    call: "<｜DSML｜invoke name=\"$name\">\n$parameters</｜DSML｜invoke>\n",
    parameter: "<｜DSML｜parameter name=\"$key\" string=\"$text\">$value</｜DSML｜parameter>\n",
    ..PLAIN
};
const DEEPSEEK: Pattern = Pattern {
    section: ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
    ..PLAIN
};

macro_rules! families {
    ($($names:expr, $taught_by:expr, $ids:ident: $({ $($field:ident: $value:expr),* ; $rest:expr })+;)+) => {
        /// All families. The last one is for templates that teach none of the others.
        pub(crate) static FORMATS: Formats<CallFamily> = Formats {
            of: "tool calls",
            all: &[$(NamedFormat {
                names: &$names,
                format: &CallFamily {
                    patterns: &[$(Pattern { $($field: $value,)* ..$rest }),+],
                    ids: Ids::$ids,
                },
                taught_by: &$taught_by,
            }),+],
        };
    };
}

families! {
    ["gptoss", "gpt_oss", "harmony", "openai"], [&["<|channel|>"]], Random:
        { call: "$harmony$json$?<|call|>$?<|end|>", single: true; PLAIN };
    ["onyx", "muse_glimmer"], [&["<atem:function_calls>"]], Random:
        { call: "<atem:invoke name=\"$name\">\n$parameters</atem:invoke>\n", parameter: "<atem:parameter name=\"$key\">$value</atem:parameter>\n",
          section: ("<atem:function_calls>\n", "</atem:function_calls>"); PLAIN };
    ["gemma4"], [&["<|tool_call>"]], Random:
        { call: "<|tool_call>call:$name$gemma<tool_call|>"; PLAIN };
    ["deepseek_v32", "deepseek_v4", "dsml"], [&["DSML"]], Random:
        { section: ("<｜DSML｜function_calls>\n", "</｜DSML｜function_calls>"), taught_by: "function_calls"; DSML }
        { section: ("<｜DSML｜tool_calls>\n", "</｜DSML｜tool_calls>"); DSML };
    ["glm45", "glm47", "glm", "ling3"], [&["<arg_key>", "<arg_value>"]], Random:
        { call: "<tool_call>$name$parameters</tool_call>", parameter: "<arg_key>$key</arg_key><arg_value>$value</arg_value>", taught_by: "</arg_key><arg_value>"; PLAIN }
        { call: "<tool_call>$name\n$parameters</tool_call>", parameter: "<arg_key>$key</arg_key>\n<arg_value>$value</arg_value>\n", between: "\n"; PLAIN };
    ["minimax_m2", "minimax"], [&["<minimax:tool_call>"]], Random:
        { call: "<invoke name=\"$name\">\n$parameters</invoke>\n", parameter: NAMED, section: ("<minimax:tool_call>\n", "</minimax:tool_call>"); PLAIN };
    ["kimi_k2", "kimi"], [&["<|tool_calls_section_begin|>"]], Written:
        { call: "<|tool_call_begin|>$numbered<|tool_call_argument_begin|>$json<|tool_call_end|>",
          section: ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"); PLAIN };
    ["lfm2", "lfm25"], [&["<|tool_call_start|>"], &["<|tool_list_start|>"], &["List of tools: ["]], Random:
        { call: "$python", section: ("<|tool_call_start|>[", "]<|tool_call_end|>"); ARRAY }
        { section: ("<|tool_call_start|>[", "]<|tool_call_end|>"); ARRAY };
    ["command_r", "command_a", "cohere"], [&["<|START_ACTION|>"], &["Action:", "tool_name"]], Random:
        { call: "$cohere", section: ("<|START_ACTION|>[\n", "\n]<|END_ACTION|>"), between: ",\n", taught_by: "<|START_ACTION|>"; PLAIN }
        { call: "$cohere", section: ("Action:\n```json\n[\n", "\n]```"), between: ",\n"; PLAIN };
    ["apertus"], [&["<|tools_prefix|>"]], Random:
        { call: "{\"$name\": $json}", section: ("<|tools_prefix|>[", "]<|tools_suffix|>"); ARRAY };
    ["hunyuan", "hunyuan_a13b", "jamba", "minimax_m1"], [&["<tool_calls>", "</tool_calls>"]], Random:
        { section: ("<tool_calls>[", "]</tool_calls>"); ARRAY }
        { section: ("<tool_calls>\n", "\n</tool_calls>"), between: "\n"; PLAIN };
    ["nemotron", "nemotron_nano_v2"], [&["<TOOLCALL>"]], Random:
        { section: ("<TOOLCALL>[", "]</TOOLCALL>"); ARRAY };
    ["olmo3", "olmo"], [&["<function_calls>"]], Random:
        { call: "$python", section: ("<function_calls>\n", "\n</function_calls>"), between: "\n"; PLAIN };
    ["minicpm5"], [&["<function name=\"", "<param name=\""]], Random:
        { call: "<function name=\"$name\">$parameters</function>", parameter: "<param name=\"$key\">$cdata</param>", between: "\n"; PLAIN };
    ["seed_oss", "seed"], [&["<seed:tool_call>"]], Random:
        { call: "<seed:tool_call>\n<function=$name>\n$parameters</function>\n</seed:tool_call>", parameter: "<parameter=$key>$value</parameter>\n", between: "\n"; PLAIN };
    ["qwen3coder", "qwen3_coder", "qwen3_xml", "nemotron3", "step3p5"], [&["<function=", "<parameter="]], Random:
        { call: "<tool_call>\n<function=$name>\n$parameters</function>\n</tool_call>", parameter: QWEN, between: "\n"; PLAIN }
        { call: "<function=$name>\n$parameters</function>$?</tool_call>", parameter: QWEN; PLAIN };
    ["granite", "granite3"], [&["<|tool_call|>", "<|start_of_role|>"]], Random:
        { section: ("<|tool_call|>[", "]"); ARRAY };
    ["phi4", "phi4_mini_json", "functools"], [&["functools"], &["<|tool_call|>"], &["<|/tool|>"]], Random:
        { section: ("functools[", "]"), taught_by: "functools"; ARRAY }
        { section: ("<|tool_call|>[", "]<|/tool_call|>"); ARRAY }
        { call: "<|tool_call|>$object<|/tool_call|>"; PLAIN };
    ["mistral", "devstral", "ministral"], [&["[TOOL_CALLS]"], &["[AVAILABLE_TOOLS]"]], Nine:
        { call: "[TOOL_CALLS]$name[ARGS]$json", taught_by: "[ARGS]"; PLAIN }
        { section: ("[TOOL_CALLS][", "]"); ARRAY }
        { call: "[TOOL_CALLS]$name[CALL_ID]$id[ARGS]$json"; PLAIN }
        { call: "[TOOL_CALLS]$name$json"; PLAIN };
    ["deepseek", "deepseek_v3", "deepseek_v31"], [&["<｜tool▁call▁begin｜>"]], Random:
        { call: "<｜tool▁call▁begin｜>function<｜tool▁sep｜>$name\n```json\n$json\n```<｜tool▁call▁end｜>", taught_by: "```json"; DEEPSEEK }
        { call: "<｜tool▁call▁begin｜>$name<｜tool▁sep｜>$json<｜tool▁call▁end｜>"; DEEPSEEK };
    ["pythonic", "llama4", "llama4_pythonic"], [&["<|python_start|>"]], Random:
        { call: "$python", section: ("[", "]"), bare: true; ARRAY }
        { call: "$python", section: ("<|python_start|>[", "]<|python_end|>"); ARRAY }
        { call: "<|python_start|>$llama<|python_end|>"; PLAIN }
        { call: "$llama", between: "; ", bare: true; PLAIN };
    ["llama3", "llama3_json", "llama"], [&["<|python_tag|>"]], Random:
        { call: "$llama", between: "; ", bare: true, single: true; PLAIN }
        { call: "$llama", section: ("<|python_tag|>", ""), between: "; "; PLAIN }
        { call: "<|python_tag|>$builtin"; PLAIN }
        { call: "<|python_tag|>$program"; PLAIN };
    ["hermes", "hermes3", "hermes2_pro", "qwen", "qwen25", "qwen3", "granite4"], [&["<tool_call>", "</tool_call>"]], Random:
        { call: "<tool_call>\n$object\n</tool_call>", between: "\n"; PLAIN };
    ["json", "generic"], [&[]], Random:
        { bare: true, single: true; PLAIN }
        { section: ("{\n\"tool_calls\"\n:\n[", "]\n}"), bare: true; ARRAY }
        { section: ("[", "]"), bare: true; ARRAY }
        { section: ("```\njson\n", "\n```"), bare: true; PLAIN }
        { section: ("```\njson\n[", "]\n```"), bare: true; ARRAY }
        { section: ("```\njson\n{\n\"tool_calls\"\n:\n[", "]\n}\n```"), bare: true; ARRAY }
        { section: ("```\n", "\n```"), bare: true; PLAIN }
        { section: ("```\n[", "]\n```"), bare: true; ARRAY }
        { call: "<tool_call>\n$object\n</tool_call>", between: "\n"; PLAIN };
}
