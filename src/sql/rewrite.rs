//! What only Flink or Spark write, in tokens that the engine's parser reads.
//!
//! ```text
//! t /*+ OPTIONS('k' = 'v') */ a   ->  t AT('k' = 'v') a         the table's version slot carries the hint
//! t VERSION AS OF 'tag'           ->  t AT(VERSION => 'tag')
//! CAST(x AS ROW<a INT>)           ->  CAST(x AS "flink type ROW<`a` INT>")
//! THEN UPDATE *, THEN INSERT *    ->  THEN UPDATE SET "*" = "*", THEN INSERT VALUES ("*")
//! MAP['k', 1], 1Y, 1.5E300        ->  MAP {'k': 1}, CAST('1' AS TINYINT), CAST('1.5E300' AS DOUBLE)
//! TIMESTAMP '2024-01-02 03:04:05' ->  CAST('2024-01-02 03:04:05' AS "flink type TIMESTAMP(3)")
//! ```
//!
//! All of this works on tokens, never on bytes, so that strings, comments and quoted names are safe. Imports the parser, `tokens` and
//! `literals`.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::literals;
use super::tokens::{at, bare, hint_text, is_word, quoted, tokenize, words_at};
use crate::error::{Error, Result};

/// What stands for the `*` of MERGE's `UPDATE *` and `INSERT *`.
pub(crate) const ALL_COLUMNS: &str = "*";

/// `THEN UPDATE *`, `THEN UPDATE SET *` and `THEN INSERT *` of MERGE, in the parser's words:
/// `UPDATE SET "*" = "*"` and `INSERT VALUES ("*")`.
fn merge_stars(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let star = || Token::Word(quoted(ALL_COLUMNS.to_owned()));
    let mut out = Vec::with_capacity(tokens.len());
    let mut i = 0;
    while i < tokens.len() {
        let span = tokens[i].span;
        let update = [&["THEN", "UPDATE", "SET"][..], &["THEN", "UPDATE"]]
            .into_iter()
            .find(|words| words_at(tokens, i, words) && *at(tokens, i + words.len()) == Token::Mul);
        let made = match update {
            Some(words) => {
                i += words.len() + 1;
                vec![bare("THEN"), bare("UPDATE"), bare("SET"), star(), Token::Eq, star()]
            }
            None if words_at(tokens, i, &["THEN", "INSERT"]) && *at(tokens, i + 2) == Token::Mul => {
                i += 3;
                vec![bare("THEN"), bare("INSERT"), bare("VALUES"), Token::LParen, star(), Token::RParen]
            }
            None => {
                out.push(tokens[i].clone());
                i += 1;
                continue;
            }
        };
        out.extend(made.into_iter().map(|token| TokenWithSpan::new(token, span)));
    }
    out
}

/// Rewrites the tokens of one statement into what the engine's parser reads.
///
/// # Errors
/// For a hint that stands where no hint can, that is not `OPTIONS` or that cannot be read, and for a wrong version.
pub(crate) fn rewrite(tokens: &[TokenWithSpan]) -> Result<Vec<TokenWithSpan>> {
    let tokens = merge_stars(tokens);
    let tokens = table_words_as_names(tokens);
    let tokens = hints(versions(&tokens)?)?;
    let tokens = literals::maps(tokens);
    let tokens = literals::numbers(&tokens);
    let tokens = literals::times(&tokens);
    literals::cast_types(&tokens)
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
fn versions(tokens: &[TokenWithSpan]) -> Result<Vec<TokenWithSpan>> {
    let mut out = Vec::with_capacity(tokens.len());
    let mut i = 0;
    while i < tokens.len() {
        let after_for = i + usize::from(words_at(tokens, i, &["FOR"]));
        if words_at(tokens, after_for, &["VERSION", "AS", "OF"]) {
            let span = tokens[i].span;
            let version = at(tokens, after_for + 3);
            if !matches!(version, Token::Number(_, false) | Token::SingleQuotedString(_)) {
                return Err(Error::invalid(format!(
                    "VERSION AS OF takes a snapshot id or the name of a tag in quotes, not '{version}'"
                )));
            }
            let clause = [bare("AT"), Token::LParen, bare("VERSION"), Token::RArrow, version.clone(), Token::RParen];
            out.extend(clause.into_iter().map(|token| TokenWithSpan::new(token, span)));
            i = after_for + 4;
        } else if after_for > i && words_at(tokens, after_for, &["TIMESTAMP", "AS", "OF"]) {
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
        for (k, (key, value)) in hint_options(text)?.into_iter().enumerate() {
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
///
/// # Errors
/// When the hint is not `OPTIONS`, cannot be read, or names an option twice.
pub(crate) fn hint_options(text: &str) -> Result<Vec<(String, String)>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(sql: &str) -> Result<String> {
        let tokens = rewrite(&tokenize(sql)?)?;
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
    fn rewrite_when_merge_takes_all_columns_then_a_name_stands_for_them() {
        for (sql, expected) in [
            ("THEN UPDATE * WHEN", "THEN UPDATE SET \"*\" = \"*\" WHEN"),
            ("THEN UPDATE SET * WHEN", "THEN UPDATE SET \"*\" = \"*\" WHEN"),
            ("THEN INSERT *", "THEN INSERT VALUES ( \"*\" )"),
            ("THEN UPDATE SET a = b * c", "THEN UPDATE SET a = b * c"),
        ] {
            assert_eq!(rewritten(sql).unwrap(), expected, "{sql}");
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
}
