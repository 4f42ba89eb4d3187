//! A graph inside a program, without a server. Words go in; each new word comes out with its
//! position.

use std::{collections::HashSet, error::Error, time::Duration};

use graphmill_engine::{
    Calculator, Contract, Cx, Environment, Flow, GraphBuilder, In, NoOptions, OpenCx, Out, Packet,
    Registry, Result, RunCx, Session, SidePackets, block_on, block_on_for,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options that the program sets. A graph file sets the same fields.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct UniqueOptions {
    /// Ignores case: `Word` and `word` are the same word.
    ignore_case: bool,
}

/// Passes each word on the first time it appears.
struct Unique {
    options: UniqueOptions,
    known: HashSet<String>,
}

/// The input and output streams.
#[derive(Copy, Clone)]
struct UniquePorts {
    word: In<String>,
    new: Out<String>,
}

impl Calculator for Unique {
    const NAME: &'static str = "UniqueCalculator";
    type Options = UniqueOptions;
    type Ports = UniquePorts;

    fn contract(c: &mut Contract, _: &UniqueOptions) -> UniquePorts {
        UniquePorts {
            word: c.input("WORD"),
            new: c.output("NEW"),
        }
    }

    fn open(options: &UniqueOptions, _: UniquePorts, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            options: options.clone(),
            known: HashSet::new(),
        })
    }

    fn process(&mut self, io: UniquePorts, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(word) = cx.take(io.word) {
            let key = if self.options.ignore_case {
                word.to_lowercase()
            } else {
                word.clone()
            };
            if self.known.insert(key) {
                cx.emit(io.new, word);
            }
        }
        Ok(Flow::Continue)
    }
}

/// Appends a word's timestamp to it.
struct WordPlace;

impl Calculator for WordPlace {
    const NAME: &'static str = "PlaceCalculator";
    type Options = NoOptions;
    type Ports = (In<String>, Out<String>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.input(""), c.output(""))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (word, place): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(word) = cx.take(word) {
            let text = format!("{word} at {}", cx.time());
            cx.emit(place, text);
        }
        Ok(Flow::Continue)
    }
}

/// Builds the graph: `word` through [`Unique`] and [`WordPlace`] to `place`.
fn graph() -> GraphBuilder {
    let graph = GraphBuilder::new();
    let word = graph.input::<String>("word");
    let unique = graph.node::<Unique>();
    unique
        .input(|ports| ports.word, &word)
        .options(&UniqueOptions { ignore_case: true });
    let place = graph.node::<WordPlace>();
    place.input(|ports| ports.0, &unique.output(|ports| ports.new));
    graph.output("place", &place.output(|ports| ports.1));
    graph
}

/// Runs the graph on the words of a text and returns its output.
fn places(text: &str) -> std::result::Result<Vec<String>, Box<dyn Error>> {
    // Compiled once: a program that runs the graph often keeps the plan.
    let plan = graph().compile(&Environment::new(Registry::global()))?;

    let (session, handle) = Session::new(&plan, RunCx::new("words"), SidePackets::new())?;
    let mut places = handle.output("place")?;
    session.run_on_thread()?;
    let mut found = Vec::new();
    for (time, word) in (0..).zip(text.split_whitespace()) {
        block_on(handle.push("word", Packet::new(time, word.to_owned())))?;
        found.extend(places.try_next());
    }
    handle.close_all();
    while let Some(place) = block_on_for(places.next(), Duration::from_secs(10)).ok_or("stuck")? {
        found.push(place);
    }
    block_on(handle.outcome())?;
    Ok(found.into_iter().filter_map(Packet::into_value).collect())
}

#[expect(clippy::print_stdout, reason = "a program for the terminal")]
fn main() -> std::result::Result<(), Box<dyn Error>> {
    println!("{}", graph().text());
    for place in places("the cat saw the dog and The dog saw the cat")? {
        println!("{place}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn new_words_have_a_place() {
        let places = super::places("one two One three two").expect("no error");
        assert_eq!(places, ["one at 0", "two at 1", "three at 3"]);
    }
}
