//! Where the rows of a statement's query go: a table that takes changes in place of rows.
//!
//! The engine plans `INSERT INTO` it, so that whatever the query is, subqueries, joins and limits come for free.
//! Imports `write`, `commit`, `table`, and the nodes of this folder.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::datasource::{TableProvider, TableType};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::join_selection::JoinSelection;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::allowed;
use super::drop::{LakeDropExec, dropped};
use super::key_rows::LakeKeyChangesExec;
use super::marks::{AppendChanges, append_changes};
use super::retry::{Again, LakeRetryExec};
use super::shape::{Action, ChangeShape};
use crate::commit::Operation;
use crate::error::Error;
use crate::spec::Snapshot;
use crate::spec::types::arrow_schema;
use crate::sql::settings::{PaimonSettings, Replay};
use crate::sql::travel::TableState;
use crate::sql::write::{CommitPlan, LakeCommitExec, LakeKeysExec, with_strict_casts};
use crate::table::Table;
use crate::write::{BucketMode, LakeWriteExec, RunSlot, WriteTarget};

/// A side of a join that is held in memory in one piece has fewer bytes.
const COLLECTED_BYTES: usize = 256 << 20;
/// The same in rows, where the bytes are not known.
const COLLECTED_ROWS: usize = 2 << 20;

/// What the rows of the query are.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// Rows of this shape.
    Rows(Arc<ChangeShape>),
    /// One number: how many rows go. The partitions that satisfy the condition go whole; all without one.
    Partitions(Option<Expr>),
}

/// A table that is changed.
#[derive(Clone)]
pub(crate) struct ChangeSink {
    state: TableState,
    change: Change,
    schema: SchemaRef,
    /// The rows that come, for planning them again.
    rows: Option<Arc<LogicalPlan>>,
}

impl fmt::Debug for ChangeSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeSink").field("state", &self.state).field("change", &self.change).finish_non_exhaustive()
    }
}

impl ChangeSink {
    /// The table of `state` as what is changed.
    pub(crate) fn new(state: TableState, change: Change) -> Self {
        let schema = arrow_schema(&state.table.schema().fields);
        Self { state, change, schema, rows: None }
    }

    /// The same with the plan of the rows that come, which is planned again when others changed the table meanwhile.
    pub(crate) fn with_rows(self, rows: LogicalPlan) -> Self {
        Self { rows: Some(Arc::new(rows)), ..self }
    }

    /// The table.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.state.table
    }

    /// The nodes that change the table as `input` says, once.
    pub(super) async fn once(
        &self,
        session: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
    ) -> crate::error::Result<Arc<dyn ExecutionPlan>> {
        match &self.change {
            Change::Rows(shape) => self.change_rows(session, input, shape).await,
            Change::Partitions(condition) => {
                let snapshot = self.snapshot(session).await?;
                let table = &self.state.table;
                let scope = Box::pin(dropped(session, table, snapshot, condition.as_ref())).await?;
                let replay = PaimonSettings::replay(session.config_options())?;
                Ok(Arc::new(LakeDropExec::new(input, Arc::clone(table), scope, Operation::Delete, replay)))
            }
        }
    }

    /// The snapshot that the query reads.
    async fn snapshot(&self, session: &dyn Session) -> crate::error::Result<Option<Arc<Snapshot>>> {
        let options = self.state.options(session)?;
        allowed::latest_state(&self.state, &options)?;
        self.state.snapshot(session, &options).await
    }

    async fn change_rows(
        &self,
        session: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        shape: &Arc<ChangeShape>,
    ) -> crate::error::Result<Arc<dyn ExecutionPlan>> {
        let table = &self.state.written(session)?;
        let snapshot = self.snapshot(session).await?;
        let read = snapshot.as_ref().map_or(0, |snapshot| snapshot.id);
        let (user, identifier) = Replay::user(PaimonSettings::replay(session.config_options())?, table)?;
        let has_key = table.schema().has_primary_key();
        let target = match !has_key && table.settings().row_tracking {
            true => WriteTarget::taking_ids(Arc::clone(table), &user)?,
            false => WriteTarget::try_new(Arc::clone(table), false, has_key, &user)?,
        };
        let slot = Arc::new(RunSlot::default());
        let input = with_joins(with_strict_casts(input, table, &shape.schema(table))?, session)?;
        let partitions = session.config().target_partitions();
        let writes = if has_key {
            let keys = match target.mode() {
                BucketMode::CrossPartition => {
                    let parquet = session.default_table_options().parquet.clone();
                    let keys = LakeKeysExec::new(Arc::clone(&target), Arc::clone(&slot), parquet);
                    Some(Arc::new(keys) as Arc<dyn ExecutionPlan>)
                }
                _ => None,
            };
            let rows = LakeKeyChangesExec::new(input, Arc::clone(&target), Arc::clone(&slot), Arc::clone(shape));
            LakeWriteExec::plan(Arc::new(rows), keys, &target, &slot, partitions)?
        } else {
            append_changes(&AppendChanges { session, target: &target, slot: &slot, shape, snapshot }, input)?
        };
        // The engine's own rules do not see this plan when it is made a second time.
        let writes = match writes.output_partitioning().partition_count() {
            1 => writes,
            _ => Arc::new(CoalescePartitionsExec::new(writes)),
        };
        let plan = CommitPlan {
            identifier,
            operation: shape.operation,
            read_rows: Some(read),
            adds_absent: shape.does(Action::Insert),
            ..CommitPlan::default()
        };
        Ok(Arc::new(LakeCommitExec::new(writes, target, slot, Arc::new(plan))))
    }
}

/// Chooses the side that joins hold in memory. The rows of a statement are few beside those of its table: they are collected as
/// they are, so that the table's rows need not be sent around to meet them.
fn with_joins(input: Arc<dyn ExecutionPlan>, session: &dyn Session) -> crate::error::Result<Arc<dyn ExecutionPlan>> {
    let mut config = session.config_options().clone();
    let optimizer = &mut config.optimizer;
    optimizer.hash_join_single_partition_threshold =
        optimizer.hash_join_single_partition_threshold.max(COLLECTED_BYTES);
    optimizer.hash_join_single_partition_threshold_rows =
        optimizer.hash_join_single_partition_threshold_rows.max(COLLECTED_ROWS);
    Ok(JoinSelection::new().optimize(input, &config)?)
}

#[async_trait]
impl TableProvider for ChangeSink {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        _projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Err(Error::internal("the target of a change can't be read").into())
    }

    async fn insert_into(
        &self,
        state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        _op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = Box::pin(self.once(state, input)).await?;
        Ok(match (&self.rows, state.as_any().downcast_ref::<SessionState>()) {
            (Some(rows), Some(session)) => {
                let (session, rows) = (session.clone(), rows.as_ref().clone());
                Arc::new(LakeRetryExec::new(plan, Again { session, rows, sink: self.clone() }))
            }
            // A session of another kind runs its plans once.
            _ => plan,
        })
    }
}
