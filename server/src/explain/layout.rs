//! Where boxes and arrows go: in layers, from the inputs down to the outputs.
//!
//! A box is one layer below the lowest box that it takes something from. An arrow over several
//! layers has a bend in each, so that it goes between boxes and not through them. Within a layer,
//! boxes and bends are ordered by where their neighbors are, and moved towards them.

use petgraph::{Direction, visit::EdgeRef as _};

use super::drawing::{ArrowKind, BlockKind, Drawing};

/// Between two boxes of a layer, in pixels.
const GAP: f64 = 28.0;
/// Between two layers, in pixels: room for the arrows' labels.
const LAYER_GAP: f64 = 58.0;
/// The width that an arrow has where it bends.
const BEND: f64 = 12.0;
/// How often the layers are ordered and moved, down and up; more changes little.
const SWEEPS: usize = 8;

/// A rectangle of a layout, in pixels.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Area {
    pub(super) fn middle(self) -> f64 {
        self.left + self.width / 2.0
    }

    pub(super) fn right(self) -> f64 {
        self.left + self.width
    }

    pub(super) fn bottom(self) -> f64 {
        self.top + self.height
    }
}

/// A drawing with places.
pub(super) struct Layout {
    /// By box.
    pub(super) boxes: Vec<Area>,
    /// By arrow: the bends from its first box to its last, as rectangles that nothing else is in.
    pub(super) bends: Vec<Vec<Area>>,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// Boxes and bends alike.
struct Item {
    width: f64,
    layer: usize,
    left: f64,
    above: Vec<usize>,
    below: Vec<usize>,
}

impl Item {
    fn middle(&self) -> f64 {
        self.left + self.width / 2.0
    }
}

/// Lays out boxes of these widths and heights.
pub(super) fn layout(drawing: &Drawing, sizes: &[(f64, f64)]) -> Layout {
    let layers = layers(drawing);
    let mut items: Vec<Item> = sizes
        .iter()
        .zip(&layers)
        .map(|(&(width, _), &layer)| Item {
            width,
            layer,
            left: 0.0,
            above: Vec::new(),
            below: Vec::new(),
        })
        .collect();
    let bends = bend(drawing, &mut items);
    let mut rows: Vec<Vec<usize>> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        if rows.len() <= item.layer {
            rows.resize(item.layer + 1, Vec::new());
        }
        rows[item.layer].push(at);
    }
    for row in &rows {
        spread(&mut items, row, None);
    }
    for sweep in 0..SWEEPS {
        let down = sweep % 2 == 0;
        for at in 0..rows.len() {
            let row = if down { at } else { rows.len() - 1 - at };
            let wanted = wanted(&items, &rows[row], down);
            rows[row].sort_by(|&a, &b| wanted[&a].total_cmp(&wanted[&b]));
            spread(&mut items, &rows[row], Some(&wanted));
        }
    }
    place(&items, &rows, &bends, sizes)
}

/// The layer of each box.
fn layers(drawing: &Drawing) -> Vec<usize> {
    let mut layers = vec![0; drawing.node_count()];
    // Packets pass the boxes in their order, so what a box takes comes from earlier ones; side
    // packets may be an exception.
    for at in drawing.node_indices() {
        let above = drawing
            .edges_directed(at, Direction::Incoming)
            .filter(|arrow| arrow.weight().kind != ArrowKind::BackEdge && arrow.source() < at)
            .map(|arrow| layers[arrow.source().index()] + 1);
        layers[at.index()] = above.max().unwrap_or(0);
    }
    let last = layers.iter().copied().max().unwrap_or(0);
    for (block, layer) in drawing.node_weights().zip(&mut layers) {
        if block.kind == BlockKind::Output {
            *layer = last;
        }
    }
    layers
}

/// Joins the items of each arrow, with a bend in every layer between.
fn bend(drawing: &Drawing, items: &mut Vec<Item>) -> Vec<Vec<usize>> {
    let mut bends = Vec::new();
    for arrow in drawing.raw_edges() {
        let (from, to) = (arrow.source().index(), arrow.target().index());
        let (first, last) = (items[from].layer, items[to].layer);
        let mut own = Vec::new();
        if first < last {
            let mut above = from;
            for layer in first + 1..last {
                let bend = items.len();
                items.push(Item {
                    width: BEND,
                    layer,
                    left: 0.0,
                    above: vec![above],
                    below: Vec::new(),
                });
                items[above].below.push(bend);
                own.push(bend);
                above = bend;
            }
            items[above].below.push(to);
            items[to].above.push(above);
        }
        bends.push(own);
    }
    bends
}

/// Where the items of a row would best have their middles: below those above them, or above those
/// below.
fn wanted(items: &[Item], row: &[usize], down: bool) -> std::collections::HashMap<usize, f64> {
    let best = |&at: &usize| {
        let neighbors = if down {
            &items[at].above
        } else {
            &items[at].below
        };
        let sum: f64 = neighbors.iter().map(|&other| items[other].middle()).sum();
        let middle = match neighbors.len() {
            0 => items[at].middle(),
            count => sum / count as f64,
        };
        (at, middle)
    };
    row.iter().map(best).collect()
}

/// Puts the items of a row side by side, as near as possible to where they are wanted.
fn spread(
    items: &mut [Item],
    row: &[usize],
    wanted: Option<&std::collections::HashMap<usize, f64>>,
) {
    let mut right = f64::NEG_INFINITY;
    let mut shift = 0.0;
    for &at in row {
        let ideal = wanted.map_or(0.0, |wanted| wanted[&at] - items[at].width / 2.0);
        items[at].left = ideal.max(right + GAP);
        shift += items[at].left - ideal;
        right = items[at].left + items[at].width;
    }
    if wanted.is_some() && !row.is_empty() {
        // What was pushed to the right by its neighbors goes back by the same amount for all.
        let back = shift / row.len() as f64;
        for &at in row {
            items[at].left -= back;
        }
    }
}

fn place(
    items: &[Item],
    rows: &[Vec<usize>],
    bends: &[Vec<usize>],
    sizes: &[(f64, f64)],
) -> Layout {
    let left = items
        .iter()
        .map(|item| item.left)
        .fold(f64::INFINITY, f64::min);
    let right = items
        .iter()
        .map(|item| item.left + item.width)
        .fold(0.0, f64::max);
    let mut areas = vec![Area::default(); items.len()];
    let mut top = 0.0;
    for row in rows {
        let heights = row
            .iter()
            .filter_map(|&at| sizes.get(at))
            .map(|size| size.1);
        let height = heights.fold(0.0, f64::max);
        for &at in row {
            let own = sizes.get(at).map_or(height, |size| size.1);
            areas[at] = Area {
                left: items[at].left - left,
                top: top + (height - own) / 2.0,
                width: items[at].width,
                height: own,
            };
        }
        top += height + LAYER_GAP;
    }
    let of_arrow = |own: &Vec<usize>| own.iter().map(|&at| areas[at]).collect();
    Layout {
        bends: bends.iter().map(of_arrow).collect(),
        boxes: areas[..sizes.len()].to_vec(),
        width: (right - left).max(0.0),
        height: (top - LAYER_GAP).max(0.0),
    }
}
