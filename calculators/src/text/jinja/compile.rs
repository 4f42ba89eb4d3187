//! Templates to instructions, with Python's operators in place of minijinja's.
//!
//! minijinja has hooks for filters, tests, methods and printing, and none for operators, subscripts
//! and what a loop runs over. It compiles a template to instructions for a stack machine, and there
//! an operator is an instruction that takes its operands from the stack, as a call of a function
//! does. So each such instruction is replaced by a call of a function of `operators`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use minijinja::machinery::{
    CodeGenerator, Instruction, Instructions, Token, eval, make_string_output, parse, tokenize,
};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{AutoEscape, Environment, Error};

use super::access::is_member;
use super::error::{TemplateError, message_of};
use super::operators::OPERATORS;
use crate::text::template_limits::{self, TooMuch};

const NAME: &str = "chat_template";
/// Names of variables that the replaced instructions use.
const RESERVED: &str = "__py_";
/// Tags that load other templates, or that Hugging Face does not have.
const UNAVAILABLE: [&str; 6] = ["autoescape", "do", "extends", "from", "import", "include"];

/// A compiled template.
pub(crate) struct Program {
    main: Instructions<'static>,
    blocks: BTreeMap<&'static str, Instructions<'static>>,
}

impl Program {
    /// Compiles a template, with the white space rules of Hugging Face.
    pub(crate) fn new(template: &str) -> Result<Self, TemplateError> {
        let compiled = template_limits::on_own_stack(|| Self::compile(template));
        compiled
            .unwrap_or_else(|error| Err(syntax_error(1, format!("cannot be compiled: {error}"))))
    }

    fn compile(template: &str) -> Result<Self, TemplateError> {
        let refused = |error: Error| syntax_error(error.line().unwrap_or(1), message_of(&error));
        let mut syntax = SyntaxConfig::builder();
        syntax.trim_blocks(true).lstrip_blocks(true);
        let syntax = syntax.build().map_err(refused)?;
        template_limits::check(template, &syntax)
            .map_err(|TooMuch { line, message }| syntax_error(line, message))?;
        let source = interned(prepared(template, &syntax)?);
        let tree = parse(source, NAME, syntax).map_err(refused)?;
        let mut generator = CodeGenerator::new(NAME, source);
        generator.compile_stmt(&tree);
        let (main, blocks) = generator.finish();
        let blocks = blocks
            .iter()
            .map(|(name, code)| Ok((*name, replaced(code)?)));
        Ok(Self {
            main: replaced(&main)?,
            blocks: blocks.collect::<Result<_, _>>()?,
        })
    }

    pub(crate) fn run(
        &self,
        environment: &Environment<'static>,
        variables: Value,
    ) -> Result<String, Error> {
        let mut text = String::new();
        let mut out = make_string_output(&mut text);
        eval(
            environment,
            &self.main,
            variables,
            &self.blocks,
            &mut out,
            AutoEscape::None,
        )?;
        Ok(text)
    }
}

fn syntax_error(line: usize, message: String) -> TemplateError {
    TemplateError::Syntax { line, message }
}

/// The same text for as long as the process lives, because instructions borrow from it. A server
/// has few templates.
fn interned(source: String) -> &'static str {
    static SOURCES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut sources = SOURCES
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(known) = sources.get(source.as_str()) {
        return known;
    }
    let source: &'static str = source.leak();
    sources.insert(source);
    source
}

/// The template as minijinja is given it. Every line keeps its number.
///
/// `{% generation %}` marks what the assistant said, for training. `{% with %}` gives it the scope
/// that it has in transformers. An operator after a constant has a filter before it that does
/// nothing. Otherwise minijinja would compute it while it compiles, in its own way, and nothing
/// would count what that takes.
fn prepared(template: &str, syntax: &SyntaxConfig) -> Result<String, TemplateError> {
    let template = template.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = String::with_capacity(template.len());
    let mut copied = 0;
    let mut previous = None;
    let mut in_targets = false;
    // What cannot be read here fails where it is parsed.
    for (token, span) in tokenize(&template, false, syntax.clone()).map_while(Result::ok) {
        let (start, end) = (span.start_offset as usize, span.end_offset as usize);
        let edit = match (&previous, &token) {
            (Some(Token::BlockStart), Token::Ident("generation")) => Some(("with", end)),
            (Some(Token::BlockStart), Token::Ident("endgeneration")) => Some(("endwith", end)),
            (Some(Token::BlockStart), Token::Ident(tag)) if UNAVAILABLE.contains(tag) => {
                let message = format!("`{{% {tag} %}}` is not available in chat templates");
                return Err(syntax_error(span.start_line.into(), message));
            }
            (Some(Token::BlockStart), Token::Ident("for")) => {
                in_targets = true;
                None
            }
            (_, Token::Ident("in")) if std::mem::take(&mut in_targets) => None,
            (Some(before), operator) if may_be_computed(before, operator) => {
                Some(("|__py_value ", start))
            }
            _ => None,
        };
        if let Some((text, rest)) = edit {
            out.push_str(&template[copied..start]);
            out.push_str(text);
            copied = rest;
        }
        previous = Some(token);
    }
    out.push_str(&template[copied..]);
    Ok(out)
}

/// Whether minijinja may compute an operator at compile time: a constant can end before it.
fn may_be_computed(before: &Token<'_>, operator: &Token<'_>) -> bool {
    use Token::{BraceClose, BracketClose, Float, Ident, Int, Int128, ParenClose, Str, String};
    use Token::{Gt, Gte, Lt, Lte, Mul, Plus, Tilde};
    let is_end = match before {
        Str(_) | String(_) | Int(_) | Int128(_) | Float(_) => true,
        Ident(name) => matches!(*name, "true" | "True" | "false" | "False" | "none" | "None"),
        other => matches!(other, ParenClose | BracketClose | BraceClose),
    };
    let differs = matches!(
        operator,
        Plus | Mul | Tilde | Lt | Lte | Gt | Gte | Ident("in" | "not")
    );
    is_end && differs
}

/// The instructions with calls in place of operators.
fn replaced<'a>(code: &Instructions<'a>) -> Result<Instructions<'a>, TemplateError> {
    let old: Vec<&Instruction<'a>> = (0..).map_while(|at| code.get(at)).collect();
    let targets: BTreeSet<u32> = old.iter().filter_map(|it| target(it)).collect();
    let new = (0..).zip(&old).map(|(at, instruction)| {
        // Before an attribute is set, the namespace is looked up, and not the value.
        let needs_none = !matches!(instruction, Instruction::SetAttr(_))
            && is_checked(&old[..at as usize], at, &targets);
        let check = checked(instruction).filter(|_| !needs_none);
        check.unwrap_or_else(|| replacement(instruction))
    });
    let new: Vec<Vec<Instruction<'a>>> = new.collect();
    let mut places = vec![0];
    for instructions in &new {
        places.push(places[places.len() - 1] + instructions.len() as u32);
    }
    let mut out = Instructions::new(code.name(), code.source());
    for (at, mut instruction) in (0..)
        .zip(new)
        .flat_map(|(at, new)| new.into_iter().map(move |new| (at, new)))
    {
        let line = code.get_line(at).unwrap_or(1);
        match &mut instruction {
            Instruction::Iterate(target)
            | Instruction::Jump(target)
            | Instruction::JumpIfFalse(target)
            | Instruction::JumpIfFalseOrPop(target)
            | Instruction::JumpIfTrueOrPop(target)
            | Instruction::BuildMacro(_, target, _) => *target = places[*target as usize],
            Instruction::StoreLocal(name) if name.starts_with(RESERVED) => {
                let message = format!("`{name}`: names that start with `{RESERVED}` are reserved");
                return Err(syntax_error(line, message));
            }
            _ => {}
        }
        match code.get_span(at) {
            Some(span) => out.add_with_span(instruction, span),
            None => out.add_with_line(instruction, line as u16),
        };
    }
    Ok(out)
}

/// Returns the target of a jump.
fn target(instruction: &Instruction<'_>) -> Option<u32> {
    match instruction {
        Instruction::Iterate(target)
        | Instruction::Jump(target)
        | Instruction::JumpIfFalse(target)
        | Instruction::JumpIfFalseOrPop(target)
        | Instruction::JumpIfTrueOrPop(target)
        | Instruction::BuildMacro(_, target, _) => Some(*target),
        _ => None,
    }
}

fn call(name: &'static str, arguments: u16) -> Instruction<'static> {
    Instruction::CallFunction(name, Some(arguments))
}

/// Returns true if the value that an instruction takes has been checked: it is a part of what a
/// variable holds, or of what a loop runs over, or text.
fn is_checked(before: &[&Instruction<'_>], mut at: u32, targets: &BTreeSet<u32>) -> bool {
    for (place, instruction) in before.iter().enumerate().rev() {
        // Where a jump ends, the value can be another one.
        if targets.contains(&at) {
            return false;
        }
        at = place as u32;
        match instruction {
            Instruction::GetAttr(_) => {}
            Instruction::Lookup(_) | Instruction::Iterate(_) | Instruction::EndCapture => {
                return true;
            }
            _ => return false,
        }
    }
    false
}

/// The instructions with a check before a variable gets a value, and before a loop.
fn checked<'a>(instruction: &Instruction<'a>) -> Option<Vec<Instruction<'a>>> {
    use Instruction::{PushLoop, SetAttr, StoreLocal, Swap};
    match instruction {
        StoreLocal(_) => Some(vec![call("__py_held", 1), instruction.clone()]),
        // the value is below the namespace
        SetAttr(_) => Some(vec![Swap, call("__py_data", 1), Swap, instruction.clone()]),
        PushLoop(_) => Some(vec![call("__py_made_iter", 1), instruction.clone()]),
        _ => None,
    }
}

fn replacement<'a>(instruction: &Instruction<'a>) -> Vec<Instruction<'a>> {
    match instruction {
        Instruction::Neg => vec![call("__py_Neg", 1)],
        Instruction::Slice => vec![call("__py_Slice", 4)],
        // `a < b < c`: whether the first holds, and what the second compares
        Instruction::CompareAndPreserve(operator) => vec![
            Instruction::LoadConst(Value::from(format!("{operator:?}"))),
            call("__py_chained", 3),
            Instruction::UnpackList(2),
        ],
        // an attribute that is a method of some type; minijinja's own lookup finds all others
        Instruction::GetAttr(name) if is_member(name) => {
            vec![
                Instruction::LoadConst(Value::from(*name)),
                call("__py_attr", 2),
            ]
        }
        // text of the template counts like any other that is written
        Instruction::EmitRaw(text) => {
            vec![
                Instruction::LoadConst(Value::from(*text)),
                Instruction::Emit,
            ]
        }
        Instruction::PushLoop(_) => vec![call("__py_iter", 1), instruction.clone()],
        Instruction::FastRecurse | Instruction::CallFunction("loop", Some(1)) => {
            vec![call("__py_made_iter", 1), instruction.clone()]
        }
        _ => {
            let name = format!("{RESERVED}{instruction:?}");
            let operator = OPERATORS.iter().find(|(of, _)| *of == name);
            vec![operator.map_or_else(|| instruction.clone(), |(name, _)| call(name, 2))]
        }
    }
}
