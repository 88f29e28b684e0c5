//! What the merge engine of a table does with each column, from its schema and options (`spec/data.md 5`). Creating a table
//! refuses options that contradict each other here, reading and writing fold by these rules.
//!
//! May import: `error`, `options`, `spec`, `table::aggregate`.

use super::aggregate::Function;
use crate::error::{Error, Result};
use crate::options::{MergeEngine, SequenceGroup, TableOptions};
use crate::spec::{DataField, TableSchema};

/// The rules of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MergeRules {
    /// The sequence groups of a partial-update table; else none.
    pub groups: Vec<Group>,
    /// One rule a column of the schema.
    pub columns: Vec<ColumnRule>,
}

/// What happens to one column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnRule {
    pub function: Function,
    pub role: Role,
    pub retract: RetractRule,
}

/// Which of the rows of a key a column listens to. Numbers are positions in a list of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A key column: the same in every row.
    Key,
    /// No sequence group: every row.
    Free,
    /// A sequence column of the group.
    Sequence(usize),
    /// A column that follows the group's newest row.
    Follower(usize),
    /// A column that aggregates the rows of the group.
    Aggregate(usize),
}

impl Role {
    /// The group, if there is one.
    pub(crate) fn group(self) -> Option<usize> {
        match self {
            Self::Key | Self::Free => None,
            Self::Sequence(group) | Self::Follower(group) | Self::Aggregate(group) => Some(group),
        }
    }

    /// The same role in the group at another position.
    pub(crate) fn at(self, place: usize) -> Self {
        match self {
            Self::Key | Self::Free => self,
            Self::Sequence(_) => Self::Sequence(place),
            Self::Follower(_) => Self::Follower(place),
            Self::Aggregate(_) => Self::Aggregate(place),
        }
    }
}

/// What a retract does to a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetractRule {
    Apply,
    /// `fields.<f>.ignore-retract`
    Ignore,
    /// The function can't take a value back: an error when it is to.
    Refuse,
}

/// A sequence group in positions of the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// The columns whose values say which row is newer.
    pub sequence: Vec<usize>,
    /// The columns that follow them.
    pub followers: Vec<usize>,
    /// `partial-update.remove-record-on-sequence-group` names one of them.
    pub removes: bool,
}

impl MergeRules {
    /// The rules of a table with this schema and these options.
    ///
    /// # Errors
    /// Invalid for options that contradict each other (`spec/data.md 5.2`), that name columns which do not exist, that give a
    /// function a type it can't take, or whose sequence groups share a column; unsupported for an unknown function. Messages
    /// name the option and the column.
    pub(crate) fn try_new(schema: &TableSchema, options: &TableOptions) -> Result<Self> {
        let groups = match options.merge_engine {
            MergeEngine::PartialUpdate => groups(schema, options)?,
            _ => Vec::new(),
        };
        check(options)?;
        let columns = schema
            .fields
            .iter()
            .enumerate()
            .map(|(position, field)| column(schema, options, &groups, position, field))
            .collect::<Result<_>>()?;
        Ok(Self { groups, columns })
    }
}

const REMOVE_ON_GROUP: &str = "partial-update.remove-record-on-sequence-group";
const PARTIAL_REMOVE: &str = "partial-update.remove-record-on-delete";
const AGGREGATION_REMOVE: &str = "aggregation.remove-record-on-delete";

/// Checks the options of partial-update against each other.
fn check(options: &TableOptions) -> Result<()> {
    if options.merge_engine != MergeEngine::PartialUpdate {
        return Ok(());
    }
    let remove_on_delete = options.partial_update_remove_record_on_delete;
    let removing = &options.partial_update_remove_record_on_sequence_group;
    let conflict = |one: &str, other: &str| Err(Error::invalid(format!("'{one}' and '{other}' can't both be set")));
    if options.ignore_delete && remove_on_delete {
        return conflict("ignore-delete", PARTIAL_REMOVE);
    }
    if options.ignore_delete && !removing.is_empty() {
        return conflict("ignore-delete", REMOVE_ON_GROUP);
    }
    if remove_on_delete && !options.sequence_groups.is_empty() {
        return conflict(PARTIAL_REMOVE, "fields.<f>.sequence-group");
    }
    match removing.iter().find(|name| !options.sequence_groups.iter().any(|group| group.sequence.contains(name))) {
        None => Ok(()),
        Some(name) => Err(Error::invalid(format!(
            "option '{REMOVE_ON_GROUP}': column {name} is not a sequence column of a group"
        ))),
    }
}

fn groups(schema: &TableSchema, options: &TableOptions) -> Result<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::with_capacity(options.sequence_groups.len());
    for SequenceGroup { sequence, protected } in &options.sequence_groups {
        let key = format!("fields.{}.sequence-group", sequence.join(","));
        let positions = |names: &[String]| -> Result<Vec<usize>> {
            names
                .iter()
                .map(|name| {
                    schema
                        .index_of(name)
                        .ok_or_else(|| Error::invalid(format!("option '{key}': {name} is not a column of the table")))
                })
                .collect()
        };
        let removing = &options.partial_update_remove_record_on_sequence_group;
        let sequence_positions = positions(sequence)?;
        // A sequence column moves with its group, whether it is named among the followers or not, and a key never moves.
        let mut followers = positions(protected)?;
        followers.retain(|follower| {
            !sequence_positions.contains(follower) && !schema.primary_keys.contains(&schema.fields[*follower].name)
        });
        let group = Group {
            sequence: sequence_positions,
            followers,
            removes: sequence.iter().any(|name| removing.contains(name)),
        };
        for &member in group.sequence.iter().chain(&group.followers) {
            let name = &schema.fields[member].name;
            if schema.primary_keys.contains(name) {
                return Err(Error::invalid(format!(
                    "option '{key}': the key column {name} can't be part of a sequence group"
                )));
            }
            // Two groups that share a column would overwrite each other's order.
            let taken =
                groups.iter().any(|other| other.sequence.contains(&member) || other.followers.contains(&member));
            if taken {
                return Err(Error::invalid(format!(
                    "option '{key}': column {name} is part of a sequence group already; a column can follow one group only"
                )));
            }
        }
        groups.push(group);
    }
    Ok(groups)
}

fn column(
    schema: &TableSchema,
    options: &TableOptions,
    groups: &[Group],
    position: usize,
    field: &DataField,
) -> Result<ColumnRule> {
    let engine = options.merge_engine;
    let named = options.aggregate_function(&field.name).or(options.default_aggregate_function.as_deref());
    let resolve = |name: &str| Function::resolve(name, field, options);
    let follows = groups.iter().position(|group| group.followers.contains(&position));
    let sequence = groups.iter().position(|group| group.sequence.contains(&position));
    let (function, role) = if schema.primary_keys.contains(&field.name) {
        (Function::PrimaryKey, Role::Key)
    } else {
        match engine {
            MergeEngine::Deduplicate | MergeEngine::FirstRow => (Function::LastValue, Role::Free),
            MergeEngine::Aggregation => {
                if options.sequence_fields.contains(&field.name) {
                    (Function::LastValue, Role::Free)
                } else {
                    (resolve(named.unwrap_or("last_non_null_value"))?, Role::Free)
                }
            }
            MergeEngine::PartialUpdate => match (sequence, follows, named) {
                (Some(group), _, _) => (Function::LastValue, Role::Sequence(group)),
                (None, Some(group), Some(name)) => (resolve(name)?, Role::Aggregate(group)),
                (None, Some(group), None) => (Function::LastValue, Role::Follower(group)),
                (None, None, named) => {
                    let function = resolve(named.unwrap_or("last_non_null_value"))?;
                    if function != Function::LastNonNull {
                        return Err(Error::invalid(format!(
                            "column {}: partial-update aggregates with '{}' only inside a sequence group; name the column in \
                             an option 'fields.<sequence column>.sequence-group'",
                            field.name,
                            function.name()
                        )));
                    }
                    (function, Role::Free)
                }
            },
        }
    };
    let ignore = options.ignore_retract(&field.name);
    if ignore && engine == MergeEngine::Aggregation && options.aggregation_remove_record_on_delete {
        return Err(Error::invalid(format!(
            "'fields.{}.ignore-retract' and '{AGGREGATION_REMOVE}' can't both be set",
            field.name
        )));
    }
    let retract = match (ignore, function.retracts()) {
        (true, _) => RetractRule::Ignore,
        (false, true) => RetractRule::Apply,
        (false, false) => RetractRule::Refuse,
    };
    // Without an aggregate the engine itself says what a retract does.
    let retract = if matches!(role, Role::Aggregate(_)) || engine == MergeEngine::Aggregation {
        retract
    } else {
        RetractRule::Apply
    };
    Ok(ColumnRule { function, role, retract })
}
