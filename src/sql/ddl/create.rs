//! Runs CREATE and DROP of databases and tables. Imports the catalog and the front end.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::prelude::DataFrame;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;

use super::statement::{ColumnDefinition, CreateTable, Like, Name, TableSource};
use super::target::{DEFAULT_DATABASE, LakeDatabase, LakeTarget};
use crate::catalog::Catalog;
use crate::error::{Error, ErrorKind, Result};
use crate::spec::DataField;
use crate::sql::prepass::idents;
use crate::sql::session::found;
use crate::sql::{LakeSession, bridge, types};
use crate::table::NewTable;

impl LakeSession {
    pub(super) async fn create_database(
        &self,
        name: &Name,
        if_not_exists: bool,
        tokens: Vec<TokenWithSpan>,
    ) -> Result<DataFrame> {
        let Some(within) = self.lake_database(name).await? else { return self.to_engine(tokens).await };
        within.catalog.create_database(&within.database, if_not_exists).await?;
        Ok(self.nothing())
    }

    pub(super) async fn drop_database(
        &self,
        name: &Name,
        if_exists: bool,
        cascade: bool,
        tokens: Vec<TokenWithSpan>,
    ) -> Result<DataFrame> {
        let Some(within) = self.lake_database(name).await? else { return self.to_engine(tokens).await };
        within.catalog.drop_database(&within.database, if_exists, cascade).await?;
        self.views.forget_database(&within.catalog_name, &within.database);
        within.schema.forget_all();
        Ok(self.nothing())
    }

    pub(super) async fn drop_table(
        &self,
        name: &Name,
        if_exists: bool,
        tokens: Vec<TokenWithSpan>,
    ) -> Result<DataFrame> {
        let Some(target) = self.lake_target(name).await? else { return self.to_engine(tokens).await };
        let table = target.table("DROP TABLE")?;
        let within = &target.within;
        if self.views.contains(&within.catalog_name, &within.database, table) {
            return Err(target.at(Error::invalid("DROP TABLE: this is a view of the session; use DROP VIEW")));
        }
        if !within.schema.forget(table) {
            within.catalog.drop_table(&within.database, table, if_exists).await?;
        }
        Ok(self.nothing())
    }

    pub(super) async fn create_table(&self, table: CreateTable, tokens: Vec<TokenWithSpan>) -> Result<DataFrame> {
        let Some(target) = self.lake_target(&table.name).await? else { return self.to_engine(tokens).await };
        let name = target.table("CREATE TABLE")?;
        if target.within.schema.holds(name) {
            if table.if_not_exists {
                return Ok(self.nothing());
            }
            return Err(target.at(Error::new(
                ErrorKind::AlreadyExists,
                "the session has a view or an external table of this name; drop it first",
            )));
        }
        // Without a look at what is asked for when the table is there.
        if table.if_not_exists && target.catalog().table_exists(target.database(), name).await? {
            return Ok(self.nothing());
        }
        let definition = Box::pin(self.definition(&table)).await.map_err(|error| target.at(error))?;
        ensure_default_database(&target.within).await?;
        let query = match &table.source {
            TableSource::Query(query) => Some(query.as_slice()),
            TableSource::Nothing | TableSource::Like(_) => None,
        };
        if table.or_replace && target.catalog().table_exists(target.database(), name).await? {
            return Box::pin(self.replace_table(&target, definition, query)).await;
        }
        let created = target.catalog().create_table(target.database(), name, definition, table.if_not_exists).await?;
        match query {
            Some(query) if created => {
                let table = NewlyCreated::of(&target, name);
                Box::pin(self.fill(table, query)).await
            }
            _ => Ok(self.nothing()),
        }
    }

    /// Refuses to take away a table of the lake for an external one: the engine would drop it first, and make the other then.
    pub(in crate::sql) async fn check_external(&self, statement: &Statement) -> Result<()> {
        let Statement::CreateExternalTable(create) = statement else { return Ok(()) };
        let name: Vec<Ident> = idents(&create.name).unwrap_or_default().into_iter().cloned().collect();
        if !create.or_replace {
            return Ok(());
        }
        let Some(target) = self.lake_target(&name).await? else { return Ok(()) };
        let table = &target.object.table;
        if !target.within.schema.holds(table) && target.catalog().table_exists(target.database(), table).await? {
            return Err(target.at(Error::new(
                ErrorKind::AlreadyExists,
                "there is a table of the lake by this name; drop it, or take another name",
            )));
        }
        Ok(())
    }

    /// Inserts the rows of a query into a table that was just created for them. When that fails or is given up the table goes.
    pub(super) async fn fill(&self, table: NewlyCreated, query: &[TokenWithSpan]) -> Result<DataFrame> {
        match Box::pin(self.insert_all(&table, query)).await {
            Ok(count) => {
                table.keep();
                Ok(count)
            }
            Err(error) => Err(match table.remove().await {
                Ok(()) => error,
                Err(left) => error.with("left behind", left.to_string()),
            }),
        }
    }

    /// The definition that a statement gives a table.
    async fn definition(&self, table: &CreateTable) -> Result<NewTable> {
        let mut new = match &table.source {
            TableSource::Nothing => NewTable::default(),
            TableSource::Like(like) => self.definition_like(like).await?,
            TableSource::Query(query) if table.columns.is_empty() => {
                NewTable { fields: self.columns_of(query).await?, ..NewTable::default() }
            }
            TableSource::Query(query) => {
                let columns = self.columns_of(query).await?.len();
                if columns != table.columns.len() {
                    return Err(Error::invalid(format!(
                        "the table has {} columns and the query gives {columns}",
                        table.columns.len()
                    )));
                }
                NewTable::default()
            }
        };
        let columns = table.columns.iter().zip(new.fields.len() as i32..);
        let columns: Vec<DataField> = columns.map(|(column, id)| field(id, column)).collect::<Result<_>>()?;
        new.fields.extend(columns);
        let named = |idents: &[Ident], clause| -> Result<Vec<String>> {
            idents.iter().map(|ident| column_named(&new.fields, ident, clause)).collect()
        };
        let primary_keys = named(&table.primary_key, "PRIMARY KEY")?;
        let partition_keys = named(&table.partition_keys, "PARTITIONED BY")?;
        if !primary_keys.is_empty() {
            new.primary_keys = primary_keys;
        }
        if !partition_keys.is_empty() {
            new.partition_keys = partition_keys;
        }
        for (key, value) in &table.options {
            match key.as_str() {
                // Flink's word for which engine a table is of; here there is one.
                "connector" if value == "paimon" => {}
                "connector" => {
                    return Err(Error::invalid(format!(
                        "'connector' = '{value}': tables of a lake catalog are of the connector 'paimon'; leave the option out"
                    )));
                }
                "comment" => new.comment = Some(value.clone()),
                _ => {
                    new.options.insert(key.clone(), value.clone());
                }
            }
        }
        if let Some(comment) = &table.comment {
            new.comment = Some(comment.clone());
        }
        // Engines write an empty comment where there is none, and `$schemas` shows it.
        new.comment.get_or_insert_default();
        Ok(new)
    }

    async fn definition_like(&self, like: &Like) -> Result<NewTable> {
        let target = self.only_lake_target(&like.table, "CREATE TABLE .. LIKE").await?;
        let table = target.open().await?;
        let schema = table.schema();
        let mut options: BTreeMap<String, String> = if like.options { schema.options.clone() } else { BTreeMap::new() };
        // The place of the other table.
        options.remove("path");
        let kept = |keep: bool, names: &[String]| if keep { names.to_vec() } else { Vec::new() };
        Ok(NewTable {
            fields: schema.fields.clone(),
            partition_keys: kept(like.partitions, &schema.partition_keys),
            primary_keys: kept(like.constraints, &schema.primary_keys),
            options,
            comment: schema.comment.clone(),
        })
    }

    /// The columns of a table for the rows of a query.
    async fn columns_of(&self, query: &[TokenWithSpan]) -> Result<Vec<DataField>> {
        let plan = Box::pin(self.plan_query(query)).await?;
        let fields = plan.schema().fields().iter().zip(0..);
        fields
            .map(|(field, id)| {
                if field.data_type().is_null() {
                    return Err(Error::invalid(format!(
                        "column {} is NULL in all rows and has no type; write CAST(NULL AS type) AS {}",
                        field.name(),
                        field.name()
                    )));
                }
                let data_type = types::from_arrow(field.data_type(), field.is_nullable())
                    .map_err(|error| error.with("column", field.name().as_str()))?;
                Ok(DataField::new(id, field.name(), data_type))
            })
            .collect()
    }
}

/// A column's definition as a field.
pub(super) fn field(id: i32, column: &ColumnDefinition) -> Result<DataField> {
    let [name] = column.path.as_slice() else {
        return Err(Error::invalid("a column of a new table has a name of one part"));
    };
    if column.position.is_some() {
        return Err(Error::invalid(format!("column {name}: columns of a new table stand in the order written")));
    }
    let mut field = DataField::new(id, &name.value, column.data_type.clone());
    field.description = column.comment.clone().filter(|comment| !comment.is_empty());
    field.default_value = column.default.clone().flatten();
    Ok(field)
}

/// The column that `ident` means.
fn column_named(fields: &[DataField], ident: &Ident, clause: &str) -> Result<String> {
    let names: Vec<String> = fields.iter().map(|field| field.name.clone()).collect();
    if names.contains(&ident.value) {
        return Ok(ident.value.clone());
    }
    found(ident, &names).ok_or_else(|| {
        Error::invalid(format!(
            "{clause} names column {ident}, which the table does not have; it has {}",
            names.join(", ")
        ))
    })
}

/// Creates the database that needs no CREATE DATABASE, when it is the one in question.
async fn ensure_default_database(within: &LakeDatabase) -> Result<()> {
    if within.database == DEFAULT_DATABASE && !within.catalog.database_exists(DEFAULT_DATABASE).await? {
        within.catalog.create_database(DEFAULT_DATABASE, true).await?;
    }
    Ok(())
}

/// A table that goes again unless it is kept.
pub(super) struct NewlyCreated {
    pub catalog_name: String,
    catalog: Arc<dyn Catalog>,
    pub database: String,
    pub table: String,
    kept: bool,
}

impl NewlyCreated {
    /// The table `name` in the database of `target`.
    pub(super) fn of(target: &LakeTarget, name: &str) -> Self {
        Self {
            catalog_name: target.within.catalog_name.clone(),
            catalog: Arc::clone(target.catalog()),
            database: target.database().to_owned(),
            table: name.to_owned(),
            kept: false,
        }
    }

    /// It stays.
    pub(super) fn keep(mut self) {
        self.kept = true;
    }

    /// Drops it now.
    pub(super) async fn remove(mut self) -> Result<()> {
        let dropped = self.catalog.drop_table(&self.database, &self.table, true).await;
        self.kept = true;
        dropped.map(|_| ())
    }
}

impl Drop for NewlyCreated {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // The statement was given up: nobody waits.
        let (catalog, database, table) =
            (Arc::clone(&self.catalog), std::mem::take(&mut self.database), std::mem::take(&mut self.table));
        bridge::in_background(async move {
            // What is left lies under a name that no one else uses, or is an empty table.
            let _ = catalog.drop_table(&database, &table, true).await;
        });
    }
}
