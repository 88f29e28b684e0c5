//! Rules of buckets, and of what append tables have instead: row tracking, data evolution, clustering.

use std::collections::HashSet;

use super::{Breaches, Subject};
use crate::options::BucketFunction;
use crate::spec::DataField;
use crate::spec::types::TypeKind;

pub(super) fn check(subject: &Subject<'_>, found: &mut Breaches) {
    check_count(subject, found);
    check_bucket_key(subject, found);
    check_function(subject, found);
    check_rows(subject, found);
    check_clustering(subject, found);
}

fn check_count(subject: &Subject<'_>, found: &mut Breaches) {
    let (bucket, has_key) = (subject.options.bucket, subject.has_key());
    if bucket == -2 && !has_key {
        found.invalid("option bucket = '-2' (postpone) needs a primary key; use '-1', or a count with 'bucket-key'");
    }
    // Tables of the first versions had one bucket where they did not say another count.
    let legacy = subject.schema.version <= 1 && bucket == 1;
    if bucket > 0 && !has_key && subject.options.bucket_key.is_none() && !legacy {
        found.invalid(format!(
            "option bucket = '{bucket}' of a table without primary key needs option bucket-key; name its columns there, or leave \
             out 'bucket'"
        ));
    }
}

fn check_bucket_key(subject: &Subject<'_>, found: &mut Breaches) {
    const KEY: &str = "bucket-key";
    let Some(names) = &subject.options.bucket_key else { return };
    if subject.options.bucket == -1 {
        found.invalid("option bucket-key needs a bucket count; set 'bucket' to one, or leave out 'bucket-key'");
    }
    let mut seen = HashSet::new();
    if let Some(twice) = names.iter().find(|name| !seen.insert(*name)) {
        found.invalid(format!("option bucket-key names column {twice} twice"));
    }
    for field in subject.named_columns(KEY, found) {
        let name = &field.name;
        if subject.schema.partition_keys.contains(name) {
            found.invalid(format!("option bucket-key names the partition column {name}; leave it out"));
        } else if subject.has_key() && !subject.schema.primary_keys.contains(name) {
            found.invalid(format!(
                "option bucket-key names column {name}, which is not part of the primary key ({}); versions of one row would \
                 lie in several buckets",
                subject.schema.primary_keys.join(", ")
            ));
        }
        if field.data_type.is_nested() || is_opaque(&field.data_type.kind) {
            found.invalid(format!(
                "option bucket-key names column {name} of type {}, which has no hash",
                field.data_type
            ));
        }
    }
}

fn is_opaque(kind: &TypeKind) -> bool {
    matches!(kind, TypeKind::Variant | TypeKind::Blob | TypeKind::Geometry(_) | TypeKind::Geography(_))
}

fn check_function(subject: &Subject<'_>, found: &mut Breaches) {
    if subject.options.bucket == -1 {
        return;
    }
    let key: Vec<&DataField> = subject.schema.bucket_key_fields();
    match subject.options.bucket_function {
        BucketFunction::Default => {}
        BucketFunction::Mod => {
            let fits =
                matches!(key.as_slice(), [one] if matches!(one.data_type.kind, TypeKind::Int | TypeKind::BigInt));
            if !fits {
                found.invalid(format!(
                    "option bucket-function.type = 'mod' needs a bucket key of one INT or BIGINT column, not ({}); name one \
                     in 'bucket-key', or use 'default'",
                    listed(&key)
                ));
            }
        }
        BucketFunction::Hive => {
            let unfit = key
                .iter()
                .find(|field| matches!(field.data_type.kind, TypeKind::Timestamp(_) | TypeKind::TimestampLtz(_)));
            if let Some(field) = unfit {
                found.invalid(format!(
                    "option bucket-function.type = 'hive' has no hash for column {} of type {}; use 'default'",
                    field.name, field.data_type
                ));
            }
        }
    }
}

fn listed(fields: &[&DataField]) -> String {
    let listed: Vec<String> = fields.iter().map(|field| format!("{} {}", field.name, field.data_type)).collect();
    listed.join(", ")
}

fn check_rows(subject: &Subject<'_>, found: &mut Breaches) {
    let options = subject.options;
    if options.row_tracking {
        if subject.has_key() {
            found.invalid(
                "option row-tracking.enabled is for tables without primary key: a key tells rows apart already",
            );
        }
        if options.bucket != -1 {
            found.invalid("option row-tracking.enabled needs 'bucket' = '-1'; leave out 'bucket'");
        }
    }
    if options.data_evolution {
        if !options.row_tracking {
            found.invalid("option data-evolution.enabled needs 'row-tracking.enabled' = 'true'");
        }
        if subject.flag("clustering.incremental") {
            found.invalid("options data-evolution.enabled and clustering.incremental can't both be set");
        }
        if options.deletion_vectors_enabled {
            found.invalid("options data-evolution.enabled and deletion-vectors.enabled can't both be set");
        }
    }
    if subject.options.is_set("upsert-key") {
        if subject.has_key() {
            found.invalid("option upsert-key is for tables without primary key; leave it out");
        }
        subject.named_columns("upsert-key", found);
    }
}

fn check_clustering(subject: &Subject<'_>, found: &mut Breaches) {
    const COLUMNS: &str = "clustering.columns";
    let options = subject.options;
    for field in subject.named_columns(COLUMNS, found) {
        if !super::columns::is_ordered(&field.data_type.kind) {
            found.invalid(format!(
                "option {COLUMNS} names column {} of type {}, which has no order",
                field.name, field.data_type
            ));
        }
    }
    if subject.flag("clustering.incremental") {
        if subject.has_key() {
            found.invalid("option clustering.incremental is for tables without primary key");
        }
        if options.clustering_columns.is_empty() {
            found.invalid(format!("option clustering.incremental needs option {COLUMNS}"));
        }
        if options.bucket > 0 && subject.flag("bucket-append-ordered") {
            found.invalid(
                "option clustering.incremental of a table with buckets needs 'bucket-append-ordered' = 'false': clustering \
                 changes the order of rows",
            );
        }
    }
    if options.pk_clustering_override {
        let needs = |what: &str| format!("option pk-clustering-override {what}");
        if !subject.has_key() {
            found.invalid(needs("needs a primary key"));
        }
        if options.clustering_columns.is_empty() {
            found.invalid(needs("needs option clustering.columns"));
        }
        if !options.deletion_vectors_enabled {
            found.invalid(needs("needs 'deletion-vectors.enabled' = 'true'"));
        }
        if !options.sequence_fields.is_empty() {
            found.invalid(needs("can't be combined with sequence.field"));
        }
        use crate::options::{ChangelogProducer, MergeEngine};
        if !matches!(options.merge_engine, MergeEngine::Deduplicate | MergeEngine::FirstRow) {
            found.invalid(needs("works with the merge engines deduplicate and first-row only"));
        }
        if !matches!(options.changelog_producer, ChangelogProducer::None | ChangelogProducer::Input) {
            found.invalid(needs("works with the changelog producers none and input only"));
        }
    }
}
