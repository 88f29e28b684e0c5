//! A table as the engine sees it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{Constraint, Constraints, DFSchema, DFSchemaRef, Result, ScalarValue};
use datafusion::datasource::{TableProvider, TableType};
use datafusion::logical_expr::dml::{InsertOp, MergeIntoClause};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, lit};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::union::UnionExec;

use super::branches::OtherBranch;
use super::changes::{ChangesAsked, changed_rows, without_retracts};
use super::dml::{allowed, truncation};
use super::scan::unit::SystemColumns;
use super::scan::{Asked, lake_scan};
use super::settings::PaimonSettings;
use super::travel::{TableState, zone_of};
use super::write::{Evolution, Insert};
use super::zone;
use crate::catalog::Catalog;
use crate::error::Error;
use crate::options::{Level0, TableOptions};
use crate::plan::{Levels, ScanRequest, plan_scan};
use crate::spec::types::{arrow_schema, row_id_fields};
use crate::spec::{DataField, Snapshot};
use crate::table::{Changes, ReadFrom, Table, create_statement};
use crate::write::default_value;

/// The system table that shows what a read without merging can see.
pub(crate) const READ_OPTIMIZED: &str = "ro";

/// A table of a lake, readable by the engine: at its latest snapshot when a query starts, or at a given one.
#[derive(Debug)]
pub struct LakeTable {
    state: TableState,
    schema: SchemaRef,
    constraints: Constraints,
    /// Whether `_ROW_ID` and `_SEQUENCE_NUMBER` come after the columns.
    row_ids: bool,
    /// Whether the rows are read to be changed: as they are now, whatever is hidden from other reads, and those of append
    /// tables with the places where they lie.
    places: bool,
    /// Whether only compacted files are read (`t$ro`).
    read_optimized: bool,
    /// The branch that is read together with the table.
    other: Option<OtherBranch>,
    /// What `INSERT OVERWRITE t PARTITION (..)` names: columns and their values as text, `None` for NULL.
    static_partition: BTreeMap<String, Option<String>>,
    /// The values of columns that an INSERT leaves out.
    defaults: HashMap<String, Expr>,
    /// Whether rows can't be written.
    read_only: bool,
    /// The statement that creates the table, once somebody asked for it.
    definition: OnceLock<String>,
    /// The catalog that the table is of.
    catalog: Option<Arc<dyn Catalog>>,
    /// What an INSERT adds to the table's columns, which are here already.
    evolution: Option<Arc<Evolution>>,
}

impl LakeTable {
    /// The latest snapshot of `table`, whenever a query starts.
    pub fn new(table: Arc<Table>) -> Self {
        Self::with_state(TableState { table, named: None, pins: Arc::default() })
    }

    /// One snapshot of `table`.
    pub fn at(table: Arc<Table>, snapshot: Arc<Snapshot>) -> Self {
        Self::with_state(TableState { table, named: Some(snapshot), pins: Arc::default() })
    }

    pub(crate) fn with_state(state: TableState) -> Self {
        let table = &state.table;
        let schema = read_schema(table, &table.schema().fields);
        let keys: Option<Vec<usize>> =
            table.schema().primary_keys.iter().map(|key| table.schema().index_of(key)).collect();
        let constraints = match keys {
            Some(keys) if !keys.is_empty() && key_is_unique(table) => {
                Constraints::new_unverified(vec![Constraint::PrimaryKey(keys)])
            }
            _ => Constraints::default(),
        };
        let (static_partition, defaults) = (BTreeMap::new(), defaults(table));
        let (row_ids, places, read_optimized, read_only, other) = (false, false, false, false, None);
        let (definition, catalog, evolution) = (OnceLock::new(), None, None);
        Self {
            state,
            schema,
            constraints,
            row_ids,
            places,
            read_optimized,
            other,
            static_partition,
            defaults,
            read_only,
            definition,
            catalog,
            evolution,
        }
    }

    /// The table as one of `catalog`.
    pub(crate) fn with_catalog(self, catalog: Arc<dyn Catalog>) -> Self {
        Self { catalog: Some(catalog), ..self }
    }

    /// The table as the target of a statement that makes its columns what they are here.
    pub(crate) fn with_evolution(self, evolution: Arc<Evolution>) -> Self {
        Self { evolution: Some(evolution), ..self }
    }

    /// The table as the target of an INSERT whose rows are looked at one by one: to the engine every column may be NULL.
    pub(crate) fn with_checked_rows(self) -> Self {
        let nullable = self.schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        Self { schema: Arc::new(Schema::new(nullable.collect::<Vec<_>>())), ..self }
    }

    /// Only what compaction has brought to the highest level (`t$ro`), or above level 0 with deletion vectors: nothing is merged.
    /// A table without keys is read whole.
    pub(crate) fn read_optimized(self) -> Self {
        Self { read_optimized: true, constraints: Constraints::default(), ..self }
    }

    /// The same rows with their ids: `_ROW_ID` and `_SEQUENCE_NUMBER` come after the columns (`t$row_tracking`).
    ///
    /// # Errors
    /// Invalid when the table has no row ids.
    pub fn with_row_ids(self) -> crate::error::Result<Self> {
        if !self.table().settings().row_tracking {
            return Err(self.table().at(Error::invalid("the table has no row ids; row-tracking.enabled is not set")));
        }
        let fields = self.table().schema().fields.iter().chain(&row_id_fields()).cloned().collect::<Vec<_>>();
        let schema = read_schema(self.table(), &fields);
        Ok(Self { schema, row_ids: true, ..self })
    }

    /// The rows as a statement reads them that changes them: as they are now, and those of an append table with the file and
    /// the position where each lies, behind their ids where the table has them.
    ///
    /// # Errors
    /// Invalid for a version of a table and for columns that are called as the places are, unsupported for rows that lie in
    /// several files.
    pub(crate) fn with_places(self) -> crate::error::Result<Self> {
        let table = self.table();
        if self.state.named.is_some() {
            return Err(table.at(Error::invalid("a version of a table can't be changed; name the table")));
        }
        if table.schema().has_primary_key() {
            return Ok(Self { places: true, ..self });
        }
        if table.settings().data_evolution {
            return Err(table.at(Error::unsupported("the rows of a data-evolution table lie in several files each")));
        }
        let columns = SystemColumns::Places { row_ids: table.settings().row_tracking };
        let places = columns.fields();
        if let Some(field) = places.iter().find(|field| table.schema().field(&field.name).is_some()) {
            return Err(table.at(Error::unsupported(format!(
                "rows can't be changed, because a column of the table has the reserved name {}; rename it",
                field.name
            ))));
        }
        let fields = table.schema().fields.iter().chain(&places).cloned().collect::<Vec<_>>();
        let schema = read_schema(self.table(), &fields);
        Ok(Self { schema, places: true, ..self })
    }

    /// The table as what a statement changes.
    ///
    /// # Errors
    /// Invalid for what is no table or a version of one.
    pub(crate) fn changed_state(&self, verb: &str) -> crate::error::Result<TableState> {
        let refused = |what: &str| Err(self.table().at(Error::invalid(format!("{verb}: {what} can't be changed"))));
        if self.read_only {
            return refused("a catalog that is opened to read only");
        }
        if self.state.named.is_some() {
            return refused("a version of a table");
        }
        if self.row_ids || self.read_optimized || self.places {
            return refused("a system table");
        }
        Ok(self.state.clone())
    }

    /// What the engine would ask of the table does not say all conditions of a statement: rows would go that must stay.
    fn needs_rule(&self, verb: &str) -> Error {
        self.table().at(Error::unsupported(format!(
            "{verb} needs the analyzer rule of tidelake::register, or a LakeSession: the conditions that this session hands \
             over may not be all that the statement has"
        )))
    }

    /// Whether this is `t$ro`.
    pub(crate) fn is_read_optimized(&self) -> bool {
        self.read_optimized
    }

    /// The table together with another of its branches.
    pub(crate) fn with_branch(self, other: Option<OtherBranch>) -> crate::error::Result<Self> {
        let other = other.map(|other| other.fitting(self.table())).transpose()?;
        Ok(Self { other, ..self })
    }

    /// The table as the target of an overwrite of one partition, or of those that begin like it.
    pub(crate) fn with_static_partition(self, static_partition: BTreeMap<String, Option<String>>) -> Self {
        Self { static_partition, ..self }
    }

    /// The table without a way to write to it, if `read_only`.
    #[must_use]
    pub fn with_read_only(self, read_only: bool) -> Self {
        Self { read_only, ..self }
    }

    /// The table behind.
    pub fn table(&self) -> &Arc<Table> {
        &self.state.table
    }

    /// The levels that are read. With deletion vectors the levels below hold rows that the vectors of the highest one make room
    /// for (`spec/observed.md`, Reading).
    fn levels(&self) -> Levels {
        match self.read_optimized && self.table().schema().has_primary_key() {
            false => Levels::All,
            true if self.table().settings().deletion_vectors_enabled => Levels::AboveZero,
            true => Levels::Highest,
        }
    }

    /// What a query reads of the table and of the other branch.
    async fn read_from(
        &self,
        state: &dyn Session,
        options: &TableOptions,
    ) -> crate::error::Result<(ReadFrom, Option<Arc<Snapshot>>)> {
        let own = self.state.read_from(state, options).await?;
        let Some(other) = &self.other else { return Ok((own, None)) };
        let latest = self.state.named.is_none() && options.scan.is_latest();
        let snapshot = match &own {
            ReadFrom::State { .. } if latest => {
                let query = state.execution_props().query_execution_start_time;
                self.state.pins.latest(&other.table, query).await?
            }
            // A state of the table is one moment; the other branch is read as it was then.
            ReadFrom::State { snapshot: Some(snapshot), .. } => other.at_time_of(snapshot).await?,
            _ => None,
        };
        Ok((own, snapshot))
    }

    /// A scan of one branch.
    async fn scan_branch(
        &self,
        table: &Arc<Table>,
        snapshot: Option<Arc<Snapshot>>,
        request: &ScanRequest,
        asked: &Asked<'_>,
    ) -> crate::error::Result<Arc<dyn ExecutionPlan>> {
        let plan = Box::pin(plan_scan(table, snapshot, request)).await.map_err(|error| table.at(error))?;
        lake_scan(table, plan, request, asked).await
    }

    /// The rows that changes brought: those that were inserted, and updated ones as they are after it. What was deleted and how
    /// updated rows were before is told by `$audit_log` (`spec/observed.md`, Merge engines).
    async fn changes(
        &self,
        changes: &Changes,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let unsupported = |what: &str| -> datafusion::error::DataFusionError {
            let what = format!("changes between snapshots can't be read of {what}");
            self.table().at(Error::unsupported(what)).into()
        };
        if self.other.is_some() {
            return Err(unsupported("a table that is read together with another branch; name the branch"));
        }
        if self.row_ids || self.read_optimized {
            return Err(unsupported("$row_tracking and $ro; read the table itself"));
        }
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        let columns = projection.map_or(all.as_slice(), Vec::as_slice);
        let asked = ChangesAsked { state, columns, filters, sequence: false, ordered: false, levels: Levels::All };
        let rows = Box::pin(changed_rows(self.table(), changes, &asked)).await?;
        // A limit must not count the rows that are left out here: the engine's own limit stands above.
        without_retracts(rows)
    }

    /// The partitions that a branch has, of those that the filters of `request` on partitions leave: a partition none of
    /// whose rows satisfy the others is there all the same.
    async fn partitions_of(
        &self,
        table: &Arc<Table>,
        snapshot: Option<Arc<Snapshot>>,
        request: &ScanRequest,
    ) -> crate::error::Result<HashSet<Vec<ScalarValue>>> {
        let keys = &table.schema().partition_keys;
        let on_partitions = |filter: &&Arc<dyn PhysicalExpr>| {
            let columns = collect_columns(filter);
            !columns.is_empty() && columns.iter().all(|column| keys.iter().any(|key| key == column.name()))
        };
        let filters = request.filters.iter().filter(on_partitions).map(Arc::clone).collect();
        let request = ScanRequest { filters, level0: Level0::Merge, row_ids: false, ..request.clone() };
        let plan = plan_scan(table, snapshot, &request).await.map_err(|error| table.at(error))?;
        Ok(plan.scanned().map(|file| file.partition.values.clone()).collect())
    }

    fn on_partitions(&self, filter: &Expr) -> bool {
        let columns = filter.column_refs();
        !columns.is_empty()
            && !filter.is_volatile()
            && columns.iter().all(|column| self.table().schema().partition_keys.contains(&column.name))
    }
}

#[async_trait]
impl TableProvider for LakeTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_table_definition(&self) -> Option<&str> {
        let create = || create_statement(self.table().identifier(), self.table().schema());
        Some(self.definition.get_or_init(create))
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = self.state.options(state)?;
        let opened = self.table().settings();
        if options.fallback_branch != opened.fallback_branch || options.primary_branch != opened.primary_branch {
            return Err(self.table().at(Error::unsupported(
                "scan.fallback-branch and scan.primary-branch are options of a table or of a hint, not of the session",
            )))?;
        }
        let (from, other_snapshot) = Box::pin(self.read_from(state, &options)).await?;
        let (snapshot, created_since) = match from {
            ReadFrom::State { snapshot, created_since } => (snapshot, created_since),
            ReadFrom::Changes(changes) => return self.changes(&changes, state, projection, filters).await,
        };
        let created_since = created_since.map(|since| zone::wall_clock(since, &zone_of(state))).transpose()?;
        let df_schema = DFSchema::try_from(Arc::clone(&self.schema))?;
        let filters = filters
            .iter()
            .map(|filter| state.create_physical_expr(filter.clone(), &df_schema))
            .collect::<Result<Vec<Arc<dyn PhysicalExpr>>>>()?;
        if self.places {
            allowed::latest_state(&self.state, &options)?;
        }
        let has_places = self.places && !self.table().schema().has_primary_key();
        let request = ScanRequest {
            schema: Arc::clone(&self.schema),
            filters,
            level0: if self.places { Level0::Merge } else { options.scan.level0 },
            levels: self.levels(),
            row_ids: self.row_ids || has_places,
            created_since,
            except: None,
        };
        let columns = match (self.row_ids, has_places) {
            (true, _) => SystemColumns::RowIds,
            (false, true) => SystemColumns::Places { row_ids: self.table().settings().row_tracking },
            (false, false) => SystemColumns::None,
        };
        let asked = Asked { state, projection: projection.map(Vec::as_slice), limit, columns, ordered: false };
        let Some(other) = &self.other else {
            return Ok(Box::pin(self.scan_branch(self.table(), snapshot, &request, &asked)).await?);
        };
        let own = (self.table(), snapshot);
        let others = (&other.table, other_snapshot);
        let (first, second) = if other.wins { (others, own) } else { (own, others) };
        let partitions = Box::pin(self.partitions_of(first.0, first.1.clone(), &request)).await?;
        let rest = ScanRequest { except: Some(Arc::new(partitions)), ..request.clone() };
        let first = Box::pin(self.scan_branch(first.0, first.1, &request, &asked)).await?;
        let second = Box::pin(self.scan_branch(second.0, second.1, &rest, &asked)).await?;
        UnionExec::try_new(vec![first, second])
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(filters
            .iter()
            .map(|filter| {
                if filter.is_volatile() {
                    TableProviderFilterPushDown::Unsupported
                } else if self.on_partitions(filter) {
                    TableProviderFilterPushDown::Exact
                } else {
                    TableProviderFilterPushDown::Inexact
                }
            })
            .collect())
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.defaults.get(column)
    }

    async fn insert_into(
        &self,
        state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let refused = |what: &str| {
            Err(datafusion::error::DataFusionError::from(
                self.table().at(Error::invalid(format!("{what} can't be written to"))),
            ))
        };
        if self.read_only {
            return refused("a catalog that is opened to read only");
        }
        if self.state.named.is_some() {
            return refused("a version of a table");
        }
        if self.row_ids || self.read_optimized || self.places {
            return refused("a system table");
        }
        let table = &self.state.written(state)?;
        let (partition, options) = (&self.static_partition, table.settings());
        let (catalog, evolution) = (self.catalog.as_ref(), self.evolution.as_ref());
        let insert = Insert { table, options, partition, op, catalog, evolution };
        Ok(insert.plan(state, input)?)
    }

    async fn delete_from(&self, _: &dyn Session, _: Vec<Expr>) -> Result<Arc<dyn ExecutionPlan>> {
        Err(self.needs_rule("DELETE").into())
    }

    async fn update(&self, _: &dyn Session, _: Vec<(String, Expr)>, _: Vec<Expr>) -> Result<Arc<dyn ExecutionPlan>> {
        Err(self.needs_rule("UPDATE").into())
    }

    async fn truncate(&self, state: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let replay = PaimonSettings::replay(state.config_options())?;
        Ok(truncation(self.changed_state("TRUNCATE")?.table, replay))
    }

    async fn merge_into(
        &self,
        _: &dyn Session,
        _: Arc<dyn ExecutionPlan>,
        _: DFSchemaRef,
        _: Expr,
        _: Vec<MergeIntoClause>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Err(self.needs_rule("MERGE").into())
    }
}

/// The default values of the columns that have one. A default that is no value of its column is not one: writing says so.
fn defaults(table: &Table) -> HashMap<String, Expr> {
    let fields = table.schema().fields.iter();
    fields
        .filter_map(|field| {
            let value = default_value(field).ok()??;
            Some((field.name.clone(), lit(ScalarValue::try_from_array(&value, 0).ok()?)))
        })
        .collect()
}

/// The columns as they are read. One that is NOT NULL now may have had NULLs before it was altered, and rows of then be there
/// still; those of the key had none ever.
fn read_schema(table: &Table, fields: &[DataField]) -> SchemaRef {
    let schema = table.schema();
    if schema.id == 0 {
        return arrow_schema(fields);
    }
    let read = fields.iter().map(|field| {
        let arrow = field.to_arrow();
        if schema.primary_keys.contains(&field.name) { arrow } else { arrow.with_nullable(true) }
    });
    Arc::new(Schema::new(read.collect::<Vec<_>>()))
}

/// Whether a read gives each primary key once: not where rows may move between partitions unseen (a key without the
/// partition columns in fixed buckets is unique in its partition only, `spec/metadata.md 2.8`).
fn key_is_unique(table: &Table) -> bool {
    let schema = table.schema();
    schema.partition_keys.iter().all(|key| schema.primary_keys.contains(key))
        && !table.settings().pk_clustering_override
}
