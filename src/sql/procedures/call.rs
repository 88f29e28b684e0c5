//! Reading CALL. Imports the parser's tokens and `words`.

use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::error::{Error, Result};
use crate::sql::words::Words;

/// The database that procedures seem to be in.
const DATABASE: &str = "sys";

/// `[EXPLAIN] CALL [catalog.]sys.name(..)`
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    /// The catalog whose tables are meant, unless a table's name says another one.
    pub catalog: Option<Ident>,
    /// The procedure, as written.
    pub name: String,
    /// The arguments, in the order written.
    pub arguments: Vec<Given>,
    /// Whether the call is only to be explained.
    pub explain: bool,
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Given {
    /// The name, where it is given by name.
    pub name: Option<String>,
    /// The value as text; `None` for NULL.
    pub value: Option<String>,
}

/// Reads a CALL, or `None` when the statement is none.
///
/// # Errors
/// When it is one and cannot be read.
pub(crate) fn read_call(tokens: &[TokenWithSpan]) -> Result<Option<Call>> {
    let mut words = Words::new(tokens);
    let explain = words.take("EXPLAIN");
    if !words.take("CALL") {
        return Ok(None);
    }
    let mut name = words.name(3)?;
    let Some(procedure) = name.pop() else { return Err(words.unexpected("the name of a procedure")) };
    let database = name.pop();
    if database.as_ref().is_some_and(|database| !database.value.eq_ignore_ascii_case(DATABASE)) {
        return Err(Error::invalid(format!("procedures are in database {DATABASE}: CALL {DATABASE}.{procedure}(..)")));
    }
    let mut call = Call { catalog: name.pop(), name: procedure.value, arguments: Vec::new(), explain };
    words.expect_token(&Token::LParen)?;
    if !words.take_token(&Token::RParen) {
        call.arguments = words.items(given)?;
        words.expect_token(&Token::RParen)?;
    }
    words.end()?;
    if let Some(at) = call.arguments.iter().position(|given| given.name.is_some())
        && call.arguments[at..].iter().any(|given| given.name.is_none())
    {
        return Err(Error::invalid("an argument without a name follows one that is given by name; name them all"));
    }
    Ok(Some(call))
}

fn given(words: &mut Words<'_>) -> Result<Given> {
    let named = matches!(words.peek(), Token::Word(_)) && *words.peek_at(1) == Token::RArrow;
    let name = if named {
        let name = words.ident()?.value;
        words.expect_token(&Token::RArrow)?;
        Some(name)
    } else {
        None
    };
    Ok(Given { name, value: value(words)? })
}

/// A constant: a text, a number, a truth value, NULL, or a time with its type before it.
fn value(words: &mut Words<'_>) -> Result<Option<String>> {
    if let Token::Word(Word { quote_style: Some('"'), value, .. }) = words.peek() {
        words.next();
        return Ok(Some(value.clone()));
    }
    Ok(words.constant()?.text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::tokens::tokenize;

    fn read(sql: &str) -> Result<Option<Call>> {
        let tokens = tokenize(sql)?;
        read_call(&tokens[..tokens.len() - usize::from(tokens.last().is_some_and(|last| last.token == Token::EOF))])
    }

    fn texts(sql: &str) -> Vec<(Option<String>, Option<String>)> {
        read(sql).unwrap().unwrap().arguments.into_iter().map(|given| (given.name, given.value)).collect()
    }

    #[test]
    fn read_call_when_arguments_are_of_every_kind_then_their_texts() {
        let of = |name: &str, value: &str| ((!name.is_empty()).then(|| name.to_owned()), Some(value.to_owned()));
        assert_eq!(
            texts("CALL lake.sys.create_tag(`table` => 'db.t', tag => \"x\", snapshot_id => -5, b => TRUE)"),
            [of("table", "db.t"), of("tag", "x"), of("snapshot_id", "-5"), of("b", "true")]
        );
        assert_eq!(texts("CALL sys.rollback_to('t', NULL, 3)"), [of("", "t"), (None, None), of("", "3")]);
        assert!(texts("CALL x()").is_empty());
        let call = read("EXPLAIN CALL lake.sys.x('t')").unwrap().unwrap();
        assert_eq!((call.catalog.map(|ident| ident.value), call.explain), (Some("lake".to_owned()), true));
    }

    #[test]
    fn read_call_when_it_is_none_or_wrong_then_none_or_error() {
        assert!(read("SELECT 1").unwrap().is_none());
        assert!(read("EXPLAIN SELECT 1").unwrap().is_none());
        for sql in ["CALL", "CALL sys.x", "CALL db.x()", "CALL sys.x(a => 1, 2)", "CALL sys.x('t') x", "CALL sys.x(y)"]
        {
            assert!(read(sql).is_err(), "{sql}");
        }
    }
}
