//! Suggestions for unknown names: "did you mean".

/// Finds the candidate that `name` was probably meant to be; `None` if no candidate is near.
///
/// Case does not count. One edit is allowed for every three characters; a swap of two neighbors is
/// one edit. A name that only lacks or adds a part (`Gate` for `GateCalculator`) is near, too.
///
/// ```
/// use graphmill_grammar::suggest::nearest;
/// assert_eq!(nearest("input_steam", ["input_stream", "output_stream"]), Some("input_stream"));
/// assert_eq!(nearest("color", ["name", "calculator"]), None);
/// ```
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    let allowed = (wanted.chars().count() / 3).max(1);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let lower = candidate.to_lowercase();
        // Names with very different lengths cannot be near, and counting their edits would be
        // expensive.
        let mut distance = match lower.len().abs_diff(wanted.len()) {
            far if far > 4 * allowed => far,
            _ => strsim::osa_distance(&wanted, &lower),
        };
        if distance > allowed {
            let (short, long) = if wanted.len() < lower.len() {
                (&wanted, &lower)
            } else {
                (&lower, &wanted)
            };
            if short.len() < 4
                || !(long.starts_with(short.as_str()) || long.ends_with(short.as_str()))
            {
                continue;
            }
            // Ranks behind every candidate that differs by typing errors.
            distance = allowed + long.len() - short.len();
        }
        if best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Finds the candidate that differs from `name` by one typing error: a missing, additional or
/// different character, or two swapped ones. Stricter than [`nearest`], for names that may well be
/// correct. Names that differ in digits count as a series and do not match.
pub fn slip<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = |name: &str| name.replace(|c: char| c.is_ascii_digit(), "");
    let own = letters(name);
    candidates.into_iter().find(|candidate| {
        name.len().abs_diff(candidate.len()) <= 4
            && name.len().min(candidate.len()) >= 4
            && strsim::osa_distance(name, candidate) == 1
            && letters(candidate) != own
    })
}

#[cfg(test)]
mod tests {
    use super::{nearest, slip};

    #[test]
    fn one_slip_is_no_more_than_one() {
        let names = ["model", "input_sequence_example"];
        assert_eq!(slip("modle", names), Some("model"));
        assert_eq!(slip("models", names), Some("model"));
        assert_eq!(slip("output_sequence_example", names), None);
        assert_eq!(slip("a", ["b"]), None);
        assert_eq!(slip("frame_1", ["frame_2", "frame"]), None);
    }

    #[test]
    fn slips_of_the_keys_are_found() {
        let fields = [
            "name",
            "calculator",
            "input_stream",
            "output_stream",
            "input_stream_info",
            "options",
        ];
        for (typed, meant) in [
            ("input_stram", "input_stream"),
            ("calculater", "calculator"),
            ("nmae", "name"),
            ("Options", "options"),
            ("ouput_stream", "output_stream"),
            ("input_stream_inf", "input_stream_info"),
        ] {
            assert_eq!(nearest(typed, fields), Some(meant), "{typed}");
        }
    }

    #[test]
    fn a_name_without_its_ending_is_found_and_a_strange_one_is_not() {
        let calculators = ["GateCalculator", "MuxCalculator", "PassThroughCalculator"];
        assert_eq!(
            nearest("PassThrough", calculators),
            Some("PassThroughCalculator")
        );
        assert_eq!(nearest("Gate", calculators), Some("GateCalculator"));
        assert_eq!(nearest("Elephant", calculators), None);
        assert_eq!(nearest("", calculators), None);
    }
}
