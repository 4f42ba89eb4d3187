//! Compilation of templates to instructions, with Python's operators instead of minijinja's.
//!
//! minijinja has hooks for filters, tests, methods and printing, but none for operators, subscripts
//! and the values of loops. It compiles a template to instructions for a stack machine. There an
//! operator takes its operands from the stack, as a call of a function does. So each such
//! instruction is replaced by a call of a function of `operators`.

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
/// Prefix of the names that replaced instructions use.
const RESERVED: &str = "__py_";
/// Tags that load other templates, or that Hugging Face does not support.
const UNAVAILABLE: [&str; 6] = ["autoescape", "do", "extends", "from", "import", "include"];

/// A compiled template and its instructions.
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

/// Returns a copy of the text that lives as long as the process, because instructions borrow from
/// it. A server has few templates.
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

/// Returns the template in minijinja's form. Every line keeps its number.
///
/// `{% generation %}` marks the assistant's text for training. It becomes `{% with %}`, which has
/// the same scope as in transformers. An operator that makes text or lists gets a filter without
/// effect after a constant. Otherwise minijinja would compute it at compile time, without counting
/// the work.
fn prepared(template: &str, syntax: &SyntaxConfig) -> Result<String, TemplateError> {
    let template = template.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = String::with_capacity(template.len());
    let mut copied = 0;
    let mut previous = None;
    // Invalid text fails later, where it is parsed.
    for (token, span) in tokenize(&template, false, syntax.clone()).map_while(Result::ok) {
        let (start, end) = (span.start_offset as usize, span.end_offset as usize);
        let edit = match (&previous, &token) {
            (Some(Token::BlockStart), Token::Ident("generation")) => Some(("with", end)),
            (Some(Token::BlockStart), Token::Ident("endgeneration")) => Some(("endwith", end)),
            (Some(Token::BlockStart), Token::Ident(tag)) if UNAVAILABLE.contains(tag) => {
                let message = format!("`{{% {tag} %}}` is not available in chat templates");
                return Err(syntax_error(span.start_line.into(), message));
            }
            (Some(before), Token::Plus | Token::Mul | Token::Tilde) if may_end_constant(before) => {
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

/// Returns true if a constant, whose operators minijinja computes at compile time, can end here.
fn may_end_constant(token: &Token<'_>) -> bool {
    use Token::{BraceClose, BracketClose, Float, Int, Int128, ParenClose, Str, String};
    matches!(
        token,
        Str(_) | String(_) | Int(_) | Int128(_) | Float(_) | ParenClose | BracketClose | BraceClose
    )
}

/// Replaces operators by calls.
fn replaced<'a>(code: &Instructions<'a>) -> Result<Instructions<'a>, TemplateError> {
    let old = (0..).map_while(|at| code.get(at));
    let new: Vec<Vec<Instruction<'a>>> = old.map(replacement).collect();
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

fn call(name: &'static str, arguments: u16) -> Instruction<'static> {
    Instruction::CallFunction(name, Some(arguments))
}

fn replacement<'a>(instruction: &Instruction<'a>) -> Vec<Instruction<'a>> {
    match instruction {
        Instruction::Neg => vec![call("__py_Neg", 1)],
        Instruction::Slice => vec![call("__py_Slice", 4)],
        // `a < b < c` keeps the result of the first comparison, and the operand of the second.
        Instruction::CompareAndPreserve(operator) => vec![
            Instruction::LoadConst(Value::from(format!("{operator:?}"))),
            call("__py_chained", 3),
            Instruction::UnpackList(2),
        ],
        // An attribute that is a method of some type. minijinja's own lookup finds all others.
        Instruction::GetAttr(name) if is_member(name) => {
            vec![
                Instruction::LoadConst(Value::from(*name)),
                call("__py_attr", 2),
            ]
        }
        // Text of the template counts like any other text that is written.
        Instruction::EmitRaw(text) => {
            vec![
                Instruction::LoadConst(Value::from(*text)),
                Instruction::Emit,
            ]
        }
        // Values are checked before a loop, and before a variable gets them.
        Instruction::PushLoop(_)
        | Instruction::FastRecurse
        | Instruction::CallFunction("loop", Some(1)) => {
            vec![call("__py_iter", 1), instruction.clone()]
        }
        Instruction::StoreLocal(_) => vec![call("__py_held", 1), instruction.clone()],
        // The value is below the namespace on the stack.
        Instruction::SetAttr(_) => vec![
            Instruction::Swap,
            call("__py_data", 1),
            Instruction::Swap,
            instruction.clone(),
        ],
        _ => {
            let name = format!("{RESERVED}{instruction:?}");
            let operator = OPERATORS.iter().find(|(of, ..)| *of == name);
            vec![operator.map_or_else(|| instruction.clone(), |(name, ..)| call(name, 2))]
        }
    }
}
