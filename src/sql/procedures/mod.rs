//! Procedures: `CALL [catalog.]sys.<name>(..)`, and `SHOW PROCEDURES`.
//!
//! ```text
//! tokens --call.rs--> Call --registry.rs--> Procedure, its arguments checked --run--> library calls -> rows
//! ```
//! A procedure is a file of its own: its name, its arguments in the order in which Flink takes them, and what it does
//! ([`Procedure`]). Both spellings of an argument are taken, by name or by position. Names that Java has and this version
//! lacks are known, and refused with what to use instead.
//!
//! Imports the front end and everything below `sql`.

mod alter_column_default_value;
mod branches;
mod call;
mod cleaning;
mod compact;
mod compact_append;
mod compact_database;
mod consumers;
mod expire;
mod known;
mod merge_into;
mod partition_upkeep;
mod partitions;
mod registry;
mod repair;
mod rollback;
mod tags;
mod values;

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use async_trait::async_trait;
use datafusion::prelude::DataFrame;

pub(crate) use call::{Call, read_call};
pub(crate) use values::Values;

use super::LakeSession;
use super::describe;
use super::statement::Like;
use crate::error::{Error, Result};

/// What an argument takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The name of a table: `t`, `db.t`, `catalog.db.t`, in each case of a branch too.
    Table,
    /// Text.
    Text,
    /// One text or more, as the last of the arguments. With semicolons between they are one text.
    Texts,
    /// A whole number.
    Number,
    /// True or false.
    Flag,
    /// A time: text in the session's zone, or epoch milliseconds.
    Time,
    /// A duration: `1 d`, `30 min`, or milliseconds.
    Duration,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Text => "text",
            Self::Texts => "texts",
            Self::Number => "number",
            Self::Flag => "true or false",
            Self::Time => "time",
            Self::Duration => "duration",
        }
    }
}

/// An argument of a procedure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Argument {
    /// The name.
    pub name: &'static str,
    /// Other spellings of it.
    pub also: &'static [&'static str],
    pub kind: Kind,
    pub required: bool,
}

impl Argument {
    /// One that has to be given.
    pub(crate) const fn required(name: &'static str, kind: Kind) -> Self {
        Self { name, also: &[], kind, required: true }
    }

    /// One that may be left out.
    pub(crate) const fn optional(name: &'static str, kind: Kind) -> Self {
        Self { name, also: &[], kind, required: false }
    }

    /// The same, by other names too.
    pub(crate) const fn also(self, also: &'static [&'static str]) -> Self {
        Self { also, ..self }
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{} => <{}>", self.name, if self.required { "" } else { "?" }, self.kind.name())
    }
}

/// The argument that nearly every procedure starts with.
pub(crate) const TABLE: Argument = Argument::required("table", Kind::Table);

/// A procedure.
#[async_trait]
pub(crate) trait Procedure: Send + Sync {
    /// The name.
    fn name(&self) -> &'static str;

    /// The arguments, in their order.
    fn arguments(&self) -> &'static [Argument];

    /// What the rows tell.
    ///
    /// # Errors
    /// Those of what the procedure does.
    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch>;
}

impl LakeSession {
    /// Runs a procedure.
    pub(super) async fn call(&self, call: &Call) -> Result<DataFrame> {
        let procedure = registry::find(&call.name)?;
        let values = Values::bind(self, procedure, call)?;
        if call.explain {
            return self.rows(explained(procedure, &values)?);
        }
        if self.read_only {
            return Err(Error::invalid(format!("CALL {} is refused: this session only reads", procedure.name())));
        }
        let rows = Box::pin(procedure.run(&values)).await.map_err(|error| error.with("procedure", procedure.name()))?;
        self.rows(rows)
    }

    /// `SHOW PROCEDURES [LIKE ..]`
    pub(super) fn show_procedures(&self, like: Option<&Like>) -> Result<DataFrame> {
        let names = registry::ALL.iter().map(|procedure| procedure.name().to_owned()).collect();
        let names = super::session::filtered(names, like);
        self.rows(describe::names("procedure name", names)?)
    }
}

/// What a call would do, as EXPLAIN shows plans.
fn explained(procedure: &dyn Procedure, values: &Values<'_>) -> Result<RecordBatch> {
    let plan = format!("Call: sys.{}\n{values}", procedure.name());
    text_columns(&[("plan_type", vec!["procedure".to_owned()]), ("plan", vec![plan.trim_end().to_owned()])])
}

fn text_columns(columns: &[(&str, Vec<String>)]) -> Result<RecordBatch> {
    let fields: Vec<Field> = columns.iter().map(|(name, _)| Field::new(*name, DataType::Utf8, false)).collect();
    let arrays =
        columns.iter().map(|(_, values)| Arc::new(StringArray::from_iter_values(values)) as ArrayRef).collect();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}

/// The rows of a procedure that has nothing to tell.
pub(crate) fn success() -> Result<RecordBatch> {
    text_column("result", vec!["Success".to_owned()])
}

/// One column of texts.
pub(crate) fn text_column(name: &str, values: Vec<String>) -> Result<RecordBatch> {
    text_columns(&[(name, values)])
}

/// One row of numbers.
pub(crate) fn numbers(columns: &[(&str, i64)]) -> Result<RecordBatch> {
    let fields: Vec<Field> = columns.iter().map(|(name, _)| Field::new(*name, DataType::Int64, false)).collect();
    let arrays = columns.iter().map(|(_, value)| Arc::new(Int64Array::from(vec![*value])) as ArrayRef).collect();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}
