//! Dynamic batching: the resource with models of its own, and graphs.

mod batcher;
#[expect(unreachable_pub, reason = "it is a part of a library in the guide")]
mod example;
mod graphs;
mod models;

#[test]
fn the_guide_shows_the_example_as_it_is() {
    let guide = include_str!("../../../docs/guide/dynamic-batching.md");
    assert!(guide.contains(include_str!("example.rs")));
}
