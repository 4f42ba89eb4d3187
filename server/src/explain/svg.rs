//! Drawings as pictures.

use std::fmt::Write as _;

use petgraph::graph::{Edge, NodeIndex};

use super::{
    drawing::{Arrow, ArrowKind, Block, BlockKind, Drawing},
    layout::{Area, Layout, layout},
};

/// Around the picture, in pixels.
const MARGIN: f64 = 24.0;
/// Height of a line of text in a box.
const LINE: f64 = 15.0;
/// How many labels stand above each other between two layers.
const LABEL_ROWS: usize = 4;
/// Between two back edges at the right side.
const LANE: f64 = 16.0;
/// The colors of boxes by the subgraph they come from, again from the first where there are more.
const TINTS: [&str; 6] = [
    "#fff3d6", "#e3f1e1", "#e6e6fa", "#fde4e4", "#def2f5", "#f3e6f5",
];

/// About the width of a letter in a label, in pixels.
const LABEL_LETTER: f64 = 5.6;

/// The arrows' heads.
const HEAD: &str = "<defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
                    orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" style=\"fill:#57606a;stroke:none\"/></marker></defs>";

const STYLE: &str = "text{font:11px system-ui,sans-serif;fill:#1b1f24;text-anchor:middle}\
.name{font-weight:600;font-size:12px}.small{fill:#57606a;font-size:10px}\
.label{fill:#57606a;font-size:9.5px;paint-order:stroke;stroke:#fff;stroke-width:3px}\
path{fill:none;stroke:#57606a;stroke-width:1.2}.back{stroke-dasharray:6 3;stroke:#b35900}.side{stroke-dasharray:2 3}\
rect{stroke:#57606a;stroke-width:1}";

/// The drawing as a picture in the language of browsers.
pub(super) fn svg(drawing: &Drawing) -> String {
    let sizes: Vec<(f64, f64)> = drawing.node_weights().map(size).collect();
    let layout = layout(drawing, &sizes);
    let mut arrows = Arrows::new(layout.width);
    let ports = ports(drawing, &layout);
    for (at, arrow) in drawing.raw_edges().iter().enumerate() {
        let (from, to) = ends(&layout, arrow);
        if arrow.weight.kind == ArrowKind::BackEdge || to.top <= from.top {
            arrows.back(&layout, arrow);
        } else {
            arrows.down(&layout, arrow, &layout.bends[at], ports[at]);
        }
    }
    let mut boxes = String::new();
    let mut tints: Vec<&str> = Vec::new();
    for (block, area) in drawing.node_weights().zip(&layout.boxes) {
        draw_box(&mut boxes, block, *area, &mut tints);
    }
    let (left, top) = (arrows.left - MARGIN, -MARGIN);
    let width = arrows.right - arrows.left + 2.0 * MARGIN;
    let height = layout.height + 2.0 * MARGIN;
    let place = format!("width=\"{width:.0}\" height=\"{height:.0}\"");
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" {place} viewBox=\"{left:.0} {top:.0} {width:.0} {height:.0}\">\n\
         <style>{STYLE}</style>\n{HEAD}\n\
         <rect x=\"{left:.0}\" y=\"{top:.0}\" {place} style=\"fill:#fff;stroke:none\"/>\n{}{boxes}{}</svg>\n",
        arrows.paths, arrows.labels
    )
}

/// The lines of a box, the subgraph it is from included.
fn lines(block: &Block) -> Vec<String> {
    let within = (!block.within.is_empty()).then(|| format!("in {}", block.within.join(" > ")));
    block.lines.iter().cloned().chain(within).collect()
}

fn size(block: &Block) -> (f64, f64) {
    let lines = lines(block);
    let widest = lines
        .iter()
        .map(|line| width_of(line, 5.6))
        .fold(width_of(&block.name, 7.0), f64::max);
    (widest + 20.0, (lines.len() + 1) as f64 * LINE + 12.0)
}

/// About how wide a text is; letters differ, and browsers too.
fn width_of(text: &str, letter: f64) -> f64 {
    text.chars().count() as f64 * letter
}

fn draw_box<'a>(out: &mut String, block: &'a Block, area: Area, tints: &mut Vec<&'a str>) {
    let (round, fill) = match (block.kind, block.within.first()) {
        (BlockKind::Input | BlockKind::Output, _) => (area.height / 2.0, "#eaeef2"),
        (BlockKind::Node, None) => (4.0, "#ffffff"),
        (BlockKind::Node, Some(outermost)) => {
            let known = tints.iter().position(|tint| tint == outermost);
            let at = known.unwrap_or_else(|| {
                tints.push(outermost);
                tints.len() - 1
            });
            (4.0, TINTS[at % TINTS.len()])
        }
    };
    let _ = writeln!(
        out,
        "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"{round:.1}\" fill=\"{fill}\"/>",
        area.left, area.top, area.width, area.height
    );
    let x = area.middle();
    let mut y = area.top + 6.0 + LINE * 0.75;
    let _ = writeln!(
        out,
        "<text class=\"name\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
        escaped(&block.name)
    );
    for line in lines(block) {
        y += LINE;
        let _ = writeln!(
            out,
            "<text class=\"small\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
            escaped(&line)
        );
    }
}

/// The boxes that an arrow comes from and goes to.
fn ends(layout: &Layout, arrow: &Edge<Arrow>) -> (Area, Area) {
    let area = |at: NodeIndex| layout.boxes[at.index()];
    (area(arrow.source()), area(arrow.target()))
}

/// Where an arrow meets a box: its place among those on the same side.
#[derive(Copy, Clone)]
struct Port {
    at: usize,
    of: usize,
}

impl Port {
    /// Its place on a side of this area.
    fn x(self, area: Area) -> f64 {
        area.left + area.width * (self.at + 1) as f64 / (self.of + 1) as f64
    }
}

/// By arrow: where it leaves its first box, and where it meets its last, from left to right by
/// where it comes from.
fn ports(drawing: &Drawing, layout: &Layout) -> Vec<(Port, Port)> {
    let arrows = drawing.raw_edges();
    let mut ports = vec![(Port { at: 0, of: 1 }, Port { at: 0, of: 1 }); arrows.len()];
    for leaving in [true, false] {
        let mut sides: Vec<Vec<(usize, f64)>> = vec![Vec::new(); drawing.node_count()];
        for (at, arrow) in arrows.iter().enumerate() {
            if arrow.weight.kind == ArrowKind::BackEdge {
                continue;
            }
            let bends = &layout.bends[at];
            let (from, to) = (arrow.source().index(), arrow.target().index());
            let (own, other, bend) = if leaving {
                (from, to, bends.first())
            } else {
                (to, from, bends.last())
            };
            let other = bend.map_or(layout.boxes[other], |bend| *bend).middle();
            sides[own].push((at, other));
        }
        for mut side in sides {
            side.sort_by(|a, b| a.1.total_cmp(&b.1));
            for (place, &(at, _)) in side.iter().enumerate() {
                let port = Port {
                    at: place,
                    of: side.len(),
                };
                if leaving {
                    ports[at].0 = port;
                } else {
                    ports[at].1 = port;
                }
            }
        }
    }
    ports
}

/// The pieces of a picture that arrows are.
struct Arrows {
    /// How far they and all else go to the left and right.
    left: f64,
    right: f64,
    paths: String,
    labels: String,
    /// Back edges that were drawn.
    lanes: usize,
}

impl Arrows {
    /// None yet, in a picture of boxes that are as wide as this together.
    fn new(width: f64) -> Self {
        Self {
            left: 0.0,
            right: width,
            paths: String::new(),
            labels: String::new(),
            lanes: 0,
        }
    }

    fn label(&mut self, text: &str, (x, y): (f64, f64), anchor: &str) {
        let width = width_of(text, LABEL_LETTER);
        let left = match anchor {
            "start" => x,
            "middle" => x - width / 2.0,
            _ => x - width,
        };
        (self.left, self.right) = (self.left.min(left), self.right.max(left + width));
        if !text.is_empty() {
            // Writing to a string cannot fail.
            let _ = writeln!(
                self.labels,
                "<text class=\"label\" x=\"{x:.1}\" y=\"{y:.1}\" style=\"text-anchor:{anchor}\">{}</text>",
                escaped(text)
            );
        }
    }

    fn path(&mut self, class: &str, path: &str) {
        let _ = writeln!(
            self.paths,
            "<path class=\"{class}\" d=\"{path}\" marker-end=\"url(#head)\"/>"
        );
    }

    /// Round the right side.
    fn back(&mut self, layout: &Layout, arrow: &Edge<Arrow>) {
        self.lanes += 1;
        let (from, to) = ends(layout, arrow);
        let x = layout.width + self.lanes as f64 * LANE;
        let (start, end) = (from.top + from.height * 0.7, to.top + to.height * 0.3);
        let (leave, enter) = (from.right(), to.right());
        self.path(
            "back",
            &format!(
                "M{leave:.1} {start:.1}L{x:.1} {start:.1}L{x:.1} {end:.1}L{enter:.1} {end:.1}"
            ),
        );
        self.label(
            &arrow.weight.label,
            (x + 4.0, f64::midpoint(start, end) + 3.0),
            "start",
        );
    }

    /// Downwards.
    fn down(
        &mut self,
        layout: &Layout,
        arrow: &Edge<Arrow>,
        bends: &[Area],
        (leaves, meets): (Port, Port),
    ) {
        let (from, to) = ends(layout, arrow);
        let mut before = (leaves.x(from), from.bottom());
        let mut path = format!("M{:.1} {:.1}", before.0, before.1);
        for bend in bends {
            path.push_str(&curve(before, (bend.middle(), bend.top)));
            let _ = write!(path, "L{:.1} {:.1}", bend.middle(), bend.bottom());
            before = (bend.middle(), bend.bottom());
        }
        let end = (meets.x(to), to.top);
        path.push_str(&curve(before, end));
        let class = if arrow.weight.kind == ArrowKind::SidePacket {
            "side"
        } else {
            "stream"
        };
        self.path(class, &path);
        // The labels of one box's arrows stand side by side, or above each other.
        let anchor = match (meets.at * 2 + 1).cmp(&meets.of) {
            std::cmp::Ordering::Less => "end",
            std::cmp::Ordering::Equal => "middle",
            std::cmp::Ordering::Greater => "start",
        };
        let row = (meets.at.min(meets.of - 1 - meets.at) % LABEL_ROWS) as f64;
        self.label(
            &arrow.weight.label,
            (end.0, end.1 - 14.0 - row * 11.0),
            anchor,
        );
    }
}

/// A curve that leaves and arrives vertically.
fn curve(from: (f64, f64), to: (f64, f64)) -> String {
    let half = f64::midpoint(from.1, to.1);
    format!(
        "C{:.1} {half:.1} {:.1} {half:.1} {:.1} {:.1}",
        from.0, to.0, to.0, to.1
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
