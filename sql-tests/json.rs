//! JSON as the answers have it: object keys in their order, numbers as the text that stands there, so that no digit is lost.

use std::iter::Peekable;
use std::str::CharIndices;

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    /// The digits as written.
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Reads one value that fills `text`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { text, chars: text.char_indices().peekable() };
        let value = parser.value()?;
        parser.blanks();
        match parser.chars.next() {
            None => Ok(value),
            Some((at, c)) => Err(format!("'{c}' at {at} after the value")),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    chars: Peekable<CharIndices<'a>>,
}

impl Parser<'_> {
    fn blanks(&mut self) {
        while self.chars.next_if(|(_, c)| c.is_ascii_whitespace()).is_some() {}
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        self.blanks();
        match self.chars.next() {
            Some((_, c)) if c == wanted => Ok(()),
            Some((at, c)) => Err(format!("'{c}' at {at} instead of '{wanted}'")),
            None => Err(format!("end of text instead of '{wanted}'")),
        }
    }

    /// Whether `wanted` comes next; it is taken then.
    fn takes(&mut self, wanted: char) -> bool {
        self.blanks();
        self.chars.next_if(|(_, c)| *c == wanted).is_some()
    }

    fn value(&mut self) -> Result<Json, String> {
        self.blanks();
        match self.chars.peek() {
            None => Err("end of text instead of a value".to_string()),
            Some((_, '"')) => Ok(Json::Text(self.text()?)),
            Some((_, '[')) => self.list(),
            Some((_, '{')) => self.object(),
            Some(_) => self.word(),
        }
    }

    fn list(&mut self) -> Result<Json, String> {
        self.expect('[')?;
        let mut values = vec![];
        if !self.takes(']') {
            loop {
                values.push(self.value()?);
                if !self.takes(',') {
                    break self.expect(']')?;
                }
            }
        }
        Ok(Json::List(values))
    }

    fn object(&mut self) -> Result<Json, String> {
        self.expect('{')?;
        let mut fields = vec![];
        if !self.takes('}') {
            loop {
                self.blanks();
                let name = self.text()?;
                self.expect(':')?;
                fields.push((name, self.value()?));
                if !self.takes(',') {
                    break self.expect('}')?;
                }
            }
        }
        Ok(Json::Object(fields))
    }

    /// `null`, `true`, `false` or a number.
    fn word(&mut self) -> Result<Json, String> {
        let start = self.chars.peek().map_or(self.text.len(), |(at, _)| *at);
        while self.chars.next_if(|(_, c)| c.is_ascii_alphanumeric() || "+-.".contains(*c)).is_some() {}
        let end = self.chars.peek().map_or(self.text.len(), |(at, _)| *at);
        match &self.text[start..end] {
            "null" => Ok(Json::Null),
            "true" => Ok(Json::Bool(true)),
            "false" => Ok(Json::Bool(false)),
            word if word.starts_with(|c: char| c == '-' || c.is_ascii_digit()) && word.parse::<f64>().is_ok() => {
                Ok(Json::Number(word.to_string()))
            }
            word => Err(format!("'{word}' at {start} is no value")),
        }
    }

    fn text(&mut self) -> Result<String, String> {
        self.expect('"')?;
        let mut text = String::new();
        loop {
            match self.next_of_text()? {
                '"' => return Ok(text),
                '\\' => text.push(self.escaped()?),
                c => text.push(c),
            }
        }
    }

    fn next_of_text(&mut self) -> Result<char, String> {
        self.chars.next().map(|(_, c)| c).ok_or_else(|| "end of text inside a string".to_string())
    }

    fn escaped(&mut self) -> Result<char, String> {
        Ok(match self.next_of_text()? {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'u' => {
                let first = self.hex4()?;
                if !(0xD800..0xDC00).contains(&first) {
                    return char::from_u32(first).ok_or_else(|| format!("\\u{first:04x} stands alone"));
                }
                self.expect('\\')?;
                self.expect('u')?;
                let second = self.hex4()?;
                let code = 0x10000 + ((first - 0xD800) << 10) + second.wrapping_sub(0xDC00);
                return char::from_u32(code).ok_or_else(|| format!("\\u{first:04x}\\u{second:04x} is no pair"));
            }
            c @ ('"' | '\\' | '/') => c,
            c => return Err(format!("unknown escape '\\{c}'")),
        })
    }

    fn hex4(&mut self) -> Result<u32, String> {
        (0..4).try_fold(0, |code, _| {
            let c = self.next_of_text()?;
            c.to_digit(16).map(|digit| code * 16 + digit).ok_or_else(|| format!("'{c}' is no hex digit"))
        })
    }
}
