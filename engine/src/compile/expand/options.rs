//! Options of a graph, and how they are copied into the options of its nodes.
//!
//! A graph declares its options as messages with default values. If it is used as a node, that
//! node's options of the same types override them. No schema of these messages is known, so values
//! that nobody sets are not copied. An option that is set and that no node takes is an error.

use graphmill_grammar::{
    Diagnostic, Node, OptionsMessage, Spanned,
    ast::{Message, Value, ValueKind},
    graph::{OptionValue, OptionsKind},
    suggest,
};

use crate::codes::{calculators, subgraphs};

use super::{
    handover,
    path::{self, Path, PathStep},
};

/// Options of one use of a graph.
pub(super) struct GraphOptions {
    messages: Vec<OptionsDeclaration>,
}

/// An options message that a graph declares.
struct OptionsDeclaration {
    /// Declared values, overridden by those of the outer node.
    merged: OptionsMessage,
    /// Fields that nodes take; `None` once a node takes the whole message.
    taken: Option<Vec<String>>,
    /// Set if the graph itself declares the message. Messages of the outer node count only if the
    /// graph declares none.
    is_own: bool,
}

impl GraphOptions {
    /// Merges the messages `declared` by the graph with those `given` by the outer node, which win.
    pub(super) fn new<'a>(
        declared: impl IntoIterator<Item = &'a OptionsMessage>,
        given: impl IntoIterator<Item = &'a OptionsMessage>,
    ) -> Self {
        let declaration = |message: &OptionsMessage, is_own| OptionsDeclaration {
            merged: message.clone(),
            taken: Some(Vec::new()),
            is_own,
        };
        let mut messages: Vec<OptionsDeclaration> = Vec::new();
        for message in declared {
            // If both forms have the same type, the extension comes first and wins.
            if !messages.iter().any(|other| other.has_type_of(message)) {
                messages.push(declaration(message, true));
            }
        }
        let declares_none = messages.is_empty();
        let mut set: Vec<&OptionsMessage> = Vec::new();
        for message in given {
            let own = messages.iter_mut().find(|own| own.has_type_of(message));
            if let Some(own) = own.filter(|_| !set.iter().any(|other| same_type(other, message))) {
                path::merge(&mut own.merged.body, &message.body);
                set.push(message);
            } else if declares_none {
                messages.push(declaration(message, false));
                set.push(message);
            }
        }
        Self { messages }
    }

    /// Returns `true` if the graph declares options of this type.
    pub(super) fn declares(&self, message: &OptionsMessage) -> bool {
        let mut messages = self.messages.iter();
        messages.any(|own| own.is_own && own.has_type_of(message))
    }

    /// Copies one value into the options of a node. If the node has none, they are made with type
    /// `own_type`.
    pub(super) fn copy(
        &mut self,
        value: &OptionValue,
        node: &mut Node,
        own_type: &str,
    ) -> Result<(), Box<Diagnostic>> {
        // As in MediaPipe, nothing is copied if there are no options at all.
        if self.messages.is_empty() {
            return Ok(());
        }
        let (from, to) = (Path::new(&value.source), Path::new(&value.field));
        let source = self.source(&from)?;
        let found = if from.steps.is_empty() {
            source.taken = None;
            SourceValues::Whole(source.merged.clone())
        } else {
            if let (Some(taken), Some(PathStep::Field(name))) =
                (&mut source.taken, from.steps.first())
            {
                taken.push((*name).to_owned());
            }
            let values = path::values(&source.merged.body, &from.steps);
            let values = values.map_err(|why| Box::new(no_way(&from, why)))?;
            SourceValues::Values(values.into_iter().cloned().collect())
        };
        if matches!(&found, SourceValues::Values(values) if values.is_empty()) {
            return Ok(());
        }
        let target = target(node, &to, &found, own_type);
        match found {
            SourceValues::Whole(options) if to.steps.is_empty() => {
                path::merge(target, &options.body);
                Ok(())
            }
            SourceValues::Whole(options) => {
                let span = options.body.span;
                let whole = Value::new(ValueKind::Message(options.body), span);
                path::set(target, &to.steps, vec![whole], to.span)
            }
            SourceValues::Values(values) if to.steps.is_empty() => {
                if let [one] = values.as_slice()
                    && let ValueKind::Message(message) = &one.value
                {
                    path::merge(target, message);
                    Ok(())
                } else {
                    Err(format!(
                        "`{}` is not a message, but the options of a node are",
                        value.source.value
                    ))
                }
            }
            SourceValues::Values(values) => path::set(target, &to.steps, values, to.span),
        }
        .map_err(|why| Box::new(no_way(&to, why)))
    }

    /// Returns the message that a path starts in: of several the first one that has its field.
    fn source(&mut self, path: &Path<'_>) -> Result<&mut OptionsDeclaration, Box<Diagnostic>> {
        let fits = |own: &OptionsDeclaration| path.fits(&own.merged);
        let has_field = |own: &OptionsDeclaration| match path.steps.first() {
            Some(PathStep::Field(name)) => own.merged.body.fields_named(name).next().is_some(),
            _ => true,
        };
        let mut messages = self.messages.iter();
        let first = messages.position(|own| fits(own) && has_field(own));
        if let Some(at) = first.or_else(|| self.messages.iter().position(fits)) {
            return Ok(&mut self.messages[at]);
        }
        let message = match path.of_type {
            Some(name) => format!("the graph has no options of type `{name}`"),
            None => "the graph has no options to take a value from".to_owned(),
        };
        let advice = "declare them in the graph: `graph_options { [type.googleapis.com/mediapipe.X] { .. } }`";
        let diagnostic = Diagnostic::error(&subgraphs::OPTION_PATH, path.span, message);
        Err(Box::new(diagnostic.hint(advice)))
    }

    /// Reports options that the outer node sets and no inner node takes.
    pub(super) fn refuse_rest(
        &self,
        outer: &Node,
        subgraph: &str,
        has_primary: bool,
        diagnostics: &mut Vec<Diagnostic>,
    ) {
        for message in outer.all_options() {
            match self.messages.iter().find(|own| own.has_type_of(message)) {
                Some(own) if own.is_own || own.is_taken() => {
                    own.refuse_untaken(message, subgraph, diagnostics);
                }
                _ if has_primary => {}
                _ if !self.messages.iter().any(|own| own.is_own) => {
                    let span = message.name.span;
                    diagnostics.push(handover::only_calculators("options", span, subgraph));
                }
                _ => {
                    let given = message.type_name();
                    let text =
                        format!("the subgraph `{subgraph}` takes no options of type `{given}`");
                    let own = self.messages[0].merged.type_name();
                    diagnostics.push(
                        Diagnostic::error(&calculators::FOREIGN_OPTIONS, message.name.span, text)
                            .label("these options would have no effect")
                            .hint(format!("the type of its options is `{own}`")),
                    );
                }
            }
        }
    }
}

impl OptionsDeclaration {
    fn has_type_of(&self, message: &OptionsMessage) -> bool {
        same_type(&self.merged, message)
    }

    /// Returns `true` if a node takes any of its fields.
    fn is_taken(&self) -> bool {
        self.taken.as_ref().is_none_or(|taken| !taken.is_empty())
    }

    fn refuse_untaken(
        &self,
        given: &OptionsMessage,
        subgraph: &str,
        diagnostics: &mut Vec<Diagnostic>,
    ) {
        let Some(taken) = &self.taken else { return };
        for field in &given.body.fields {
            let name = field.name.as_str();
            if taken.iter().any(|taken| taken == name) {
                continue;
            }
            let message = format!("no node of the subgraph `{subgraph}` takes the option `{name}`");
            let diagnostic = Diagnostic::error(&subgraphs::UNUSED_OPTION, field.name.span, message)
                .label("this option would have no effect");
            let known: Vec<String> = taken.iter().map(|name| format!("`{name}`")).collect();
            diagnostics.push(
                match suggest::nearest(name, taken.iter().map(String::as_str)) {
                    Some(near) => {
                        diagnostic.fix(format!("did you mean `{near}`?"), field.name.span, near)
                    }
                    None if known.is_empty() => diagnostic.hint("its nodes take no options"),
                    None => diagnostic.hint(format!("its options are {}", known.join(", "))),
                },
            );
        }
    }
}

/// The values at a source path.
enum SourceValues {
    Whole(OptionsMessage),
    Values(Vec<Value>),
}

/// Returns the message of the node's options that a value goes to, and makes it if necessary.
fn target<'n>(
    node: &'n mut Node,
    path: &Path<'_>,
    found: &SourceValues,
    own_type: &str,
) -> &'n mut Message {
    let options = node.options.as_ref();
    let extensions = options.map_or(0, |options| options.messages.len());
    let of_source = |message: &OptionsMessage| match found {
        SourceValues::Whole(source) => same_type(message, source),
        SourceValues::Values(_) => false,
    };
    let all = node.all_options().enumerate();
    let fitting: Vec<(usize, &OptionsMessage)> =
        all.filter(|(_, message)| path.fits(message)).collect();
    let same = fitting.iter().find(|(_, message)| of_source(message));
    let at = same.or(fitting.first()).map(|(at, _)| *at);
    let at = at.unwrap_or_else(|| {
        node.node_options.push(OptionsMessage {
            name: Spanned::new(path.of_type.unwrap_or(own_type).to_owned(), path.span),
            kind: OptionsKind::Any,
            body: Message::empty(),
        });
        extensions + node.node_options.len() - 1
    });
    match &mut node.options {
        Some(options) if at < extensions => &mut options.messages[at].body,
        _ => &mut node.node_options[at - extensions].body,
    }
}

fn same_type(a: &OptionsMessage, b: &OptionsMessage) -> bool {
    a.short_name() == b.short_name()
}

fn no_way(path: &Path<'_>, why: String) -> Diagnostic {
    Diagnostic::error(&subgraphs::OPTION_PATH, path.span, why).label("this path leads nowhere")
}
