//! Pruning by file indexes (`spec/data.md 10`): which raw files cannot hold a row that the filters want, and where an index
//! knows rows, which rows of a file they are.
//!
//! ```text
//! conjuncts -> IndexFilter    what an index could answer: comparisons, IN, IS NULL, of columns or keys of maps, AND and OR
//!   -> per file               the index's name of each column (by field id, through the schema of the file)
//!   -> IndexAnswer            remain, skip, or rows; a broken index counts and remains
//! ```
//!
//! May import: `spec`, `options`, `store`, `table`.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::ArrayRef;
use bytes::Bytes;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use futures::{StreamExt, stream};

use super::PlannedFile;
use crate::error::Result;
use crate::options::TableOptions;
use crate::spec::file_index::{Comparison, FILE_SUFFIX, FileIndex, IndexAnswer, IndexPredicate, ValueType};
use crate::spec::{DataType, TableSchema, TypeKind};
use crate::table::Table;

/// Index files read at once.
const CONCURRENCY: usize = 16;

/// Longer lists of IN take longer to look up than they are worth.
const MAX_LITERALS: usize = 1000;

/// The part of a scan's filters that file indexes can answer.
#[derive(Debug)]
pub struct IndexFilter {
    columns: Vec<IndexedColumn>,
    condition: Condition,
}

/// What the indexes of a list of files said.
#[derive(Clone, Debug, Default)]
pub struct IndexPruning {
    /// One answer a file, in their order. Rows are physical positions; deleted rows may be among them. They are a superset
    /// of the rows that match, so that the filters still have to be applied.
    pub answers: Vec<IndexAnswer>,
    /// Files whose index was asked.
    pub asked: usize,
    /// Files that hold no row that matches.
    pub skipped: usize,
    /// Files with an index that could not be read, or not all of it. Nothing is pruned by what could not be read.
    pub broken_indexes: usize,
}

/// A column of the table, or one key of a map column.
#[derive(Clone, Debug, PartialEq)]
struct IndexedColumn {
    id: i32,
    data_type: DataType,
    key: Option<String>,
    values: ValueType,
}

/// A condition over columns, of which an index can say something.
#[derive(Debug)]
enum Condition {
    Predicate {
        /// Position in [`IndexFilter::columns`].
        column: usize,
        predicate: IndexPredicate,
    },
    All(Vec<Condition>),
    Any(Vec<Condition>),
}

/// The names that indexes have for the columns of a filter, in files of one schema; `None` where the column was not there or
/// had another type.
type IndexNames = Arc<[Option<String>]>;

impl IndexFilter {
    /// The part of `filters`, conjuncts over the columns of `schema`, that indexes can answer. `None` when there is none,
    /// when the options say that indexes are not read, and for tables whose files are no whole rows.
    ///
    /// Key tables use indexes only with deletion vectors (`spec/data.md 4.5`).
    pub fn try_new(schema: &TableSchema, options: &TableOptions, filters: &[Arc<dyn PhysicalExpr>]) -> Option<Self> {
        let merged = schema.has_primary_key() && !options.deletion_vectors_enabled;
        if !options.file_index_read_enabled || options.data_evolution || merged {
            return None;
        }
        let mut builder = Builder { schema, columns: Vec::new() };
        let conditions = filters.iter().filter_map(|filter| builder.condition(filter)).collect();
        let condition = builder.all(conditions)?;
        Some(Self { columns: builder.columns, condition })
    }

    /// Asks the indexes of `files`: files all of whose rows are live, but for deletion vectors. Files without an index, and
    /// those that are not scanned, remain.
    ///
    /// # Errors
    /// Those of reading a schema. What is wrong with an index is no error.
    pub async fn prune(&self, table: &Table, files: &[PlannedFile]) -> Result<IndexPruning> {
        let mut pruning = IndexPruning { answers: vec![IndexAnswer::Remain; files.len()], ..IndexPruning::default() };
        let mut names: HashMap<i64, IndexNames> = HashMap::new();
        let mut separate = Vec::new();
        for (at, file) in files.iter().enumerate() {
            let Some(rows) = rows_to_ask(file) else { continue };
            let id = file.file.schema_id();
            let names = match names.get(&id) {
                Some(names) => Arc::clone(names),
                None => {
                    let schema = table.schema_at(id).await?;
                    let found = self.names(&schema);
                    Arc::clone(names.entry(id).or_insert(found))
                }
            };
            if names.iter().all(Option::is_none) {
                continue;
            }
            if let Some(bytes) = file.file.embedded_index() {
                let index = FileIndex::parse(Bytes::from_owner(Arc::clone(bytes)));
                let answered = index.map(|index| self.ask(&index, &names, rows));
                pruning.note(at, rows, answered);
            } else if index_file(file).is_some() {
                separate.push((at, rows, names));
            }
        }
        let mut answers = stream::iter(separate)
            .map(|(at, rows, names)| async move {
                let answered = match load(table, &files[at]).await {
                    Ok(index) => Ok(self.ask(&index, &names, rows)),
                    Err(error) => Err(error),
                };
                (at, rows, answered)
            })
            .buffer_unordered(CONCURRENCY);
        while let Some((at, rows, answered)) = answers.next().await {
            pruning.note(at, rows, answered);
        }
        Ok(pruning)
    }

    /// The columns' names in indexes of files of `schema`.
    fn names(&self, schema: &TableSchema) -> IndexNames {
        self.columns.iter().map(|column| column.name_in(schema)).collect()
    }

    /// What an index says, and whether all that was asked of it could be read.
    fn ask(&self, index: &FileIndex, names: &IndexNames, rows: u32) -> (IndexAnswer, bool) {
        let mut sound = true;
        let answer = self.answer(&self.condition, index, names, rows, &mut sound);
        (answer, sound)
    }

    fn answer(
        &self,
        condition: &Condition,
        index: &FileIndex,
        names: &IndexNames,
        rows: u32,
        sound: &mut bool,
    ) -> IndexAnswer {
        match condition {
            Condition::Predicate { column, predicate } => {
                let Some(name) = &names[*column] else { return IndexAnswer::Remain };
                index.answer(name, self.columns[*column].values, predicate, rows).unwrap_or_else(|_| {
                    *sound = false;
                    IndexAnswer::Remain
                })
            }
            Condition::All(conditions) => {
                let mut all = IndexAnswer::Remain;
                for condition in conditions {
                    all = all.and(self.answer(condition, index, names, rows, sound));
                    if all == IndexAnswer::Skip {
                        break;
                    }
                }
                all
            }
            Condition::Any(conditions) => {
                let mut any = IndexAnswer::Skip;
                for condition in conditions {
                    any = any.or(self.answer(condition, index, names, rows, sound));
                    if any == IndexAnswer::Remain {
                        break;
                    }
                }
                any
            }
        }
    }
}

impl IndexPruning {
    fn note(&mut self, at: usize, rows: u32, answered: Result<(IndexAnswer, bool)>) {
        self.asked += 1;
        let Ok((answer, sound)) = answered else {
            self.broken_indexes += 1;
            return;
        };
        self.broken_indexes += usize::from(!sound);
        self.skipped += usize::from(answer == IndexAnswer::Skip);
        self.answers[at] = match answer {
            IndexAnswer::Rows(found) if found.len() == u64::from(rows) => IndexAnswer::Remain,
            answer => answer,
        };
    }
}

impl IndexedColumn {
    /// The name of the column's index in files of `schema`: the name at the time (`spec/data.md 15, 7`).
    fn name_in(&self, schema: &TableSchema) -> Option<String> {
        let field = schema.fields.iter().find(|field| field.id == self.id)?;
        if !same_values(&field.data_type, &self.data_type) {
            return None;
        }
        Some(match &self.key {
            None => field.name.clone(),
            Some(key) => format!("{}[{key}]", field.name),
        })
    }
}

/// Whether values of the type `written` are read as they are when the column's type is `read`.
fn same_values(written: &DataType, read: &DataType) -> bool {
    match (&written.kind, &read.kind) {
        (TypeKind::VarChar(written), TypeKind::VarChar(read))
        | (TypeKind::VarBinary(written), TypeKind::VarBinary(read)) => written <= read,
        (TypeKind::Map(key, value), TypeKind::Map(read_key, read_value)) => {
            same_values(key, read_key) && same_values(value, read_value)
        }
        (written, read) => written == read,
    }
}

/// The number of rows of a file whose index may be asked. Rows beyond 2^31 have no place in an index.
fn rows_to_ask(file: &PlannedFile) -> Option<u32> {
    let rows = i32::try_from(file.file.rows()).ok()?;
    file.scan.then_some(rows as u32)
}

/// The file beside a data file that holds its index. It is known by the end of its name: an index that was made later has a
/// name of its own (`spec/data.md 10.1`).
fn index_file(file: &PlannedFile) -> Option<&str> {
    file.file.extra_files().iter().map(String::as_str).find(|name| name.ends_with(FILE_SUFFIX))
}

/// The index beside a data file, out of the cache or the store.
async fn load(table: &Table, file: &PlannedFile) -> Result<Arc<FileIndex>> {
    let files = table.files();
    let path = files.sibling_path(&file.path(files)?, index_file(file).unwrap_or_default())?;
    let read = async {
        let index = FileIndex::parse(files.read(&path).await?)?;
        let weight = index.memory();
        Ok((index, weight))
    };
    // Nothing tells the size of the file before it is read; its name holds a UUID.
    Ok(table.caches().decoded(files.key(&path, 0), read).await?.value)
}

/// Turns expressions into conditions.
struct Builder<'a> {
    schema: &'a TableSchema,
    columns: Vec<IndexedColumn>,
}

impl Builder<'_> {
    /// What an index could say about `expr`; `None` when that is nothing.
    fn condition(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Option<Condition> {
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            return self.binary(binary);
        }
        if let Some(list) = expr.downcast_ref::<InListExpr>() {
            return self.in_list(list);
        }
        if let Some(test) = expr.downcast_ref::<IsNullExpr>() {
            return self.predicate(test.arg(), |_| Some(IndexPredicate::IsNull));
        }
        if let Some(test) = expr.downcast_ref::<IsNotNullExpr>() {
            return self.predicate(test.arg(), |_| Some(IndexPredicate::IsNotNull));
        }
        // A BOOLEAN is a condition itself.
        if let Some(not) = expr.downcast_ref::<NotExpr>() {
            return self.boolean(not.arg(), false);
        }
        self.boolean(expr, true)
    }

    fn boolean(&mut self, expr: &Arc<dyn PhysicalExpr>, value: bool) -> Option<Condition> {
        let literal = literal_array(&ScalarValue::Boolean(Some(value)))?;
        self.predicate(expr, |values| IndexPredicate::compare(values, Comparison::Eq, &literal))
    }

    fn binary(&mut self, binary: &BinaryExpr) -> Option<Condition> {
        let (left, right) = (binary.left(), binary.right());
        match binary.op() {
            Operator::And => {
                // One side is enough to prune by.
                let sides = [left, right].into_iter().filter_map(|side| self.condition(side)).collect();
                self.all(sides)
            }
            Operator::Or => {
                let (left, right) = (self.condition(left)?, self.condition(right)?);
                let mut any = Vec::new();
                for side in [left, right] {
                    match side {
                        Condition::Any(conditions) => any.extend(conditions),
                        other => any.push(other),
                    }
                }
                Some(Condition::Any(any))
            }
            operator => {
                let comparison = comparison(operator)?;
                if let Some(literal) = literal(right) {
                    self.predicate(left, |values| IndexPredicate::compare(values, comparison, &literal))
                } else {
                    let literal = literal(left)?;
                    self.predicate(right, |values| IndexPredicate::compare(values, turned(comparison), &literal))
                }
            }
        }
    }

    fn in_list(&mut self, list: &InListExpr) -> Option<Condition> {
        if list.list().len() > MAX_LITERALS {
            return None;
        }
        let literals = list.list().iter().map(literal).collect::<Option<Vec<_>>>()?;
        self.predicate(list.expr(), |values| {
            if list.negated() {
                IndexPredicate::is_not_in(values, &literals)
            } else {
                IndexPredicate::is_in(values, &literals)
            }
        })
    }

    /// `predicate` over what `expr` names, a column or a key of a map column.
    fn predicate(
        &mut self,
        expr: &Arc<dyn PhysicalExpr>,
        predicate: impl FnOnce(ValueType) -> Option<IndexPredicate>,
    ) -> Option<Condition> {
        let column = self.column(expr)?;
        let predicate = predicate(column.values)?;
        let at = self.columns.iter().position(|known| *known == column).unwrap_or_else(|| {
            self.columns.push(column);
            self.columns.len() - 1
        });
        Some(Condition::Predicate { column: at, predicate })
    }

    fn column(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<IndexedColumn> {
        let (column, key) = match expr.downcast_ref::<ScalarFunctionExpr>() {
            Some(access) if access.name() == "get_field" => {
                let [column, key] = access.args() else { return None };
                let key = key.downcast_ref::<Literal>()?.value().try_as_str()??;
                (column.downcast_ref::<Column>()?, Some(key.to_owned()))
            }
            _ => (expr.downcast_ref::<Column>()?, None),
        };
        let field = self.schema.field(column.name())?;
        if self.schema.partition_keys.contains(&field.name) {
            return None;
        }
        let values = match (&key, &field.data_type.kind) {
            (None, kind) => ValueType::of(kind)?,
            // A key that is not in the map counts as NULL in the index, as it does here.
            (Some(_), TypeKind::Map(key, value)) if matches!(key.kind, TypeKind::VarChar(_)) => {
                ValueType::of(&value.kind)?
            }
            (Some(_), _) => return None,
        };
        Some(IndexedColumn { id: field.id, data_type: field.data_type.clone(), key, values })
    }

    /// All of `conditions`, with two bounds of one column made one range, so that its index is read once.
    fn all(&self, conditions: Vec<Condition>) -> Option<Condition> {
        let mut all: Vec<Condition> = Vec::new();
        let flat = conditions.into_iter().flat_map(|condition| match condition {
            Condition::All(inner) => inner,
            other => vec![other],
        });
        for condition in flat {
            let merged = all.iter_mut().find_map(|known| match (known, &condition) {
                (
                    Condition::Predicate { column, predicate },
                    Condition::Predicate { column: other, predicate: with },
                ) if column == other => predicate.merged(with).map(|merged| *predicate = merged),
                _ => None,
            });
            if merged.is_none() {
                all.push(condition);
            }
        }
        match all.len() {
            0 => None,
            1 => all.pop(),
            _ => Some(Condition::All(all)),
        }
    }
}

fn literal(expr: &Arc<dyn PhysicalExpr>) -> Option<ArrayRef> {
    literal_array(expr.downcast_ref::<Literal>()?.value())
}

fn literal_array(value: &ScalarValue) -> Option<ArrayRef> {
    match value {
        ScalarValue::Dictionary(_, value) => value.to_array().ok(),
        value => value.to_array().ok(),
    }
}

fn comparison(operator: &Operator) -> Option<Comparison> {
    Some(match operator {
        // With NULL as its literal it is IS NULL, which `compare` does not answer.
        Operator::Eq | Operator::IsNotDistinctFrom => Comparison::Eq,
        Operator::NotEq => Comparison::NotEq,
        Operator::Lt => Comparison::Lt,
        Operator::LtEq => Comparison::LtEq,
        Operator::Gt => Comparison::Gt,
        Operator::GtEq => Comparison::GtEq,
        _ => return None,
    })
}

/// The comparison with its sides exchanged.
fn turned(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Eq | Comparison::NotEq => comparison,
        Comparison::Lt => Comparison::Gt,
        Comparison::LtEq => Comparison::GtEq,
        Comparison::Gt => Comparison::Lt,
        Comparison::GtEq => Comparison::LtEq,
    }
}

#[cfg(test)]
mod tests;
