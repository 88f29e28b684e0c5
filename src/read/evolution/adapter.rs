//! The mapping of [`FileMapping`] for the engine's scans: expressions over the table's columns become expressions over a file's.
//!
//! One factory serves one (file schema, written columns) pair, so one scan configuration too: the factory does not see the file,
//! and does not need field ids in it. What an expression becomes:
//!
//! | column | expression |
//! |---|---|
//! | same values, same arrow type | the column under its name in the file |
//! | same values in another flat arrow type, or a widening | the engine's cast: pruning sees through it |
//! | any other cast, nested changes | [`ConvertExpr`]: pruning does not see through it, filters evaluate it |
//! | missing | NULL |
//!
//! `get_field` over an evolved ROW reads the one field by its name in the file.
//!
//! May import: `error`, `spec`, `format::conform`.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType as ArrowType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result as EngineResult, ScalarValue, internal_err};
use datafusion::functions::core::getfield::GetFieldFunc;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion_physical_expr_adapter::{
    DefaultPhysicalExprAdapterFactory, PhysicalExprAdapter, PhysicalExprAdapterFactory,
};

use super::mapping::{Conversion, FileMapping, Source};
use crate::error::Result;
use crate::format::conform::{Place, conform};
use crate::spec::{DataField, DataType, TypeKind};

/// Key in the metadata of [`FieldIdAdapterFactory::file_schema`]. The engine skips its adapter where a file's arrow schema equals
/// the table's, which two columns that changed names with each other make possible; this makes them differ.
const MAPPED: &str = "tidelake.mapped";

/// Makes adapters that map by field id (`spec/data.md 1.3`).
#[derive(Clone, Debug)]
pub struct FieldIdAdapterFactory {
    mapping: Arc<FileMapping>,
    file_schema: SchemaRef,
}

impl FieldIdAdapterFactory {
    /// From the table's columns (but partition columns that are taken from the partition) and the fields of the files' schema,
    /// restricted to the columns they hold.
    ///
    /// # Errors
    /// Unsupported, with the column, when a column's type in the file can't be read as the table's.
    pub fn new(table_fields: &[DataField], file_fields: &[DataField]) -> Result<Self> {
        FileMapping::new(table_fields, file_fields).map(Self::from)
    }

    /// The mapping.
    pub fn mapping(&self) -> &Arc<FileMapping> {
        &self.mapping
    }

    /// The file schema to give to the scan's `TableSchema`: the table's columns, nullable where the files may hold NULL.
    pub fn file_schema(&self) -> &SchemaRef {
        &self.file_schema
    }

    /// Whether the engine's Parquet source may scan these files. Where it may not, scan them with
    /// [`FileScan`](crate::format::FileScan), which reads the same.
    ///
    /// The engine decides by the table's types which filters its decoder evaluates, and by names which columns it reads as
    /// text. It is wrong when a column that is a container in the file is text now, and when text and bytes
    /// exchanged their names.
    pub fn fits_parquet_source(&self) -> bool {
        let wanted = self.mapping.wanted();
        let file = self.mapping.file_fields();
        wanted.iter().all(|field| match self.mapping.source(&field.name) {
            Some((_, Source::Column(at, conversion))) => {
                let source = &file[*at];
                let read_as_other = wanted.iter().any(|other| {
                    other.name == source.name
                        && other.id != source.id
                        && is_text(&other.data_type)
                        && !is_text(&source.data_type)
                        && !source.data_type.is_nested()
                });
                !read_as_other && !casts_container(conversion, &source.data_type)
            }
            _ => true,
        })
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type.kind, TypeKind::Char(_) | TypeKind::VarChar(_))
}

fn casts_container(conversion: &Conversion, from: &DataType) -> bool {
    match (conversion, &from.kind) {
        (Conversion::Cast, _) => from.is_nested(),
        (Conversion::Row(sources), TypeKind::Row(fields)) => sources
            .iter()
            .flatten()
            .any(|(at, conversion)| fields.get(*at).is_some_and(|field| casts_container(conversion, &field.data_type))),
        _ => false,
    }
}

impl From<FileMapping> for FieldIdAdapterFactory {
    fn from(mapping: FileMapping) -> Self {
        let mut file_schema = mapping.schema().as_ref().clone();
        if !mapping.is_identity() {
            file_schema.metadata.insert(MAPPED.to_owned(), "by field id".to_owned());
        }
        Self { mapping: Arc::new(mapping), file_schema: Arc::new(file_schema) }
    }
}

impl PhysicalExprAdapterFactory for FieldIdAdapterFactory {
    fn create(
        &self,
        logical_file_schema: SchemaRef,
        physical_file_schema: SchemaRef,
    ) -> EngineResult<Arc<dyn PhysicalExprAdapter>> {
        Ok(Arc::new(FieldIdAdapter {
            mapping: Arc::clone(&self.mapping),
            other: DefaultPhysicalExprAdapterFactory
                .create(Arc::clone(&logical_file_schema), Arc::clone(&physical_file_schema))?,
            logical: logical_file_schema,
            physical: physical_file_schema,
        }))
    }
}

#[derive(Debug)]
struct FieldIdAdapter {
    mapping: Arc<FileMapping>,
    /// For columns the mapping does not know: virtual ones, made by the reader.
    other: Arc<dyn PhysicalExprAdapter>,
    logical: SchemaRef,
    physical: SchemaRef,
}

impl PhysicalExprAdapter for FieldIdAdapter {
    fn rewrite(&self, expr: Arc<dyn PhysicalExpr>) -> EngineResult<Arc<dyn PhysicalExpr>> {
        // Downwards, so that a field of an evolved ROW is seen before its column is replaced, and nothing is replaced twice.
        expr.transform_down(|expr| {
            let rewritten = match self.field_access(&expr)? {
                Some(rewritten) => rewritten,
                None => match expr.downcast_ref::<Column>() {
                    Some(column) => self.column(column, &expr)?,
                    None => return Ok(Transformed::no(expr)),
                },
            };
            Ok(Transformed::new(rewritten, true, TreeNodeRecursion::Jump))
        })
        .data()
    }
}

/// What a field inside a ROW is in the file.
enum Leaf<'a> {
    Missing,
    Found { names: Vec<&'a str>, from: &'a DataType, to: &'a DataType, conversion: &'a Conversion },
}

impl FieldIdAdapter {
    fn column(&self, column: &Column, expr: &Arc<dyn PhysicalExpr>) -> EngineResult<Arc<dyn PhysicalExpr>> {
        let Some((field, source)) = self.mapping.source(column.name()) else {
            return self.other.rewrite(Arc::clone(expr));
        };
        let target = match self.logical.field_with_name(&field.name) {
            Ok(target) => target.data_type().clone(),
            Err(_) => field.data_type.to_arrow(),
        };
        let found = match source {
            Source::Missing => None,
            Source::Column(at, conversion) => {
                let source = &self.mapping.file_fields()[*at];
                // The file may lack a column of its schema: NULL, as for a Java reader.
                self.physical.index_of(&source.name).ok().map(|index| (index, source, conversion))
            }
        };
        let Some((index, source, conversion)) = found else { return null_of(&target) };
        let physical = self.physical.field(index);
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(physical.name(), index));
        Ok(convert(
            column,
            physical.data_type(),
            &Values { from: &source.data_type, to: &field.data_type, conversion, place: Place::Column },
            target,
            &field.name,
        ))
    }

    /// `get_field(column, 'a', 'b')` over a ROW whose fields are not where the table's are.
    fn field_access(&self, expr: &Arc<dyn PhysicalExpr>) -> EngineResult<Option<Arc<dyn PhysicalExpr>>> {
        let Some(function) = ScalarFunctionExpr::try_downcast_func::<GetFieldFunc>(expr.as_ref()) else {
            return Ok(None);
        };
        // `r.p.q` may be one call with two keys or two calls: collect the keys from the outside in.
        let mut keys = Vec::new();
        let Some(column) = path(function, &mut keys) else { return Ok(None) };
        let Some((field, source)) = self.mapping.source(column.name()) else { return Ok(None) };
        let TypeKind::Row(_) = field.data_type.kind else { return Ok(None) };
        let leaf = match source {
            Source::Missing => leaf_of_missing(&field.data_type, &keys),
            Source::Column(at, conversion) => {
                leaf_of(conversion, &self.mapping.file_fields()[*at].data_type, &field.data_type, &keys)
            }
        };
        let Some(leaf) = leaf else { return Ok(None) };
        let target = function.return_type().clone();
        let (names, values) = match leaf {
            Leaf::Missing => return null_of(&target).map(Some),
            Leaf::Found { names, from, to, conversion } => {
                (names, Values { from, to, conversion, place: Place::Nested })
            }
        };
        let Source::Column(at, _) = source else { return Ok(None) };
        let Ok(index) = self.physical.index_of(&self.mapping.file_fields()[*at].name) else {
            return null_of(&target).map(Some);
        };
        let mut physical = self.physical.field(index);
        let mut args: Vec<Arc<dyn PhysicalExpr>> = vec![Arc::new(Column::new(physical.name(), index))];
        for name in names {
            let ArrowType::Struct(fields) = physical.data_type() else { return Ok(None) };
            let Some((_, inner)) = fields.find(name) else { return null_of(&target).map(Some) };
            physical = inner;
            args.push(Arc::new(Literal::new(ScalarValue::from(name))));
        }
        let access = ScalarFunctionExpr::try_new(
            Arc::new(function.fun().clone()),
            args,
            &self.physical,
            Arc::new(function.config_options().clone()),
        )?;
        Ok(Some(convert(Arc::new(access), physical.data_type(), &values, target, &field.name)))
    }
}

fn path<'a>(function: &'a ScalarFunctionExpr, keys: &mut Vec<&'a str>) -> Option<&'a Column> {
    let (source, names) = function.args().split_first()?;
    let mut own = Vec::with_capacity(names.len());
    for name in names {
        own.push(name.downcast_ref::<Literal>()?.value().try_as_str()??);
    }
    let column = match source.downcast_ref::<Column>() {
        Some(column) => column,
        None => path(ScalarFunctionExpr::try_downcast_func::<GetFieldFunc>(source.as_ref())?, keys)?,
    };
    keys.extend(own);
    Some(column)
}

fn leaf_of_missing<'a>(data_type: &DataType, keys: &[&str]) -> Option<Leaf<'a>> {
    let Some((key, rest)) = keys.split_first() else { return Some(Leaf::Missing) };
    let TypeKind::Row(fields) = &data_type.kind else { return None };
    leaf_of_missing(&fields.iter().find(|field| field.name == **key)?.data_type, rest)
}

fn leaf_of<'a>(conversion: &'a Conversion, from: &'a DataType, to: &'a DataType, keys: &[&str]) -> Option<Leaf<'a>> {
    let Some((key, rest)) = keys.split_first() else {
        return Some(Leaf::Found { names: Vec::new(), from, to, conversion });
    };
    let (TypeKind::Row(found), TypeKind::Row(wanted)) = (&from.kind, &to.kind) else { return None };
    let at = wanted.iter().position(|field| field.name == **key)?;
    let (source, inner) = match conversion {
        Conversion::Same => (at, &Conversion::Same),
        Conversion::Row(sources) => match sources.get(at)? {
            None => return leaf_of_missing(&wanted[at].data_type, rest),
            Some((source, inner)) => (*source, inner),
        },
        _ => return None,
    };
    let source = found.get(source)?;
    match leaf_of(inner, &source.data_type, &wanted[at].data_type, rest)? {
        Leaf::Found { mut names, from, to, conversion } => {
            names.insert(0, &source.name);
            Some(Leaf::Found { names, from, to, conversion })
        }
        missing => Some(missing),
    }
}

fn null_of(target: &ArrowType) -> EngineResult<Arc<dyn PhysicalExpr>> {
    Ok(Arc::new(Literal::new(ScalarValue::try_from(target)?)))
}

#[derive(Clone, Copy)]
struct Values<'a> {
    from: &'a DataType,
    to: &'a DataType,
    conversion: &'a Conversion,
    place: Place,
}

fn convert(
    child: Arc<dyn PhysicalExpr>,
    physical: &ArrowType,
    values: &Values<'_>,
    target: ArrowType,
    column: &str,
) -> Arc<dyn PhysicalExpr> {
    let is_same = *values.conversion == Conversion::Same;
    if is_same && physical == &target {
        return child;
    }
    let is_plain = values.place.arrow_type(values.from) == *physical || (is_same && is_layout(physical, &target));
    if is_plain && values.conversion.is_lossless(values.from, values.to) {
        return Arc::new(CastExpr::new(child, target, None));
    }
    Arc::new(ConvertExpr {
        child,
        from: values.from.clone(),
        to: values.to.clone(),
        conversion: values.conversion.clone(),
        place: values.place,
        target,
        column: column.to_owned(),
    })
}

/// Whether two arrow types differ only in how they lay out the same texts, bytes or decimals.
fn is_layout(physical: &ArrowType, target: &ArrowType) -> bool {
    match (physical, target) {
        (ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View, ArrowType::Utf8 | ArrowType::Utf8View) => true,
        (
            ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView,
            ArrowType::Binary | ArrowType::BinaryView,
        ) => true,
        (
            ArrowType::Decimal32(_, found) | ArrowType::Decimal64(_, found) | ArrowType::Decimal128(_, found),
            ArrowType::Decimal128(_, wanted),
        ) => found == wanted,
        _ => false,
    }
}

/// The values of a file's column as those of the table's. Deliberately not the engine's cast: statistics of the column say
/// nothing about its values, so pruning must not look through it.
#[derive(Clone, Debug, Eq)]
pub(crate) struct ConvertExpr {
    child: Arc<dyn PhysicalExpr>,
    from: DataType,
    to: DataType,
    conversion: Conversion,
    place: Place,
    target: ArrowType,
    column: String,
}

// By hand: a derive would move out of the child (rust-lang/rust#78808).
impl PartialEq for ConvertExpr {
    fn eq(&self, other: &Self) -> bool {
        self.child.eq(&other.child)
            && self.from == other.from
            && self.to == other.to
            && self.conversion == other.conversion
            && self.place == other.place
            && self.target == other.target
            && self.column == other.column
    }
}

impl Hash for ConvertExpr {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.child.hash(state);
        self.from.hash(state);
        self.to.hash(state);
        self.conversion.hash(state);
        self.place.hash(state);
        self.target.hash(state);
        self.column.hash(state);
    }
}

impl fmt::Display for ConvertExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "convert({}: {} to {})", self.child, self.from, self.to)
    }
}

impl PhysicalExpr for ConvertExpr {
    fn data_type(&self, _input_schema: &Schema) -> EngineResult<ArrowType> {
        Ok(self.target.clone())
    }

    fn nullable(&self, _input_schema: &Schema) -> EngineResult<bool> {
        Ok(true)
    }

    fn return_field(&self, _input_schema: &Schema) -> EngineResult<FieldRef> {
        Ok(Arc::new(Field::new(&self.column, self.target.clone(), true)))
    }

    fn evaluate(&self, batch: &RecordBatch) -> EngineResult<ColumnarValue> {
        let array = self.child.evaluate(batch)?.into_array(batch.num_rows())?;
        let converted = conform(&array, &self.from, self.place)
            .and_then(|array| self.conversion.convert(&array, &self.from, &self.to, self.place))
            .map_err(|error| error.with("column", self.column.clone()))?;
        if converted.data_type() != &self.target {
            return internal_err!("{self} gave {}, not {}", converted.data_type(), self.target);
        }
        Ok(ColumnarValue::Array(converted))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.child]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> EngineResult<Arc<dyn PhysicalExpr>> {
        let (Some(child), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("{self} has one child");
        };
        Ok(Arc::new(Self { child, ..self.as_ref().clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
