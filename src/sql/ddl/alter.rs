//! Runs ALTER TABLE: from what was written, with names in any case, to changes of the table's definition.

use datafusion::prelude::DataFrame;
use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;

use super::change_type;
use super::statement::{Alteration, ColumnChange, ColumnDefinition, Name};
use super::target::LakeTarget;
use crate::error::{Error, ErrorKind, Result};
use crate::spec::{DataField, DataType, TableSchema, TypeKind};
use crate::sql::LakeSession;
use crate::sql::session::found;
use crate::table::{ColumnPosition, SchemaChange};

impl LakeSession {
    pub(super) async fn alter_table(
        &self,
        name: &Name,
        if_exists: bool,
        alteration: Alteration,
        tokens: Vec<TokenWithSpan>,
    ) -> Result<DataFrame> {
        let Some(target) = self.lake_target(name).await? else { return self.to_engine(tokens).await };
        let object = target.table_or_branch("ALTER TABLE")?;
        if target.within.schema.holds(&object.table) {
            return Err(target.at(Error::unsupported(
                "ALTER TABLE: this is a view or an external table of the session, which is dropped and created anew",
            )));
        }
        if let Alteration::RenameTable(new) = alteration {
            return self.rename_table(&target, if_exists, &new).await;
        }
        let table = match target.open().await {
            Err(error) if error.kind() == ErrorKind::NotFound && if_exists => return Ok(self.nothing()),
            opened => opened?,
        };
        let changes = schema_changes(table.schema(), alteration).map_err(|error| target.at(error))?;
        if !changes.is_empty() {
            target.catalog().alter_table(target.database(), object, changes).await?;
        }
        Ok(self.nothing())
    }

    async fn rename_table(&self, target: &LakeTarget, if_exists: bool, new: &Name) -> Result<DataFrame> {
        let old = target.table("RENAME TO")?;
        if if_exists && !target.catalog().table_exists(target.database(), old).await? {
            return Ok(self.nothing());
        }
        let elsewhere = || target.at(Error::unsupported("RENAME TO: a table stays in its catalog and database"));
        // A name of one part is in the database of the table, whatever the current one is.
        let (table, database) = new.split_last().ok_or_else(elsewhere)?;
        let database = if database.is_empty() { None } else { self.lake_database(database).await? };
        if database.is_some_and(|other| {
            (&other.catalog_name, &other.database) != (&target.within.catalog_name, &target.within.database)
        }) {
            return Err(elsewhere());
        }
        target.catalog().rename_table(target.database(), old, &table.value).await?;
        Ok(self.nothing())
    }
}

/// The changes of a table with `schema` that a statement asks for.
fn schema_changes(schema: &TableSchema, alteration: Alteration) -> Result<Vec<SchemaChange>> {
    let fields = &schema.fields;
    Ok(match alteration {
        // Done before.
        Alteration::RenameTable(_) => Vec::new(),
        Alteration::SetOptions(options) => options
            .into_iter()
            .map(|(key, value)| match key.as_str() {
                "comment" => SchemaChange::UpdateComment { comment: Some(value) },
                _ => SchemaChange::SetOption { key, value },
            })
            .collect(),
        Alteration::ResetOptions { keys, if_exists } => keys
            .into_iter()
            .filter(|key| !if_exists || key == "comment" || schema.options.contains_key(key))
            .map(|key| match key.as_str() {
                "comment" => SchemaChange::UpdateComment { comment: None },
                _ => SchemaChange::RemoveOption { key },
            })
            .collect(),
        Alteration::Comment(comment) => vec![SchemaChange::UpdateComment { comment }],
        Alteration::AddColumns { columns, if_not_exists } => {
            let mut changes = Vec::new();
            for column in columns {
                changes.extend(added(fields, column, if_not_exists)?);
            }
            changes
        }
        Alteration::ModifyColumns(columns) => {
            let mut changes = Vec::new();
            for column in columns {
                let path = path_of(fields, &column.path)?;
                changes.extend(modified(schema, &path, &path, column)?);
            }
            changes
        }
        Alteration::ChangeColumn { column, definition } => {
            let path = path_of(fields, &column)?;
            let mut new_path = path.clone();
            let mut changes = Vec::new();
            if let (Some(last), [name]) = (new_path.last_mut(), definition.path.as_slice())
                && !names_alike(last, name)
            {
                last.clone_from(&name.value);
                changes.push(SchemaChange::RenameColumn { path: path.clone(), name: name.value.clone() });
            }
            changes.extend(modified(schema, &path, &new_path, definition)?);
            changes
        }
        Alteration::AlterColumn { column, changes } => {
            let path = path_of(fields, &column)?;
            let mut all = Vec::new();
            for change in changes {
                all.extend(column_change(fields, &path, change)?);
            }
            all
        }
        Alteration::RenameColumn { column, name, spelled_out } => {
            let path = path_of(fields, &column)?;
            // Flink's own form, whose scripts rely on it (`spec/observed.md`).
            if !spelled_out && path.len() > 1 {
                return Err(Error::unsupported(format!(
                    "RENAME {}: a field inside a column is renamed by RENAME COLUMN",
                    path.join(".")
                )));
            }
            if !spelled_out && path.len() == 1 && schema.primary_keys.contains(&path[0]) {
                return Err(Error::unsupported(format!(
                    "RENAME {}: the column is part of the primary key; if this is meant, write RENAME COLUMN",
                    path[0]
                )));
            }
            vec![SchemaChange::RenameColumn { path, name: name.value }]
        }
        Alteration::DropColumns { columns, if_exists } => {
            let mut changes = Vec::new();
            for column in columns {
                let path = path_of(fields, &column)?;
                if if_exists && field_at(fields, &path).is_none() {
                    continue;
                }
                changes.push(SchemaChange::DropColumn { path });
            }
            changes
        }
        Alteration::DropPrimaryKey => vec![SchemaChange::DropPrimaryKey],
    })
}

/// The change that adds a column; none when it is there and that is fine.
fn added(fields: &[DataField], column: ColumnDefinition, if_not_exists: bool) -> Result<Option<SchemaChange>> {
    let Some((name, parents)) = column.path.split_last() else { return Ok(None) };
    let mut path = if parents.is_empty() { Vec::new() } else { path_of(fields, parents)? };
    let siblings = fields_within(fields, &path);
    if let Some(twin) = siblings.iter().find(|field| field.name.to_lowercase() == name.value.to_lowercase()) {
        if if_not_exists {
            return Ok(None);
        }
        return Err(Error::new(
            ErrorKind::AlreadyExists,
            format!(
                "ADD {}: there is a column {} already; names of columns differ in more than their case",
                name.value, twin.name
            ),
        ));
    }
    path.push(name.value.clone());
    Ok(Some(SchemaChange::AddColumn {
        position: column.position.map(|position| position_of(&siblings, position)),
        path,
        data_type: column.data_type,
        comment: column.comment.filter(|comment| !comment.is_empty()),
        default: column.default.flatten(),
    }))
}

/// The changes that make the column at `path`, which is called `new_path` by then, what is written.
fn modified(
    schema: &TableSchema,
    path: &[String],
    new_path: &[String],
    column: ColumnDefinition,
) -> Result<Vec<SchemaChange>> {
    let old = field_at(&schema.fields, path).ok_or_else(|| no_column(&schema.fields, path))?;
    let mut new = column.data_type;
    // A key is never NULL, written or not.
    if path.len() == 1 && schema.primary_keys.contains(&path[0]) {
        new.nullable = old.data_type.nullable;
    }
    let mut changes = change_type::changes(new_path, &old.data_type, &new)?;
    changes.extend(column.comment.filter(|comment| old.description.as_ref() != Some(comment)).map(|comment| {
        SchemaChange::UpdateColumnComment { path: new_path.to_vec(), comment: Some(comment).filter(|c| !c.is_empty()) }
    }));
    changes
        .extend(column.default.map(|default| SchemaChange::UpdateColumnDefault { path: new_path.to_vec(), default }));
    changes.extend(column.position.map(|position| moved(&schema.fields, new_path, position)));
    Ok(changes)
}

fn column_change(fields: &[DataField], path: &[String], change: ColumnChange) -> Result<Vec<SchemaChange>> {
    let path = path.to_vec();
    Ok(match change {
        ColumnChange::Type(new) => {
            let old = field_at(fields, &path).ok_or_else(|| no_column(fields, &path))?;
            // The statement speaks of the type alone.
            let new = DataType { nullable: old.data_type.nullable && new.nullable, ..new };
            change_type::changes(&path, &old.data_type, &new)?
        }
        ColumnChange::Nullable(nullable) => vec![SchemaChange::UpdateColumnNullability { path, nullable }],
        ColumnChange::Comment(comment) => {
            vec![SchemaChange::UpdateColumnComment { path, comment: Some(comment).filter(|text| !text.is_empty()) }]
        }
        ColumnChange::Default(default) => vec![SchemaChange::UpdateColumnDefault { path, default }],
        ColumnChange::Position(position) => vec![moved(fields, &path, position)],
    })
}

fn moved(fields: &[DataField], path: &[String], position: ColumnPosition) -> SchemaChange {
    let parents = path.split_last().map_or(&[][..], |(_, parents)| parents);
    let position = position_of(&fields_within(fields, parents), position);
    SchemaChange::UpdateColumnPosition { path: path.to_vec(), position }
}

/// A position with the other column's name in the case that it has.
fn position_of(siblings: &[DataField], position: ColumnPosition) -> ColumnPosition {
    let names: Vec<String> = siblings.iter().map(|field| field.name.clone()).collect();
    let exact = |name: String| found(&Ident::new(name.as_str()), &names).unwrap_or(name);
    match position {
        ColumnPosition::After(name) => ColumnPosition::After(exact(name)),
        ColumnPosition::Before(name) => ColumnPosition::Before(exact(name)),
        ColumnPosition::First | ColumnPosition::Last => position,
    }
}

fn names_alike(name: &str, ident: &Ident) -> bool {
    name == ident.value || ident.quote_style.is_none() && name.eq_ignore_ascii_case(&ident.value)
}

/// The names of a path in the case that the table has. What is not there stays as it is written.
pub(super) fn path_of(fields: &[DataField], path: &[Ident]) -> Result<Vec<String>> {
    let mut names = Vec::with_capacity(path.len());
    let mut level = Level::Fields(fields);
    for ident in path {
        let (name, next) = level.step(ident);
        names.push(name);
        level = next;
    }
    if names.is_empty() { Err(Error::invalid("the name of a column is empty")) } else { Ok(names) }
}

/// What can be named at one level of a path.
enum Level<'a> {
    Fields(&'a [DataField]),
    Inner(&'static str, &'a DataType),
    Nothing,
}

impl<'a> Level<'a> {
    fn of(data_type: &'a DataType) -> Self {
        match &data_type.kind {
            TypeKind::Row(fields) => Self::Fields(fields),
            TypeKind::Array(element) => Self::Inner("element", element),
            TypeKind::Map(_, value) => Self::Inner("value", value),
            _ => Self::Nothing,
        }
    }

    fn step(&self, ident: &Ident) -> (String, Self) {
        match self {
            Self::Fields(fields) => {
                let names: Vec<String> = fields.iter().map(|field| field.name.clone()).collect();
                let name = if names.contains(&ident.value) { Some(ident.value.clone()) } else { found(ident, &names) };
                let name = name.unwrap_or_else(|| ident.value.clone());
                let next = fields.iter().find(|field| field.name == name);
                (name, next.map_or(Self::Nothing, |field| Self::of(&field.data_type)))
            }
            Self::Inner(name, inner) if names_alike(name, ident) => ((*name).to_owned(), Self::of(inner)),
            Self::Inner(..) | Self::Nothing => (ident.value.clone(), Self::Nothing),
        }
    }
}

/// The field at a path; an element or a value has none of its own, and is given as one.
fn field_at(fields: &[DataField], path: &[String]) -> Option<DataField> {
    let (first, rest) = path.split_first()?;
    let field = fields.iter().find(|field| field.name == *first)?;
    let mut current = field.clone();
    for name in rest {
        current = match &current.data_type.kind {
            TypeKind::Row(fields) => fields.iter().find(|field| field.name == *name)?.clone(),
            TypeKind::Array(inner) if name == "element" => DataField::new(current.id, name, inner.as_ref().clone()),
            TypeKind::Map(_, inner) if name == "value" => DataField::new(current.id, name, inner.as_ref().clone()),
            _ => return None,
        };
    }
    Some(current)
}

/// The fields inside of the ROW at a path; the columns for the empty path.
fn fields_within(fields: &[DataField], path: &[String]) -> Vec<DataField> {
    if path.is_empty() {
        return fields.to_vec();
    }
    match field_at(fields, path).map(|field| field.data_type.kind) {
        Some(TypeKind::Row(fields)) => fields,
        _ => Vec::new(),
    }
}

fn no_column(fields: &[DataField], path: &[String]) -> Error {
    let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
    Error::not_found(format!("there is no column {}; the table has {}", path.join("."), names.join(", ")))
}
