//! An expanded graph as boxes and arrows, whatever they are drawn with.

use std::collections::HashMap;

use graphmill_engine::plan::{Explain, ExplainPort};

/// Boxes and the arrows between them.
pub(super) struct Drawing {
    /// The graph's inputs, then its nodes in the order in which packets pass them, then its outputs.
    pub(super) boxes: Vec<Block>,
    pub(super) arrows: Vec<Arrow>,
}

/// A box.
pub(super) struct Block {
    pub(super) kind: BlockKind,
    pub(super) name: String,
    /// What stands under the name.
    pub(super) lines: Vec<String>,
    /// The subgraphs it comes from, outermost first.
    pub(super) within: Vec<String>,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    Input,
    Node,
    Output,
}

/// An arrow from box to box, by position.
pub(super) struct Arrow {
    pub(super) from: usize,
    pub(super) to: usize,
    /// The stream or side packet, and what it carries.
    pub(super) label: String,
    pub(super) kind: ArrowKind,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum ArrowKind {
    Stream,
    BackEdge,
    SidePacket,
}

impl Drawing {
    pub(super) fn of(explain: &Explain) -> Self {
        let mut drawing = Self {
            boxes: Vec::new(),
            arrows: Vec::new(),
        };
        let mut streams = HashMap::new();
        let mut sides = HashMap::new();
        for (names, producers, word) in [
            (&explain.inputs, &mut streams, "input stream"),
            (&explain.side_inputs, &mut sides, "input side packet"),
        ] {
            for name in names {
                producers.insert(name.as_str(), drawing.boxes.len());
                drawing.add(BlockKind::Input, name, vec![word.to_owned()], &[]);
            }
        }
        let first = drawing.boxes.len();
        for (at, node) in explain.nodes.iter().enumerate() {
            let lines = [
                (node.calculator != node.name).then(|| node.calculator.clone()),
                (node.policy != "Default").then(|| node.policy.clone()),
                (node.runs != "inline").then(|| node.runs.clone()),
            ];
            drawing.add(
                BlockKind::Node,
                &node.name,
                lines.into_iter().flatten().collect(),
                &node.within,
            );
            let streams_made = node
                .outputs
                .iter()
                .map(|port| (port.name.as_str(), first + at));
            streams.extend(streams_made);
            sides.extend(
                node.side_outputs
                    .iter()
                    .map(|port| (port.name.as_str(), first + at)),
            );
        }
        for (at, node) in explain.nodes.iter().enumerate() {
            for port in &node.inputs {
                let kind = if port.back_edge {
                    ArrowKind::BackEdge
                } else {
                    ArrowKind::Stream
                };
                drawing.join(&streams, port, first + at, kind);
            }
            for port in &node.side_inputs {
                drawing.join(&sides, port, first + at, ArrowKind::SidePacket);
            }
        }
        for (names, producers, word, kind) in [
            (
                &explain.outputs,
                &streams,
                "output stream",
                ArrowKind::Stream,
            ),
            (
                &explain.side_outputs,
                &sides,
                "output side packet",
                ArrowKind::SidePacket,
            ),
        ] {
            for name in names {
                if let Some(&from) = producers.get(name.as_str()) {
                    let to = drawing.boxes.len();
                    drawing.arrows.push(Arrow {
                        from,
                        to,
                        label: String::new(),
                        kind,
                    });
                }
                drawing.add(BlockKind::Output, name, vec![word.to_owned()], &[]);
            }
        }
        drawing
    }

    fn add(&mut self, kind: BlockKind, name: &str, lines: Vec<String>, within: &[String]) {
        self.boxes.push(Block {
            kind,
            name: name.to_owned(),
            lines,
            within: within.to_vec(),
        });
    }

    /// Adds the arrow from a stream's or side packet's producer; one that names a resource has none.
    fn join(
        &mut self,
        producers: &HashMap<&str, usize>,
        port: &ExplainPort,
        to: usize,
        kind: ArrowKind,
    ) {
        if let Some(&from) = producers.get(port.name.as_str()) {
            let label = match port.ty.as_str() {
                "any" => port.name.clone(),
                of => format!("{}: {of}", port.name),
            };
            self.arrows.push(Arrow {
                from,
                to,
                label,
                kind,
            });
        }
    }
}
