//! What a fold does with every column, resolved once a query from the schema and the options (`spec/data.md 5`).

use super::function::Function;
use crate::error::{Error, Result};
use crate::options::{MergeEngine, SequenceGroup, TableOptions};
use crate::spec::{DataField, TableSchema};

/// How rows of one key become one row, for the columns of one query.
///
/// Built once a query with [`FoldPlan::try_new`]; reading takes the columns [`FoldPlan::input_columns`] of the contested rows,
/// hands them to a [`FoldState`](super::FoldState) (or all at once to [`FoldPlan::fold`](super::FoldPlan::fold)) and gets the
/// output columns back, one row a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoldPlan {
    pub(super) engine: Engine,
    /// Table columns to read, in the order of a block's columns.
    inputs: Vec<usize>,
    pub(super) columns: Vec<ColumnPlan>,
    pub(super) sequences: Vec<SequencePlan>,
}

/// `merge-engine` with the options that decide what retracts do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    Deduplicate {
        ignore_delete: bool,
    },
    FirstRow {
        ignore_delete: bool,
    },
    PartialUpdate {
        ignore_delete: bool,
        /// `partial-update.remove-record-on-delete`
        remove_on_delete: bool,
        /// The table has sequence groups, whether or not the query needs one of them.
        grouped: bool,
    },
    Aggregation {
        /// `aggregation.remove-record-on-delete`
        remove_on_delete: bool,
    },
}

/// One output column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ColumnPlan {
    /// Position in the input columns.
    pub input: usize,
    pub field: DataField,
    pub function: Function,
    pub role: Role,
    pub retract: RetractRule,
}

/// Which of the rows of a key a column listens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A key column: the same in every row.
    Key,
    /// No sequence group: every row.
    Free,
    /// A sequence column of group `0`: position in [`FoldPlan::sequences`].
    Sequence(usize),
    /// A column that follows the group's newest row.
    Follower(usize),
    /// A column that aggregates the rows of the group.
    Aggregate(usize),
}

/// What a retract does to a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetractRule {
    Apply,
    /// `fields.<f>.ignore-retract`
    Ignore,
    /// The function can't take a value back: an error when it is to.
    Refuse,
}

/// A sequence group: the input positions of its sequence columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SequencePlan {
    pub inputs: Vec<usize>,
    /// `partial-update.remove-record-on-sequence-group` names one of them.
    pub removes: bool,
}

impl FoldPlan {
    /// Resolves how `outputs` (positions in `schema.fields`, in the order wanted) are folded under `options`.
    ///
    /// The whole table is checked, not just `outputs`, so that whether a query works does not hang on its columns.
    ///
    /// # Errors
    /// Invalid for options that contradict each other (`spec/data.md 5.2`), that name columns which do not exist, that give a
    /// function a type it can't take, or whose sequence groups share a column; unsupported for an unknown function. Messages
    /// name the option and the column.
    pub fn try_new(schema: &TableSchema, options: &TableOptions, outputs: &[usize]) -> Result<Self> {
        let engine = engine(options);
        let groups = match engine {
            Engine::PartialUpdate { .. } => groups(schema, options)?,
            _ => Vec::new(),
        };
        check(engine, options)?;
        let mut columns = Vec::with_capacity(schema.fields.len());
        for (position, field) in schema.fields.iter().enumerate() {
            columns.push(column(schema, options, engine, &groups, position, field)?);
        }

        // Only what the outputs follow is read, and the groups that may remove the row.
        let mut plan = Self { engine, inputs: Vec::new(), columns: Vec::new(), sequences: Vec::new() };
        let mut needed = vec![None; groups.len()];
        for &output in outputs {
            let mut column = columns.get(output).cloned().ok_or_else(|| {
                Error::internal(format!("column {output} is out of the {} of the schema", columns.len()))
            })?;
            column.input = plan.input(output);
            plan.columns.push(column);
        }
        for (index, group) in groups.iter().enumerate() {
            let wanted = plan.columns.iter().any(|column| column.role.group() == Some(index));
            if wanted || group.removes {
                let inputs = group.sequence.iter().map(|&column| plan.input(column)).collect();
                needed[index] = Some(plan.sequences.len());
                plan.sequences.push(SequencePlan { inputs, removes: group.removes });
            }
        }
        for column in &mut plan.columns {
            if let Some(place) = column.role.group().and_then(|index| needed[index]) {
                column.role = column.role.at(place);
            }
        }
        Ok(plan)
    }

    /// The columns that a block holds, as positions in the schema: the outputs first, then what they depend on (sequence
    /// columns of their groups and of groups that remove rows, `spec/data.md 4.2`).
    pub fn input_columns(&self) -> &[usize] {
        &self.inputs
    }

    fn input(&mut self, column: usize) -> usize {
        self.inputs.iter().position(|&input| input == column).unwrap_or_else(|| {
            self.inputs.push(column);
            self.inputs.len() - 1
        })
    }
}

impl Role {
    fn group(self) -> Option<usize> {
        match self {
            Self::Key | Self::Free => None,
            Self::Sequence(group) | Self::Follower(group) | Self::Aggregate(group) => Some(group),
        }
    }

    fn at(self, place: usize) -> Self {
        match self {
            Self::Key | Self::Free => self,
            Self::Sequence(_) => Self::Sequence(place),
            Self::Follower(_) => Self::Follower(place),
            Self::Aggregate(_) => Self::Aggregate(place),
        }
    }
}

const REMOVE_ON_GROUP: &str = "partial-update.remove-record-on-sequence-group";
const PARTIAL_REMOVE: &str = "partial-update.remove-record-on-delete";
const AGGREGATION_REMOVE: &str = "aggregation.remove-record-on-delete";

fn engine(options: &TableOptions) -> Engine {
    let ignore_delete = options.ignore_delete;
    match options.merge_engine {
        MergeEngine::Deduplicate => Engine::Deduplicate { ignore_delete },
        MergeEngine::FirstRow => Engine::FirstRow { ignore_delete },
        MergeEngine::PartialUpdate => Engine::PartialUpdate {
            ignore_delete,
            remove_on_delete: options.partial_update_remove_record_on_delete,
            grouped: !options.sequence_groups.is_empty(),
        },
        MergeEngine::Aggregation => {
            Engine::Aggregation { remove_on_delete: options.aggregation_remove_record_on_delete }
        }
    }
}

/// Checks the options of partial-update against each other.
fn check(engine: Engine, options: &TableOptions) -> Result<()> {
    let Engine::PartialUpdate { ignore_delete, remove_on_delete, grouped } = engine else { return Ok(()) };
    let removing = &options.partial_update_remove_record_on_sequence_group;
    let conflict = |one: &str, other: &str| Err(Error::invalid(format!("'{one}' and '{other}' can't both be set")));
    if ignore_delete && remove_on_delete {
        return conflict("ignore-delete", PARTIAL_REMOVE);
    }
    if ignore_delete && !removing.is_empty() {
        return conflict("ignore-delete", REMOVE_ON_GROUP);
    }
    if remove_on_delete && grouped {
        return conflict(PARTIAL_REMOVE, "fields.<f>.sequence-group");
    }
    match removing.iter().find(|name| !options.sequence_groups.iter().any(|group| group.sequence.contains(name))) {
        None => Ok(()),
        Some(name) => Err(Error::invalid(format!(
            "option '{REMOVE_ON_GROUP}': column {name} is not a sequence column of a group"
        ))),
    }
}

/// A sequence group in positions of the schema.
struct Group {
    sequence: Vec<usize>,
    followers: Vec<usize>,
    removes: bool,
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
        let group = Group {
            sequence: positions(sequence)?,
            followers: positions(protected)?,
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
            let twice = group.sequence.contains(&member) && group.followers.contains(&member);
            if taken || twice {
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
    engine: Engine,
    groups: &[Group],
    position: usize,
    field: &DataField,
) -> Result<ColumnPlan> {
    let named = options.aggregate_function(&field.name).or(options.default_aggregate_function.as_deref());
    let resolve = |name: &str| Function::resolve(name, field, options);
    let follows = groups.iter().position(|group| group.followers.contains(&position));
    let sequence = groups.iter().position(|group| group.sequence.contains(&position));
    let (function, role) = if schema.primary_keys.contains(&field.name) {
        (Function::PrimaryKey, Role::Key)
    } else {
        match engine {
            Engine::Deduplicate { .. } | Engine::FirstRow { .. } => (Function::LastValue, Role::Free),
            Engine::Aggregation { .. } => {
                if options.sequence_fields.contains(&field.name) {
                    (Function::LastValue, Role::Free)
                } else {
                    (resolve(named.unwrap_or("last_non_null_value"))?, Role::Free)
                }
            }
            Engine::PartialUpdate { .. } => match (sequence, follows, named) {
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
    if ignore && engine == (Engine::Aggregation { remove_on_delete: true }) {
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
    let retract = if matches!(role, Role::Aggregate(_)) || matches!(engine, Engine::Aggregation { .. }) {
        retract
    } else {
        RetractRule::Apply
    };
    Ok(ColumnPlan { input: 0, field: field.clone(), function, role, retract })
}
