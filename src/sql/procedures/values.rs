//! The arguments of a call, found by name or place, as what they are.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, NaiveDateTime, Utc};
use datafusion::sql::sqlparser::ast::Ident;

use super::call::Call;
use super::{Argument, Kind, Procedure};
use crate::error::{Error, Result};
use crate::options::{nearest_of, parse_bool, parse_duration};
use crate::sql::ddl::LakeTarget;
use crate::sql::words::Words;
use crate::sql::{LakeSession, tokens, zone};
use crate::table::Table;

/// What a call gives a procedure.
pub(crate) struct Values<'a> {
    session: &'a LakeSession,
    /// The catalog of tables without one.
    catalog: Option<Ident>,
    /// Each argument with its value; `None` where it is left out.
    values: Vec<(&'static Argument, Option<String>)>,
}

impl<'a> Values<'a> {
    /// Finds the argument that each value is for.
    ///
    /// # Errors
    /// Invalid for a name that the procedure does not take, with the nearest one; one that is given twice; too many values;
    /// and one that is missing or is not what it must be.
    pub(super) fn bind(session: &'a LakeSession, procedure: &dyn Procedure, call: &Call) -> Result<Self> {
        let arguments = procedure.arguments();
        let usage = || {
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            format!("sys.{}({})", procedure.name(), arguments.join(", "))
        };
        let wrong = |why: String| Error::invalid(format!("procedure {}: {why}; it is {}", procedure.name(), usage()));
        let mut values: Vec<(&'static Argument, Option<String>)> =
            arguments.iter().map(|argument| (argument, None)).collect();
        let mut seen = vec![false; arguments.len()];
        for (place, given) in call.arguments.iter().enumerate() {
            let index = match &given.name {
                None if place < arguments.len() => place,
                None if arguments.last().is_some_and(|last| last.kind == Kind::Texts) => {
                    // One more of the last argument.
                    let last = &mut values[arguments.len() - 1].1;
                    let text = [last.take(), given.value.clone()];
                    *last = Some(text.into_iter().flatten().collect::<Vec<_>>().join(";"));
                    continue;
                }
                None => return Err(wrong(format!("it takes {} arguments, not {}", arguments.len(), place + 1))),
                Some(name) => match arguments.iter().position(|argument| is_called(argument, name)) {
                    Some(index) => index,
                    None => {
                        let names = arguments.iter().map(|argument| argument.name);
                        let hint = nearest_of(name, names).map(|nearest| format!(", did you mean {nearest}?"));
                        return Err(wrong(format!("there is no argument {name}{}", hint.unwrap_or_default())));
                    }
                },
            };
            if std::mem::replace(&mut seen[index], true) {
                return Err(wrong(format!("argument {} is given twice", arguments[index].name)));
            }
            values[index].1.clone_from(&given.value);
        }
        for (argument, value) in &mut values {
            // Blank is not given: by position there is no other way to say so.
            let is_text = matches!(argument.kind, Kind::Text | Kind::Texts);
            if !argument.required && !is_text && value.as_ref().is_some_and(|text| text.trim().is_empty()) {
                *value = None;
            }
            match value {
                None if argument.required => return Err(wrong(format!("argument {} is missing", argument.name))),
                Some(text) if !fits(argument.kind, text) => {
                    return Err(wrong(format!(
                        "argument {} takes a {}, not '{text}'",
                        argument.name,
                        argument.kind.name()
                    )));
                }
                _ => {}
            }
        }
        Ok(Self { session, catalog: call.catalog.clone(), values })
    }

    /// The session that calls.
    pub(crate) fn session(&self) -> &LakeSession {
        self.session
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(argument, _)| argument.name == name)?.1.as_deref()
    }

    fn missing(name: &str) -> Error {
        Error::internal(format!("argument {name} was not asked for"))
    }

    /// A text that has to be there.
    pub(crate) fn text(&self, name: &str) -> Result<&str> {
        self.get(name).ok_or_else(|| Self::missing(name))
    }

    /// A text.
    pub(crate) fn optional_text(&self, name: &str) -> Option<&str> {
        self.get(name)
    }

    /// Refuses a text that is none of `known`.
    ///
    /// # Errors
    /// Invalid with those that are.
    pub(crate) fn check_one_of(&self, name: &str, known: &[&str]) -> Result<()> {
        let given = self.get(name).map(str::trim).filter(|text| !text.is_empty());
        match given.filter(|text| !known.iter().any(|known| known.eq_ignore_ascii_case(text))) {
            Some(text) => {
                Err(Error::invalid(format!("argument {name} takes one of {}, not '{text}'", known.join(", "))))
            }
            None => Ok(()),
        }
    }

    /// A number that has to be there.
    pub(crate) fn number(&self, name: &str) -> Result<i64> {
        self.optional_number(name)?.ok_or_else(|| Self::missing(name))
    }

    /// A number.
    pub(crate) fn optional_number(&self, name: &str) -> Result<Option<i64>> {
        self.get(name).map(|text| text.trim().parse().map_err(|_| Self::missing(name))).transpose()
    }

    /// A truth value, false where it is left out.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.get(name).and_then(parse_bool).unwrap_or(false)
    }

    /// A duration.
    pub(crate) fn optional_duration(&self, name: &str) -> Option<Duration> {
        self.get(name).and_then(parse_duration)
    }

    /// A time that has to be there, epoch milliseconds.
    pub(crate) fn time(&self, name: &str) -> Result<i64> {
        zone::millis(self.text(name)?, &self.session.zone())
    }

    /// A time by the session's wall clock.
    pub(crate) fn optional_wall_clock(&self, name: &str) -> Result<Option<NaiveDateTime>> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let millis = zone::millis(text, &self.session.zone())?;
        self.wall_clock(DateTime::from_timestamp_millis(millis).unwrap_or_default()).map(Some)
    }

    /// What the session's wall clock shows at `instant`.
    pub(crate) fn wall_clock(&self, instant: DateTime<Utc>) -> Result<NaiveDateTime> {
        zone::local_time(instant, &self.session.zone())
    }

    /// The options of argument `options`: `key=value` pairs with commas or semicolons between.
    ///
    /// # Errors
    /// Invalid for what is no such pair.
    pub(crate) fn options(&self) -> Result<BTreeMap<String, String>> {
        self.options_in("options")
    }

    /// The same of another argument.
    ///
    /// # Errors
    /// As [`Self::options`].
    pub(crate) fn options_in(&self, name: &str) -> Result<BTreeMap<String, String>> {
        let pairs = self.get(name).unwrap_or_default().split([',', ';']).filter(|pair| !pair.trim().is_empty());
        pairs
            .map(|pair| {
                let (key, value) = pair
                    .split_once('=')
                    .ok_or_else(|| Error::invalid(format!("argument {name} takes 'key=value,..', not '{pair}'")))?;
                Ok((key.trim().to_owned(), value.trim().to_owned()))
            })
            .collect()
    }

    /// The table of argument `table`, in a lake catalog.
    ///
    /// # Errors
    /// Invalid when the text is no table's name, or is one of a system table or a version.
    pub(crate) async fn target(&self) -> Result<LakeTarget> {
        let text = self.text("table")?;
        let tokens = tokens::tokenize(text)?;
        let mut words = Words::new(&tokens);
        let mut name = words.name(3)?;
        if *words.peek() != datafusion::sql::sqlparser::tokenizer::Token::EOF {
            return Err(words.unexpected("the end of the table's name"));
        }
        if let Some(catalog) = &self.catalog
            && name.len() < 3
        {
            if name.len() == 1 {
                name.insert(0, Ident::with_quote('`', self.session.current().1));
            }
            name.insert(0, catalog.clone());
        }
        let target = self.session.only_lake_target(&name, "CALL").await?;
        target.table_or_branch("CALL")?;
        Ok(target)
    }

    /// The table of argument `table`, opened.
    ///
    /// # Errors
    /// As [`Self::target`], and as opening the table.
    pub(crate) async fn table(&self) -> Result<Arc<Table>> {
        self.target().await?.open().await
    }
}

impl fmt::Display for Values<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (argument, value) in &self.values {
            if let Some(value) = value {
                writeln!(f, "  {} => {value}", argument.name)?;
            }
        }
        Ok(())
    }
}

/// Whether `name` is one of the argument's. `snapshot_id`, `snapshotId` and `SNAPSHOT_ID` are one.
fn is_called(argument: &Argument, name: &str) -> bool {
    let plain = |name: &str| name.replace('_', "").to_ascii_lowercase();
    std::iter::once(&argument.name).chain(argument.also).any(|known| plain(known) == plain(name))
}

/// Whether a text can be a value of this kind.
fn fits(kind: Kind, text: &str) -> bool {
    match kind {
        Kind::Table => !text.trim().is_empty(),
        Kind::Text | Kind::Texts => true,
        Kind::Number => text.trim().parse::<i64>().is_ok(),
        Kind::Flag => parse_bool(text).is_some(),
        Kind::Time => zone::millis(text, "UTC").is_ok(),
        Kind::Duration => parse_duration(text).is_some(),
    }
}
