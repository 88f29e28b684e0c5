//! Which types the type of a column may be changed to (`spec/metadata.md 2.6`).
//!
//! The matrix is Java's: what a reader there would not find a cast for must not get into a schema. Containers evolve through
//! the paths of what they hold, never as a whole. Imports `types` beside it.

use super::types::{DataType, MAX_LENGTH, TypeKind};

/// What of a type decides what it can become.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Text,
    Bytes,
    Boolean,
    Integer,
    Floating,
    Decimal,
    Date,
    Time,
    Timestamp,
    Instant,
    Other,
}

fn class(kind: &TypeKind) -> Class {
    match kind {
        TypeKind::Char(_) | TypeKind::VarChar(_) => Class::Text,
        TypeKind::Binary(_) | TypeKind::VarBinary(_) => Class::Bytes,
        TypeKind::Boolean => Class::Boolean,
        TypeKind::TinyInt | TypeKind::SmallInt | TypeKind::Int | TypeKind::BigInt => Class::Integer,
        TypeKind::Float | TypeKind::Double => Class::Floating,
        TypeKind::Decimal(..) => Class::Decimal,
        TypeKind::Date => Class::Date,
        TypeKind::Time(_) => Class::Time,
        TypeKind::Timestamp(_) => Class::Timestamp,
        TypeKind::TimestampLtz(_) => Class::Instant,
        _ => Class::Other,
    }
}

/// Whether a column of type `from` may become one of type `to`, nullability aside but for text of times, which Java casts to
/// a nullable `STRING` only. `widening`: only casts that keep every value, as option `disable-explicit-type-casting` wants.
///
/// A type that stays as it is may always do so.
pub fn can_change(from: &DataType, to: &DataType, widening: bool) -> bool {
    if from.kind == to.kind {
        true
    } else if widening {
        widens(&from.kind, &to.kind)
    } else {
        casts(from, to)
    }
}

fn casts(from: &DataType, to: &DataType) -> bool {
    use Class::{Boolean, Bytes, Date, Decimal, Floating, Instant, Integer, Text, Time, Timestamp};
    match (class(&from.kind), class(&to.kind)) {
        (Text | Bytes | Boolean | Integer | Floating | Decimal, Text) => true,
        (Date | Time | Timestamp | Instant, Text) => to.kind == TypeKind::VarChar(MAX_LENGTH) && to.nullable,
        (Text | Bytes, Bytes) => true,
        (Text | Integer, Boolean) => true,
        (Text | Boolean | Integer | Floating | Decimal, Integer | Floating | Decimal) => true,
        (Timestamp | Instant, Integer) => is_wide(&to.kind),
        (Text | Timestamp | Instant, Date | Time) => true,
        (Time, Time) => true,
        (Text | Date | Time | Timestamp | Instant, Timestamp | Instant) => true,
        (Integer, Timestamp | Instant) => is_wide(&from.kind),
        _ => false,
    }
}

/// INT and BIGINT, which are seconds where they meet timestamps.
fn is_wide(kind: &TypeKind) -> bool {
    matches!(kind, TypeKind::Int | TypeKind::BigInt)
}

fn widens(from: &TypeKind, to: &TypeKind) -> bool {
    use TypeKind as K;
    if let (Some(found), Some(wanted)) = (rank(from), rank(to)) {
        return wanted > found;
    }
    match (from, to) {
        (K::Char(_), K::Char(_)) | (K::Char(_) | K::VarChar(_), K::VarChar(_)) => true,
        (K::Binary(_), K::Binary(_)) | (K::Binary(_) | K::VarBinary(_), K::VarBinary(_)) => true,
        (K::Decimal(..), K::Decimal(..) | K::Float | K::Double) => true,
        (found, K::Decimal(..)) => rank(found).is_some(),
        (K::Timestamp(_), K::Timestamp(_) | K::TimestampLtz(_) | K::Date | K::Time(_)) => true,
        (K::TimestampLtz(_), K::Timestamp(_) | K::TimestampLtz(_)) => true,
        (K::Time(_), K::Time(_)) => true,
        _ => false,
    }
}

/// The place of a number's type among those that each hold the one before.
fn rank(kind: &TypeKind) -> Option<u8> {
    match kind {
        TypeKind::TinyInt => Some(0),
        TypeKind::SmallInt => Some(1),
        TypeKind::Int => Some(2),
        TypeKind::BigInt => Some(3),
        TypeKind::Float => Some(4),
        TypeKind::Double => Some(5),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: [&str; 22] = [
        "CHAR(3)",
        "VARCHAR(3)",
        "STRING",
        "STRING NOT NULL",
        "BINARY(3)",
        "VARBINARY(3)",
        "BYTES",
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "DECIMAL(10, 2)",
        "DECIMAL(38, 4)",
        "DATE",
        "TIME(0)",
        "TIMESTAMP(3)",
        "TIMESTAMP(6)",
        "TIMESTAMP(3) WITH LOCAL TIME ZONE",
        "VARIANT",
    ];

    /// What Java's library 1.4.2 takes, a row a source, a column a target, in the order of [`TYPES`]; a type that stays the same
    /// is marked `=`.
    const CASTS: [&str; 22] = [
        "=xxxxxxxxxxxxxxxxxxxx.",
        "x=xxxxxxxxxxxxxxxxxxx.",
        "xx==xxxxxxxxxxxxxxxxx.",
        "xx==xxxxxxxxxxxxxxxxx.",
        "xxxx=xx...............",
        "xxxxx=x...............",
        "xxxxxx=...............",
        "xxxx...=xxxxxxxx......",
        "xxxx...x=xxxxxxx......",
        "xxxx...xx=xxxxxx......",
        "xxxx...xxx=xxxxx..xxx.",
        "xxxx...xxxx=xxxx..xxx.",
        "xxxx....xxxx=xxx......",
        "xxxx....xxxxx=xx......",
        "xxxx....xxxxxx=x......",
        "xxxx....xxxxxxx=......",
        "..x.............=.xxx.",
        "..x..............=xxx.",
        "..x.......xx....xx=xx.",
        "..x.......xx....xxx=x.",
        "..x.......xx....xxxx=.",
        ".....................=",
    ];
    const WIDENS: [&str; 22] = [
        "=xxx..................",
        ".=xx..................",
        ".x==..................",
        ".x==..................",
        "....=xx...............",
        ".....=x...............",
        ".....x=...............",
        ".......=..............",
        "........=xxxxxxx......",
        ".........=xxxxxx......",
        "..........=xxxxx......",
        "...........=xxxx......",
        "............=xxx......",
        ".............=xx......",
        "............xx=x......",
        "............xxx=......",
        "................=.....",
        ".................=....",
        "................xx=xx.",
        "................xxx=x.",
        "..................xx=.",
        ".....................=",
    ];

    #[test]
    fn can_change_when_compared_with_java_then_the_same_matrix() {
        for (widening, expected) in [(false, CASTS), (true, WIDENS)] {
            for (from, row) in TYPES.iter().zip(expected) {
                for (to, mark) in TYPES.iter().zip(row.chars()) {
                    let found = can_change(&DataType::parse(from).unwrap(), &DataType::parse(to).unwrap(), widening);
                    assert_eq!(found, mark != '.', "{from} to {to}, widening {widening}");
                }
            }
        }
    }

    #[test]
    fn can_change_when_container_then_never_as_a_whole() {
        let array = DataType::nullable(TypeKind::Array(Box::new(DataType::nullable(TypeKind::Int))));
        for to in ["STRING", "INT", "BLOB"] {
            assert!(!can_change(&array, &DataType::parse(to).unwrap(), false), "{to}");
            assert!(!can_change(&DataType::parse(to).unwrap(), &array, false), "{to}");
        }
    }
}
