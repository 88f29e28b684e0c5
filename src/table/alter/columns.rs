//! Columns found by their path, and changes of them.

use super::Alteration;
use crate::error::{Error, Result};
use crate::spec::types::TypeKind;
use crate::spec::{DataField, DataType};
use crate::table::change::ColumnPosition;

/// What a path leads to.
pub(super) enum Place<'a> {
    /// A column, or a field of a ROW.
    Field(&'a mut DataField),
    /// The element of an ARRAY or MULTISET, or the value of a MAP: it has a type and no name.
    Type(&'a mut DataType),
}

impl<'a> Place<'a> {
    pub(super) fn data_type(self) -> &'a mut DataType {
        match self {
            Self::Field(field) => &mut field.data_type,
            Self::Type(data_type) => data_type,
        }
    }
}

/// A path as it is written.
pub(super) fn shown(path: &[String]) -> String {
    path.join(".")
}

/// The position of the field called `name`: as it is written, or the only one that differs in nothing but case.
pub(super) fn position(fields: &[DataField], name: &str) -> Option<usize> {
    if let Some(exact) = fields.iter().position(|field| field.name == name) {
        return Some(exact);
    }
    let lower = name.to_lowercase();
    let mut alike = fields.iter().enumerate().filter(|(_, field)| field.name.to_lowercase() == lower);
    match (alike.next(), alike.next()) {
        (Some((position, _)), None) => Some(position),
        _ => None,
    }
}

fn missing(fields: &[DataField], path: &[String]) -> Error {
    let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
    Error::invalid(format!("column {} does not exist; there are {}", shown(path), names.join(", ")))
}

/// What `path` leads to from the columns of a table.
pub(super) fn place<'a>(fields: &'a mut [DataField], path: &[String]) -> Result<Place<'a>> {
    let Some(name) = path.first() else { return Err(Error::invalid("the path of a column is empty")) };
    let Some(at) = position(fields, name) else { return Err(missing(fields, &path[..1])) };
    inside(Place::Field(&mut fields[at]), path, 1)
}

fn inside<'a>(place: Place<'a>, path: &[String], walked: usize) -> Result<Place<'a>> {
    let Some(name) = path.get(walked) else { return Ok(place) };
    let here = || shown(&path[..walked]);
    let data_type = place.data_type();
    let whole = data_type.to_string();
    match &mut data_type.kind {
        TypeKind::Row(fields) => {
            let Some(at) = position(fields, name) else { return Err(missing(fields, &path[..=walked])) };
            inside(Place::Field(&mut fields[at]), path, walked + 1)
        }
        TypeKind::Array(inner) | TypeKind::Multiset(inner) => {
            if !name.eq_ignore_ascii_case("element") {
                return Err(Error::invalid(format!(
                    "column {} is {whole}: what it holds is {}.element, not {}",
                    here(),
                    here(),
                    shown(&path[..=walked])
                )));
            }
            inside(Place::Type(inner), path, walked + 1)
        }
        TypeKind::Map(_, value) => {
            if !name.eq_ignore_ascii_case("value") {
                return Err(Error::invalid(format!(
                    "column {} is {whole}: only its values can change, as {}.value; keys stay as they are",
                    here(),
                    here()
                )));
            }
            inside(Place::Type(value), path, walked + 1)
        }
        _ => Err(Error::invalid(format!("column {} is {whole} and holds no {name}", here()))),
    }
}

/// The fields of the level that the last name of `path` belongs to.
fn siblings<'a>(fields: &'a mut Vec<DataField>, path: &[String]) -> Result<&'a mut Vec<DataField>> {
    let Some((_, parent)) = path.split_last() else { return Err(Error::invalid("the path of a column is empty")) };
    if parent.is_empty() {
        return Ok(fields);
    }
    let data_type = place(fields, parent)?.data_type();
    let whole = data_type.to_string();
    match &mut data_type.kind {
        TypeKind::Row(fields) => Ok(fields),
        TypeKind::Array(_) | TypeKind::Multiset(_) => Err(unnamed(parent, &whole, "element")),
        TypeKind::Map(..) => Err(unnamed(parent, &whole, "value")),
        _ => Err(Error::invalid(format!("column {} is {whole} and has no fields", shown(parent)))),
    }
}

fn unnamed(path: &[String], whole: &str, part: &str) -> Error {
    let path = shown(path);
    Error::invalid(format!(
        "column {path} is {whole} and has no fields of its own; those it may hold are {path}.{part}.<field>"
    ))
}

/// The level and the position in it of the field that `path` leads to.
fn find<'a>(fields: &'a mut Vec<DataField>, path: &[String]) -> Result<(&'a mut Vec<DataField>, usize)> {
    let level = siblings(fields, path)?;
    match path.last().and_then(|name| position(level, name)) {
        Some(at) => Ok((level, at)),
        None => Err(missing(level, path)),
    }
}

/// Where a field goes in a level that does not hold it.
fn target(level: &[DataField], position_wanted: &ColumnPosition, path: &[String]) -> Result<usize> {
    let reference = |name: &str| {
        position(level, name).ok_or_else(|| {
            let mut other = path[..path.len().saturating_sub(1)].to_vec();
            other.push(name.to_owned());
            missing(level, &other)
        })
    };
    match position_wanted {
        ColumnPosition::First => Ok(0),
        ColumnPosition::Last => Ok(level.len()),
        ColumnPosition::Before(name) => reference(name),
        ColumnPosition::After(name) => Ok(reference(name)? + 1),
    }
}

impl Alteration {
    /// The field that `path` leads to.
    pub(super) fn field(&mut self, path: &[String]) -> Result<&mut DataField> {
        match place(&mut self.next.fields, path)? {
            Place::Field(field) => Ok(field),
            Place::Type(_) => Err(Error::invalid(format!(
                "{} is what a container holds: it has a type, and neither name, comment nor default",
                shown(path)
            ))),
        }
    }

    /// The name of the top-level column that `path` is, if it is one.
    pub(super) fn top_level(&self, path: &[String]) -> Option<String> {
        let [name] = path else { return None };
        position(&self.next.fields, name).map(|at| self.next.fields[at].name.clone())
    }

    pub(super) fn add_column(
        &mut self,
        path: &[String],
        data_type: &DataType,
        comment: Option<&str>,
        default: Option<&str>,
        position_wanted: Option<&ColumnPosition>,
    ) -> Result<()> {
        let Some(name) = path.last() else { return Err(Error::invalid("the path of a column is empty")) };
        if !data_type.nullable {
            return Err(Error::invalid(format!(
                "column {} can't be added as NOT NULL: rows that are there have no value for it; add it without",
                shown(path)
            )));
        }
        let before_partitions =
            if path.len() == 1 && position_wanted.is_none() { self.first_partition() } else { None };
        let level = siblings(&mut self.next.fields, path)?;
        if let Some(at) = position(level, name) {
            return Err(exists(path, &level[at].name));
        }
        let at = match (position_wanted, before_partitions) {
            (Some(wanted), _) => target(level, wanted, path)?,
            (None, Some(at)) => at,
            (None, None) => level.len(),
        };
        let mut field = DataField::new(0, name.clone(), data_type.clone());
        crate::table::validate::check_depth(&field)?;
        field.description = comment.map(str::to_owned);
        field.default_value = default.map(str::to_owned);
        level.insert(at, self.ids.column(field)?);
        Ok(())
    }

    /// Where new columns go with option `add-column-before-partition`.
    fn first_partition(&self) -> Option<usize> {
        if !self.flag("add-column-before-partition", false) {
            return None;
        }
        self.next.fields.iter().position(|field| self.next.partition_keys.contains(&field.name))
    }

    pub(super) fn drop_column(&mut self, path: &[String]) -> Result<()> {
        self.refuse_key(path, "dropped", true)?;
        let (level, at) = find(&mut self.next.fields, path)?;
        if level.len() == 1 {
            let of = if path.len() == 1 { "the table".to_owned() } else { shown(&path[..path.len() - 1]) };
            return Err(Error::invalid(format!("column {} is the last one of {of} and can't be dropped", shown(path))));
        }
        level.remove(at);
        Ok(())
    }

    pub(super) fn rename_column(&mut self, path: &[String], name: &str) -> Result<()> {
        self.refuse_key(path, "renamed", false)?;
        self.refuse_rename(path)?;
        let top_level = path.len() == 1;
        let (level, at) = find(&mut self.next.fields, path)?;
        // A column may be written in another case.
        if let Some(other) = position(level, name).filter(|other| *other != at || level[at].name == name) {
            return Err(exists(path, &level[other].name));
        }
        let old = std::mem::replace(&mut level[at].name, name.to_owned());
        if top_level {
            for key in &mut self.next.primary_keys {
                if *key == old {
                    name.clone_into(key);
                }
            }
            self.rename_in_options(&old, name)
        } else {
            self.rename_nested_in_options(path, &old, name)
        }
    }

    pub(super) fn move_column(&mut self, path: &[String], wanted: &ColumnPosition) -> Result<()> {
        let (level, at) = find(&mut self.next.fields, path)?;
        if let ColumnPosition::After(name) | ColumnPosition::Before(name) = wanted
            && position(level, name) == Some(at)
        {
            return Err(Error::invalid(format!("column {} can't be moved next to itself", shown(path))));
        }
        let field = level.remove(at);
        let to = target(level, wanted, path)?;
        level.insert(to, field);
        Ok(())
    }

    pub(super) fn update_nullability(&mut self, path: &[String], nullable: bool) -> Result<()> {
        let is_key = self.top_level(path).is_some_and(|name| self.next.primary_keys.contains(&name));
        let may_refuse_null = self.may_refuse_null();
        let data_type = place(&mut self.next.fields, path)?.data_type();
        if nullable && !data_type.nullable && is_key {
            return Err(Error::invalid(format!(
                "column {} is part of the primary key and can't hold NULL",
                shown(path)
            )));
        }
        check_nullability(path, data_type.nullable, nullable, may_refuse_null)?;
        data_type.nullable = nullable;
        Ok(())
    }

    /// Whether a column that holds NULLs may stop doing so.
    pub(super) fn may_refuse_null(&self) -> bool {
        !self.flag("alter-column-null-to-not-null.disabled", true)
    }

    /// Refuses changes of columns that files and folders are arranged by.
    pub(super) fn refuse_key(&self, path: &[String], verb: &str, also_primary: bool) -> Result<()> {
        let Some(name) = self.top_level(path) else { return Ok(()) };
        let of = if self.next.partition_keys.contains(&name) {
            "a partition column"
        } else if also_primary && self.next.primary_keys.contains(&name) {
            "part of the primary key"
        } else if self.is_indexed_key(&name) {
            "a column of an index over the key"
        } else {
            return Ok(());
        };
        Err(Error::invalid(format!(
            "column {name} is {of} and can't be {verb}; create a new table and insert into it from this one"
        )))
    }
}

fn exists(path: &[String], name: &str) -> Error {
    let mut other = path[..path.len().saturating_sub(1)].to_vec();
    other.push(name.to_owned());
    Error::invalid(format!("column {} exists already", shown(&other)))
}

/// Refuses to make a column NOT NULL where the table does not allow that.
pub(super) fn check_nullability(path: &[String], from: bool, to: bool, may_refuse_null: bool) -> Result<()> {
    if from && !to && !may_refuse_null {
        return Err(Error::invalid(format!(
            "column {} may hold NULLs and can't become NOT NULL; to allow it, set 'alter-column-null-to-not-null.disabled' = \
             'false' first",
            shown(path)
        )));
    }
    Ok(())
}
