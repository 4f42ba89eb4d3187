//! Matmuls of the experts of a mixture: matrices of one shape, each multiplied by the activations
//! routed to it, and how threads divide them.

use std::cmp::Reverse;
use std::ops::Range;

use crate::data::format::Format;
use crate::data::panel::ROWS;

/// The experts of a mixture and the quantized activations that they are multiplied by.
#[derive(Clone, Copy)]
pub struct MixtureMatmul<'a> {
    /// The weights' format in the file.
    pub format: Format,
    /// Rows of an expert: elements of each result.
    pub rows: usize,
    /// Columns of an expert, and elements of an activation.
    pub cols: usize,
    /// Rows from the first of an expert to the first of the next: more than `rows`, and whole
    /// panels, where other matrices of the experts are between.
    pub step: usize,
    /// Matrices by which activations are multiplied.
    pub experts: Experts<'a>,
    /// Activations as `Kernels::quantize` left them.
    pub activations: &'a [u8],
    /// The gates of the experts, if they have any, of the same format, shape and step, and how
    /// results are gated by what these make of the activation.
    pub gates: Option<(Experts<'a>, Gating)>,
    /// Factor of each result; `None` means 1.
    pub weights: Option<&'a [f32]>,
}

/// A matrix of each expert.
#[derive(Clone, Copy)]
pub struct Experts<'a> {
    /// Begins with the first expert's, as `Kernels::pack` left it.
    pub panels: &'a [u8],
    /// Addends of the products of each row, those of the first expert first; `None` means 0.
    pub biases: Option<&'a [f32]>,
}

/// Function by which `g` gates a result `r`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gating {
    /// `r g / (1 + e^-g)`, called `SwiGLU`.
    Silu,
    /// `r` by the `tanh` form of GELU of `g`, called `GeGLU`.
    Gelu,
    /// `(r + 1) g / (1 + e^-(alpha g))`, of `g` that is at most `limit`, and `r` that is at most as far
    /// from 0: that of gpt-oss.
    Oai {
        /// Steepness of the gate.
        alpha: f32,
        /// Bound of `g` from above, and of `r` on both sides of 0.
        limit: f32,
    },
}

/// An activation that is routed to an expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The index of the expert.
    pub expert: usize,
    /// The index of the activation.
    pub activation: usize,
    /// The index of the result, which is this route's alone.
    pub result: usize,
}

/// The routes of a matmul by expert, and its parts. It may be reused for the next matmul.
#[derive(Debug, Default)]
pub struct Plan {
    /// Routes of an expert follow each other.
    routes: Vec<Route>,
    /// End of the routes of each expert, behind those of all experts before it.
    ends: Vec<usize>,
    parts: Vec<ExpertPart>,
}

/// Some of an expert's panels times all activations that are routed to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExpertPart {
    pub(crate) expert: usize,
    pub(crate) panels: Range<usize>,
    routes: Range<usize>,
}

/// Parts that a thread should get, so that all end together.
const PARTS_PER_THREAD: usize = 8;
/// With fewer activations than this, a part takes the time in which its weights come from memory.
const FEW: usize = 8;
/// Panels that a part of few activations has at least.
const MIN_PANELS_FEW: usize = 2;
/// Fewest panels of a part of more activations: each part gathers them for itself.
const MIN_PANELS: usize = 8;

impl Plan {
    /// Plans the matmul of `experts` experts of `rows` rows for some threads. Threads with the same
    /// routes compute the same plan.
    ///
    /// # Panics
    /// If there is no such expert.
    pub fn make(
        &mut self,
        (experts, rows): (usize, usize),
        threads: usize,
        routes: impl Iterator<Item = Route> + Clone,
    ) {
        self.sort(experts, routes);
        let panels = rows.div_ceil(ROWS);
        let weight =
            |routes: &Range<usize>| routes.len().max(FEW) * usize::from(!routes.is_empty());
        let total: usize = (0..experts)
            .map(|expert| weight(&self.expert_routes(expert)))
            .sum();
        let wanted = threads.max(1) * PARTS_PER_THREAD;
        self.parts.clear();
        for expert in 0..experts {
            let routes = self.expert_routes(expert);
            if routes.is_empty() {
                continue;
            }
            let least = if routes.len() > FEW {
                MIN_PANELS
            } else {
                MIN_PANELS_FEW
            };
            let share = (wanted * weight(&routes)).div_ceil(total);
            let strips = share.min(panels / least).max(1);
            self.parts.extend((0..strips).map(|strip| ExpertPart {
                expert,
                panels: panels * strip / strips..panels * (strip + 1) / strips,
                routes: routes.clone(),
            }));
        }
        // The longest first, so that the last ones to be taken are short.
        self.parts
            .sort_by_key(|part| Reverse(part.panels.len() * weight(&part.routes)));
    }

    /// Returns the number of parts, each for one thread.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// A part, and the routes that it computes.
    pub(crate) fn part(&self, number: usize) -> (&ExpertPart, &[Route]) {
        let part = &self.parts[number];
        (part, &self.routes[part.routes.clone()])
    }

    /// The routes of an expert.
    fn expert_routes(&self, expert: usize) -> Range<usize> {
        let first = expert.checked_sub(1).map_or(0, |before| self.ends[before]);
        first..self.ends[expert]
    }

    /// Sorts routes by expert, by counting them.
    fn sort(&mut self, experts: usize, routes: impl Iterator<Item = Route> + Clone) {
        self.ends.clear();
        self.ends.resize(experts, 0);
        let mut count = 0;
        for Route { expert, .. } in routes.clone() {
            assert!(expert < experts, "expert {expert} of {experts}");
            self.ends[expert] += 1;
            count += 1;
        }
        // Where the next route of each expert goes: in the end, where those of the expert end.
        let mut first = 0;
        for end in &mut self.ends {
            first += std::mem::replace(end, first);
        }
        let none = Route {
            expert: 0,
            activation: 0,
            result: 0,
        };
        self.routes.clear();
        self.routes.resize(count, none);
        for route in routes {
            let place = &mut self.ends[route.expert];
            self.routes[*place] = route;
            *place += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(experts: usize, rows: usize, threads: usize, chosen: &[usize]) -> Plan {
        let mut plan = Plan::default();
        let routes = chosen.iter().enumerate().map(|(number, expert)| Route {
            expert: *expert,
            activation: number / 2,
            result: number,
        });
        plan.make((experts, rows), threads, routes);
        plan
    }

    #[test]
    fn each_route_has_each_panel_once() {
        let chosen = [3, 1, 3, 0, 3, 1, 3, 3, 3, 3, 3, 3, 3, 3];
        for (rows, threads) in [(1_usize, 1), (33, 2), (512, 3), (1000, 64)] {
            let panels = rows.div_ceil(ROWS);
            let plan = plan(5, rows, threads, &chosen);
            let mut times = vec![0; chosen.len() * panels];
            for number in 0..plan.parts() {
                let (part, routes) = plan.part(number);
                for route in routes {
                    assert_eq!(route.expert, part.expert);
                    assert_eq!(route.expert, chosen[route.result]);
                    for panel in part.panels.clone() {
                        times[route.result * panels + panel] += 1;
                    }
                }
            }
            assert!(times.iter().all(|times| *times == 1), "{rows} rows");
        }
    }

    #[test]
    fn experts_that_nothing_is_sent_to_have_no_part() {
        assert_eq!(plan(8, 512, 2, &[]).parts(), 0);
        let one = plan(8, 32, 2, &[5]);
        assert_eq!((one.parts(), one.part(0).0.expert), (1, 5));
    }

    #[test]
    fn the_longest_parts_come_first() {
        let chosen: Vec<usize> = (0..100).map(|number| usize::from(number >= 20)).collect();
        let plan = plan(2, 32, 2, &chosen);
        let lengths: Vec<_> = (0..plan.parts()).map(|at| plan.part(at).1.len()).collect();
        assert_eq!(lengths, [80, 20]);
    }

    #[test]
    #[should_panic(expected = "expert 2 of 2")]
    fn an_expert_that_there_is_not_is_a_panic() {
        plan(2, 32, 1, &[0, 2]);
    }
}
