//! Setting back and forgetting consumers (`spec/metadata.md 9.3`).

use std::time::Duration;

use arrow::array::{Array, BooleanArray, StringArray};
use chrono::{DateTime, TimeDelta, Utc};

use crate::error::{Error, Result};
use crate::table::Table;

/// Lets consumer `id` read `next_snapshot` next, which need not be there yet; without one the consumer is forgotten.
///
/// # Errors
/// Invalid when the id can't be one or the snapshot is not positive; not found when a consumer that does not exist is to be
/// forgotten.
pub async fn reset_consumer(table: &Table, id: &str, next_snapshot: Option<i64>) -> Result<()> {
    let reset = async {
        let consumers = table.consumers();
        match next_snapshot {
            Some(next) if next < 1 => {
                Err(Error::invalid(format!("{next} can't be the next snapshot of a consumer: ids start at 1")))
            }
            Some(next) => consumers.record(id, next).await,
            None if consumers.next_snapshot(id).await?.is_none() => {
                Err(Error::not_found(format!("consumer {id} does not exist")))
            }
            None => consumers.delete(id).await,
        }
    };
    reset.await.map_err(|error| table.at(error))
}

/// Forgets all consumers whose whole id fits the regular expression `including` and not `excluding`; gives their ids.
///
/// # Errors
/// Invalid when an expression can't be read, Io when the store failed.
pub async fn clear_consumers(table: &Table, including: Option<&str>, excluding: Option<&str>) -> Result<Vec<String>> {
    let cleared = async {
        let consumers = table.consumers();
        let ids: Vec<String> = consumers.list().await?.into_iter().map(|consumer| consumer.id).collect();
        let included = fits(&ids, including.unwrap_or(".*"))?;
        let excluded = match excluding {
            Some(pattern) => fits(&ids, pattern)?,
            None => vec![false; ids.len()],
        };
        let mut cleared = Vec::new();
        for ((id, included), excluded) in ids.into_iter().zip(included).zip(excluded) {
            if included && !excluded {
                consumers.delete(&id).await?;
                cleared.push(id);
            }
        }
        Ok(cleared)
    };
    cleared.await.map_err(|error: Error| table.at(error))
}

/// Forgets the consumers that did not say for longer than `time` what they read next; gives their ids.
///
/// # Errors
/// Corrupt when a file is not a consumer, Io when the store failed.
pub async fn expire_consumers(table: &Table, now: DateTime<Utc>, time: Duration) -> Result<Vec<String>> {
    let oldest = TimeDelta::from_std(time).ok().and_then(|time| now.checked_sub_signed(time));
    let expired = async {
        let mut expired = Vec::new();
        let Some(oldest) = oldest else { return Ok(expired) };
        let consumers = table.consumers();
        for consumer in consumers.list().await?.into_iter().filter(|consumer| consumer.modified < oldest) {
            consumers.delete(&consumer.id).await?;
            expired.push(consumer.id);
        }
        Ok(expired)
    };
    expired.await.map_err(|error: Error| table.at(error))
}

/// Which of `texts` fit `pattern` from end to end.
///
/// # Errors
/// Invalid when `pattern` is no regular expression.
pub(crate) fn fits(texts: &[String], pattern: &str) -> Result<Vec<bool>> {
    let array = StringArray::from_iter_values(texts);
    let whole = format!("^(?:{pattern})$");
    let matched: BooleanArray = arrow::compute::regexp_is_match_scalar(&array, &whole, None)
        .map_err(|error| Error::invalid(format!("'{pattern}' is not a regular expression")).with_source(error))?;
    Ok((0..matched.len()).map(|row| matched.is_valid(row) && matched.value(row)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fits_when_pattern_is_for_a_part_then_not() {
        let texts: Vec<String> = ["a", "ab", "b.c"].map(str::to_owned).to_vec();
        assert_eq!(fits(&texts, "a").unwrap(), [true, false, false]);
        assert_eq!(fits(&texts, "a|b.*").unwrap(), [true, false, true]);
        assert!(fits(&texts, "(").unwrap_err().to_string().contains("'('"));
    }
}
