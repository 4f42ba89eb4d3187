//! The nearest name to one that does not exist: "did you mean".

/// Finds the candidate that `name` was probably meant to be, or none when nothing is near.
///
/// Case does not count, one edit is allowed for every three characters (two swapped neighbours are one edit), and a name
/// that only lacks or adds a part (`Gate` for `GateCalculator`) is near too.
///
/// ```
/// use graphmill_grammar::suggest::nearest;
/// assert_eq!(nearest("input_steam", ["input_stream", "output_stream"]), Some("input_stream"));
/// assert_eq!(nearest("colour", ["name", "calculator"]), None);
/// ```
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    let allowed = (wanted.chars().count() / 3).max(1);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let lower = candidate.to_lowercase();
        let mut distance = strsim::osa_distance(&wanted, &lower);
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
            // Behind every candidate that differs by a slip of the keys.
            distance = allowed + long.len() - short.len();
        }
        if best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

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
