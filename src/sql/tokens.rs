//! SQL text to tokens, and the rewrites that turn what only Flink or Spark write into what the engine's parser reads.
//!
//! ```text
//! t /*+ OPTIONS('k' = 'v') */ a   ->  t AT('k' = 'v') a         the table's version slot carries the hint
//! t VERSION AS OF 'tag'           ->  t AT(VERSION => 'tag')
//! CAST(x AS ROW<a INT>)           ->  CAST(x AS "flink type ROW<`a` INT>")
//! MAP['k', 1], 1Y, 1.5E300        ->  MAP {'k': 1}, CAST('1' AS TINYINT), CAST('1.5E300' AS DOUBLE)
//! TIMESTAMP '2024-01-02 03:04:05' ->  CAST('2024-01-02 03:04:05' AS "flink type TIMESTAMP(3)")
//! ```
//!
//! All of this works on tokens, never on bytes, so that strings, comments and quoted names are safe. Imports the parser.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer, Whitespace, Word};

use super::dialect::LakeDialect;
use super::types;
use crate::error::{Error, Result};
use crate::spec::types::{DataType, TypeKind};

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

/// Rewrites the tokens of one statement into what the engine's parser reads.
///
/// # Errors
/// For a hint that stands where no hint can, that is not `OPTIONS` or that cannot be read, and for a wrong version.
pub(crate) fn rewrite(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let tokens = table_words_as_names(tokens);
    let tokens = versions(tokens)?;
    let tokens = hints(tokens)?;
    let tokens = map_literals(tokens);
    let tokens = number_literals(tokens);
    let tokens = time_literals(tokens);
    cast_types(tokens)
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
fn hint_text(token: &Token) -> Option<&str> {
    match token {
        Token::Whitespace(Whitespace::MultiLineComment(text)) => text.strip_prefix('+'),
        _ => None,
    }
}

fn bare(text: &str) -> Token {
    Token::make_word(text, None)
}

fn at(tokens: &[TokenWithSpan], i: usize) -> &Token {
    tokens.get(i).map_or(&Token::EOF, |token| &token.token)
}

fn words_at(tokens: &[TokenWithSpan], i: usize, words: &[&str]) -> bool {
    words.iter().enumerate().all(|(k, word)| is_word(at(tokens, i + k), word))
}

/// `AT`, `BEFORE` and `CHANGES` open a version clause for the parser. Without a parenthesis they are names, as ever.
fn table_words_as_names(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for i in 0..tokens.len() {
        let opens_clause = *at(&tokens, i + 1) == Token::LParen;
        let in_time_zone = words_at(&tokens, i + 1, &["TIME", "ZONE"]);
        if let Token::Word(Word { value, quote_style: None, keyword: Keyword::AT | Keyword::BEFORE | Keyword::CHANGES }) =
            &tokens[i].token
            && !opens_clause
            && !in_time_zone
        {
            tokens[i].token = Token::Word(quoted(value.to_ascii_lowercase()));
        }
    }
    tokens
}

/// `[FOR] VERSION AS OF x` and `FOR TIMESTAMP AS OF x`. The parser itself knows `TIMESTAMP AS OF` and `FOR SYSTEM_TIME AS OF`.
fn versions(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let mut out = Vec::with_capacity(tokens.len());
    let mut i = 0;
    while i < tokens.len() {
        let after_for = i + usize::from(words_at(&tokens, i, &["FOR"]));
        if words_at(&tokens, after_for, &["VERSION", "AS", "OF"]) {
            let span = tokens[i].span;
            let version = at(&tokens, after_for + 3);
            if !matches!(version, Token::Number(_, false) | Token::SingleQuotedString(_)) {
                return Err(Error::invalid(format!(
                    "VERSION AS OF takes a snapshot id or the name of a tag in quotes, not '{version}'"
                )));
            }
            let clause = [bare("AT"), Token::LParen, bare("VERSION"), Token::RArrow, version.clone(), Token::RParen];
            out.extend(clause.into_iter().map(|token| TokenWithSpan::new(token, span)));
            i = after_for + 4;
        } else if after_for > i && words_at(&tokens, after_for, &["TIMESTAMP", "AS", "OF"]) {
            i = after_for;
        } else {
            out.push(tokens[i].clone());
            i += 1;
        }
    }
    Ok(out)
}

/// Moves every `OPTIONS` hint into the version slot of the table that it follows.
fn hints(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for token in tokens {
        let Some(text) = hint_text(&token.token) else {
            out.push(token);
            continue;
        };
        let span = token.span;
        let mut clause = vec![bare("AT"), Token::LParen];
        for (k, (key, value)) in options(text)?.into_iter().enumerate() {
            if k > 0 {
                clause.push(Token::Comma);
            }
            clause.extend([Token::SingleQuotedString(key), Token::Eq, Token::SingleQuotedString(value)]);
        }
        clause.push(Token::RParen);
        let place = hint_place(&out).ok_or_else(|| {
            Error::invalid(format!("the hint /*+{text}*/ does not follow a table name; only tables take hints"))
        })?;
        out.splice(place..place, clause.into_iter().map(|token| TokenWithSpan::new(token, span)));
    }
    Ok(out)
}

/// Where the hint that follows `before` goes: behind the table name, before its alias.
fn hint_place(before: &[TokenWithSpan]) -> Option<usize> {
    let is_name = |token: &Token| match token {
        Token::Word(Word { quote_style: Some(_), .. }) => true,
        Token::Word(word) => !opens_relation(word.keyword) && !ends_relation(word.keyword),
        _ => false,
    };
    let end = before.len();
    let last = end.checked_sub(1)?;
    if !is_name(&before[last].token) {
        return None;
    }
    let previous = last.checked_sub(1).map(|i| &before[i].token);
    match previous {
        Some(token) if is_word(token, "AS") => Some(last - 1),
        // A name after a name is an alias, unless the first one is what opens the relation.
        Some(token) if is_name(token) => Some(last),
        Some(Token::RParen) => None,
        _ => Some(end),
    }
}

fn opens_relation(keyword: Keyword) -> bool {
    use Keyword::{FROM, INTO, JOIN, LATERAL, OVERWRITE, TABLE, UPDATE, USING};
    matches!(keyword, FROM | JOIN | INTO | UPDATE | TABLE | USING | OVERWRITE | LATERAL)
}

fn ends_relation(keyword: Keyword) -> bool {
    use Keyword::{
        AND, AS, BY, CASE, DISTINCT, ELSE, GROUP, HAVING, LIMIT, NOT, ON, OR, ORDER, SELECT, THEN, UNION, WHEN, WHERE,
    };
    matches!(
        keyword,
        SELECT
            | DISTINCT
            | WHERE
            | GROUP
            | ORDER
            | BY
            | HAVING
            | LIMIT
            | ON
            | AND
            | OR
            | NOT
            | UNION
            | CASE
            | WHEN
            | THEN
            | ELSE
            | AS
    )
}

/// The options of a hint's text, in the order written.
fn options(text: &str) -> Result<Vec<(String, String)>> {
    let wrong = |why: String| {
        Error::invalid(format!("the hint /*+{text}*/ cannot be read: {why}; write /*+ OPTIONS('key' = 'value', ..) */"))
    };
    let tokens = tokenize(text)?;
    if !is_word(at(&tokens, 0), "OPTIONS") {
        return Err(Error::unsupported(format!("the hint /*+{text}*/ is not known; OPTIONS is the only hint")));
    }
    if *at(&tokens, 1) != Token::LParen {
        return Err(wrong("'(' is missing".to_owned()));
    }
    let mut options: Vec<(String, String)> = Vec::new();
    let mut i = 2;
    loop {
        let (Token::SingleQuotedString(key), Token::Eq, Token::SingleQuotedString(value)) =
            (at(&tokens, i), at(&tokens, i + 1), at(&tokens, i + 2))
        else {
            return Err(wrong(format!("'{}' is not a quoted key with a quoted value", at(&tokens, i))));
        };
        if options.iter().any(|(known, _)| known == key) {
            return Err(wrong(format!("'{key}' stands in it twice")));
        }
        options.push((key.clone(), value.clone()));
        match at(&tokens, i + 3) {
            Token::Comma => i += 4,
            Token::RParen if i + 4 == tokens.len() => return Ok(options),
            other => return Err(wrong(format!("'{other}' is not expected"))),
        }
    }
}

/// `MAP[k, v, ..]` to `MAP {k: v, ..}`. With one element it is a subscript of a column called `map`.
fn map_literals(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for i in 0..tokens.len() {
        if !is_word(&tokens[i].token, "MAP") || *at(&tokens, i + 1) != Token::LBracket {
            continue;
        }
        let mut depth = 0_usize;
        let mut commas = Vec::new();
        let mut end = None;
        for k in i + 1..tokens.len() {
            match tokens[k].token {
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
fn number_literals(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
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
fn time_literals(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut i = 0;
    while i < tokens.len() {
        let (word, value) = (&tokens[i].token, at(&tokens, i + 1));
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
fn cast_types(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut casts: Vec<bool> = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        let token = &tokens[i];
        match &token.token {
            Token::LParen => {
                let cast = i > 0 && ["CAST", "TRY_CAST"].iter().any(|word| is_word(at(&tokens, i - 1), word));
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
                let next = at(&tokens, i + used);
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

/// The byte range of `span` in `text`. Spans count lines and characters from one.
pub(crate) fn byte_range(text: &str, span: Span) -> std::ops::Range<usize> {
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

    fn rewritten(sql: &str) -> Result<String> {
        let tokens = rewrite(tokenize(sql)?)?;
        Ok(tokens.iter().map(|token| token.token.to_string()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn rewrite_when_a_hint_follows_a_table_then_it_moves_into_the_version_slot() {
        for (sql, expected) in [
            ("SELECT * FROM t /*+ OPTIONS('a'='1') */", "SELECT * FROM t AT ( 'a' = '1' )"),
            (
                "SELECT * FROM db.`t$x` /*+ OPTIONS ( 'a' = '1' , 'b'='x;y' ) */ WHERE x > 1",
                "SELECT * FROM db . `t$x` AT ( 'a' = '1' , 'b' = 'x;y' ) WHERE x > 1",
            ),
            ("SELECT * FROM t /*+ OPTIONS('a'='1') */ AS x", "SELECT * FROM t AT ( 'a' = '1' ) AS x"),
            ("SELECT * FROM t AS x /*+ OPTIONS('a'='1') */", "SELECT * FROM t AT ( 'a' = '1' ) AS x"),
            ("SELECT * FROM t x /*+ OPTIONS('a'='1') */, u", "SELECT * FROM t AT ( 'a' = '1' ) x , u"),
            (
                "SELECT * FROM a JOIN t /*+ OPTIONS('a'='1') */ ON 1=1",
                "SELECT * FROM a JOIN t AT ( 'a' = '1' ) ON 1 = 1",
            ),
            ("SELECT '/*+ OPTIONS(1) */' -- /*+ x */", "SELECT '/*+ OPTIONS(1) */'"),
        ] {
            assert_eq!(rewritten(sql).unwrap(), expected, "{sql}");
        }
    }

    #[test]
    fn rewrite_when_a_hint_cannot_be_used_then_error() {
        for sql in [
            "SELECT /*+ BROADCAST(t) */ * FROM t",
            "SELECT /*+ OPTIONS('a'='1') */ * FROM t",
            "SELECT * FROM t /*+ OPTIONS('a') */",
            "SELECT * FROM t /*+ OPTIONS('a'='1','a'='2') */",
            "SELECT * FROM t /*+ OPTIONS() */",
            "SELECT * FROM t /*+ OPTIONS('a'='1'), BROADCAST(t) */",
            "SELECT * FROM (SELECT 1) /*+ OPTIONS('a'='1') */",
            "SELECT * FROM (SELECT 1) x /*+ OPTIONS('a'='1') */ WHERE /*+ OPTIONS('a'='1') */ 1=1",
        ] {
            assert!(rewritten(sql).is_err(), "{sql}");
        }
    }

    #[test]
    fn rewrite_when_versions_are_given_then_they_are_clauses_of_the_parser() {
        for (sql, expected) in [
            ("SELECT * FROM t VERSION AS OF 3 a", "SELECT * FROM t AT ( VERSION => 3 ) a"),
            ("SELECT * FROM t FOR VERSION AS OF 'x'", "SELECT * FROM t AT ( VERSION => 'x' )"),
            ("SELECT * FROM t FOR TIMESTAMP AS OF '2024-01-01'", "SELECT * FROM t TIMESTAMP AS OF '2024-01-01'"),
            (
                "SELECT * FROM before, t at WHERE x AT TIME ZONE 'UTC' > 1",
                "SELECT * FROM \"before\" , t \"at\" WHERE x AT TIME ZONE 'UTC' > 1",
            ),
        ] {
            assert_eq!(rewritten(sql).unwrap(), expected, "{sql}");
        }
        assert!(rewritten("SELECT * FROM t VERSION AS OF x").is_err());
    }

    #[test]
    fn rewrite_when_literals_are_flinks_or_sparks_then_they_keep_their_type() {
        for (sql, expected) in [
            ("SELECT MAP['k', f(1, 2), 'l', m['x']]", "SELECT MAP { 'k' : f ( 1 , 2 ) , 'l' : m [ 'x' ] }"),
            ("SELECT map['k'] FROM t", "SELECT map [ 'k' ] FROM t"),
            (
                "SELECT 1Y, -128Y, a-2S, 4L",
                "SELECT CAST ( '1' AS TINYINT ) , CAST ( '-128' AS TINYINT ) , a - CAST ( '2' AS SMALLINT ) , CAST ( '4' AS BIGINT )",
            ),
            ("SELECT -1.5E300, 1.5", "SELECT CAST ( '-1.5E300' AS DOUBLE ) , 1.5"),
        ] {
            assert_eq!(rewritten(sql).unwrap(), expected, "{sql}");
        }
    }

    #[test]
    fn rewrite_when_a_cast_names_a_flink_type_then_a_quoted_name_carries_it() {
        for (sql, expected) in [
            ("SELECT CAST(a AS ARRAY<ARRAY<INT>>)", "SELECT CAST ( a AS \"flink type ARRAY<ARRAY<INT>>\" )"),
            (
                "SELECT CAST(CAST(a AS INT) AS TIMESTAMP_LTZ(3)) AS x",
                "SELECT CAST ( CAST ( a AS INT ) AS \"flink type TIMESTAMP(3) WITH LOCAL TIME ZONE\" ) AS x",
            ),
            ("SELECT a::STRING", "SELECT a :: \"flink type STRING\""),
            (
                "SELECT CAST(a AS INT UNSIGNED), CAST(a AS TIMESTAMP WITH TIME ZONE)",
                "SELECT CAST ( a AS INT UNSIGNED ) , CAST ( a AS TIMESTAMP WITH TIME ZONE )",
            ),
            ("SELECT timestamp AS time FROM t", "SELECT timestamp AS time FROM t"),
        ] {
            assert_eq!(rewritten(sql).unwrap(), expected, "{sql}");
        }
        assert!(rewritten("SELECT CAST(a AS ROW<x NONSENSE>)").is_err());
    }

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
