//! Formats of texts that are not written as JSON, equal to those that are enforced in JSON.

const DATE: &str = "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|[0-9]{2}(?:0[48]|[2468][048]|[13579][26])-02-29)";
const TIME: &str = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:[.][0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
const HOST: &str = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:[.][A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*";
const BYTE: &str = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
/// A group of an IPv6 address, and characters of an e-mail address and of a URI.
const GROUP: &str = "[0-9a-fA-F]{1,4}";
const ATOM: &str = "[A-Za-z0-9!#$%&'*+\\/=?^_`{|}~-]+";
const URI: &str = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9a-fA-F]{2})";

/// Returns the expression of Lark for a format; `None` if it has no effect.
pub(super) fn expression(format: &str) -> Option<String> {
    let expression = match format {
        "date" => DATE.to_owned(),
        "time" => TIME.to_owned(),
        "date-time" => format!("{DATE}T{TIME}"),
        "duration" => {
            let [second, day] = ["S", "D"].map(|unit| format!("[0-9]{{1,9}}{unit}"));
            let [minute, month] = [("M", &second), ("M", &day)].map(led);
            let [hour, year] = [("H", &minute), ("Y", &month)].map(led);
            let time = format!("T(?:{hour}|{minute}|{second})");
            format!("P(?:(?:{year}|{month}|{day})(?:{time})?|{time}|[0-9]{{1,9}}W)")
        }
        "email" => format!("{ATOM}(?:[.]{ATOM})*@{HOST}"),
        "hostname" => HOST.to_owned(),
        "ipv4" => format!("(?:{BYTE}[.]){{3}}{BYTE}"),
        "ipv6" => {
            let short = (1..7).map(|left| {
                let right = 7 - left;
                format!("(?:{GROUP}:){{1,{left}}}(?::{GROUP}){{1,{right}}}|")
            });
            let short: String = short.collect();
            let all = format!("(?:{GROUP}:){{7}}{GROUP}");
            format!("{short}(?:{GROUP}:){{1,7}}:|:(?::{GROUP}){{1,7}}|::|{all}")
        }
        "uuid" => "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}".to_owned(),
        "uri" => {
            let path = format!("(?:{URI}|\\/)*");
            format!(
                "[A-Za-z][A-Za-z0-9+.-]*:(?:\\/\\/[A-Za-z0-9._~-]*(?::[0-9]{{1,5}})?(?:\\/{path})?|\\/(?:{URI}{path})?|{URI}{path})?(?:\\?(?:{URI}|[\\/?])*)?(?:\\#(?:{URI}|[\\/?])*)?"
            )
        }
        _ => return None,
    };
    Some(format!("/(?:{expression})/"))
}

/// Returns the expression of numbers of a unit, after which numbers of a smaller one may follow.
fn led((unit, smaller): (&str, &String)) -> String {
    format!("[0-9]{{1,9}}{unit}(?:{smaller})?")
}
