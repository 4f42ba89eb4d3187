//! Fields that say how a token is chosen.

use super::super::fields::code::{TYPE, VALUE};
use super::{BOTH, CHAT, COMPLETIONS, Field, Form, MOST, field, refused};

pub(super) const FIELDS: &[Field] = &[
    field(
        "temperature",
        BOTH,
        Form::Number(0.0, 2.0),
        "Divides the logits; 0 always takes the likeliest token.",
    ),
    field(
        "top_k",
        BOTH,
        Form::Integer(-1, i32::MAX as i64),
        "Keeps that many of the likeliest tokens; 0 and -1 keep all.",
    ),
    field(
        "top_p",
        BOTH,
        Form::Number(0.0, 1.0),
        "Keeps the fewest likeliest tokens that have this share of the probability together.",
    ),
    field(
        "min_p",
        BOTH,
        Form::Number(0.0, 1.0),
        "Drops tokens less likely than this share of the likeliest.",
    ),
    field(
        "presence_penalty",
        BOTH,
        Form::Number(-2.0, 2.0),
        "Subtracted from the logit of tokens that were generated.",
    ),
    field(
        "frequency_penalty",
        BOTH,
        Form::Number(-2.0, 2.0),
        "The same, as often as they were.",
    ),
    field(
        "repetition_penalty",
        BOTH,
        Form::Number(0.01, 100.0),
        "Makes tokens of the prompt and of the text less likely; 1 changes nothing.",
    ),
    field("repeat_penalty", BOTH, Form::Number(0.01, 100.0), "The same, where there is no `repetition_penalty`."),
    field("typical_p", BOTH, Form::Number(0.0, 1.0), "Keeps the tokens whose surprise is nearest to the expected one, the fewest with more than this share of the probability; 1 keeps all."),
    field("xtc_probability", BOTH, Form::Number(0.0, 1.0), "How often XTC is applied to a token."),
    field("xtc_threshold", BOTH, Form::Number(0.0, 1.0), "XTC drops the tokens that are at least so likely, but for the least likely of them; 0.1 when left out."),
    field("dynatemp_range", BOTH, Form::Number(0.0, 100.0), "The temperature is lower by up to this where the model is sure of the next token, and higher where it is not."),
    field("dynatemp_exponent", BOTH, Form::Number(0.0, 100.0), "How it grows with the entropy; 1, in proportion, when left out."),
    field("mirostat", BOTH, Form::Integer(0, 2), "1 and 2 keep the surprise near a target, in the place of `top_k`, `top_p`, `min_p`, `typical_p` and XTC."),
    field("mirostat_tau", BOTH, Form::Number(0.0, 100.0), "The target, in bits; 5 when left out."),
    field("mirostat_eta", BOTH, Form::Number(0.0, 100.0), "The share of each difference that is corrected; 0.1 when left out."),
    field("dry_multiplier", BOTH, Form::Number(0.0, 1000.0), "Subtracted from the logit of a token that makes a repetition longer than is allowed; 0 switches DRY off."),
    field("dry_base", BOTH, Form::Number(1.0, 1000.0), "How many times more for each token that it is longer; 1.75 when left out."),
    field("dry_allowed_length", BOTH, Form::Integer(0, MOST), "Tokens that may repeat; 2 when left out."),
    field("dry_penalty_last_n", BOTH, Form::Integer(-1, MOST), "Tokens that are searched for repetitions; -1, all, when left out."),
    field("dry_sequence_breakers", BOTH, Form::Array(32), "Texts that no repetition goes across, at most 32 of at most 64 characters; newline, colon, quotation mark and star when left out.").refusing(&[
        refused(r#"{"dry_sequence_breakers": [5]}"#, "dry_sequence_breakers[0]", TYPE),
        refused(r#"{"dry_sequence_breakers": ["a", ""]}"#, "dry_sequence_breakers[1]", VALUE),
    ]),
    field(
        "seed",
        BOTH,
        Form::Integer(0, i64::MAX),
        "The same seed gives the same choice; the n-th choice has the seed plus n.",
    ),
    field(
        "logit_bias",
        BOTH,
        Form::Own(
            "an object of numbers between -100 and 100 by token id, or an array of pairs of both; at most 4096",
        ),
        "Added to the logits of tokens. In an array, `false` bans a token.",
    )
    .refusing(&[
        refused(r#"{"logit_bias": 5}"#, "logit_bias", TYPE),
        refused(r#"{"logit_bias": {"a": 1}}"#, "logit_bias.a", VALUE),
        refused(r#"{"logit_bias": {"5": "a"}}"#, "logit_bias.5", TYPE),
        refused(r#"{"logit_bias": {"5": 101}}"#, "logit_bias.5", VALUE),
        refused(r#"{"logit_bias": {"5": -101}}"#, "logit_bias.5", VALUE),
        refused(r#"{"logit_bias": {"2000000000": 1}}"#, "logit_bias", VALUE),
        refused(r#"{"logit_bias": [5]}"#, "logit_bias[0]", TYPE),
        refused(r#"{"logit_bias": [[5]]}"#, "logit_bias[0]", TYPE),
        refused(
            r#"{"logit_bias": [[5, 1], ["a", 1]]}"#,
            "logit_bias[1]",
            TYPE,
        ),
        refused(r#"{"logit_bias": [[5, true]]}"#, "logit_bias[0]", TYPE),
        refused(r#"{"logit_bias": [[5, 200]]}"#, "logit_bias[0]", VALUE),
    ]),
    field(
        "logprobs",
        &[CHAT],
        Form::Boolean,
        "Tells the log probability of each token, under the model itself: before penalties, temperature and the rest.",
    ),
    field(
        "logprobs",
        &[COMPLETIONS],
        Form::Integer(0, 20),
        "The same, with those of that many likeliest tokens at each place.",
    ),
    field(
        "top_logprobs",
        &[CHAT],
        Form::Integer(0, 20),
        "With `logprobs`, tells those of that many likeliest tokens at each place.",
    ),
    field(
        "use_beam_search",
        BOTH,
        Form::Only(&["false"]),
        "Tokens are sampled, one text a choice.",
    ),
    field(
        "length_penalty",
        BOTH,
        Form::Only(&["1"]),
        "Only beams have one.",
    ),
    field(
        "early_stopping",
        BOTH,
        Form::Only(&["false"]),
        "Only beams have it.",
    ),
    field(
        "prompt_logprobs",
        BOTH,
        Form::Only(&["0"]),
        "Use `echo` with `logprobs` of completions.",
    ),
    field(
        "allowed_token_ids",
        BOTH,
        Form::Only(&[]),
        "Use `logit_bias`, or what constrains the answer.",
    ),
    field("bad_words", BOTH, Form::Only(&["[]"]), "Use `logit_bias`."),
    field(
        "logits_processors",
        BOTH,
        Form::Only(&["[]"]),
        "The order of sampling is fixed.",
    ),
    field(
        "samplers",
        BOTH,
        Form::Only(&[]),
        "The order of sampling is fixed.",
    ),
];
