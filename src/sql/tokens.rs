//! SQL text to tokens and back. Imports the parser.

use std::ops::Range;

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer, Whitespace, Word};

use super::dialect::LakeDialect;
use crate::error::{Error, Result};

/// The tokens of `sql` without white space and comments; hints (`/*+ .. */`) stay.
///
/// # Errors
/// When a string, a quoted name or a comment is not closed.
pub(crate) fn tokenize(sql: &str) -> Result<Vec<TokenWithSpan>> {
    let tokens = Tokenizer::new(&LakeDialect, sql)
        .tokenize_with_location()
        .map_err(|error| Error::invalid(format!("the SQL text cannot be read: {error}")))?;
    Ok(tokens.into_iter().filter(|token| hint_text(&token.token).is_some() || !is_space(&token.token)).collect())
}

/// The statements of a text, each as the tokens between its semicolons; empty ones are left out.
pub(crate) fn split(tokens: Vec<TokenWithSpan>) -> Vec<Vec<TokenWithSpan>> {
    let mut statements = vec![Vec::new()];
    for token in tokens {
        match token.token {
            Token::SemiColon => statements.push(Vec::new()),
            Token::EOF => {}
            _ => statements.last_mut().into_iter().for_each(|statement| statement.push(token.clone())),
        }
    }
    statements.retain(|statement| !statement.is_empty());
    statements
}

/// Whether `token` is `word` (in capitals) without quotes.
pub(crate) fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(Word { value, quote_style: None, .. }) if value.eq_ignore_ascii_case(word))
}

/// A name in double quotes.
pub(crate) fn quoted(value: String) -> Word {
    Word { value, quote_style: Some('"'), keyword: Keyword::NoKeyword }
}

fn is_space(token: &Token) -> bool {
    matches!(token, Token::Whitespace(_))
}

/// What stands after the `+` of a hint comment.
pub(crate) fn hint_text(token: &Token) -> Option<&str> {
    match token {
        Token::Whitespace(Whitespace::MultiLineComment(text)) => text.strip_prefix('+'),
        _ => None,
    }
}

/// A word without quotes.
pub(crate) fn bare(text: &str) -> Token {
    Token::make_word(text, None)
}

/// The token at `i`, and the end behind the last.
pub(crate) fn at(tokens: &[TokenWithSpan], i: usize) -> &Token {
    tokens.get(i).map_or(&Token::EOF, |token| &token.token)
}

/// Whether `words` stand at `i`.
pub(crate) fn words_at(tokens: &[TokenWithSpan], i: usize, words: &[&str]) -> bool {
    words.iter().enumerate().all(|(k, word)| is_word(at(tokens, i + k), word))
}

/// The byte range of `span` in `text`. Spans count lines and characters from one.
pub(crate) fn byte_range(text: &str, span: Span) -> Range<usize> {
    byte_offset(text, span.start)..byte_offset(text, span.end)
}

fn byte_offset(text: &str, location: Location) -> usize {
    let mut line_start = 0;
    for _ in 1..location.line {
        match text[line_start..].find('\n') {
            Some(i) => line_start += i + 1,
            None => return text.len(),
        }
    }
    let column = (location.column as usize).saturating_sub(1);
    text[line_start..].char_indices().nth(column).map_or(text.len(), |(i, _)| line_start + i)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_when_semicolons_are_quoted_then_they_do_not_split() {
        let tokens = tokenize("SELECT ';' ; -- a ; b\n; SELECT `a;b` /* ; */ FROM t;").unwrap();
        assert_eq!(split(tokens).len(), 2);
    }

    #[test]
    fn byte_range_when_text_is_not_ascii_then_it_counts_bytes() {
        let text = "SELECT 'ü'\n, 'ß' AS x";
        let tokens = tokenize(text).unwrap();
        let last = tokens[tokens.len() - 1].span;
        assert_eq!(&text[byte_range(text, last)], "x");
    }
}
