//! A cursor over the tokens of a statement, for the statements that the engine's parser does not read. Imports the parser's
//! tokens, `tokens` and `types`.

use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::tokens::{hint_text, is_word};
use super::types;
use crate::error::{Error, Result};
use crate::spec::DataType;

/// A value that is written out: a text, a number, a truth value, NULL, or a date or time with its type before it.
#[derive(Clone, Debug)]
pub(crate) struct Constant {
    /// The value as text; `None` for NULL.
    pub text: Option<String>,
    /// As it was written.
    pub tokens: Vec<TokenWithSpan>,
}

impl PartialEq for Constant {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// The tokens of a statement and how many are read.
#[derive(Clone)]
pub(crate) struct Words<'a> {
    tokens: &'a [TokenWithSpan],
    at: usize,
}

impl<'a> Words<'a> {
    /// All of `tokens`.
    pub(crate) fn new(tokens: &'a [TokenWithSpan]) -> Self {
        Self { tokens, at: 0 }
    }

    /// The next token, and the end behind the last.
    pub(crate) fn peek(&self) -> &'a Token {
        self.peek_at(0)
    }

    /// The token after `ahead` others.
    pub(crate) fn peek_at(&self, ahead: usize) -> &'a Token {
        self.tokens.get(self.at + ahead).map_or(&Token::EOF, |token| &token.token)
    }

    /// What is left.
    pub(crate) fn rest(&self) -> &'a [TokenWithSpan] {
        self.tokens.get(self.at..).unwrap_or_default()
    }

    pub(crate) fn done(&self) -> bool {
        self.at >= self.tokens.len()
    }

    pub(crate) fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    /// Whether `words` come next, without quotes.
    pub(crate) fn sees(&self, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(ahead, word)| is_word(self.peek_at(ahead), word))
    }

    /// Reads `word` if it comes next.
    pub(crate) fn take(&mut self, word: &str) -> bool {
        self.take_all(&[word])
    }

    /// Reads `words` if all of them come next.
    pub(crate) fn take_all(&mut self, words: &[&str]) -> bool {
        let found = self.sees(words);
        if found {
            self.at += words.len();
        }
        found
    }

    /// Reads one of `words` if it comes next.
    pub(crate) fn take_any(&mut self, words: &[&str]) -> bool {
        words.iter().any(|word| self.take(word))
    }

    pub(crate) fn expect(&mut self, words: &[&str]) -> Result<()> {
        if self.take_all(words) { Ok(()) } else { Err(self.unexpected(&words.join(" "))) }
    }

    /// Reads `token` if it comes next.
    pub(crate) fn take_token(&mut self, token: &Token) -> bool {
        let found = self.peek() == token;
        if found {
            self.at += 1;
        }
        found
    }

    pub(crate) fn expect_token(&mut self, token: &Token) -> Result<()> {
        if self.take_token(token) { Ok(()) } else { Err(self.unexpected(&format!("'{token}'"))) }
    }

    pub(crate) fn unexpected(&self, expected: &str) -> Error {
        match self.peek() {
            Token::EOF => Error::invalid(format!("{expected} is expected at the end of the statement")),
            token => Error::invalid(format!("{expected} is expected where the statement has '{token}'")),
        }
    }

    pub(crate) fn end(&self) -> Result<()> {
        if self.done() { Ok(()) } else { Err(self.unexpected("the end of the statement")) }
    }

    /// `IF EXISTS`
    pub(crate) fn if_exists(&mut self) -> bool {
        self.take_all(&["IF", "EXISTS"])
    }

    /// `IF NOT EXISTS`
    pub(crate) fn if_not_exists(&mut self) -> bool {
        self.take_all(&["IF", "NOT", "EXISTS"])
    }

    pub(crate) fn ident(&mut self) -> Result<Ident> {
        match self.peek() {
            Token::Word(Word { value, quote_style, .. }) => {
                let ident = Ident { value: value.clone(), quote_style: *quote_style, span: Ident::new("").span };
                self.at += 1;
                Ok(ident)
            }
            _ => Err(self.unexpected("a name")),
        }
    }

    /// A name of up to `max_parts` parts with dots between.
    pub(crate) fn name(&mut self, max_parts: usize) -> Result<Vec<Ident>> {
        let mut parts = vec![self.ident()?];
        while self.take_token(&Token::Period) {
            parts.push(self.ident()?);
        }
        if parts.len() > max_parts {
            return Err(Error::invalid(format!(
                "a name of at most {max_parts} parts is expected, not {}",
                parts.len()
            )));
        }
        Ok(parts)
    }

    /// `(a, b, ..)`, each read by `item`; with at least one of them.
    pub(crate) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect_token(&Token::LParen)?;
        let items = self.items(&mut item)?;
        self.expect_token(&Token::RParen)?;
        Ok(items)
    }

    /// `a, b, ..`, each read by `item`.
    pub(crate) fn items<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.take_token(&Token::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// A text in single quotes, or in double quotes as Spark takes it.
    pub(crate) fn text(&mut self, what: &str) -> Result<String> {
        match self.peek() {
            Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => {
                self.at += 1;
                Ok(text.clone())
            }
            Token::Word(Word { value, quote_style: Some('"'), .. }) => {
                self.at += 1;
                Ok(value.clone())
            }
            _ => Err(self.unexpected(what)),
        }
    }

    /// `COMMENT 'text'`, with `=` too; an empty one is none.
    pub(crate) fn comment(&mut self) -> Result<String> {
        self.take_token(&Token::Eq);
        self.text("a comment in quotes")
    }

    /// A data type.
    pub(crate) fn data_type(&mut self) -> Result<DataType> {
        let (data_type, used) = types::parse(self.rest())?;
        self.at += used;
        Ok(data_type)
    }

    /// A value that is written out.
    pub(crate) fn constant(&mut self) -> Result<Constant> {
        let start = self.at;
        let typed = ["DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"].iter().any(|word| is_word(self.peek(), word))
            && matches!(self.peek_at(1), Token::SingleQuotedString(_));
        if typed {
            self.at += 1;
        }
        let sign = if self.take_token(&Token::Minus) {
            "-"
        } else {
            self.take_token(&Token::Plus);
            ""
        };
        let number = !sign.is_empty() || start != self.at && !typed;
        let text = match self.peek() {
            Token::Number(digits, _) => Some(format!("{sign}{digits}")),
            Token::SingleQuotedString(text) if !number => Some(text.clone()),
            token if !number && is_word(token, "NULL") => None,
            token if !number && (is_word(token, "TRUE") || is_word(token, "FALSE")) => {
                Some(token.to_string().to_ascii_lowercase())
            }
            _ => return Err(self.unexpected("a constant")),
        };
        self.at += 1;
        // 1L, 2S: the type of a number as Spark writes it.
        if matches!(self.tokens.get(self.at - 1), Some(TokenWithSpan { token: Token::Number(..), .. }))
            && let Some(suffix @ TokenWithSpan { token: Token::Word(word), .. }) = self.tokens.get(self.at)
            && suffix.span.start == self.tokens[self.at - 1].span.end
            && ["Y", "S", "L", "D", "F"].iter().any(|known| known.eq_ignore_ascii_case(&word.value))
        {
            self.at += 1;
        }
        Ok(Constant { text, tokens: self.tokens[start..self.at].to_vec() })
    }

    /// A key in quotes, or words joined by `.` and `-` as keys are written.
    pub(crate) fn key(&mut self) -> Result<String> {
        let mut key = String::new();
        loop {
            let joined = key.is_empty() || key.ends_with(['.', '-']);
            match self.peek() {
                Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) if key.is_empty() => {
                    key.push_str(text);
                    self.at += 1;
                    return Ok(key);
                }
                Token::Word(word) if joined => key.push_str(&word.value),
                Token::Period => key.push('.'),
                Token::Minus => key.push('-'),
                Token::Number(digits, _) if !key.is_empty() && joined => key.push_str(digits),
                _ if key.is_empty() => return Err(self.unexpected("a key")),
                _ => return Ok(key),
            }
            self.at += 1;
        }
    }

    /// `('key' = 'value', ..)`, in the order written; there may be none.
    pub(crate) fn options(&mut self) -> Result<Vec<(String, String)>> {
        let mut options: Vec<(String, String)> = Vec::new();
        if *self.peek() == Token::LParen && *self.peek_at(1) == Token::RParen {
            self.at += 2;
            return Ok(options);
        }
        for (key, value) in self.list(Self::option)? {
            if options.iter().any(|(known, _)| *known == key) {
                return Err(Error::invalid(format!("the option '{key}' is given twice")));
            }
            options.push((key, value));
        }
        Ok(options)
    }

    fn option(&mut self) -> Result<(String, String)> {
        let key = self.key()?;
        // Without '=' as in OPTIONS('key' 'value').
        self.take_token(&Token::Eq);
        let constant = match self.peek() {
            Token::DoubleQuotedString(_) | Token::Word(Word { quote_style: Some('"'), .. }) => {
                Some(self.text("a value")?)
            }
            _ => self.constant()?.text,
        };
        match constant {
            Some(value) => Ok((key, value)),
            None => Err(Error::invalid(format!("the option '{key}' cannot be NULL; leave it out, or reset it"))),
        }
    }

    /// A hint, if one comes next.
    pub(crate) fn hint(&mut self) -> Option<&'a str> {
        let text = hint_text(self.peek())?;
        self.at += 1;
        Some(text)
    }
}
