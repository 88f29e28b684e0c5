//! What a fold does with every column, resolved once a query from the schema and the options (`spec/data.md 5`).

use crate::error::{Error, Result};
use crate::options::{MergeEngine, TableOptions};
use crate::spec::{DataField, TableSchema};
use crate::table::aggregate::Function;
use crate::table::merge_rules::{ColumnRule, MergeRules};
pub(super) use crate::table::merge_rules::{RetractRule, Role};

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
        let MergeRules { groups, columns: rules } = MergeRules::try_new(schema, options)?;

        // Only what the outputs follow is read, and the groups that may remove the row.
        let mut plan = Self { engine: engine(options), inputs: Vec::new(), columns: Vec::new(), sequences: Vec::new() };
        let mut needed = vec![None; groups.len()];
        for &output in outputs {
            let (Some(field), Some(rule)) = (schema.fields.get(output), rules.get(output)) else {
                return Err(Error::internal(format!("column {output} is out of the {} of the schema", rules.len())));
            };
            let ColumnRule { function, role, retract } = rule.clone();
            let input = plan.input(output);
            plan.columns.push(ColumnPlan { input, field: field.clone(), function, role, retract });
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
