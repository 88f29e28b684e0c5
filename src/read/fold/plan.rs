//! What a fold does with every column, resolved once a query from the schema and the options (`spec/data.md 5`).

use std::collections::BTreeMap;

use super::function::{DEFAULT_FUNCTION, FUNCTION_SUFFIX, Function};
use super::options::{flag, list, names, option};
use crate::error::{Error, Result};
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
    /// function a type it can't take, or whose sequence groups share a column; unsupported for an unknown merge engine or
    /// function. Messages name the option and the column.
    pub fn try_new(schema: &TableSchema, options: &BTreeMap<String, String>, outputs: &[usize]) -> Result<Self> {
        let engine = engine(options)?;
        let groups = match engine {
            Engine::PartialUpdate { .. } => groups(schema, options)?,
            _ => Vec::new(),
        };
        let engine = checked(engine, options, &groups)?;
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

    /// Whether a fold needs the kinds of rows to be known; when false, only the last row's values count and any kind is kept.
    pub fn folds_single_rows(&self) -> bool {
        // Java skips the merge function for a key with one record (`spec/data.md 4.2`), in every engine.
        false
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
const IGNORE_DELETE: [&str; 4] =
    ["ignore-delete", "first-row.ignore-delete", "deduplicate.ignore-delete", "partial-update.ignore-delete"];
const GROUP_SUFFIX: &str = ".sequence-group";

fn engine(options: &BTreeMap<String, String>) -> Result<Engine> {
    let key = IGNORE_DELETE.iter().find(|key| option(options, key).is_some());
    let ignore_delete = key.map_or(Ok(false), |key| flag(options, key))?;
    match option(options, "merge-engine").unwrap_or("deduplicate").to_ascii_lowercase().as_str() {
        "deduplicate" => Ok(Engine::Deduplicate { ignore_delete }),
        "first-row" => Ok(Engine::FirstRow { ignore_delete }),
        "partial-update" => Ok(Engine::PartialUpdate {
            ignore_delete,
            remove_on_delete: flag(options, PARTIAL_REMOVE)?,
            grouped: false,
        }),
        "aggregation" => Ok(Engine::Aggregation { remove_on_delete: flag(options, AGGREGATION_REMOVE)? }),
        other => Err(Error::unsupported(format!("option 'merge-engine': there is no engine '{other}'"))),
    }
}

/// Checks the engine's options against each other and says whether there are groups.
fn checked(engine: Engine, options: &BTreeMap<String, String>, groups: &[Group]) -> Result<Engine> {
    let Engine::PartialUpdate { ignore_delete, remove_on_delete, .. } = engine else { return Ok(engine) };
    let removes = option(options, REMOVE_ON_GROUP).is_some();
    let conflict = |one: &str, other: &str| Err(Error::invalid(format!("'{one}' and '{other}' can't both be set")));
    if ignore_delete && remove_on_delete {
        return conflict("ignore-delete", PARTIAL_REMOVE);
    }
    if ignore_delete && removes {
        return conflict("ignore-delete", REMOVE_ON_GROUP);
    }
    if remove_on_delete && !groups.is_empty() {
        return conflict(PARTIAL_REMOVE, "fields.<f>.sequence-group");
    }
    for name in list(options, REMOVE_ON_GROUP) {
        if !groups.iter().any(|group| group.names.iter().any(|sequence| sequence == name)) {
            return Err(Error::invalid(format!(
                "option '{REMOVE_ON_GROUP}': column {name} is not a sequence column of a group"
            )));
        }
    }
    Ok(Engine::PartialUpdate { ignore_delete, remove_on_delete, grouped: !groups.is_empty() })
}

/// A sequence group as declared, in positions of the schema.
struct Group {
    names: Vec<String>,
    sequence: Vec<usize>,
    followers: Vec<usize>,
    removes: bool,
}

fn groups(schema: &TableSchema, options: &BTreeMap<String, String>) -> Result<Vec<Group>> {
    let removing = list(options, REMOVE_ON_GROUP);
    let mut groups: Vec<Group> = Vec::new();
    for (key, value) in options {
        let Some(sequence) = key.strip_prefix("fields.").and_then(|key| key.strip_suffix(GROUP_SUFFIX)) else {
            continue;
        };
        let positions = |names: &[&str]| -> Result<Vec<usize>> {
            names
                .iter()
                .map(|name| {
                    schema
                        .index_of(name)
                        .ok_or_else(|| Error::invalid(format!("option '{key}': {name} is not a column of the table")))
                })
                .collect()
        };
        let sequence_names = names(sequence);
        let group = Group {
            sequence: positions(&sequence_names)?,
            followers: positions(&names(value))?,
            removes: sequence_names.iter().any(|name| removing.contains(name)),
            names: sequence_names.into_iter().map(str::to_owned).collect(),
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
                    "option '{key}': column {name} is part of another sequence group; a column can follow one group only"
                )));
            }
        }
        groups.push(group);
    }
    Ok(groups)
}

fn column(
    schema: &TableSchema,
    options: &BTreeMap<String, String>,
    engine: Engine,
    groups: &[Group],
    position: usize,
    field: &DataField,
) -> Result<ColumnPlan> {
    let key = format!("fields.{}.{FUNCTION_SUFFIX}", field.name);
    let named = option(options, &key).or_else(|| option(options, DEFAULT_FUNCTION));
    let resolve = |name: &str| Function::resolve(name, field, options);
    let follows = groups.iter().position(|group| group.followers.contains(&position));
    let sequence = groups.iter().position(|group| group.sequence.contains(&position));
    let (function, role) = if schema.primary_keys.contains(&field.name) {
        (Function::PrimaryKey, Role::Key)
    } else {
        match engine {
            Engine::Deduplicate { .. } | Engine::FirstRow { .. } => (Function::LastValue, Role::Free),
            Engine::Aggregation { .. } => {
                if list(options, "sequence.field").contains(&field.name.as_str()) {
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
    let ignore_key = format!("fields.{}.ignore-retract", field.name);
    let ignore = flag(options, &ignore_key)?;
    if ignore && engine == (Engine::Aggregation { remove_on_delete: true }) {
        return Err(Error::invalid(format!("'{ignore_key}' and '{AGGREGATION_REMOVE}' can't both be set")));
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
