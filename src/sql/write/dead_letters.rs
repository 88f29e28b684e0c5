//! `write.bad-records = 'table:..'`: the table that takes the rows which do not fit, each with its reason.
//!
//! | column | |
//! |---|---|
//! | `table_name` STRING | the table that the row was for |
//! | `reason` STRING | what is wrong, as the error would say it |
//! | `column_name` STRING | the column that it is wrong with |
//! | `column_value` STRING | the value, as text; NULL for NULL |
//! | `row_data` STRING | the row as a JSON object, each value as text or null |
//! | `commit_user` STRING | who commits the statement, as `$snapshots` shows it |
//! | `commit_identifier` BIGINT | its number, where `paimon.commit.identifier` gives it one |
//! | `created_at` TIMESTAMP_LTZ(3) | when the row was refused |
//!
//! The table is created, without keys, when the first row needs it. One that is there must have these columns, and may have
//! others that take NULL. The rows are committed before the statement's own: what was refused is never lost, and is there too when
//! the statement fails after that. With a commit identifier they are committed once.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray, new_null_array};
use arrow::datatypes::Schema;
use datafusion::execution::TaskContext;
use tokio::sync::Mutex;

use crate::catalog::Catalog;
use crate::commit::BATCH_IDENTIFIER;
use crate::error::{Error, Result};
use crate::spec::{DataField, DataType, TypeKind};
use crate::store::Caches;
use crate::table::{NewTable, ObjectName, Table};
use crate::writer::{TableCommitter, TableWriter};

/// A row that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeadLetter {
    pub reason: String,
    pub column: String,
    pub value: Option<String>,
    /// The row as JSON.
    pub row: String,
}

/// Where the rows of a statement go that do not fit.
pub(crate) struct DeadLetters {
    catalog: Arc<dyn Catalog>,
    caches: Arc<Caches>,
    database: String,
    name: ObjectName,
    /// The table that the rows were for.
    refused_by: String,
    user: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: Option<(Arc<Table>, TableWriter)>,
    /// The rows of this statement are committed: when it runs again, they are not written again.
    committed: bool,
}

impl fmt::Debug for DeadLetters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadLetters")
            .field("database", &self.database)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for DeadLetters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.database, self.name)
    }
}

impl DeadLetters {
    /// Those of rows for `table`, in the table `name`: `db.t`, or `t` of the same database.
    ///
    /// # Errors
    /// Invalid when the name is none of another table.
    pub(super) fn new(catalog: &Arc<dyn Catalog>, table: &Table, name: &str, user: &str) -> Result<Self> {
        let target = table.identifier();
        let (database, name) = match name.split_once('.') {
            Some((database, name)) => (database.to_owned(), name),
            None => (target.database.clone(), name),
        };
        let name: ObjectName = name.parse()?;
        if name.system_table.is_some() || name.version.is_some() || name.branch.is_some() {
            return Err(Error::invalid(format!(
                "'{database}.{name}' is not the name of a table: table:db.t is expected"
            )));
        }
        if (&database, &name.table) == (&target.database, &target.table) {
            return Err(Error::invalid("rows that do not fit a table go to another one"));
        }
        Ok(Self {
            catalog: Arc::clone(catalog),
            caches: Arc::clone(table.caches()),
            database,
            name,
            refused_by: format!("{}.{}", target.database, target.table),
            user: user.to_owned(),
            state: Mutex::default(),
        })
    }

    /// A run of the statement begins: what another run wrote and did not commit goes.
    pub(super) async fn begin(&self) {
        self.state.lock().await.open = None;
    }

    /// Takes rows.
    ///
    /// # Errors
    /// Invalid when the table is there and has not the columns; else what creating and writing it say.
    pub(super) async fn add(
        &self,
        letters: &[DeadLetter],
        identifier: Option<i64>,
        context: &Arc<TaskContext>,
    ) -> Result<()> {
        let mut state = self.state.lock().await;
        if letters.is_empty() || state.committed {
            return Ok(());
        }
        if state.open.is_none() {
            let table = Box::pin(self.table()).await?;
            let writer = TableWriter::try_new(&table, &self.user, Arc::clone(context))?;
            state.open = Some((table, writer));
        }
        if let Some((table, writer)) = &mut state.open {
            let batch = self.batch(table, letters, identifier)?;
            writer.write(batch).await?;
        }
        Ok(())
    }

    /// Commits the rows that were taken.
    ///
    /// # Errors
    /// As a write of the table.
    pub(super) async fn commit(&self, identifier: Option<i64>) -> Result<()> {
        let mut state = self.state.lock().await;
        let Some((table, mut writer)) = state.open.take() else { return Ok(()) };
        let messages = writer.prepare_commit().await?;
        // Statements for other tables may have the same number.
        let user = format!("{}:{}", self.user, self.refused_by);
        let committer = TableCommitter::try_new(&table, user)?;
        let committed = match identifier {
            Some(identifier) => Box::pin(committer.commit(identifier, messages.clone())).await,
            None => Box::pin(committer.commit_batch(messages.clone())).await,
        };
        if let Err(error) = committed {
            // What is left is nobody's: the failure is the one to report.
            let _ = committer.abort(&messages).await;
            return Err(error);
        }
        state.committed = true;
        Ok(())
    }

    /// The table, created when there is none.
    async fn table(&self) -> Result<Arc<Table>> {
        let definition = NewTable {
            fields: columns(),
            comment: Some("rows that did not fit their table".to_owned()),
            ..NewTable::default()
        };
        self.catalog.create_table(&self.database, &self.name.table, definition, true).await?;
        let table = self.catalog.open_table(&self.database, &self.name, &self.caches, BTreeMap::new()).await?;
        for field in columns() {
            let found = table.schema().field(&field.name);
            if found.is_none_or(|found| found.data_type.kind != field.data_type.kind) {
                return Err(table.at(Error::invalid(format!(
                    "the table takes the rows that do not fit another one, and has no column {} {}; it has to have {}",
                    field.name,
                    field.data_type,
                    columns()
                        .iter()
                        .map(|field| format!("{} {}", field.name, field.data_type))
                        .collect::<Vec<_>>()
                        .join(", ")
                ))));
            }
        }
        Ok(table)
    }

    fn batch(&self, table: &Table, letters: &[DeadLetter], identifier: Option<i64>) -> Result<RecordBatch> {
        let rows = letters.len();
        let texts = |text: fn(&DeadLetter) -> Option<&str>| -> ArrayRef {
            Arc::new(letters.iter().map(text).collect::<StringViewArray>())
        };
        let same = |text: &str| -> ArrayRef { Arc::new(StringViewArray::from(vec![text; rows])) };
        let now = chrono::Utc::now().timestamp_millis();
        let columns = table.schema().fields.iter().map(|field| match field.name.as_str() {
            TABLE_NAME => same(&self.refused_by),
            REASON => texts(|letter| Some(&letter.reason)),
            COLUMN_NAME => texts(|letter| Some(&letter.column)),
            COLUMN_VALUE => texts(|letter| letter.value.as_deref()),
            ROW_DATA => texts(|letter| Some(&letter.row)),
            COMMIT_USER => same(&self.user),
            COMMIT_IDENTIFIER => {
                let number = identifier.filter(|identifier| *identifier != BATCH_IDENTIFIER);
                Arc::new(Int64Array::from(vec![number; rows]))
            }
            CREATED_AT => Arc::new(TimestampMillisecondArray::from(vec![now; rows]).with_timezone("UTC")),
            _ => new_null_array(field.to_arrow().data_type(), rows),
        });
        // Whether NULL may stand in a column of the table's own is seen when it is written.
        let fields: Vec<_> = table.schema().fields.iter().map(|field| field.to_arrow().with_nullable(true)).collect();
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.collect())?)
    }
}

const TABLE_NAME: &str = "table_name";
const REASON: &str = "reason";
const COLUMN_NAME: &str = "column_name";
const COLUMN_VALUE: &str = "column_value";
const ROW_DATA: &str = "row_data";
const COMMIT_USER: &str = "commit_user";
const COMMIT_IDENTIFIER: &str = "commit_identifier";
const CREATED_AT: &str = "created_at";

/// The columns of a table for rows that do not fit.
fn columns() -> Vec<DataField> {
    let number = DataType::nullable(TypeKind::BigInt);
    let time = DataType::nullable(TypeKind::TimestampLtz(3));
    let types = [
        (TABLE_NAME, DataType::string()),
        (REASON, DataType::string()),
        (COLUMN_NAME, DataType::string()),
        (COLUMN_VALUE, DataType::string()),
        (ROW_DATA, DataType::string()),
        (COMMIT_USER, DataType::string()),
        (COMMIT_IDENTIFIER, number),
        (CREATED_AT, time),
    ];
    (0..).zip(types).map(|(id, (name, data_type))| DataField::new(id, name, data_type)).collect()
}
