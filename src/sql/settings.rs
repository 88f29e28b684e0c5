//! `SET paimon.*`: options that hold for every table a session reads, and under which name and number its writes are
//! committed. Imports `commit`, `error`, `options`
//! and `table`.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;

use crate::commit::{BATCH_IDENTIFIER, TableCommit};
use crate::error::Error;
use crate::table::Table;

/// What `SET paimon.commit.user` sets.
const COMMIT_USER: &str = "commit.user";
/// What `SET paimon.commit.identifier` sets.
const COMMIT_IDENTIFIER: &str = "commit.identifier";

/// The options that `SET paimon.<option> = <value>` gave a session.
///
/// Two of them are no options of tables: with `paimon.commit.user` and `paimon.commit.identifier` a statement that writes rows
/// is committed once, however often it is run with this pair.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PaimonSettings {
    options: BTreeMap<String, String>,
    user: Option<String>,
    identifier: Option<i64>,
}

/// Under which name and number a statement is committed, so that it can be repeated.
///
/// The numbers of a user ascend: where this user has committed this number or a greater one to a table, a statement that
/// changes rows of that table (INSERT, DELETE, UPDATE, MERGE, TRUNCATE, DROP PARTITION) changes nothing and answers 0 rows.
/// Another statement for the same table needs the next number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replay {
    /// The commit user.
    pub user: String,
    /// The commit identifier.
    pub identifier: i64,
}

impl Replay {
    /// The commit path of a statement for `table` and its identifier: those of `replay`, or of a user of its own.
    ///
    /// # Errors
    /// As [`TableCommit::new`].
    pub(crate) fn commit(replay: Option<Self>, table: &Arc<Table>) -> crate::error::Result<(TableCommit, Option<i64>)> {
        let (user, identifier) = Self::user(replay, table)?;
        Ok((TableCommit::new(Arc::clone(table), user)?.identified(identifier), identifier))
    }

    /// Who commits a statement, and its identifier.
    ///
    /// # Errors
    /// As [`TableCommit::new_user`].
    pub(crate) fn user(replay: Option<Self>, table: &Arc<Table>) -> crate::error::Result<(String, Option<i64>)> {
        match replay {
            Some(replay) => Ok((replay.user, Some(replay.identifier))),
            None => Ok((TableCommit::new_user(table)?, None)),
        }
    }
}

impl PaimonSettings {
    /// The settings of a session; none when it has no such extension.
    pub fn of(config: &ConfigOptions) -> BTreeMap<String, String> {
        config.extensions.get::<Self>().map(|settings| settings.options.clone()).unwrap_or_default()
    }

    /// How the session's writes are committed; `None` when each is committed for itself.
    ///
    /// # Errors
    /// Invalid when only one half of the pair is set.
    pub(crate) fn replay(config: &ConfigOptions) -> crate::error::Result<Option<Replay>> {
        let Some(settings) = config.extensions.get::<Self>() else { return Ok(None) };
        match (&settings.user, settings.identifier) {
            (None, None) => Ok(None),
            (Some(user), Some(identifier)) => Ok(Some(Replay { user: user.clone(), identifier })),
            (user, _) => {
                let (set, other) = match user {
                    Some(_) => (COMMIT_USER, COMMIT_IDENTIFIER),
                    None => (COMMIT_IDENTIFIER, COMMIT_USER),
                };
                Err(Error::invalid(format!(
                    "paimon.{set} is set and paimon.{other} is not: together they say which commit a statement is; SET \
                     paimon.{other}, or RESET paimon.{set}"
                )))
            }
        }
    }

    /// Takes an option back to what the tables say.
    pub(crate) fn reset(&mut self, key: &str) -> bool {
        match key {
            COMMIT_USER => self.user.take().is_some(),
            COMMIT_IDENTIFIER => self.identifier.take().is_some(),
            _ => self.options.remove(key).is_some(),
        }
    }

    /// Sets one half of the pair of [`Replay`]; false for any other key.
    fn set_replay(&mut self, key: &str, value: &str) -> crate::error::Result<bool> {
        match key {
            COMMIT_USER if value.trim().is_empty() => {
                return Err(Error::invalid("paimon.commit.user is a name that is not empty"));
            }
            COMMIT_USER => self.user = Some(value.to_owned()),
            COMMIT_IDENTIFIER => {
                let number = value.trim().parse::<i64>().ok().filter(|number| (0..BATCH_IDENTIFIER).contains(number));
                self.identifier = Some(number.ok_or_else(|| {
                    Error::invalid(format!("paimon.commit.identifier = '{value}' must be a whole number from 0 on, less than {BATCH_IDENTIFIER}"))
                })?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl ConfigExtension for PaimonSettings {
    const PREFIX: &'static str = "paimon";
}

impl ExtensionOptions for PaimonSettings {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        if self.set_replay(key, value)? {
            return Ok(());
        }
        super::prepass::check_options(&BTreeMap::from([(key.to_owned(), value.to_owned())]))?;
        self.options.insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let entry = |key: &str, value: String, description| ConfigEntry {
            key: format!("{}.{key}", Self::PREFIX),
            value: Some(value),
            description,
        };
        let user = self.user.iter().map(|user| {
            entry(COMMIT_USER, user.clone(), "who commits what this session writes; goes with paimon.commit.identifier")
        });
        let identifier = self.identifier.iter().map(|number| {
            entry(
                COMMIT_IDENTIFIER,
                number.to_string(),
                "which commit of its user a statement is: repeated with the same one, it changes nothing",
            )
        });
        let options = self
            .options
            .iter()
            .map(|(key, value)| entry(key, value.clone(), "an option of every table that this session reads"));
        user.chain(identifier).chain(options).collect()
    }
}
