//! Calculators and subgraphs that graphs can name.
//!
//! `register!(MyNode);` adds a calculator to every registry made by [`Registry::global`]. The
//! program must link the calculator's crate. A crate that nothing names is not linked, so servers
//! name their node crates with `use my_nodes as _;`.

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

/// A function that reads a node's options and calls `contract` of its calculator.
type Compile = fn(&mut Contract, Option<&OptionsMessage>) -> Result<Factory, Vec<Diagnostic>>;

/// The registration of a calculator.
#[derive(Copy, Clone)]
pub struct Registration {
    /// Name of the calculator in graph files.
    pub name: &'static str,
    /// Name that the calculator itself has. All registrations of a generic calculator share it.
    pub family: &'static str,
    /// Rust type of the calculator.
    of: TypeInfo,
    pub(crate) option_names: &'static [&'static str],
    pub(crate) compile: Compile,
    pub(crate) is_async: bool,
    /// Path of the module that registers it.
    module: &'static str,
    describe: fn(&'static str) -> Description,
}

impl Registration {
    /// Makes the registration of a calculator.
    pub const fn new<C: Calculator>() -> Self {
        Self {
            name: C::NAME,
            family: C::NAME,
            of: TypeInfo::new::<C>(),
            option_names: C::OPTION_NAMES,
            is_async: false,
            module: "",
            compile: |contract, options| {
                let options = read_options::<C::Options>(options)?;
                let io = C::contract(contract, &options);
                Ok(factory::<C>(options, io))
            },
            describe: |name| Description::new(name, C::DOC, C::OPTION_NAMES, C::contract),
        }
    }

    /// Makes the registration of an async calculator.
    pub const fn new_async<C: AsyncCalculator>() -> Self {
        Self {
            name: C::NAME,
            family: C::NAME,
            of: TypeInfo::new::<C>(),
            option_names: C::OPTION_NAMES,
            is_async: true,
            module: "",
            compile: |contract, options| {
                let options = read_options::<C::Options>(options)?;
                let io = C::contract(contract, &options);
                Ok(async_factory::<C>(options, io))
            },
            describe: |name| Description::new(name, C::DOC, C::OPTION_NAMES, C::contract),
        }
    }

    /// Returns the registration under another name. A generic calculator has one name for each
    /// type.
    #[must_use]
    pub const fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// Returns the registration with the path of its module. Documentation groups calculators by
    /// module.
    #[must_use]
    pub const fn in_module(self, module: &'static str) -> Self {
        Self { module, ..self }
    }

    /// Returns the first name under which this program registers the calculator. Its own name if
    /// there is none.
    pub(crate) fn registered_name(&self) -> &'static str {
        let same = |other: &&Registration| other.of == self.of;
        let registered = inventory::iter::<Self>.into_iter().filter(same);
        let first = registered.map(|other| other.name).min();
        first.unwrap_or(self.name)
    }

    /// Describes the calculator for `graphmill describe`.
    pub fn describe(&self) -> Description {
        Description {
            module: self.module,
            ..(self.describe)(self.name)
        }
    }
}

/// Reads options and checks that numbers are in the ranges of the schema of `O`.
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
            // A value that does not fit its type is reported once, not also as out of range.
            let places: Vec<_> = found.iter().map(|known| known.primary.span).collect();
            let others = others.into_iter();
            found.extend(others.filter(|other| !places.contains(&other.primary.span)));
        }
    }
    Err(found)
}

inventory::collect!(Registration);

/// Adds a calculator to [`Registry::global`], under its own name or another.
///
/// `register!(BeginLoop<Detection> as "BeginLoopDetectionCalculator");`
#[macro_export]
macro_rules! register {
    ($calculator:ty) => {
        $crate::registry::inventory::submit! {
            $crate::registry::Registration::new::<$calculator>().in_module(module_path!())
        }
    };
    ($calculator:ty as $name:literal) => {
        $crate::registry::inventory::submit! {
            $crate::registry::Registration::new::<$calculator>().named($name).in_module(module_path!())
        }
    };
}

/// Adds an async calculator to [`Registry::global`].
#[macro_export]
macro_rules! register_async {
    ($calculator:ty) => {
        $crate::registry::inventory::submit! {
            $crate::registry::Registration::new_async::<$calculator>().in_module(module_path!())
        }
    };
}

/// Calculators that this build lacks. Graphs that name one get an error with the reason.
pub struct LeftOut {
    /// Names of the calculators in graph files.
    pub names: &'static [&'static str],
    /// Feature of the build that they need.
    pub feature: &'static str,
}

inventory::collect!(LeftOut);

impl LeftOut {
    /// Returns the feature that a calculator needs, if this build lacks it.
    pub(crate) fn feature_of(calculator: &str) -> Option<&'static str> {
        let left_out = inventory::iter::<Self>.into_iter();
        left_out
            .filter(|left_out| left_out.names.contains(&calculator))
            .map(|left_out| left_out.feature)
            .min()
    }
}

/// All calculators, subgraphs and containers that a graph can name.
#[derive(Clone, Default)]
pub struct Registry {
    calculators: BTreeMap<&'static str, Arc<Registration>>,
    subgraphs: BTreeMap<String, Arc<Subgraph>>,
    containers: BTreeMap<&'static str, ContainerRegistration>,
}

impl Registry {
    /// Makes a registry without calculators, subgraphs and containers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a registry of everything that the linked crates register.
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

    /// Returns the registry with one more calculator.
    #[must_use]
    pub fn with<C: Calculator>(mut self) -> Self {
        self.add(Registration::new::<C>());
        self
    }

    pub(crate) fn add(&mut self, registration: Registration) {
        self.calculators
            .insert(registration.name, Arc::new(registration));
    }

    /// Returns the registry with one more async calculator.
    #[must_use]
    pub fn with_async<C: AsyncCalculator>(mut self) -> Self {
        self.add(Registration::new_async::<C>());
        self
    }

    /// Returns the registry with one more subgraph. It replaces one of the same name.
    #[must_use]
    pub fn with_subgraph(mut self, subgraph: Subgraph) -> Self {
        self.subgraphs
            .insert(subgraph.name.to_string(), Arc::new(subgraph));
        self
    }

    /// Returns the registry with one more container.
    #[must_use]
    pub fn with_container<C: Container>(mut self) -> Self {
        self.containers
            .insert(C::NAME, ContainerRegistration::new::<C>());
        self
    }

    /// Iterates over the calculators in the order of their names.
    pub fn calculators(&self) -> impl Iterator<Item = &Registration> {
        self.calculators.values().map(AsRef::as_ref)
    }

    /// Iterates over the subgraphs in the order of their names.
    pub fn subgraphs(&self) -> impl Iterator<Item = &Subgraph> {
        self.subgraphs.values().map(AsRef::as_ref)
    }

    /// Iterates over the containers in the order of their names.
    pub fn containers(&self) -> impl Iterator<Item = &ContainerRegistration> {
        self.containers.values()
    }

    /// Describes every calculator and container, in the order of their names.
    pub fn describe(&self) -> Vec<Description> {
        let containers = self.containers().map(ContainerRegistration::describe);
        let calculators = self.calculators().map(Registration::describe);
        let mut all: Vec<Description> = calculators.chain(containers).collect();
        all.sort_by_key(|description| description.name);
        all
    }

    /// Finds a calculator by a name that is written in `package`.
    pub(crate) fn calculator(&self, name: &str, package: &str) -> Option<&Arc<Registration>> {
        candidates(name, package).find_map(|name| self.calculators.get(name.as_str()))
    }

    /// Finds a subgraph by a name that is written in `package`.
    pub(crate) fn subgraph(&self, name: &str, package: &str) -> Option<&Arc<Subgraph>> {
        candidates(name, package).find_map(|name| self.subgraphs.get(&name))
    }

    /// Finds a container by a name that is written in `package`.
    pub(crate) fn container(&self, name: &str, package: &str) -> Option<&ContainerRegistration> {
        candidates(name, package).find_map(|name| self.containers.get(name.as_str()))
    }

    /// Iterates over all names that a node's `calculator` can have.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let subgraphs = self.subgraphs.keys().map(String::as_str);
        let containers = self.containers.keys().copied();
        let calculators = self.calculators.keys().copied();
        calculators.chain(containers).chain(subgraphs)
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// Returns the full names that a written name can mean: in `package`, in the packages around it,
/// and at the top. A leading `mediapipe.` may also be missing there. `.` and `::` are equivalent.
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
