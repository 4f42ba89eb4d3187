//! Rewrites a template so that its operators have Python's meaning.
//!
//! minijinja parses the template, with the whitespace rules of Hugging Face; the tree is written out again with every operator,
//! attribute, item, slice, method call and loop source as a call of a function from `super::python` (`a + b` becomes
//! `__py_add(a, b)`), and minijinja compiles and runs that. What short-circuits or binds names (`and`, `or`, `if`, `for`, `set`,
//! macros, filters, tests) stays as it is.
//!
//! The text that is written has no line breaks of its own: each one starts a piece that came from a known line of the
//! template, so that an error's line can be translated back.

mod expression;

use minijinja::machinery::{ast, parse};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Error, ErrorKind};

/// A template with Python's operators spelled out.
#[derive(Debug)]
pub(super) struct Rewritten {
    pub(super) source: String,
    /// For each line of `source`, the line of the template it came from.
    lines: Vec<usize>,
}

impl Rewritten {
    /// The template's line for a line of the rewritten source; both count from one.
    pub(super) fn original_line(&self, line: usize) -> Option<usize> {
        line.checked_sub(1)
            .and_then(|index| self.lines.get(index))
            .copied()
    }
}

/// Parses `template` and writes it out again.
pub(super) fn rewrite(template: &str) -> Result<Rewritten, Error> {
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true);
    let template = plain_generation_blocks(template);
    let tree = parse(&template, "chat_template", syntax.build()?)?;
    let mut writer = Writer {
        out: String::with_capacity(template.len() * 2),
        lines: vec![1],
        line: 1,
    };
    writer.statement(&tree)?;
    Ok(Rewritten {
        source: writer.out,
        lines: writer.lines,
    })
}

/// `{% generation %}` marks what the assistant said, for training; its text is rendered like any other. `{% with %}` gives it
/// the scope that it has in transformers. Columns stay what they were.
fn plain_generation_blocks(template: &str) -> String {
    let template = template.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = String::with_capacity(template.len());
    let mut rest = template.as_str();
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at + 2);
        out.push_str(before);
        let name = tag.trim_start_matches(['-', '+']).trim_start();
        out.push_str(&tag[..tag.len() - name.len()]);
        rest = name;
        for (word, stand_in) in [("generation", "with"), ("endgeneration", "endwith")] {
            if let Some(after) = name.strip_prefix(word)
                && after
                    .trim_start()
                    .trim_start_matches(['-', '+'])
                    .starts_with("%}")
            {
                out.push_str(stand_in);
                out.extend(std::iter::repeat_n(' ', word.len() - stand_in.len()));
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

fn syntax_error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::SyntaxError, message.into())
}

/// Names of variables that the rewriting itself gives a meaning to.
const RESERVED: &str = "__py_";

struct Writer {
    out: String,
    lines: Vec<usize>,
    line: usize,
}

impl Writer {
    /// Starts a new line for what comes from `line` of the template.
    fn at(&mut self, line: u16) {
        self.line = usize::from(line);
        self.out.push('\n');
        self.lines.push(self.line);
    }

    fn tag(
        &mut self,
        line: u16,
        write: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.out.push_str("{%");
        self.at(line);
        write(self)?;
        self.out.push_str(" %}");
        Ok(())
    }

    fn end(&mut self, name: &str) {
        self.out.push_str("{% ");
        self.out.push_str(name);
        self.out.push_str(" %}");
    }

    fn body(&mut self, statements: &[ast::Stmt<'_>]) -> Result<(), Error> {
        statements
            .iter()
            .try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &ast::Stmt<'_>) -> Result<(), Error> {
        match statement {
            ast::Stmt::Template(template) => self.body(&template.children),
            ast::Stmt::EmitRaw(raw) => {
                self.out.push_str("{{ ");
                self.text(raw.raw);
                self.out.push_str(" }}");
                Ok(())
            }
            ast::Stmt::EmitExpr(emit) => {
                self.out.push_str("{{");
                self.at(emit.span().start_line);
                self.expression(&emit.expr)?;
                self.out.push_str(" }}");
                Ok(())
            }
            ast::Stmt::ForLoop(node) => {
                self.tag(node.span().start_line, |w| {
                    w.out.push_str("for ");
                    w.target(&node.target)?;
                    w.out.push_str(" in ");
                    w.call("__py_iter", &[&node.iter])?;
                    if let Some(filter) = &node.filter_expr {
                        w.out.push_str(" if ");
                        w.expression(filter)?;
                    }
                    if node.recursive {
                        w.out.push_str(" recursive");
                    }
                    Ok(())
                })?;
                self.body(&node.body)?;
                if !node.else_body.is_empty() {
                    self.end("else");
                    self.body(&node.else_body)?;
                }
                self.end("endfor");
                Ok(())
            }
            ast::Stmt::IfCond(node) => {
                self.tag(node.span().start_line, |w| {
                    w.out.push_str("if ");
                    w.expression(&node.expr)
                })?;
                self.body(&node.true_body)?;
                if !node.false_body.is_empty() {
                    self.end("else");
                    self.body(&node.false_body)?;
                }
                self.end("endif");
                Ok(())
            }
            ast::Stmt::WithBlock(node) => {
                self.tag(node.span().start_line, |w| {
                    w.out.push_str("with ");
                    for (index, (target, value)) in node.assignments.iter().enumerate() {
                        if index > 0 {
                            w.out.push_str(", ");
                        }
                        w.target(target)?;
                        w.out.push_str(" = ");
                        w.expression(value)?;
                    }
                    Ok(())
                })?;
                self.body(&node.body)?;
                self.end("endwith");
                Ok(())
            }
            ast::Stmt::Set(node) => self.tag(node.span().start_line, |w| {
                w.out.push_str("set ");
                w.target(&node.target)?;
                w.out.push_str(" = ");
                w.expression(&node.expr)
            }),
            ast::Stmt::SetBlock(node) => {
                self.tag(node.span().start_line, |w| {
                    w.out.push_str("set ");
                    w.target(&node.target)?;
                    if let Some(filter) = &node.filter {
                        w.out.push_str(" | ");
                        w.expression(filter)?;
                    }
                    Ok(())
                })?;
                self.body(&node.body)?;
                self.end("endset");
                Ok(())
            }
            ast::Stmt::FilterBlock(node) => {
                self.tag(node.span().start_line, |w| {
                    w.out.push_str("filter ");
                    w.expression(&node.filter)
                })?;
                self.body(&node.body)?;
                self.end("endfilter");
                Ok(())
            }
            ast::Stmt::Block(node) => {
                self.tag(node.span().start_line, |w| {
                    w.out.push_str("block ");
                    w.out.push_str(node.name);
                    Ok(())
                })?;
                self.body(&node.body)?;
                self.end("endblock");
                Ok(())
            }
            ast::Stmt::Macro(node) => {
                self.tag(node.span().start_line, |w| {
                    w.out.push_str("macro ");
                    w.name(node.name)?;
                    w.parameters(node)
                })?;
                self.body(&node.body)?;
                self.end("endmacro");
                Ok(())
            }
            ast::Stmt::CallBlock(node) => {
                self.tag(node.span().start_line, |w| {
                    w.out.push_str("call");
                    if !node.macro_decl.args.is_empty() {
                        w.parameters(&node.macro_decl)?;
                    }
                    w.out.push(' ');
                    w.expression(&node.call.expr)?;
                    w.arguments(&node.call.args)
                })?;
                self.body(&node.macro_decl.body)?;
                self.end("endcall");
                Ok(())
            }
            ast::Stmt::Continue(node) => self.tag(node.span().start_line, |w| {
                w.out.push_str("continue");
                Ok(())
            }),
            ast::Stmt::Break(node) => self.tag(node.span().start_line, |w| {
                w.out.push_str("break");
                Ok(())
            }),
            ast::Stmt::Do(node) => Err(unavailable("do", node.span().start_line)),
            ast::Stmt::AutoEscape(node) => Err(unavailable("autoescape", node.span().start_line)),
            ast::Stmt::Import(node) => Err(unavailable("import", node.span().start_line)),
            ast::Stmt::FromImport(node) => Err(unavailable("from", node.span().start_line)),
            ast::Stmt::Extends(node) => Err(unavailable("extends", node.span().start_line)),
            ast::Stmt::Include(node) => Err(unavailable("include", node.span().start_line)),
        }
    }

    /// Parameters of a macro with the defaults of the last of them.
    fn parameters(&mut self, node: &ast::Macro<'_>) -> Result<(), Error> {
        self.out.push('(');
        let required = node.args.len() - node.defaults.len();
        for (index, parameter) in node.args.iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            self.target(parameter)?;
            if let Some(default) = index
                .checked_sub(required)
                .and_then(|index| node.defaults.get(index))
            {
                self.out.push('=');
                self.expression(default)?;
            }
        }
        self.out.push(')');
        Ok(())
    }

    /// A name that the template binds.
    fn name(&mut self, name: &str) -> Result<(), Error> {
        if name.starts_with(RESERVED) {
            return Err(syntax_error(format!(
                "line {}: `{name}`: names that start with `{RESERVED}` are reserved",
                self.line
            )));
        }
        self.out.push_str(name);
        Ok(())
    }

    /// What an assignment or a loop binds: a name, an attribute of a namespace, or several.
    fn target(&mut self, target: &ast::Expr<'_>) -> Result<(), Error> {
        match target {
            ast::Expr::Var(var) => self.name(var.id),
            ast::Expr::GetAttr(attribute) => {
                self.target(&attribute.expr)?;
                self.out.push('.');
                self.out.push_str(attribute.name);
                Ok(())
            }
            ast::Expr::List(list) => {
                for (index, item) in list.items.iter().enumerate() {
                    if index > 0 {
                        self.out.push_str(", ");
                    }
                    let nested = matches!(item, ast::Expr::List(_));
                    self.out.push_str(if nested { "(" } else { "" });
                    self.target(item)?;
                    self.out.push_str(if nested { ")" } else { "" });
                }
                if list.items.len() == 1 {
                    self.out.push(',');
                }
                Ok(())
            }
            other => Err(syntax_error(format!(
                "cannot assign to {}",
                other.description()
            ))),
        }
    }
}

fn unavailable(tag: &str, line: u16) -> Error {
    syntax_error(format!(
        "line {line}: `{{% {tag} %}}` is not available in chat templates"
    ))
}
