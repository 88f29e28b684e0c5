//! Procedures that let history expire.

use arrow::array::RecordBatch;
use async_trait::async_trait;
use chrono::Utc;

use super::{Argument, Kind, Procedure, TABLE, Values, numbers};
use crate::error::{Error, Result};
use crate::maintain::expire_changelogs::{expire_changelogs, remove_changelogs};
use crate::maintain::expire_snapshots::expire_snapshots;
use crate::options::{Keep, UpkeepOptions};
use crate::sql::zone;

const RETAIN_MAX: Argument = Argument::optional("retain_max", Kind::Number);
const RETAIN_MIN: Argument = Argument::optional("retain_min", Kind::Number);
const OLDER_THAN: Argument = Argument::optional("older_than", Kind::Time);
const MAX_DELETES: Argument = Argument::optional("max_deletes", Kind::Number);
const OPTIONS: Argument = Argument::optional("options", Kind::Text);

/// What is kept of snapshots or changelogs, with what the call says instead.
fn kept(values: &Values<'_>, what: &str, mut keep: Keep, now: i64) -> Result<Keep> {
    let counted = |name: &str| match values.optional_number(name)? {
        Some(number) if number < 1 => Err(Error::invalid(format!("argument {name} is {number}; it must be 1 or more"))),
        number => Ok(number),
    };
    let (most, least) = (counted("retain_max")?, counted("retain_min")?);
    keep.most = most.unwrap_or(keep.most);
    keep.least = least.unwrap_or(keep.least);
    if keep.least > keep.most {
        return Err(Error::invalid(match (most, least) {
            (Some(most), None) => format!(
                "retain_max is {most}, and '{what}.num-retained.min' keeps at least {}; give retain_min too, as in \
                 retain_min => {most}",
                keep.least
            ),
            (None, Some(least)) => format!(
                "retain_min is {least}, and '{what}.num-retained.max' keeps at most {}; give retain_max too, as in \
                 retain_max => {least}",
                keep.most
            ),
            _ => format!("at least {} are to be kept, and at most {}", keep.least, keep.most),
        }));
    }
    if let Some(text) = values.optional_text("older_than") {
        let age = now.saturating_sub(zone::millis(text, &values.session().zone())?);
        keep.time = std::time::Duration::from_millis(u64::try_from(age).unwrap_or(0));
    }
    Ok(keep)
}

fn limit(values: &Values<'_>, limit: i64) -> Result<i64> {
    match values.optional_number("max_deletes")? {
        Some(limit) if limit < 1 => {
            Err(Error::invalid(format!("argument max_deletes is {limit}; it must be 1 or more")))
        }
        Some(limit) => Ok(limit),
        None => Ok(limit),
    }
}

/// `expire_snapshots`
pub(super) struct ExpireSnapshots;

#[async_trait]
impl Procedure for ExpireSnapshots {
    fn name(&self) -> &'static str {
        "expire_snapshots"
    }

    fn arguments(&self) -> &'static [Argument] {
        const { &[TABLE, RETAIN_MAX, RETAIN_MIN, OLDER_THAN, MAX_DELETES, OPTIONS] }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let mut given = values.options()?;
        // A call that says how many are kept is not held to what the table says of the other end.
        for (argument, key) in
            [("retain_max", "snapshot.num-retained.max"), ("retain_min", "snapshot.num-retained.min")]
        {
            if let Some(number) = values.optional_number(argument)? {
                given.insert(key.to_owned(), number.to_string());
            }
        }
        let table = values.target().await?.open_with(given).await?;
        let now = Utc::now().timestamp_millis();
        let at = |error| table.at(error);
        let snapshots = UpkeepOptions::snapshots_kept(table.settings()).map_err(at)?;
        let snapshots = kept(values, "snapshot", snapshots, now).map_err(at)?;
        let mut options = UpkeepOptions::new(table.settings()).map_err(at)?;
        let outlived = options.keeps_changelogs();
        options.snapshots = snapshots;
        if !outlived {
            // Only the table says that changelogs stay longer, never a call that lets snapshots go sooner.
            options.changelogs = options.snapshots;
        }
        options.limit = limit(values, options.limit)?;
        let expired = Box::pin(expire_snapshots(&table, &options, now)).await?;
        numbers(&[("deleted_snapshots_count", i64::try_from(expired.snapshots).unwrap_or(i64::MAX))])
    }
}

/// `expire_changelogs`
pub(super) struct ExpireChangelogs;

#[async_trait]
impl Procedure for ExpireChangelogs {
    fn name(&self) -> &'static str {
        "expire_changelogs"
    }

    fn arguments(&self) -> &'static [Argument] {
        const { &[TABLE, RETAIN_MAX, RETAIN_MIN, OLDER_THAN, MAX_DELETES, Argument::optional("delete_all", Kind::Flag)] }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let table = values.table().await?;
        let expired = if values.flag("delete_all") {
            Box::pin(remove_changelogs(&table)).await?
        } else {
            let now = Utc::now().timestamp_millis();
            let mut options = UpkeepOptions::new(table.settings()).map_err(|error| table.at(error))?;
            options.changelogs = kept(values, "changelog", options.changelogs, now).map_err(|error| table.at(error))?;
            options.limit = limit(values, options.limit)?;
            Box::pin(expire_changelogs(&table, &options, now)).await?
        };
        numbers(&[("deleted_changelogs_count", i64::try_from(expired.snapshots).unwrap_or(i64::MAX))])
    }
}
