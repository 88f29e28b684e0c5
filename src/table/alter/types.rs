//! The type of a column becomes another one.
//!
//! An atomic type changes where values can be cast (`spec/metadata.md 2.6`). A container changes by what it holds: a ROW loses
//! the fields that the new type does not name, gains those that it names anew, and keeps the others, which may change in
//! turn; ARRAYs change by their elements, MAPs by their values.

use super::Alteration;
use super::columns::{Place, check_nullability, place, shown};
use crate::error::{Error, Result};
use crate::spec::casts::can_change;
use crate::spec::types::TypeKind;
use crate::spec::{DataField, DataType};
use crate::table::field_ids::FieldIds;

/// What the table allows, and the ids of new fields.
struct Evolution<'a> {
    ids: &'a mut FieldIds,
    /// Only casts that keep every value.
    widening: bool,
    may_refuse_null: bool,
}

impl Alteration {
    pub(super) fn update_type(&mut self, path: &[String], data_type: &DataType, keep_nullability: bool) -> Result<()> {
        self.refuse_key(path, "changed to another type", true)?;
        self.refuse_bucket_key(path)?;
        let widening = self.flag("disable-explicit-type-casting", false);
        let may_refuse_null = self.may_refuse_null();
        let found = match place(&mut self.next.fields, path)? {
            Place::Field(field) => &mut field.data_type,
            Place::Type(data_type) => data_type,
        };
        let mut wanted = data_type.clone();
        if keep_nullability {
            wanted.nullable = found.nullable;
        }
        crate::table::validate::check_depth(&DataField::new(0, shown(path), wanted.clone()))?;
        let mut evolution = Evolution { ids: &mut self.ids, widening, may_refuse_null };
        *found = evolution.evolve(found, wanted, &mut path.to_vec())?;
        Ok(())
    }

    /// Rows were put into buckets by the hash of a value of the type that the column has.
    fn refuse_bucket_key(&self, path: &[String]) -> Result<()> {
        let Some(name) = self.top_level(path) else { return Ok(()) };
        let keys = self.next.options.get("bucket-key").map_or("", String::as_str);
        if self.has_snapshots && keys.split(',').any(|key| key.trim() == name) {
            return Err(Error::invalid(format!(
                "column {name} is part of 'bucket-key', by which rows were put into buckets, and can't be changed to another type; \
                 create a new table and insert into it from this one"
            )));
        }
        Ok(())
    }
}

impl Evolution<'_> {
    fn evolve(&mut self, found: &DataType, wanted: DataType, path: &mut Vec<String>) -> Result<DataType> {
        check_nullability(path, found.nullable, wanted.nullable, self.may_refuse_null)?;
        let nullable = wanted.nullable;
        let kind = match (&found.kind, wanted.kind) {
            (TypeKind::Row(before), TypeKind::Row(after)) => TypeKind::Row(self.evolve_row(before, after, path)?),
            (TypeKind::Array(before), TypeKind::Array(after)) => {
                TypeKind::Array(self.evolve_part(before, *after, "element", path)?)
            }
            (TypeKind::Multiset(before), TypeKind::Multiset(after)) => {
                TypeKind::Multiset(self.evolve_part(before, *after, "element", path)?)
            }
            (TypeKind::Map(key, before), TypeKind::Map(wanted_key, after)) => {
                if key.to_string() != wanted_key.to_string() {
                    return Err(Error::invalid(format!(
                        "column {}: the keys of a MAP stay as they are ({key}, not {wanted_key})",
                        shown(path)
                    )));
                }
                TypeKind::Map(key.clone(), self.evolve_part(before, *after, "value", path)?)
            }
            (before, after) if *before == after => after,
            (_, after) => {
                let wanted = DataType { kind: after, nullable };
                if !can_change(found, &wanted, self.widening) {
                    return Err(self.refused(found, &wanted, path));
                }
                return Ok(wanted);
            }
        };
        Ok(DataType { kind, nullable })
    }

    fn evolve_part(
        &mut self,
        found: &DataType,
        wanted: DataType,
        part: &str,
        path: &mut Vec<String>,
    ) -> Result<Box<DataType>> {
        path.push(part.to_owned());
        let evolved = self.evolve(found, wanted, path)?;
        path.pop();
        Ok(Box::new(evolved))
    }

    fn evolve_row(
        &mut self,
        before: &[DataField],
        after: Vec<DataField>,
        path: &mut Vec<String>,
    ) -> Result<Vec<DataField>> {
        let mut fields = Vec::with_capacity(after.len());
        for wanted in after {
            path.push(wanted.name.clone());
            let field = match before.iter().find(|field| field.name == wanted.name) {
                Some(found) => DataField {
                    id: found.id,
                    data_type: self.evolve(&found.data_type, wanted.data_type, path)?,
                    description: wanted.description.or_else(|| found.description.clone()),
                    default_value: wanted.default_value.or_else(|| found.default_value.clone()),
                    name: wanted.name,
                },
                None if !wanted.data_type.nullable => {
                    return Err(Error::invalid(format!(
                        "column {} can't be added as NOT NULL: rows that are there have no value for it",
                        shown(path)
                    )));
                }
                None => self.ids.column(wanted)?,
            };
            path.pop();
            fields.push(field);
        }
        Ok(fields)
    }

    fn refused(&self, found: &DataType, wanted: &DataType, path: &[String]) -> Error {
        let path = shown(path);
        let why = if found.is_nested() || wanted.is_nested() {
            "; a container changes by what it holds: add, drop or change its fields, `element` or `value`"
        } else if self.widening && can_change(found, wanted, false) {
            ": 'disable-explicit-type-casting' allows only types that hold every value"
        } else {
            ": values of the one can't be cast to the other; add a new column and fill it"
        };
        Error::invalid(format!("column {path} is {found} and can't become {wanted}{why}"))
    }
}
