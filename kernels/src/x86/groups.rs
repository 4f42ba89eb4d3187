//! The order of a span's panels.

use std::ops::Range;

/// Panels whose weights are read in turn for few activations: memory gives more from two places at
/// once.
const PANELS_FEW: usize = 2;

/// The panels of a span, some at a time.
pub(crate) struct Groups<'a> {
    panels: &'a Range<usize>,
    /// Panels of a group; the last may have fewer.
    each: usize,
    /// From one of them to the next.
    step: usize,
    /// From a group's first to the next group's.
    advance: usize,
}

impl<'a> Groups<'a> {
    /// Panels that follow each other, at most so many.
    pub(crate) fn neighbors(panels: &'a Range<usize>, each: usize) -> Self {
        let each = each.max(1);
        Self {
            panels,
            each,
            step: 1,
            advance: each,
        }
    }

    /// A few panels that are far from each other, so that at each place the next group's panel
    /// follows. Panels that are left over are neighbors.
    pub(crate) fn apart(panels: &'a Range<usize>) -> Self {
        Self {
            panels,
            each: PANELS_FEW,
            step: (panels.len() / PANELS_FEW).max(1),
            advance: 1,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = impl Iterator<Item = usize> + Clone> {
        let (first, count) = (self.panels.start, self.panels.len());
        let full = count / self.each;
        (0..count.div_ceil(self.each)).map(move |group| {
            let (offset, step, panels) = if group == full {
                (full * self.each, 1, count % self.each)
            } else {
                (group * self.advance, self.step, self.each)
            };
            (first + offset..).step_by(step).take(panels)
        })
    }
}
