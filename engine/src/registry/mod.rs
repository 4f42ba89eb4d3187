//! The calculators and subgraphs that graphs can name.
//!
//! `register!(MyNode);` puts a calculator into every registry made by [`Registry::global`] in a
//! program that links the crate it is written in; a crate that nothing names links to nothing, so a
//! server names its node crates with `use my_nodes as _;`.

pub mod container;
mod description;
pub mod environment;
mod ranges;
pub mod subgraph;

use std::{collections::BTreeMap, sync::Arc};

#[doc(hidden)]
pub use inventory;

use graphmill_grammar::{Diagnostic, OptionsMessage, de};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::{
    calculator::{
        AsyncCalculator, Calculator,
        erased::{Factory, async_factory, factory},
    },
    contract::Contract,
    packet::TypeInfo,
};

pub use description::{Description, PortDescription};

use container::{Container, ContainerRegistration};
use subgraph::{Subgraph, SubgraphRegistration};

/// Reads a node's options and lets its calculator declare its contract.
type Compile = fn(&mut Contract, Option<&OptionsMessage>) -> Result<Factory, Vec<Diagnostic>>;

/// A calculator that can be named in a graph.
#[derive(Copy, Clone)]
pub struct Registration {
    /// Its name in graph files.
    pub name: &'static str,
    /// The calculator's own name: the same for all names that one generic calculator is registered
    /// under.
    pub family: &'static str,
    /// The Rust type.
    of: TypeInfo,
    pub(crate) option_names: &'static [&'static str],
    pub(crate) compile: Compile,
    pub(crate) is_async: bool,
    /// The path of the module that registers it.
    module: &'static str,
    describe: fn(&'static str) -> Description,
}

impl Registration {
    /// The registration of a calculator.
    pub const fn of<C: Calculator>() -> Self {
        Self {
            name: C::NAME,
            family: C::NAME,
            of: TypeInfo::of::<C>(),
            option_names: C::OPTION_NAMES,
            is_async: false,
            module: "",
            compile: |contract, options| {
                let options = read_options::<C::Options>(options)?;
                let io = C::contract(contract, &options);
                Ok(factory::<C>(options, io))
            },
            describe: |name| {
                let declare = |contract: &mut Contract, options: &_| {
                    C::contract(contract, options);
                };
                Description::of::<C::Options>(name, C::DOC, C::OPTION_NAMES, declare)
            },
        }
    }

    /// The registration of an async calculator.
    pub const fn of_async<C: AsyncCalculator>() -> Self {
        Self {
            name: C::NAME,
            family: C::NAME,
            of: TypeInfo::of::<C>(),
            option_names: C::OPTION_NAMES,
            is_async: true,
            module: "",
            compile: |contract, options| {
                let options = read_options::<C::Options>(options)?;
                let io = C::contract(contract, &options);
                Ok(async_factory::<C>(options, io))
            },
            describe: |name| {
                let declare = |contract: &mut Contract, options: &_| {
                    C::contract(contract, options);
                };
                Description::of::<C::Options>(name, C::DOC, C::OPTION_NAMES, declare)
            },
        }
    }

    /// The same calculator under another name: one of several for a generic calculator's types.
    #[must_use]
    pub const fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// The registration with the path of the module that makes it, which groups calculators.
    #[must_use]
    pub const fn in_module(self, module: &'static str) -> Self {
        Self { module, ..self }
    }

    /// The name that the calculator is registered under in this program, of several the first; its
    /// own if it is not.
    pub(crate) fn registered_name(&self) -> &'static str {
        let same = |other: &&Registration| other.of == self.of;
        let registered = inventory::iter::<Self>.into_iter().filter(same);
        registered
            .map(|other| other.name)
            .min()
            .unwrap_or(self.name)
    }

    /// What `graphmill describe` prints.
    pub fn describe(&self) -> Description {
        Description {
            module: self.module,
            ..(self.describe)(self.name)
        }
    }
}

/// Reads options, whose numbers have to be in the ranges that the schema of `O` says.
pub(crate) fn read_options<O: DeserializeOwned + Default + JsonSchema>(
    options: Option<&OptionsMessage>,
) -> Result<O, Vec<Diagnostic>> {
    let Some(options) = options else {
        return Ok(O::default());
    };
    let mut found = ranges::out_of_range(&schemars::schema_for!(O), &options.body);
    match de::from_options(options) {
        Ok(read) if found.is_empty() => return Ok(read),
        Ok(_) => {}
        Err(others) => {
            // What is outside of its type is outside of its range, too.
            let places: Vec<_> = found.iter().map(|known| known.primary.span).collect();
            let others = others.into_iter();
            found.extend(others.filter(|other| !places.contains(&other.primary.span)));
        }
    }
    Err(found)
}

inventory::collect!(Registration);

/// Makes a calculator known to [`Registry::global`], under its own name or another.
///
/// `register!(BeginLoop<Detection> as "BeginLoopDetectionCalculator");`
#[macro_export]
macro_rules! register {
    ($calculator:ty) => {
        $crate::registry::inventory::submit! {
            $crate::registry::Registration::of::<$calculator>().in_module(module_path!())
        }
    };
    ($calculator:ty as $name:literal) => {
        $crate::registry::inventory::submit! {
            $crate::registry::Registration::of::<$calculator>().named($name).in_module(module_path!())
        }
    };
}

/// Makes an async calculator known to [`Registry::global`].
#[macro_export]
macro_rules! register_async {
    ($calculator:ty) => {
        $crate::registry::inventory::submit! {
            $crate::registry::Registration::of_async::<$calculator>().in_module(module_path!())
        }
    };
}

/// Calculators that a program was built without, so that a graph that names one is told why.
pub struct LeftOut {
    /// Their names.
    pub names: &'static [&'static str],
    /// The feature of the build that they need.
    pub feature: &'static str,
}

inventory::collect!(LeftOut);

impl LeftOut {
    /// The feature of the build that a calculator needs, where the program was built without it.
    pub(crate) fn feature_of(calculator: &str) -> Option<&'static str> {
        let left_out = inventory::iter::<Self>.into_iter();
        left_out
            .filter(|left_out| left_out.names.contains(&calculator))
            .map(|left_out| left_out.feature)
            .min()
    }
}

/// What a graph can name.
#[derive(Clone, Default)]
pub struct Registry {
    calculators: BTreeMap<&'static str, Arc<Registration>>,
    subgraphs: BTreeMap<String, Arc<Subgraph>>,
    containers: BTreeMap<&'static str, ContainerRegistration>,
}

impl Registry {
    /// A registry of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// All that the linked crates register.
    pub fn global() -> Self {
        let mut registry = Self::new();
        for registration in inventory::iter::<Registration> {
            registry.add(*registration);
        }
        for registration in inventory::iter::<ContainerRegistration> {
            registry.containers.insert(registration.name, *registration);
        }
        for SubgraphRegistration(subgraph) in inventory::iter::<SubgraphRegistration> {
            registry = registry.with_subgraph(subgraph());
        }
        registry
    }

    /// Adds a calculator.
    #[must_use]
    pub fn with<C: Calculator>(mut self) -> Self {
        self.calculators
            .insert(C::NAME, Arc::new(Registration::of::<C>()));
        self
    }

    pub(crate) fn add(&mut self, registration: Registration) {
        self.calculators
            .insert(registration.name, Arc::new(registration));
    }

    /// Adds an async calculator.
    #[must_use]
    pub fn with_async<C: AsyncCalculator>(mut self) -> Self {
        self.calculators
            .insert(C::NAME, Arc::new(Registration::of_async::<C>()));
        self
    }

    /// Adds a subgraph; one of the same name is replaced.
    #[must_use]
    pub fn with_subgraph(mut self, subgraph: Subgraph) -> Self {
        self.subgraphs
            .insert(subgraph.name.to_string(), Arc::new(subgraph));
        self
    }

    /// Adds a container.
    #[must_use]
    pub fn with_container<C: Container>(mut self) -> Self {
        self.containers
            .insert(C::NAME, ContainerRegistration::of::<C>());
        self
    }

    /// All calculators, by name.
    pub fn calculators(&self) -> impl Iterator<Item = &Registration> {
        self.calculators.values().map(AsRef::as_ref)
    }

    /// All subgraphs, by name.
    pub fn subgraphs(&self) -> impl Iterator<Item = &Subgraph> {
        self.subgraphs.values().map(AsRef::as_ref)
    }

    /// All containers, by name.
    pub fn containers(&self) -> impl Iterator<Item = &ContainerRegistration> {
        self.containers.values()
    }

    /// Describes every calculator and container, by name.
    pub fn describe(&self) -> Vec<Description> {
        let containers = self.containers().map(ContainerRegistration::describe);
        let calculators = self.calculators().map(Registration::describe);
        let mut all: Vec<Description> = calculators.chain(containers).collect();
        all.sort_by_key(|description| description.name);
        all
    }

    /// Looks a calculator up: `name` as it is written, seen from `package`.
    pub(crate) fn calculator(&self, name: &str, package: &str) -> Option<&Arc<Registration>> {
        candidates(name, package).find_map(|name| self.calculators.get(name.as_str()))
    }

    /// Looks a subgraph up.
    pub(crate) fn subgraph(&self, name: &str, package: &str) -> Option<&Arc<Subgraph>> {
        candidates(name, package).find_map(|name| self.subgraphs.get(&name))
    }

    /// Looks a container up.
    pub(crate) fn container(&self, name: &str, package: &str) -> Option<&ContainerRegistration> {
        candidates(name, package).find_map(|name| self.containers.get(name.as_str()))
    }

    /// Everything a node's `calculator` can be.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let subgraphs = self.subgraphs.keys().map(String::as_str);
        let containers = self.containers.keys().copied();
        self.calculators
            .keys()
            .copied()
            .chain(containers)
            .chain(subgraphs)
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// The names a written name can stand for: in `package`, in the packages around it, at the top,
/// and, for the namespace that graphs of other origin spell out, without it. `.` and `::` are the
/// same.
fn candidates(name: &str, package: &str) -> impl Iterator<Item = String> {
    let name = name.replace("::", ".");
    let absolute = name.strip_prefix('.').map(str::to_owned);
    let mut names = Vec::new();
    if absolute.is_none() {
        let mut scope = package.replace("::", ".");
        while !scope.is_empty() {
            names.push(format!("{scope}.{name}"));
            scope.truncate(scope.rfind('.').unwrap_or(0));
        }
    }
    let name = absolute.unwrap_or(name);
    let bare = name.strip_prefix("mediapipe.").map(str::to_owned);
    names.push(name);
    names.extend(bare);
    names.into_iter()
}
