//! Expressions: operators become calls, what short-circuits stays.

use minijinja::Error;
use minijinja::machinery::ast;
use minijinja::value::{Value, ValueKind};

use super::{Writer, syntax_error};

impl Writer {
    pub(super) fn call(
        &mut self,
        function: &str,
        arguments: &[&ast::Expr<'_>],
    ) -> Result<(), Error> {
        self.out.push_str(function);
        self.out.push('(');
        for (index, argument) in arguments.iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            self.expression(argument)?;
        }
        self.out.push(')');
        Ok(())
    }

    pub(super) fn expression(&mut self, expression: &ast::Expr<'_>) -> Result<(), Error> {
        let line = expression.span().start_line;
        if line > 0 && usize::from(line) != self.line {
            self.at(line);
        }
        match expression {
            ast::Expr::Var(var) => {
                self.out.push_str(var.id);
                Ok(())
            }
            ast::Expr::Const(constant) => self.constant(&constant.value),
            ast::Expr::Slice(node) => {
                self.out.push_str("__py_slice(");
                self.expression(&node.expr)?;
                for bound in [&node.start, &node.stop, &node.step] {
                    self.out.push_str(", ");
                    match bound {
                        Some(bound) => self.expression(bound)?,
                        None => self.out.push_str("none"),
                    }
                }
                self.out.push(')');
                Ok(())
            }
            ast::Expr::UnaryOp(node) => match node.op {
                ast::UnaryOpKind::Neg => self.call("__py_neg", &[&node.expr]),
                ast::UnaryOpKind::Not => {
                    self.out.push_str("(not ");
                    self.expression(&node.expr)?;
                    self.out.push(')');
                    Ok(())
                }
            },
            ast::Expr::BinOp(node) => {
                if let Some(function) = operator_function(node.op) {
                    return self.call(function, &[&node.left, &node.right]);
                }
                self.out.push('(');
                self.expression(&node.left)?;
                let word = if matches!(node.op, ast::BinOpKind::ScAnd) {
                    " and "
                } else {
                    " or "
                };
                self.out.push_str(word);
                self.expression(&node.right)?;
                self.out.push(')');
                Ok(())
            }
            ast::Expr::Compare(node) => {
                // `a < b < c` is `a < b and b < c`; an operand in the middle has no effect that evaluating it twice could repeat
                self.out.push('(');
                let mut left = &node.expr;
                for (index, comparison) in node.ops.iter().enumerate() {
                    if index > 0 {
                        self.out.push_str(" and ");
                    }
                    self.call(
                        comparison_function(comparison.op),
                        &[left, &comparison.expr],
                    )?;
                    left = &comparison.expr;
                }
                self.out.push(')');
                Ok(())
            }
            ast::Expr::IfExpr(node) => {
                self.out.push('(');
                self.expression(&node.true_expr)?;
                self.out.push_str(" if ");
                self.expression(&node.test_expr)?;
                if let Some(otherwise) = &node.false_expr {
                    self.out.push_str(" else ");
                    self.expression(otherwise)?;
                }
                self.out.push(')');
                Ok(())
            }
            ast::Expr::Filter(node) => {
                if let Some(subject) = &node.expr {
                    self.out.push('(');
                    self.expression(subject)?;
                    self.out.push_str(")|");
                }
                self.out.push_str(node.name);
                if !node.args.is_empty() {
                    self.arguments(&node.args)?;
                }
                Ok(())
            }
            ast::Expr::Test(node) => {
                self.out.push_str("((");
                self.expression(&node.expr)?;
                self.out.push_str(") is ");
                self.out.push_str(node.name);
                if !node.args.is_empty() {
                    self.arguments(&node.args)?;
                }
                self.out.push(')');
                Ok(())
            }
            ast::Expr::GetAttr(node) => {
                self.out.push_str("__py_attr(");
                self.expression(&node.expr)?;
                self.out.push_str(", ");
                self.text(node.name);
                self.out.push(')');
                Ok(())
            }
            ast::Expr::GetItem(node) => self.call("__py_item", &[&node.expr, &node.subscript_expr]),
            ast::Expr::Call(node) => self.call_expression(node),
            ast::Expr::List(node) => self.elements('[', &node.items, ']'),
            ast::Expr::Tuple(node) => {
                self.elements(
                    '(',
                    &node.items,
                    if node.items.len() == 1 { ',' } else { ')' },
                )?;
                if node.items.len() == 1 {
                    self.out.push(')');
                }
                Ok(())
            }
            ast::Expr::Map(node) => {
                self.out.push('{');
                for (index, (key, value)) in node.keys.iter().zip(&node.values).enumerate() {
                    if index > 0 {
                        self.out.push_str(", ");
                    }
                    self.expression(key)?;
                    self.out.push_str(": ");
                    self.expression(value)?;
                }
                // a space keeps two braces from closing the tag
                self.out.push_str(" }");
                Ok(())
            }
        }
    }

    fn call_expression(&mut self, node: &ast::Call<'_>) -> Result<(), Error> {
        match &node.expr {
            ast::Expr::Var(var) if var.id == "loop" => {
                // a recursive loop runs over its argument
                self.out.push_str("loop(__py_iter");
                self.arguments(&node.args)?;
                self.out.push(')');
                Ok(())
            }
            ast::Expr::GetAttr(attribute) if !matches!(&attribute.expr, ast::Expr::Var(var) if var.id == "self") =>
            {
                self.out.push_str("__py_method(");
                self.expression(&attribute.expr)?;
                self.out.push_str(", ");
                self.text(attribute.name);
                for argument in &node.args {
                    self.out.push_str(", ");
                    self.argument(argument)?;
                }
                self.out.push(')');
                Ok(())
            }
            ast::Expr::GetAttr(block) => {
                self.out.push_str("self.");
                self.out.push_str(block.name);
                self.arguments(&node.args)
            }
            callee => {
                self.expression(callee)?;
                self.arguments(&node.args)
            }
        }
    }

    pub(super) fn arguments(&mut self, arguments: &[ast::CallArg<'_>]) -> Result<(), Error> {
        self.out.push('(');
        for (index, argument) in arguments.iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            self.argument(argument)?;
        }
        self.out.push(')');
        Ok(())
    }

    fn argument(&mut self, argument: &ast::CallArg<'_>) -> Result<(), Error> {
        match argument {
            ast::CallArg::Pos(value) => self.expression(value),
            ast::CallArg::Kwarg(name, value) => {
                self.out.push_str(name);
                self.out.push('=');
                self.expression(value)
            }
            ast::CallArg::PosSplat(values) => {
                self.out.push('*');
                self.expression(values)
            }
            ast::CallArg::KwargSplat(values) => {
                self.out.push_str("**");
                self.expression(values)
            }
        }
    }

    fn elements(&mut self, open: char, items: &[ast::Expr<'_>], close: char) -> Result<(), Error> {
        self.out.push(open);
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            self.expression(item)?;
        }
        self.out.push(close);
        Ok(())
    }

    fn constant(&mut self, value: &Value) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => self.out.push_str("none"),
            ValueKind::Bool => self
                .out
                .push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number if value.is_integer() => self.out.push_str(&value.to_string()),
            ValueKind::Number => {
                let float = f64::try_from(value.clone())?;
                if !float.is_finite() {
                    return Err(syntax_error("number out of range"));
                }
                let literal = format!("{float:?}");
                self.out.push_str(&literal);
            }
            _ => self.text(
                value
                    .as_str()
                    .ok_or_else(|| syntax_error("constant of an unknown type"))?,
            ),
        }
        Ok(())
    }

    /// A string literal on one line.
    pub(super) fn text(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}

fn operator_function(operator: ast::BinOpKind) -> Option<&'static str> {
    Some(match operator {
        ast::BinOpKind::ScAnd | ast::BinOpKind::ScOr => return None,
        ast::BinOpKind::Eq => "__py_eq",
        ast::BinOpKind::Ne => "__py_ne",
        ast::BinOpKind::Lt => "__py_lt",
        ast::BinOpKind::Lte => "__py_le",
        ast::BinOpKind::Gt => "__py_gt",
        ast::BinOpKind::Gte => "__py_ge",
        ast::BinOpKind::Add => "__py_add",
        ast::BinOpKind::Sub => "__py_sub",
        ast::BinOpKind::Mul => "__py_mul",
        ast::BinOpKind::Div => "__py_div",
        ast::BinOpKind::FloorDiv => "__py_floordiv",
        ast::BinOpKind::Rem => "__py_mod",
        ast::BinOpKind::Pow => "__py_pow",
        ast::BinOpKind::Concat => "__py_concat",
        ast::BinOpKind::In => "__py_in",
    })
}

fn comparison_function(operator: ast::CompareOpKind) -> &'static str {
    match operator {
        ast::CompareOpKind::Eq => "__py_eq",
        ast::CompareOpKind::Ne => "__py_ne",
        ast::CompareOpKind::Lt => "__py_lt",
        ast::CompareOpKind::Lte => "__py_le",
        ast::CompareOpKind::Gt => "__py_gt",
        ast::CompareOpKind::Gte => "__py_ge",
        ast::CompareOpKind::In => "__py_in",
        ast::CompareOpKind::NotIn => "__py_not_in",
    }
}
