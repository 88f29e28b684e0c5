//! Literals and the targets of casts as Flink and Spark write them, in the engine's form. Imports the parser, `tokens` and `types`.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::tokens::{at, bare, is_word};
use super::types;
use crate::error::Result;
use crate::spec::types::{DataType, TypeKind};

/// `MAP[k, v, ..]` to `MAP {k: v, ..}`. With one element it is a subscript of a column called `map`.
pub(super) fn maps(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for i in 0..tokens.len() {
        if !is_word(&tokens[i].token, "MAP") || *at(&tokens, i + 1) != Token::LBracket {
            continue;
        }
        let mut depth = 0_usize;
        let mut commas = Vec::new();
        let mut end = None;
        for (k, token) in tokens.iter().enumerate().skip(i + 1) {
            match token.token {
                Token::LBracket | Token::LParen | Token::LBrace => depth += 1,
                Token::RBracket | Token::RParen | Token::RBrace => {
                    depth -= 1;
                    if depth == 0 {
                        end = Some(k);
                        break;
                    }
                }
                Token::Comma if depth == 1 => commas.push(k),
                _ => {}
            }
        }
        let Some(end) = end else { continue };
        if commas.is_empty() && end > i + 2 {
            continue;
        }
        tokens[i + 1].token = Token::LBrace;
        tokens[end].token = Token::RBrace;
        for comma in commas.into_iter().step_by(2) {
            tokens[comma].token = Token::Colon;
        }
    }
    tokens
}

/// Spark's `1Y 2S 4L 1.5D 1.5F` and numbers with an exponent, which are DOUBLE in Flink and Spark.
pub(super) fn numbers(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut i = 0;
    while i < tokens.len() {
        let token = &tokens[i];
        let Token::Number(text, long) = &token.token else {
            out.push(token.clone());
            i += 1;
            continue;
        };
        let suffix = match tokens.get(i + 1) {
            Some(TokenWithSpan { token: Token::Word(Word { value, quote_style: None, .. }), span })
                if span.start == token.span.end && !*long =>
            {
                literal_suffix(value)
            }
            _ => None,
        };
        i += 1 + usize::from(suffix.is_some());
        let type_name = match suffix {
            Some(type_name) => type_name,
            None if *long => "BIGINT",
            None if text.contains(['e', 'E']) => "DOUBLE",
            None => {
                out.push(token.clone());
                continue;
            }
        };
        // The sign belongs to the literal: -128Y is a TINYINT, 128Y is not.
        let negative = matches!(out.last(), Some(TokenWithSpan { token: Token::Minus, .. })) && is_sign(&out);
        if negative {
            out.pop();
        }
        let text = format!("{}{text}", if negative { "-" } else { "" });
        let cast =
            [bare("CAST"), Token::LParen, Token::SingleQuotedString(text), bare("AS"), bare(type_name), Token::RParen];
        out.extend(cast.into_iter().map(|word| TokenWithSpan::new(word, token.span)));
    }
    out
}

fn literal_suffix(word: &str) -> Option<&'static str> {
    match word.to_ascii_uppercase().as_str() {
        "Y" => Some("TINYINT"),
        "S" => Some("SMALLINT"),
        "L" => Some("BIGINT"),
        "D" => Some("DOUBLE"),
        "F" => Some("FLOAT"),
        _ => None,
    }
}

/// `TIMESTAMP '..'`, `TIMESTAMP_LTZ '..'` and `TIME '..'`. Their precision is that of the text, so that a date far from today
/// does not overflow nanoseconds and a TIME literal meets a TIME column, which counts milliseconds.
pub(super) fn times(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut i = 0;
    while i < tokens.len() {
        let (word, value) = (&tokens[i].token, at(tokens, i + 1));
        let digits = match value {
            Token::SingleQuotedString(text) => text
                .rsplit_once('.')
                .map_or(0, |(_, fraction)| fraction.chars().take_while(char::is_ascii_digit).count()),
            _ => usize::MAX,
        };
        let precision = match digits {
            0..=3 => 3,
            4..=6 => 6,
            _ => 9,
        };
        let kind = match word {
            _ if digits == usize::MAX => None,
            word if is_word(word, "TIMESTAMP") => Some(TypeKind::Timestamp(precision)),
            word if is_word(word, "TIMESTAMP_LTZ") => Some(TypeKind::TimestampLtz(precision)),
            word if is_word(word, "TIME") && precision == 3 => Some(TypeKind::Time(3)),
            _ => None,
        };
        let Some(kind) = kind else {
            out.push(tokens[i].clone());
            i += 1;
            continue;
        };
        let target = Token::Word(types::carrier(&DataType::nullable(kind)));
        let cast = [bare("CAST"), Token::LParen, value.clone(), bare("AS"), target, Token::RParen];
        out.extend(cast.into_iter().map(|token| TokenWithSpan::new(token, tokens[i].span)));
        i += 2;
    }
    out
}

/// Whether the minus that ends `tokens` is a sign and not a subtraction.
fn is_sign(tokens: &[TokenWithSpan]) -> bool {
    match tokens.len().checked_sub(2).map(|i| &tokens[i].token) {
        None => true,
        Some(Token::Word(word)) => word.quote_style.is_none() && word.keyword != Keyword::NoKeyword,
        Some(Token::Number(..) | Token::SingleQuotedString(_) | Token::RParen | Token::RBracket) => false,
        Some(_) => true,
    }
}

/// Replaces the target type of `CAST(x AS type)`, `TRY_CAST(..)` and `x::type` where the parser or the engine would not
/// read it as Flink does.
pub(super) fn cast_types(tokens: &[TokenWithSpan]) -> Result<Vec<TokenWithSpan>> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut casts: Vec<bool> = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        let token = &tokens[i];
        match &token.token {
            Token::LParen => {
                let cast = i > 0 && ["CAST", "TRY_CAST"].iter().any(|word| is_word(at(tokens, i - 1), word));
                casts.push(cast);
            }
            Token::RParen => {
                casts.pop();
            }
            _ => {}
        }
        out.push(token.clone());
        i += 1;
        let in_cast = casts.last() == Some(&true) && is_word(&token.token, "AS");
        if !in_cast && token.token != Token::DoubleColon {
            continue;
        }
        match types::parse(&tokens[i..]) {
            Ok((data_type, used)) => {
                let next = at(tokens, i + used);
                let whole = if in_cast { *next == Token::RParen } else { *next != Token::LBracket };
                if whole && needs_carrier(&data_type.kind) {
                    out.push(TokenWithSpan::new(Token::Word(types::carrier(&data_type)), tokens[i].span));
                    i += used;
                }
            }
            // What is no type of a table may still be one of the engine's, unless only Flink writes it so.
            Err(error) if only_flink(&tokens[i..]) => return Err(error),
            Err(_) => {}
        }
    }
    Ok(out)
}

fn needs_carrier(kind: &TypeKind) -> bool {
    !matches!(
        kind,
        TypeKind::Boolean
            | TypeKind::TinyInt
            | TypeKind::SmallInt
            | TypeKind::Int
            | TypeKind::BigInt
            | TypeKind::Float
            | TypeKind::Double
            | TypeKind::Date
    )
}

fn only_flink(tokens: &[TokenWithSpan]) -> bool {
    let first = at(tokens, 0);
    let bracket = *at(tokens, 1) == Token::Lt;
    ["TIMESTAMP_LTZ", "ROW", "MULTISET"].iter().any(|word| is_word(first, word))
        || bracket && ["ARRAY", "MAP"].iter().any(|word| is_word(first, word))
}
