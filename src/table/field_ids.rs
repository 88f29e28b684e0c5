//! Ids of columns and of the fields inside them (`spec/metadata.md 2.4`): given once, never given again.
//!
//! May import: `error`, `spec`.

use crate::error::{Error, Result};
use crate::spec::types::{SYSTEM_FIELD_ID_START, TypeKind};
use crate::spec::{DataField, DataType};

/// Gives ids, each greater than the last.
#[derive(Clone, Debug)]
pub(crate) struct FieldIds {
    highest: i32,
}

impl FieldIds {
    /// Goes on after `highest`; -1 when no id was given yet.
    pub(crate) fn after(highest: i32) -> Self {
        Self { highest: highest.max(-1) }
    }

    /// The greatest id given so far.
    pub(crate) fn highest(&self) -> i32 {
        self.highest
    }

    fn next(&mut self) -> Result<i32> {
        let next = self.highest.saturating_add(1);
        if next >= SYSTEM_FIELD_ID_START {
            return Err(Error::invalid("the table has used up its field ids; create a new table"));
        }
        self.highest = next;
        Ok(next)
    }

    /// The column with a new id and, after it, new ids for all fields inside.
    pub(crate) fn column(&mut self, mut column: DataField) -> Result<DataField> {
        column.id = self.next()?;
        column.data_type = self.inside(column.data_type)?;
        Ok(column)
    }

    /// The type with new ids for all fields inside, each after those inside of itself.
    pub(crate) fn inside(&mut self, data_type: DataType) -> Result<DataType> {
        let kind = match data_type.kind {
            TypeKind::Row(fields) => TypeKind::Row(
                fields
                    .into_iter()
                    .map(|mut field| {
                        field.data_type = self.inside(field.data_type)?;
                        field.id = self.next()?;
                        Ok(field)
                    })
                    .collect::<Result<_>>()?,
            ),
            TypeKind::Array(element) => TypeKind::Array(self.boxed(*element)?),
            TypeKind::Multiset(element) => TypeKind::Multiset(self.boxed(*element)?),
            TypeKind::Vector(element, length) => TypeKind::Vector(self.boxed(*element)?, length),
            TypeKind::Map(key, value) => {
                let key = self.boxed(*key)?;
                TypeKind::Map(key, self.boxed(*value)?)
            }
            atomic => atomic,
        };
        Ok(DataType { kind, nullable: data_type.nullable })
    }

    fn boxed(&mut self, data_type: DataType) -> Result<Box<DataType>> {
        Ok(Box::new(self.inside(data_type)?))
    }
}

/// All ids of the columns and of what is inside them.
pub(crate) fn ids(fields: &[DataField]) -> Vec<i32> {
    fn of_type(data_type: &DataType, found: &mut Vec<i32>) {
        match &data_type.kind {
            TypeKind::Row(fields) => of_fields(fields, found),
            TypeKind::Array(inner) | TypeKind::Multiset(inner) | TypeKind::Vector(inner, _) => of_type(inner, found),
            TypeKind::Map(key, value) => {
                of_type(key, found);
                of_type(value, found);
            }
            _ => {}
        }
    }
    fn of_fields(fields: &[DataField], found: &mut Vec<i32>) {
        for field in fields {
            found.push(field.id);
            of_type(&field.data_type, found);
        }
    }
    let mut found = Vec::new();
    of_fields(fields, &mut found);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(fields: Vec<DataField>) -> DataType {
        DataType::nullable(TypeKind::Row(fields))
    }

    fn int(name: &str) -> DataField {
        DataField::new(99, name, DataType::nullable(TypeKind::Int))
    }

    #[test]
    fn column_when_rows_are_nested_then_inner_fields_first() {
        // The example of spec/metadata.md 2.4.
        let c = DataField::new(7, "c", row(vec![DataField::new(7, "a", row(vec![int("x")])), int("b")]));
        let mut given = FieldIds::after(-1);
        let c = given.column(c).unwrap();
        let d = given.column(int("d")).unwrap();
        assert_eq!(ids(&[c, d]), [0, 2, 1, 3, 4]);
        assert_eq!(given.highest(), 4);
    }

    #[test]
    fn column_when_containers_then_ids_for_the_rows_they_hold_only() {
        let map = TypeKind::Map(Box::new(row(vec![int("k")])), Box::new(row(vec![int("v")])));
        let array = TypeKind::Array(Box::new(DataType::nullable(map)));
        let mut given = FieldIds::after(10);
        let column = given.column(DataField::new(0, "m", DataType::nullable(array))).unwrap();
        assert_eq!(ids(&[column]), [11, 12, 13]);
    }

    #[test]
    fn column_when_ids_are_used_up_then_error() {
        assert!(FieldIds::after(SYSTEM_FIELD_ID_START - 1).column(int("a")).is_err());
    }
}
