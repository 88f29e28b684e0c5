//! Rules of changelogs, deletion vectors, the history of a table, and its expiry.

use super::{Breaches, Subject};
use crate::options::{ChangelogProducer, TableOptions};
use crate::spec::types::TypeKind;

pub(super) fn check(subject: &Subject<'_>, found: &mut Breaches) {
    check_changelog(subject, found);
    check_history(subject.options, found);
    check_expiry(subject, found);
    if subject.options.fallback_branch.is_some() && subject.options.primary_branch.is_some() {
        found.invalid("options scan.fallback-branch and scan.primary-branch can't both be set");
    }
}

fn check_changelog(subject: &Subject<'_>, found: &mut Breaches) {
    let options = subject.options;
    let producer = options.changelog_producer;
    let makes = matches!(producer, ChangelogProducer::FullCompaction | ChangelogProducer::Lookup);
    if producer != ChangelogProducer::None && !subject.has_key() {
        found.invalid(format!(
            "option changelog-producer = '{}' needs a primary key; an append table's changes are the rows appended",
            producer.name()
        ));
    }
    if options.deletion_vectors_enabled && producer == ChangelogProducer::FullCompaction {
        found.invalid(
            "option deletion-vectors.enabled works with the changelog producers none, input and lookup, not full-compaction",
        );
    }
    if options.full_compaction_delta_commits.is_some() && producer == ChangelogProducer::Lookup {
        found.invalid(
            "options full-compaction.delta-commits and changelog-producer = 'lookup' can't both be set: each compaction looks \
             up already",
        );
    }
    if subject.flag("streaming-read-overwrite") {
        if !subject.has_key() {
            found.invalid(
                "option streaming-read-overwrite needs a primary key; for an append table use streaming-read-append-overwrite",
            );
        }
        if makes {
            found.invalid(format!(
                "options streaming-read-overwrite and changelog-producer = '{}' can't both be set: a stream would show changes \
                 twice",
                producer.name()
            ));
        }
    }
    if options.sequence_snapshot_ordering {
        if !subject.has_key() {
            found.invalid("option sequence.snapshot-ordering needs a primary key");
        }
        if !options.sequence_fields.is_empty() {
            found.invalid("options sequence.snapshot-ordering and sequence.field can't both be set");
        }
        if !subject.flag("write-only") {
            found.invalid("option sequence.snapshot-ordering needs 'write-only' = 'true'");
        }
    }
    subject.named_columns("changelog-producer.row-deduplicate-ignore-fields", found);
}

fn check_history(options: &TableOptions, found: &mut Breaches) {
    let number = |key: &str| options.value::<i32>(key).ok().flatten();
    for kind in ["snapshot", "changelog"] {
        // Changelogs live as long as snapshots unless told otherwise.
        let bound = |name: &str| {
            number(&format!("{kind}.num-retained.{name}")).or_else(|| number(&format!("snapshot.num-retained.{name}")))
        };
        if let (Some(least), Some(most)) = (bound("min"), bound("max"))
            && least > most
        {
            found.invalid(format!(
                "option {kind}.num-retained.min ({least}) must not be larger than {kind}.num-retained.max ({most}); set both"
            ));
        }
    }
}

fn check_expiry(subject: &Subject<'_>, found: &mut Breaches) {
    const TIME_FIELD: &str = "record-level.time-field";
    let (schema, options) = (subject.schema, subject.options);
    match options.get(TIME_FIELD) {
        None if options.is_set("record-level.expire-time") => {
            found.invalid(format!("option record-level.expire-time needs {TIME_FIELD}, the column with a row's time"));
        }
        None => {}
        Some(name) => match schema.field(name) {
            None => found.missing_column(TIME_FIELD, name, schema),
            Some(field) => {
                use TypeKind as K;
                if !matches!(field.data_type.kind, K::Int | K::BigInt | K::Timestamp(_) | K::TimestampLtz(_)) {
                    found.invalid(format!(
                        "option {TIME_FIELD} names column {name} of type {}; a row's time is an INT or BIGINT (epoch seconds) or \
                         a TIMESTAMP",
                        field.data_type
                    ));
                }
            }
        },
    }
    if options.is_set("partition.expiration-time") && schema.partition_keys.is_empty() {
        found.invalid("option partition.expiration-time needs a partitioned table");
    }
    if let Some(pattern) = options.get("partition.timestamp-pattern") {
        for part in pattern.split('$').skip(1) {
            if !schema.partition_keys.iter().any(|key| part.starts_with(key.as_str())) {
                found.invalid(format!(
                    "option partition.timestamp-pattern = '{pattern}': ${part} starts with no partition column; there are ({})",
                    schema.partition_keys.join(", ")
                ));
            }
        }
    }
}
