//! Indexes of the ports of a node: numbers of those without a tag, and checks of those with one.

use super::port::{MAX_INDEX, PortSpec};
use super::table::Lowering;
use crate::codes::ports;
use crate::diag::Diagnostic;

/// Numbers the ports without a tag and checks that each tag's indexes are `0..n`, each given once.
pub(super) fn number(ports: &mut [PortSpec], cx: &mut Lowering) {
    let untagged = ports.iter_mut().filter(|port| port.tag.is_empty());
    for (index, port) in untagged.enumerate() {
        port.index = index as u32;
    }
    let mut sorted: Vec<&PortSpec> = ports.iter().filter(|port| !port.tag.is_empty()).collect();
    sorted.sort_by(|a, b| (&a.tag.value, a.index).cmp(&(&b.tag.value, b.index)));
    for tag in sorted.chunk_by(|a, b| a.tag.value == b.tag.value) {
        let free = free_index(tag);
        let mut expected = 0;
        for (i, port) in tag.iter().enumerate() {
            if i > 0 && tag[i - 1].index == port.index {
                cx.report(given_twice(tag[i - 1], port, free));
            } else if port.index > expected {
                cx.report(gap(port, expected));
                break;
            } else {
                expected += 1;
            }
        }
    }
}

/// Returns the first index that no port has. The ports are sorted by index.
fn free_index(tag: &[&PortSpec]) -> Option<u32> {
    let mut free = 0;
    for port in tag {
        if port.index == free {
            free += 1;
        }
    }
    (free <= MAX_INDEX).then_some(free)
}

fn given_twice(first: &PortSpec, second: &PortSpec, free: Option<u32>) -> Diagnostic {
    let (name, index) = (&second.tag, second.index);
    let message = format!("index {index} of tag `{name}` is given twice");
    let diagnostic = Diagnostic::error(&ports::DUPLICATE_PORT, second.span, message)
        .label("given again here")
        .also(first.span, "first given here");
    let Some(free) = free else {
        return diagnostic;
    };
    let free = format!("{name}:{free}:{}", second.name);
    let advice = format!("give it the next free index: `{free}`");
    // Joined or escaped literals are left to the user.
    let is_verbatim = [
        format!("{name}:{}", second.name),
        format!("{name}:{index}:{}", second.name),
    ]
    .iter()
    .any(|written| written.len() == second.span.len());
    diagnostic.advise(advice, is_verbatim.then_some((second.span, free)))
}

fn gap(port: &PortSpec, missing: u32) -> Diagnostic {
    let tag = &port.tag;
    let index = port.index;
    let message = format!("tag `{tag}` has index {index} but no index {missing}");
    Diagnostic::error(&ports::MISSING_INDEX, port.span, message)
        .label(format!("index {missing} is missing"))
        .hint(format!(
            "the indexes of a tag begin at 0 and have no gaps: is this `{tag}:{missing}:{}`?",
            port.name
        ))
}
