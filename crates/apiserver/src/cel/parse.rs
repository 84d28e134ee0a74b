//! From text to tree: the crate's grammar, with the macros that Kubernetes has beside the standard ones.

use std::fmt::Write as _;
use std::sync::LazyLock;

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, SourceInfo, operators,
};
use cel::parser::{Macro, MacroExprHelper, ParseError};

use super::{Beside, nesting};

/// The name of what a comprehension gathers.
pub const ACCUMULATOR: &str = "@result";

/// Reads an expression.
///
/// # Errors
/// Everything that is wrong with it, in the words of cel-go.
pub fn parse(text: &str, beside: Beside) -> Result<(IdedExpr, SourceInfo), String> {
    static PLAIN: LazyLock<cel::Env> = LazyLock::new(|| environment(macros()));
    static BINDING: LazyLock<cel::Env> =
        LazyLock::new(|| environment(macros().into_iter().chain([Macro::receiver("bind", 3, bind)])));
    let environment = if beside == Beside::Bindings { &BINDING } else { &PLAIN };
    deep_enough(nesting::depth(text)?, || {
        parser(environment).parse_with_source_info(text).map_err(|errors| {
            let more = errors.errors.len().saturating_sub(MOST_ERRORS);
            let placed = errors.errors.into_iter().map(|e| ((e.pos.0.max(1), e.pos.1.max(1)), e.msg));
            told_all(text, placed.take(MOST_ERRORS), more)
        })
    })
}

fn environment(macros: impl IntoIterator<Item = Macro>) -> cel::Env {
    let mut environment = cel::Env::stdlib().with_optional_support(true);
    for extra in macros {
        // None of them is there already.
        let _ = environment.add_macro(extra);
    }
    environment
}

/// Reads an expression of the bare language, without macros and optional values.
///
/// # Errors
/// The first thing that is wrong with it, in the words of cel-go, without its place.
pub fn without_macros(text: &str) -> Result<IdedExpr, String> {
    static ENV: LazyLock<cel::Env> = LazyLock::new(|| cel::Env::default().with_optional_support(false));
    let nowhere = |error: String| error.strip_prefix(nesting::NOWHERE).map(str::to_owned).unwrap_or(error);
    deep_enough(nesting::depth(text).map_err(nowhere)?, || {
        parser(&ENV).parse(text).map_err(|errors| errors.errors.first().map_or_else(String::new, |e| e.msg.clone()))
    })
}

/// Runs the crate's parser, which takes much of the stack for each step down.
fn deep_enough<T: Send>(depth: usize, parse: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    if depth <= SHALLOW {
        return parse();
    }
    std::thread::scope(|scope| {
        let parser = std::thread::Builder::new().name("expressions".to_owned()).stack_size(STACK);
        let parser = parser.spawn_scoped(scope, parse).ok();
        parser.and_then(|parser| parser.join().ok()).unwrap_or_else(|| Err("the expression cannot be read".to_owned()))
    })
}

/// Expressions that nest no deeper are read on the stack of whoever asks.
const SHALLOW: usize = 32;
/// The stack for others, in bytes.
const STACK: usize = 64 << 20;
/// How deep the crate's parser goes: no deeper than what is let through to it.
const DEEPEST: u16 = 1000;

fn parser(env: &cel::Env) -> cel::parser::Parser {
    env.parser().max_recursion_depth(DEEPEST)
}

/// So many errors are told of one expression.
pub const MOST_ERRORS: usize = 100;

/// Once so many bytes are told of one expression, no further error is: each comes with its line (B-26).
const MOST_TOLD: usize = 64 << 10;

/// Errors at their lines and columns, and how many more there are.
pub fn told_all(text: &str, errors: impl IntoIterator<Item = ((isize, isize), String)>, mut more: usize) -> String {
    let mut out = String::new();
    for ((line, column), message) in errors {
        if out.len() < MOST_TOLD {
            out.push_str(&told(text, line, column, &message));
            out.push('\n');
        } else {
            more += 1;
        }
    }
    if more > 0 {
        let _ = write!(out, "{more} more errors were truncated");
    }
    out.truncate(out.trim_end_matches('\n').len());
    out
}

/// An error at a line and column, both from 1, with the line and a mark below it.
#[must_use]
pub fn told(text: &str, line: isize, column: isize, message: &str) -> String {
    let mut out = format!("ERROR: <input>:{line}:{column}: {message}");
    let at = usize::try_from(line - 1).unwrap_or_default();
    let Some(snippet) = text.split('\n').nth(at) else { return out };
    let snippet = snippet.replace('\t', " ");
    out.push_str("\n | ");
    out.push_str(&snippet);
    out.push_str("\n | ");
    let before = usize::try_from(column - 1).unwrap_or_default();
    let mut characters = snippet.chars();
    for character in characters.by_ref().take(before) {
        out.push(if character.is_ascii() { '.' } else { '\u{ff0e}' });
    }
    out.push(if characters.next().is_none_or(|c| c.is_ascii()) { '^' } else { '\u{ff3e}' });
    out
}

/// The place of a node: line and column, both from 1.
#[must_use]
pub fn place(text: &str, source: &SourceInfo, id: u64) -> (isize, isize) {
    let offset = source.offset_for(id).map_or(0, |(start, _)| usize::try_from(start).unwrap_or_default());
    let (mut line, mut column) = (1, 1);
    // The offset is in bytes, a column in characters.
    for (_, character) in text.char_indices().take_while(|(at, _)| *at < offset) {
        if character == '\n' {
            line += 1;
            column = 1;
        } else {
            column += 1;
        }
    }
    (line, column)
}

/// The variables that an expression names, but for those of its comprehensions.
pub fn names(tree: &IdedExpr, out: &mut Vec<String>) {
    let mut note = |name: &str| {
        if !out.iter().any(|known| known == name) {
            out.push(name.to_owned());
        }
    };
    match &tree.expr {
        Expr::Ident(name) => note(name),
        Expr::Select(select) => names(&select.operand, out),
        Expr::Call(call) => call.target.iter().map(|t| &**t).chain(&call.args).for_each(|e| names(e, out)),
        Expr::List(list) => list.elements.iter().for_each(|e| names(e, out)),
        Expr::Map(MapExpr { entries }) => entries.iter().for_each(|entry| {
            if let EntryExpr::MapEntry(entry) = &entry.expr {
                names(&entry.key, out);
                names(&entry.value, out);
            }
        }),
        Expr::Comprehension(comprehension) => {
            let c = &**comprehension;
            let mut inner = Vec::new();
            for part in [&c.accu_init, &c.loop_cond, &c.loop_step, &c.result] {
                names(part, &mut inner);
            }
            names(&c.iter_range, out);
            let own = |name: &String| *name == c.iter_var || Some(name) == c.iter_var2.as_ref() || *name == c.accu_var;
            for name in inner.into_iter().filter(|name| !own(name)) {
                if !out.contains(&name) {
                    out.push(name);
                }
            }
        }
        Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => {}
    }
}

type Target = Option<IdedExpr>;
type Args = Vec<IdedExpr>;
type Expansion = Result<Option<IdedExpr>, ParseError>;

fn macros() -> Vec<Macro> {
    vec![
        Macro::receiver("all", 3, |h, t, a| two_variables(h, t, a, Two::All)),
        Macro::receiver("exists", 3, |h, t, a| two_variables(h, t, a, Two::Exists)),
        Macro::receiver("exists_one", 3, |h, t, a| two_variables(h, t, a, Two::ExistsOne)),
        Macro::receiver("existsOne", 3, |h, t, a| two_variables(h, t, a, Two::ExistsOne)),
        Macro::receiver("transformList", 3, |h, t, a| two_variables(h, t, a, Two::List)),
        Macro::receiver("transformList", 4, |h, t, a| two_variables(h, t, a, Two::List)),
        Macro::receiver("transformMap", 3, |h, t, a| two_variables(h, t, a, Two::Map)),
        Macro::receiver("transformMap", 4, |h, t, a| two_variables(h, t, a, Two::Map)),
        Macro::receiver("transformMapEntry", 3, |h, t, a| two_variables(h, t, a, Two::Entries)),
        Macro::receiver("transformMapEntry", 4, |h, t, a| two_variables(h, t, a, Two::Entries)),
        Macro::receiver("sortBy", 2, sort_by),
    ]
}

/// What a comprehension over keys and values makes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Two {
    All,
    Exists,
    ExistsOne,
    List,
    Map,
    Entries,
}

fn ident(helper: &mut MacroExprHelper<'_>, name: &str) -> IdedExpr {
    helper.next_expr(Expr::Ident(name.to_owned()))
}

fn call(helper: &mut MacroExprHelper<'_>, name: &str, args: Args) -> IdedExpr {
    helper.next_expr(Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }))
}

fn bool_literal(helper: &mut MacroExprHelper<'_>, value: bool) -> IdedExpr {
    helper.next_expr(Expr::Literal(LiteralValue::Boolean(value.into())))
}

fn int_literal(helper: &mut MacroExprHelper<'_>, value: i64) -> IdedExpr {
    helper.next_expr(Expr::Literal(LiteralValue::Int(value.into())))
}

/// The name of a variable that a macro was given.
fn variable(helper: &mut MacroExprHelper<'_>, expr: &IdedExpr) -> Result<String, ParseError> {
    match &expr.expr {
        Expr::Ident(name) => Ok(name.clone()),
        _ => Err(helper.new_error(expr.id, "argument must be a simple name")),
    }
}

fn two_variables(helper: &mut MacroExprHelper<'_>, target: &mut Target, args: &mut Args, what: Two) -> Expansion {
    let (first, second) = (variable(helper, &args[0])?, variable(helper, &args[1])?);
    let Some(range) = target.take() else { return Ok(None) };
    let mut rest = std::mem::take(args).into_iter().skip(2);
    let (one, other) = (rest.next(), rest.next());
    let (filter, Some(body)) = (if other.is_some() { one.clone() } else { None }, other.or(one)) else {
        return Ok(None);
    };
    let accumulator = ident(helper, ACCUMULATOR);
    let mut condition = bool_literal(helper, true);
    let (init, mut step) = match what {
        Two::All | Two::Exists => {
            let all = what == Two::All;
            let checked = if all {
                ident(helper, ACCUMULATOR)
            } else {
                let gathered = ident(helper, ACCUMULATOR);
                call(helper, operators::LOGICAL_NOT, vec![gathered])
            };
            condition = call(helper, operators::NOT_STRICTLY_FALSE, vec![checked]);
            let operator = if all { operators::LOGICAL_AND } else { operators::LOGICAL_OR };
            (bool_literal(helper, all), call(helper, operator, vec![accumulator, body]))
        }
        Two::ExistsOne => {
            let one = int_literal(helper, 1);
            let more = call(helper, operators::ADD, vec![accumulator, one]);
            let same = ident(helper, ACCUMULATOR);
            (int_literal(helper, 0), call(helper, operators::CONDITIONAL, vec![body, more, same]))
        }
        Two::List => {
            let element = helper.next_expr(Expr::List(ListExpr::new(vec![body])));
            let init = helper.next_expr(Expr::List(ListExpr::new(Vec::new())));
            (init, call(helper, operators::ADD, vec![accumulator, element]))
        }
        Two::Map => {
            let key = ident(helper, &first);
            let init = helper.next_expr(Expr::Map(MapExpr::default()));
            (init, call(helper, "cel.@mapInsert", vec![accumulator, key, body]))
        }
        Two::Entries => {
            let init = helper.next_expr(Expr::Map(MapExpr::default()));
            (init, call(helper, "cel.@mapInsert", vec![accumulator, body]))
        }
    };
    if let Some(filter) = filter {
        let same = ident(helper, ACCUMULATOR);
        step = call(helper, operators::CONDITIONAL, vec![filter, step, same]);
    }
    let mut result = ident(helper, ACCUMULATOR);
    if what == Two::ExistsOne {
        let one = int_literal(helper, 1);
        result = call(helper, operators::EQUALS, vec![result, one]);
    }
    Ok(Some(helper.next_expr(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: range,
        iter_var: first,
        iter_var2: Some(second),
        accu_var: ACCUMULATOR.to_owned(),
        accu_init: init,
        loop_cond: condition,
        loop_step: step,
        result,
    })))))
}

/// `cel.bind(name, value, expression)`: the expression, in which the name stands for the value.
fn bind(helper: &mut MacroExprHelper<'_>, target: &mut Target, args: &mut Args) -> Expansion {
    if !matches!(target.as_ref().map(|target| &target.expr), Some(Expr::Ident(name)) if name == "cel") {
        return Ok(None);
    }
    let Expr::Ident(name) = &args[0].expr else {
        return Err(helper.new_error(args[0].id, "cel.bind() variable names must be simple identifiers"));
    };
    let name = name.clone();
    let (Some(result), Some(value)) = (args.pop(), args.pop()) else { return Ok(None) };
    args.clear();
    *target = None;
    let comprehension = ComprehensionExpr {
        iter_range: helper.next_expr(Expr::List(ListExpr::new(Vec::new()))),
        iter_var: "#unused".to_owned(),
        iter_var2: None,
        accu_var: name.clone(),
        accu_init: value,
        loop_cond: bool_literal(helper, false),
        loop_step: ident(helper, &name),
        result,
    };
    Ok(Some(helper.next_expr(Expr::Comprehension(Box::new(comprehension)))))
}

/// `list.sortBy(e, key)`: the list, sorted by the list of its keys.
fn sort_by(helper: &mut MacroExprHelper<'_>, target: &mut Target, args: &mut Args) -> Expansion {
    let name = variable(helper, &args[0])?;
    let (Some(range), Some(key)) = (target.take(), args.pop()) else { return Ok(None) };
    args.clear();
    let accumulator = ident(helper, ACCUMULATOR);
    let element = helper.next_expr(Expr::List(ListExpr::new(vec![key])));
    let comprehension = ComprehensionExpr {
        iter_range: range.clone(),
        iter_var: name,
        iter_var2: None,
        accu_var: ACCUMULATOR.to_owned(),
        accu_init: helper.next_expr(Expr::List(ListExpr::new(Vec::new()))),
        loop_cond: bool_literal(helper, true),
        loop_step: call(helper, operators::ADD, vec![accumulator, element]),
        result: ident(helper, ACCUMULATOR),
    };
    let keys = helper.next_expr(Expr::Comprehension(Box::new(comprehension)));
    Ok(Some(helper.next_expr(Expr::Call(CallExpr {
        func_name: "@sortByAssociatedKeys".to_owned(),
        target: Some(Box::new(range)),
        args: vec![keys],
    }))))
}
