//! A session whose catalogs are lakes and whose SQL is the front end's.
//!
//! Imports the front end's modules and the engine's `SessionContext`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::{DFSchema, TableReference};
use datafusion::datasource::TableProvider;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{
    EmptyRelation, Expr, LogicalPlan, LogicalPlanBuilder, ResetVariable, SetVariable, Statement as PlanStatement,
};
use datafusion::optimizer::{Analyzer, AnalyzerRule};
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext, cast};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Statement as SqlStatement};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::catalog_provider::LakeCatalog;
use super::catalogs::Use;
use super::clocks::SessionClocks;
use super::coercion::ExactBesideFloat;
use super::ddl::{DEFAULT_DATABASE, Views};
use super::dml::LakeDmlRule;
use super::factory::LakeTableFactory;
use super::prepass::{self, Surroundings, idents, normalized};
use super::provider::LakeTable;
use super::relations::VersionGuard;
use super::settings::PaimonSettings;
use super::statement::{self, Command, Like, Parsed, engine_statement};
use super::types::{FlinkTypePlanner, in_zone};
use super::warnings::Warnings;
use super::write::LakeConstants;
use super::{case, catalogs, describe, functions, row_ids, tokens, zone};
use crate::error::{Error, ErrorKind, Result};

/// Registers the catalog `name` over a warehouse in any session, with the functions and settings that go with it.
///
/// Tables are then found as `name.database.table`, in any dialect; versions, branches and system tables by the grammar of
/// names (`"t@5"`, `t$files`). Flink's and Spark's own syntax needs a [`LakeSession`].
///
/// # Errors
/// For an option that is not known, and a warehouse that cannot be opened.
pub async fn register(context: &SessionContext, name: &str, options: &BTreeMap<String, String>) -> Result<()> {
    let catalog = catalogs::open(name, options, Use::Engine).await?;
    {
        let state = context.state_ref();
        let mut state = state.write();
        state.config_mut().options_mut().optimizer.enable_aggregate_dynamic_filter_pushdown = false;
        let extensions = &mut state.config_mut().options_mut().extensions;
        if extensions.get::<PaimonSettings>().is_none() {
            extensions.insert(PaimonSettings::default());
        }
        Warnings::install(state.config_mut());
        state.table_factories_mut().insert(FACTORY.to_owned(), Arc::new(LakeTableFactory::default()));
        // Of several catalogs the first one brings them.
        let rules: [Arc<dyn AnalyzerRule + Send + Sync>; 2] =
            [Arc::new(LakeDmlRule), Arc::new(LakeConstants::default())];
        for rule in rules {
            if !state.analyzer().rules.iter().any(|known| known.name() == rule.name()) {
                state.add_analyzer_rule(rule);
            }
        }
    }
    functions::register(context);
    context.register_relation_planner(Arc::new(VersionGuard))?;
    context.register_catalog(name, catalog);
    Ok(())
}

/// What `STORED AS` names the tables of a lake.
const FACTORY: &str = "PAIMON";

/// The statements of a text, in order, without the semicolons between them.
///
/// # Errors
/// When a string, a quoted name or a comment of the text is not closed.
pub fn split_statements(text: &str) -> Result<Vec<String>> {
    let statements = tokens::split(tokens::tokenize(text)?);
    Ok(statements
        .iter()
        .filter_map(|statement| {
            let (first, last) = (statement.first()?, statement.last()?);
            Some(text[tokens::byte_range(text, first.span).start..tokens::byte_range(text, last.span).end].to_owned())
        })
        .collect())
}

/// Whether a text ends with a semicolon that is not inside a string, a quoted name or a comment.
pub fn ends_statement(text: &str) -> bool {
    tokens::tokenize(text).is_ok_and(|tokens| tokens.last().is_some_and(|token| token.token == Token::SemiColon))
}

/// Builds a [`LakeSession`].
#[derive(Debug, Default)]
#[must_use]
pub struct LakeSessionBuilder {
    catalogs: Vec<(String, BTreeMap<String, String>)>,
    catalog: Option<String>,
    database: Option<String>,
    options: BTreeMap<String, String>,
    warehouse: Option<String>,
    config: Option<SessionConfig>,
    runtime: Option<Arc<RuntimeEnv>>,
    read_only: bool,
}

impl LakeSessionBuilder {
    /// The warehouse of the current catalog: a folder, or a URL whose scheme finds the store.
    pub fn warehouse(mut self, path_or_url: impl Into<String>) -> Self {
        self.warehouse = Some(path_or_url.into());
        self
    }

    /// The name of the current catalog; `lake` unless told.
    pub fn catalog(mut self, name: impl Into<String>) -> Self {
        self.catalog = Some(name.into());
        self
    }

    /// The current database; `default` unless told.
    pub fn database(mut self, name: impl Into<String>) -> Self {
        self.database = Some(name.into());
        self
    }

    /// An option of the current catalog, e.g. `metastore`.
    pub fn option(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.insert(key.into(), value.into());
        self
    }

    /// One more catalog with its options (`warehouse` among them).
    pub fn with_catalog(mut self, name: impl Into<String>, options: BTreeMap<String, String>) -> Self {
        self.catalogs.push((name.into(), options));
        self
    }

    /// The engine's settings to start from.
    pub fn session_config(mut self, config: SessionConfig) -> Self {
        self.config = Some(config);
        self
    }

    /// Memory, spilling and stores of the engine.
    pub fn runtime_env(mut self, runtime: Arc<RuntimeEnv>) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Refuses every statement that is not a query.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Opens the catalogs and the session.
    ///
    /// # Errors
    /// For a catalog without warehouse or with an unknown option, two catalogs of one name, and a wrong time zone.
    pub async fn build(mut self) -> Result<LakeSession> {
        let current = self.catalog.take().unwrap_or_else(|| "lake".to_owned());
        if let Some(warehouse) = self.warehouse.take() {
            self.options.insert("warehouse".to_owned(), warehouse);
        }
        let mut all = self.catalogs;
        if !self.options.is_empty() || !all.iter().any(|(name, _)| *name == current) {
            all.insert(0, (current.clone(), self.options));
        }
        let context = SessionContext::new_with_state(state(self.config, self.runtime, &current, self.database)?);
        functions::register(&context);
        let mut lake_catalogs = BTreeSet::new();
        for (name, options) in all {
            if !lake_catalogs.insert(name.clone()) {
                return Err(Error::invalid(format!("two catalogs are called '{name}'")));
            }
            let used = Use::FrontEnd { read_only: self.read_only };
            let catalog = catalogs::open(&name, &options, used).await?;
            context.register_catalog(&name, catalog);
        }
        let lake_catalogs = Arc::new(lake_catalogs);
        Ok(LakeSession { context, lake_catalogs, views: Arc::default(), read_only: self.read_only })
    }
}

fn state(
    config: Option<SessionConfig>,
    runtime: Option<Arc<RuntimeEnv>>,
    catalog: &str,
    database: Option<String>,
) -> Result<SessionState> {
    let mut config = config
        .unwrap_or_default()
        .with_default_catalog_and_schema(catalog, database.unwrap_or_else(|| "default".to_owned()))
        .with_create_default_catalog_and_schema(false)
        .with_information_schema(true);
    let options = config.options_mut();
    // Without E a number is exact, as in Flink and Spark; with E the front end makes it a DOUBLE.
    options.sql_parser.parse_float_as_decimal = true;
    // They lose values of columns that are NULL at first; see `LakeScanExec`.
    options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    // NULL is smaller than all values, as in Flink and Spark.
    options.sql_parser.default_null_ordering = "nulls_min".to_owned();
    let time_zone = options.execution.time_zone.as_deref().unwrap_or("UTC");
    options.execution.time_zone = Some(zone::canonical(time_zone)?);
    if options.extensions.get::<PaimonSettings>().is_none() {
        options.extensions.insert(PaimonSettings::default());
    }
    Warnings::install(&mut config);
    let mut builder = SessionStateBuilder::new_with_default_features()
        .with_config(config)
        .with_type_planner(Arc::new(FlinkTypePlanner))
        .with_table_factory(FACTORY.to_owned(), Arc::new(LakeTableFactory::default()))
        .with_analyzer_rules(analyzer_rules())
        .with_relation_planners(vec![Arc::new(VersionGuard)]);
    if let Some(runtime) = runtime {
        builder = builder.with_runtime_env(runtime);
    }
    Ok(builder.build())
}

/// The engine's rules, with ours before its coercion of types.
fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut rules = Analyzer::new().rules;
    rules.insert(0, Arc::new(ExactBesideFloat));
    rules.push(Arc::new(LakeDmlRule));
    rules.push(Arc::new(LakeConstants::with_clocks()));
    rules.push(Arc::new(SessionClocks));
    rules
}

/// A session over one or several catalogs. Clones share everything.
///
/// ```no_run
/// # async fn example() -> tidelake::Result<()> {
/// let session = tidelake::LakeSession::builder().warehouse("/data/warehouse").build().await?;
/// session.sql("SELECT count(*) FROM sales.orders /*+ OPTIONS('scan.snapshot-id' = '5') */").await?.show().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LakeSession {
    pub(super) context: SessionContext,
    pub(super) lake_catalogs: Arc<BTreeSet<String>>,
    pub(super) views: Arc<Views>,
    pub(super) read_only: bool,
}

impl LakeSession {
    /// A builder with the catalog `lake` and the database `default`.
    pub fn builder() -> LakeSessionBuilder {
        LakeSessionBuilder::default()
    }

    /// The engine's session underneath: to register other tables, or to read what `SET` has set.
    pub fn context(&self) -> &SessionContext {
        &self.context
    }

    /// The current catalog and database.
    pub fn current(&self) -> (String, String) {
        let state = self.context.state_ref();
        let state = state.read();
        let catalog = &state.config_options().catalog;
        (catalog.default_catalog.clone(), catalog.default_schema.clone())
    }

    /// Plans one statement. What changes the session (`USE`, `SET`) has happened when this returns; queries run when the rows
    /// are asked for.
    ///
    /// # Errors
    /// When the text is not one statement, does not fit the tables, or is a statement that this version does not have.
    pub async fn sql(&self, sql: &str) -> Result<DataFrame> {
        let mut statements = tokens::split(tokens::tokenize(sql)?).into_iter();
        match (statements.next(), statements.next()) {
            (Some(statement), None) => Box::pin(self.run(statement::parse(statement)?)).await,
            (None, _) => Err(Error::invalid("the text holds no statement")),
            (Some(_), Some(_)) => Err(Error::invalid("the text holds more than one statement; use sql_statements")),
        }
    }

    /// Plans the statements of a text one after the other, so that each sees what those before it set.
    ///
    /// # Errors
    /// As [`LakeSession::sql`], at the first statement that fails.
    pub async fn sql_statements(&self, text: &str) -> Result<Vec<DataFrame>> {
        let mut frames = Vec::new();
        for statement in tokens::split(tokens::tokenize(text)?) {
            frames.push(Box::pin(self.run(statement::parse(statement)?)).await?);
        }
        Ok(frames)
    }

    async fn run(&self, parsed: Parsed) -> Result<DataFrame> {
        match Box::pin(self.run_parsed(parsed)).await {
            Err(error) if self.lake_catalogs.len() == 1 && says_missing(&error) => {
                // Nothing is found where the warehouse itself is not there.
                let text = error.to_string();
                Err(match self.check_listing(&self.current().0, None).await {
                    Err(missing) if missing.kind() == ErrorKind::NotFound && !text.contains(missing.message()) => {
                        let text = text.strip_prefix("the engine failed: ").unwrap_or(&text);
                        Error::not_found(text).with_source(missing)
                    }
                    _ => error,
                })
            }
            ran => ran,
        }
    }

    async fn run_parsed(&self, parsed: Parsed) -> Result<DataFrame> {
        match parsed {
            Parsed::Command(command) => Box::pin(self.command(command)).await,
            Parsed::Ddl(ddl, tokens) => Box::pin(self.ddl(*ddl, tokens)).await,
            Parsed::Engine(statement) => {
                if let Some(changed) = Box::pin(self.change_rows(&statement)).await? {
                    return Ok(changed);
                }
                self.check_external(&statement).await?;
                Box::pin(self.run_engine(*statement)).await
            }
        }
    }

    /// Runs a statement of the engine.
    pub(super) async fn run_engine(&self, statement: Statement) -> Result<DataFrame> {
        self.check_change(&statement)?;
        self.run_planned(statement).await
    }

    /// Plans and runs a statement that is known to be allowed.
    pub(super) async fn run_planned(&self, statement: Statement) -> Result<DataFrame> {
        let plan = Box::pin(self.plan(statement)).await?;
        Ok(self.context.execute_logical_plan(plan).await?)
    }

    /// Refuses changes of lake tables, which are not built, and all changes of a session that only reads.
    pub(super) fn check_change(&self, statement: &Statement) -> Result<()> {
        if self.read_only && !statement::only_reads(statement) {
            return Err(Error::invalid("this session only reads; only queries, SHOW, DESCRIBE, SET and USE are taken"));
        }
        match statement::change(statement) {
            Some((verb, _)) if verb == "INSERT" && statement::is_plain_insert(statement) => Ok(()),
            Some((verb, target)) if self.is_lake(target.as_ref()) => Err(statement::refused(&verb)),
            _ => Ok(()),
        }
    }

    /// Whether a name is in one of our catalogs. What has no name changes the current catalog.
    fn is_lake(&self, name: Option<&ObjectName>) -> bool {
        let parts = name.and_then(idents).unwrap_or_default().into_iter().cloned().collect::<Vec<_>>();
        self.is_lake_name(&parts)
    }

    fn is_lake_name(&self, parts: &[Ident]) -> bool {
        match parts {
            [catalog, _, _] => self.lake_catalogs.contains(&normalized(catalog)),
            _ => self.lake_catalogs.contains(&self.current().0),
        }
    }

    pub(super) fn zone(&self) -> String {
        let state = self.context.state_ref();
        let state = state.read();
        state.config_options().execution.time_zone.clone().unwrap_or_else(|| "UTC".to_owned())
    }

    async fn plan(&self, statement: Statement) -> Result<LogicalPlan> {
        self.refresh_views(&statement).await?;
        let current = self.current();
        shown_in_zone(self.plan_within(statement, &current).await?, &self.zone())
    }

    /// The plan of a query out of its tokens.
    pub(super) async fn plan_query(&self, query: &[TokenWithSpan]) -> Result<LogicalPlan> {
        let statement = engine_statement(query.to_vec())?;
        if !matches!(&statement, Statement::Statement(statement) if matches!(**statement, SqlStatement::Query(_))) {
            return Err(Error::invalid("a query is expected: SELECT, WITH, VALUES or TABLE"));
        }
        self.check_change(&statement)?;
        self.with_final_types(self.plan(statement).await?)
    }

    /// The plan with the types that the engine gives its columns in the end: before that, those of a UNION are the types of its
    /// first branch, whatever the others are.
    pub(super) fn with_final_types(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let state = self.context.state();
        Ok(state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?)
    }

    /// Plans a statement whose names without a catalog or database are in `current`.
    pub(super) async fn plan_within(&self, statement: Statement, current: &(String, String)) -> Result<LogicalPlan> {
        let surroundings = Surroundings {
            catalog: current.0.clone(),
            lake_catalogs: BTreeSet::clone(&self.lake_catalogs),
            zone: self.zone(),
        };
        let mut written = statement.clone();
        match self.plan_as_written(statement, &surroundings, current).await {
            Ok(plan) => Ok(plan),
            Err(error) => {
                let names = (current.0.as_str(), current.1.as_str());
                if let Some(with_ids) = Box::pin(row_ids::resolved(&self.context, names, &written)).await? {
                    if let Ok(plan) = self.plan_as_written(with_ids.clone(), &surroundings, current).await {
                        return Ok(plan);
                    }
                    written = with_ids;
                }
                match Box::pin(case::resolved(&self.context, names, &written)).await {
                    Ok(Some(statement)) => self.plan_as_written(statement, &surroundings, current).await,
                    _ => Err(error),
                }
            }
        }
    }

    async fn plan_as_written(
        &self,
        mut statement: Statement,
        surroundings: &Surroundings,
        current: &(String, String),
    ) -> Result<LogicalPlan> {
        prepass::run(&mut statement, surroundings)?;
        let mut state = self.context.state();
        let names = &mut state.config_mut().options_mut().catalog;
        (names.default_catalog, names.default_schema) = current.clone();
        Ok(Box::pin(state.statement_to_plan(statement)).await?)
    }

    async fn command(&self, command: Command) -> Result<DataFrame> {
        match command {
            Command::Use(name) => self.use_database(&name),
            Command::UseCatalog(catalog) => {
                let catalog = self.catalog_name(&catalog)?;
                self.set_current(Some(catalog), "default".to_owned())
            }
            Command::ShowCatalogs => {
                let mut names = self.context.catalog_names();
                names.sort();
                self.rows(describe::names("catalog name", names)?)
            }
            Command::ShowCurrentCatalog => self.rows(describe::names("current catalog name", [self.current().0])?),
            Command::ShowCurrentDatabase => self.rows(describe::names("current database name", [self.current().1])?),
            Command::ShowDatabases { catalog, like } => {
                let catalog = catalog.map_or_else(|| Ok(self.current().0), |catalog| self.catalog_name(&catalog))?;
                self.check_listing(&catalog, None).await?;
                let mut names = self.databases(&catalog)?;
                // As in Flink: a database that nobody made is not listed.
                names.retain(|name| name != super::system::DATABASE);
                self.rows(describe::names("database name", filtered(names, like.as_ref()))?)
            }
            Command::ShowTables { database, like } => {
                let (catalog, database) = self.database(&database)?;
                let schema = self
                    .context
                    .catalog(&catalog)
                    .and_then(|provider| provider.schema(&database))
                    .ok_or_else(|| Error::not_found(format!("there is no database {catalog}.{database}")))?;
                let names = schema.table_names();
                if names.is_empty() {
                    self.check_listing(&catalog, Some(&database)).await?;
                }
                self.rows(describe::names("table name", filtered(names, like.as_ref()))?)
            }
            Command::ShowViews { database, like } => {
                let (catalog, database) = self.database(&database)?;
                let names = filtered(self.views.names(&catalog, &database), like.as_ref());
                self.rows(describe::names("view name", names)?)
            }
            Command::ShowColumns { table, like } => self.show_columns(&table, like.as_ref()).await,
            Command::ShowCreateTable(table) if self.is_lake_name(&table) => self.show_create_table(&table).await,
            Command::ShowCreateTable(table) => {
                let shown = table.iter().map(ToString::to_string).collect::<Vec<_>>().join(".");
                let statement = engine_statement(tokens::tokenize(&format!("SHOW CREATE TABLE {shown}"))?)?;
                Box::pin(self.run_engine(statement)).await
            }
            Command::ShowCreateView(view) => self.show_create_view(&view).await,
            Command::ShowProcedures(like) => self.show_procedures(like.as_ref()),
            Command::Call(call) => Box::pin(self.call(&call)).await,
            Command::ShowPartitions { table, partition } => Box::pin(self.show_partitions(&table, &partition)).await,
            Command::ShowProperties { table, key } => self.show_properties(&table, key.as_deref()).await,
            Command::Describe { table, extended } => self.describe(&table, extended).await,
            Command::Set { key, value } => self.set(&key, value).await,
            Command::Reset(key) => self.reset(&key).await,
        }
    }

    pub(super) fn rows(&self, batch: RecordBatch) -> Result<DataFrame> {
        Ok(self.context.read_batch(batch)?)
    }

    pub(super) fn nothing(&self) -> DataFrame {
        let plan = EmptyRelation { produce_one_row: false, schema: Arc::new(DFSchema::empty()) };
        DataFrame::new(self.context.state(), LogicalPlan::EmptyRelation(plan))
    }

    fn catalog_name(&self, ident: &Ident) -> Result<String> {
        let names = self.context.catalog_names();
        found(ident, &names)
            .ok_or_else(|| Error::not_found(format!("there is no catalog {ident}; there are {}", names.join(", "))))
    }

    fn databases(&self, catalog: &str) -> Result<Vec<String>> {
        let provider =
            self.context.catalog(catalog).ok_or_else(|| Error::not_found(format!("there is no catalog {catalog}")))?;
        let mut names = provider.schema_names();
        if self.lake_catalogs.contains(catalog) && !names.iter().any(|name| name == DEFAULT_DATABASE) {
            // It is there before its first table is.
            names.push(DEFAULT_DATABASE.to_owned());
        }
        names.sort();
        Ok(names)
    }

    /// Fails where a lake catalog can't tell what it has. The engine, which asks for names alone, takes that for nothing.
    async fn check_listing(&self, catalog: &str, database: Option<&str>) -> Result<()> {
        let provider = self.context.catalog(catalog).filter(|_| self.lake_catalogs.contains(catalog));
        let Some(lake) = provider.as_ref().and_then(|provider| provider.downcast_ref::<LakeCatalog>()) else {
            return Ok(());
        };
        lake.catalog().list_databases().await?;
        if let Some(database) = database
            && lake.catalog().database_exists(database).await?
        {
            lake.catalog().list_tables(database).await?;
        }
        Ok(())
    }

    /// The database that a name of no, one or two parts means.
    fn database(&self, name: &[Ident]) -> Result<(String, String)> {
        let (current_catalog, current_database) = self.current();
        let (catalog, database) = match name {
            [] => return Ok((current_catalog, current_database)),
            [database] => (current_catalog, database),
            [catalog, database, ..] => (self.catalog_name(catalog)?, database),
        };
        let database = found(database, &self.databases(&catalog)?)
            .ok_or_else(|| Error::not_found(format!("there is no database {database} in catalog {catalog}")))?;
        Ok((catalog, database))
    }

    fn use_database(&self, name: &[Ident]) -> Result<DataFrame> {
        let (catalog, database) = self.database(name)?;
        self.set_current(Some(catalog), database)
    }

    fn set_current(&self, catalog: Option<String>, database: String) -> Result<DataFrame> {
        {
            let state = self.context.state_ref();
            let mut state = state.write();
            let options = &mut state.config_mut().options_mut().catalog;
            if let Some(catalog) = catalog {
                options.default_catalog = catalog;
            }
            options.default_schema = database;
        }
        Ok(self.nothing())
    }

    async fn describe(&self, name: &[Ident], extended: bool) -> Result<DataFrame> {
        let provider = self.provider(name).await?;
        let columns = describe::of_provider(provider.as_ref(), |_| true)?;
        match provider.downcast_ref::<LakeTable>() {
            Some(table) if extended => {
                let extras = describe::extended(table.table());
                self.rows(describe::with_extras(&columns, extras)?)
            }
            _ => self.rows(columns),
        }
    }

    /// What the engine sees of the table that a name means, in any case.
    pub(super) async fn provider(&self, name: &[Ident]) -> Result<Arc<dyn TableProvider>> {
        let reference = |parts: &[String]| match parts {
            [table] => TableReference::bare(table.as_str()),
            [database, table] => TableReference::partial(database.as_str(), table.as_str()),
            [catalog, database, table, ..] => TableReference::full(catalog.as_str(), database.as_str(), table.as_str()),
            [] => TableReference::bare(""),
        };
        let usual: Vec<String> = name.iter().map(normalized).collect();
        match self.context.table_provider(reference(&usual)).await {
            Ok(provider) => Ok(provider),
            Err(error) => {
                let written: Vec<String> = name.iter().map(|ident| ident.value.clone()).collect();
                match self.context.table_provider(reference(&written)).await {
                    Ok(provider) if written != usual => Ok(provider),
                    _ => Err(error.into()),
                }
            }
        }
    }

    async fn set(&self, key: &str, value: String) -> Result<DataFrame> {
        let lower = key.to_ascii_lowercase();
        match lower.as_str() {
            "time zone"
            | "timezone"
            | "datafusion.execution.time_zone"
            | "table.local-time-zone"
            | "spark.sql.session.timezone" => {
                let value = if value.eq_ignore_ascii_case("local") { "UTC".to_owned() } else { value };
                self.set_variable("datafusion.execution.time_zone", zone::canonical(&value)?).await
            }
            "execution.runtime-mode" if value.eq_ignore_ascii_case("batch") => Ok(self.nothing()),
            "execution.runtime-mode" => Err(Error::unsupported(format!(
                "execution.runtime-mode '{value}' is not supported in this version; 'batch' is"
            ))),
            _ if lower.starts_with("datafusion.") => self.set_variable(&lower, value).await,
            _ if lower.starts_with("paimon.") => self.set_variable(key, value).await,
            _ => Err(Error::invalid(format!(
                "'{key}' cannot be set; there are paimon.<option>, datafusion.<setting> (SHOW ALL) and TIME ZONE"
            ))),
        }
    }

    async fn set_variable(&self, key: &str, value: String) -> Result<DataFrame> {
        let plan = PlanStatement::SetVariable(SetVariable { variable: key.to_owned(), value });
        Ok(self.context.execute_logical_plan(LogicalPlan::Statement(plan)).await?)
    }

    async fn reset(&self, key: &str) -> Result<DataFrame> {
        let lower = key.to_ascii_lowercase();
        if ["time zone", "timezone", "table.local-time-zone", "datafusion.execution.time_zone"]
            .contains(&lower.as_str())
        {
            return self.set_variable("datafusion.execution.time_zone", "UTC".to_owned()).await;
        }
        if let Some(option) = key.strip_prefix("paimon.") {
            let state = self.context.state_ref();
            let mut state = state.write();
            if let Some(settings) = state.config_mut().options_mut().extensions.get_mut::<PaimonSettings>() {
                settings.reset(option);
            }
            drop(state);
            return Ok(self.nothing());
        }
        let plan = PlanStatement::ResetVariable(ResetVariable { variable: lower });
        Ok(self.context.execute_logical_plan(LogicalPlan::Statement(plan)).await?)
    }
}

/// The name that `ident` means among `names`: the usual one, as written, or the only one that differs by case.
pub(super) fn found(ident: &Ident, names: &[String]) -> Option<String> {
    let exactly = |wanted: &str| names.iter().find(|name| *name == wanted).cloned();
    if ident.quote_style.is_some() {
        return exactly(&ident.value);
    }
    exactly(&normalized(ident)).or_else(|| exactly(&ident.value)).or_else(|| {
        let mut fitting = names.iter().filter(|name| name.eq_ignore_ascii_case(&ident.value));
        match (fitting.next(), fitting.next()) {
            (Some(name), None) => Some(name.clone()),
            _ => None,
        }
    })
}

/// The names that fit the pattern, in order.
pub(super) fn filtered(mut names: Vec<String>, like: Option<&Like>) -> Vec<String> {
    names.sort();
    names.retain(|name| like.is_none_or(|like| like.fits(name)));
    names
}

/// Whether an error says that a table or a database is not there: ours, or the engine's for a name of a query.
fn says_missing(error: &Error) -> bool {
    error.kind() == ErrorKind::NotFound || {
        let text = error.to_string();
        text.ends_with("not found") || text.contains("No table named")
    }
}

/// Shows the instants of a query's result in the session's time zone.
fn shown_in_zone(plan: LogicalPlan, session_zone: &str) -> Result<LogicalPlan> {
    let query = !matches!(
        plan,
        LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::Ddl(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::DescribeTable(_)
            | LogicalPlan::Statement(_)
    );
    let shown: Vec<_> = plan.schema().iter().map(|(_, field)| in_zone(field.data_type(), session_zone)).collect();
    if !query
        || session_zone == "UTC"
        || shown.iter().zip(plan.schema().fields()).all(|(shown, field)| shown == field.data_type())
    {
        return Ok(plan);
    }
    let columns: Vec<Expr> = plan
        .schema()
        .iter()
        .zip(shown)
        .map(|((qualifier, field), shown)| {
            let column = Expr::Column((qualifier, field).into());
            if shown == *field.data_type() {
                column
            } else {
                cast(column, shown).alias_qualified(qualifier.cloned(), field.name())
            }
        })
        .collect();
    Ok(LogicalPlanBuilder::from(plan).project(columns)?.build()?)
}
