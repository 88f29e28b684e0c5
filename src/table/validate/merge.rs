//! Rules of merging: sequence fields, aggregate functions, sequence groups, merge engines, and that options with a column in
//! their key name one that exists.

use std::collections::HashSet;

use super::{Breaches, Subject};
use crate::options::{ChangelogProducer, MergeEngine, OptionValue, lookup};
use crate::spec::types::TypeKind;
use crate::table::aggregate::Function;
use crate::table::merge_rules::MergeRules;

pub(super) fn check(subject: &Subject<'_>, found: &mut Breaches) {
    let columns_exist = check_column_options(subject, found);
    check_sequence(subject, found);
    check_engine(subject, found);
    check_functions(subject, columns_exist, found);
    check_rowkind(subject, found);
}

/// Whether each option `fields.<c>.*` is of columns of the table.
fn check_column_options(subject: &Subject<'_>, found: &mut Breaches) -> bool {
    let before = found.0.len();
    for (key, value) in subject.options.iter() {
        let Some(found_option) = lookup(key) else { continue };
        let Some(captured) = found_option.captured.filter(|_| found_option.def.key.starts_with("fields.<c>.")) else {
            continue;
        };
        let mut names = vec![captured.to_owned()];
        if found_option.def.key == "fields.<c>.sequence-group" {
            names = Vec::from_text(captured).unwrap_or_default();
            names.extend(Vec::from_text(value).unwrap_or_default());
        }
        for name in names {
            if subject.schema.field(&name).is_none() {
                found.missing_column(key, &name, subject.schema);
            }
        }
    }
    found.0.len() == before
}

fn check_sequence(subject: &Subject<'_>, found: &mut Breaches) {
    const KEY: &str = "sequence.field";
    let options = subject.options;
    let names = &options.sequence_fields;
    if names.is_empty() {
        return;
    }
    let mut seen = HashSet::new();
    if let Some(twice) = names.iter().find(|name| !seen.insert(*name)) {
        found.invalid(format!("option {KEY} names column {twice} twice"));
    }
    for field in subject.named_columns(KEY, found) {
        if !super::columns::is_ordered(&field.data_type.kind) {
            found.invalid(format!(
                "option {KEY} names column {} of type {}, which has no order",
                field.name, field.data_type
            ));
        }
        if options.aggregate_function(&field.name).is_some() {
            found.invalid(format!(
                "column {name} is named by {KEY} and can't be aggregated; leave out 'fields.{name}.aggregate-function'",
                name = field.name
            ));
        }
    }
    if options.merge_engine == MergeEngine::FirstRow {
        found.invalid(format!(
            "option {KEY} can't be combined with the merge engine first-row, which keeps what came first"
        ));
    }
    if subject.crosses_partitions() {
        found.invalid(format!(
            "option {KEY} needs every partition column ({}) in the primary key ({}): without, a key moves between partitions \
             in the order of arrival",
            subject.schema.partition_keys.join(", "),
            subject.schema.primary_keys.join(", ")
        ));
    }
}

fn check_engine(subject: &Subject<'_>, found: &mut Breaches) {
    let options = subject.options;
    let engine = options.merge_engine;
    if engine != MergeEngine::Deduplicate && !subject.has_key() {
        found.invalid(format!(
            "option merge-engine = '{}' needs a primary key: it merges rows of one key",
            engine.name()
        ));
    }
    if engine == MergeEngine::FirstRow {
        if !matches!(options.changelog_producer, ChangelogProducer::None | ChangelogProducer::Lookup) {
            found.invalid(format!(
                "the merge engine first-row works with the changelog producers none and lookup, not {}",
                options.changelog_producer.name()
            ));
        }
        if options.deletion_vectors_enabled && !options.pk_clustering_override {
            found.invalid(
                "the merge engine first-row never replaces a row, so deletion vectors have nothing to mark; leave out \
                 'deletion-vectors.enabled'",
            );
        }
    }
}

fn check_functions(subject: &Subject<'_>, columns_exist: bool, found: &mut Breaches) {
    let (schema, options) = (subject.schema, subject.options);
    if options.merge_engine != MergeEngine::PartialUpdate || !subject.has_key() {
        for group in &options.sequence_groups {
            found.invalid(format!(
                "option fields.{}.sequence-group: sequence groups are for 'merge-engine' = 'partial-update'",
                group.sequence.join(",")
            ));
        }
    }
    let merges =
        subject.has_key() && matches!(options.merge_engine, MergeEngine::PartialUpdate | MergeEngine::Aggregation);
    if merges {
        // Columns that do not exist are said already.
        if columns_exist {
            found.take(MergeRules::try_new(schema, options).map(|_| ()));
        }
        return;
    }
    for field in &schema.fields {
        if let Some(name) = options.aggregate_function(&field.name) {
            let engine = options.merge_engine.name();
            found.invalid(format!(
                "option fields.{}.aggregate-function: a table {} does not aggregate; use a primary key with 'merge-engine' = \
                 'aggregation' or 'partial-update', or leave it out",
                field.name,
                if subject.has_key() { format!("of merge engine {engine}") } else { "without primary key".to_owned() }
            ));
            found.take(Function::resolve(name, field, options).map(|_| ()));
        }
    }
}

fn check_rowkind(subject: &Subject<'_>, found: &mut Breaches) {
    const KEY: &str = "rowkind.field";
    let Some(name) = &subject.options.rowkind_field else { return };
    match subject.schema.field(name) {
        None => found.missing_column(KEY, name, subject.schema),
        Some(field) if !matches!(field.data_type.kind, TypeKind::VarChar(_) | TypeKind::Char(_)) => {
            found.invalid(format!(
                "option {KEY} names column {name} of type {}; kinds are the texts +I, -U, +U and -D, so name a STRING column",
                field.data_type
            ));
        }
        Some(_) => {}
    }
}
