//! Avro files (`spec/data.md 1.5`): rows one after the other, under the schema that Java gives them.

use std::io::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, RecordBatch};
use arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType as ArrowType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time32MillisecondType,
};
use serde_json::{Value, json};

use super::sink::Sink;
use super::{Encoder, FileWrite};
use crate::error::{Error, Result};
use crate::format::conform::timestamp_ticks;
use crate::spec::avro::encode::{put_bytes, put_int, put_long};
use crate::spec::avro::{AvroCodec, ContainerWriter};
use crate::spec::{DataField, DataType, TypeKind};

pub(super) struct AvroEncoder {
    /// None once the file is complete.
    container: Option<ContainerWriter>,
    sink: Sink,
    fields: Arc<[DataField]>,
}

impl AvroEncoder {
    pub fn new(write: &FileWrite, sink: Sink) -> Result<Self> {
        let options = &write.options;
        let name =
            options.all.get("avro.codec").map_or(write.compression.as_str(), String::as_str).to_ascii_lowercase();
        let name = if matches!(name.as_str(), "" | "none" | "uncompressed") { "null" } else { &name };
        let unknown = || {
            Error::unsupported(format!(
                "Avro files can't be compressed with '{name}' at level {}; set file.compression to one of none, deflate, \
                 snappy, zstd and bzip2",
                options.zstd_level
            ))
        };
        // Readers of data files do not know xz.
        if name == "xz" {
            return Err(unknown());
        }
        let codec = AvroCodec::parse(name, options.zstd_level).map_err(|error| unknown().with_source(error))?;
        let schema = record_schema(ROOT, Some(NAMESPACE), &write.fields).to_string();
        let container = Some(ContainerWriter::new(&schema, codec)?);
        Ok(Self { container, sink, fields: Arc::clone(&write.fields) })
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.sink.write_all(bytes).map_err(|error| Error::internal("bytes could not be kept").with_source(error))
    }
}

impl Encoder for AvroEncoder {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns = batch
            .columns()
            .iter()
            .zip(self.fields.iter())
            .map(|(array, field)| Column::new(array, &field.data_type))
            .collect::<Result<Vec<_>>>()?;
        let Some(container) = &mut self.container else { return Err(super::closed()) };
        for row in 0..batch.num_rows() {
            container.append(|out| columns.iter().for_each(|column| column.put(row, out)))?;
        }
        let complete = container.take();
        self.send(&complete)
    }

    fn flush(&mut self) -> Result<()> {
        // Blocks are small: nothing is gathered beyond one.
        Ok(())
    }

    fn pending(&self) -> u64 {
        self.container.as_ref().map_or(0, |container| container.size() as u64)
    }

    fn memory(&self) -> usize {
        self.container.as_ref().map_or(0, ContainerWriter::size)
    }

    fn finish(&mut self) -> Result<()> {
        let Some(container) = self.container.take() else { return Err(super::closed()) };
        let rest = container.finish()?;
        self.send(&rest)
    }
}

/// Name of the record that rows are; those inside of it are called after it.
const ROOT: &str = "record";
const NAMESPACE: &str = "org.apache.paimon.avro.generated";

fn record_schema(name: &str, namespace: Option<&str>, fields: &[DataField]) -> Value {
    let fields: Vec<Value> = fields
        .iter()
        .map(|field| field_schema(&field.name, &field.data_type, &format!("{name}_{}", field.name)))
        .collect();
    match namespace {
        Some(namespace) => json!({"type": "record", "name": name, "namespace": namespace, "fields": fields}),
        None => json!({"type": "record", "name": name, "fields": fields}),
    }
}

fn field_schema(name: &str, data_type: &DataType, record: &str) -> Value {
    let schema = schema(data_type, record);
    if data_type.nullable {
        json!({"name": name, "type": schema, "default": null})
    } else {
        json!({"name": name, "type": schema})
    }
}

/// Whether a map with such keys is an Avro map; any other is an array of pairs.
fn is_text(key: &DataType) -> bool {
    matches!(key.kind, TypeKind::Char(_) | TypeKind::VarChar(_))
}

/// The counts of a multiset, as Java types them in Avro.
fn count_type() -> DataType {
    DataType::nullable(TypeKind::Int)
}

/// The schema of a type; `record` is the name of a record that it may need.
fn schema(data_type: &DataType, record: &str) -> Value {
    let timestamp = |precision: u8, prefix: &str| {
        let unit = if precision <= 3 { "millis" } else { "micros" };
        json!({"type": "long", "logicalType": format!("{prefix}timestamp-{unit}")})
    };
    let plain = match &data_type.kind {
        TypeKind::Boolean => json!("boolean"),
        TypeKind::TinyInt | TypeKind::SmallInt | TypeKind::Int => json!("int"),
        TypeKind::BigInt => json!("long"),
        TypeKind::Float => json!("float"),
        TypeKind::Double => json!("double"),
        TypeKind::Char(_) | TypeKind::VarChar(_) => json!("string"),
        TypeKind::Decimal(precision, scale) => {
            json!({"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale})
        }
        TypeKind::Date => json!({"type": "int", "logicalType": "date"}),
        TypeKind::Time(_) => json!({"type": "int", "logicalType": "time-millis"}),
        // Java has the two names the other way round than Avro means them.
        TypeKind::Timestamp(precision) => timestamp(*precision, ""),
        TypeKind::TimestampLtz(precision) => timestamp(*precision, "local-"),
        TypeKind::Array(element) | TypeKind::Vector(element, _) => {
            json!({"type": "array", "items": schema(element, record)})
        }
        TypeKind::Map(key, value) => map_schema(key, value, record),
        TypeKind::Multiset(element) => map_schema(element, &count_type(), record),
        TypeKind::Row(fields) => record_schema(record, None, fields),
        _ => json!("bytes"),
    };
    if data_type.nullable { json!(["null", plain]) } else { plain }
}

fn map_schema(key: &DataType, value: &DataType, record: &str) -> Value {
    if is_text(key) {
        return json!({"type": "map", "values": schema(value, record)});
    }
    let key = json!({"name": "key", "type": schema(key, &format!("{record}_key"))});
    let value = field_schema("value", value, &format!("{record}_value"));
    let pair = json!({"type": "record", "name": record, "fields": [key, value]});
    json!({"type": "array", "items": pair, "logicalType": "map"})
}

/// A column ready to be written value by value.
struct Column {
    nulls: Option<NullBuffer>,
    nullable: bool,
    values: Values,
}

enum Values {
    Boolean(BooleanBuffer),
    Int8(ScalarBuffer<i8>),
    Int16(ScalarBuffer<i16>),
    Int32(ScalarBuffer<i32>),
    Int64(ScalarBuffer<i64>),
    Float32(ScalarBuffer<f32>),
    Float64(ScalarBuffer<f64>),
    Decimal(ScalarBuffer<i128>),
    Bytes(BinaryViewArray),
    Array(OffsetBuffer<i32>, Box<Column>),
    /// An Avro map, or an array of pairs: keys and values are written alike.
    Map(OffsetBuffer<i32>, Box<[Column; 2]>),
    Row(Vec<Column>),
}

impl Column {
    fn new(array: &ArrayRef, data_type: &DataType) -> Result<Self> {
        let wrong = || Error::internal(format!("{} was given for a column of {data_type}", array.data_type()));
        let bytes = || -> Result<Values> {
            Ok(Values::Bytes(cast(array, &ArrowType::BinaryView).map_err(Error::from)?.as_binary_view().clone()))
        };
        let map = |key: &DataType, value: &DataType| -> Result<Values> {
            let map = array.as_map_opt().ok_or_else(wrong)?;
            // A key of an Avro map has no union around it.
            let key = if is_text(key) { DataType::not_null(key.kind.clone()) } else { key.clone() };
            let parts = [Self::new(map.keys(), &key)?, Self::new(map.values(), value)?];
            Ok(Values::Map(map.offsets().clone(), Box::new(parts)))
        };
        let values = match (&data_type.kind, array.data_type()) {
            (TypeKind::Boolean, ArrowType::Boolean) => Values::Boolean(array.as_boolean().values().clone()),
            (_, ArrowType::Int8) => Values::Int8(array.as_primitive::<Int8Type>().values().clone()),
            (_, ArrowType::Int16) => Values::Int16(array.as_primitive::<Int16Type>().values().clone()),
            (_, ArrowType::Int32) => Values::Int32(array.as_primitive::<Int32Type>().values().clone()),
            (_, ArrowType::Int64) => Values::Int64(array.as_primitive::<Int64Type>().values().clone()),
            (_, ArrowType::Float32) => Values::Float32(array.as_primitive::<Float32Type>().values().clone()),
            (_, ArrowType::Float64) => Values::Float64(array.as_primitive::<Float64Type>().values().clone()),
            (_, ArrowType::Decimal128(..)) => Values::Decimal(array.as_primitive::<Decimal128Type>().values().clone()),
            (_, ArrowType::Date32) => Values::Int32(array.as_primitive::<Date32Type>().values().clone()),
            (_, ArrowType::Time32(_)) => {
                let times = array.as_primitive_opt::<Time32MillisecondType>().ok_or_else(wrong)?;
                Values::Int32(times.values().clone())
            }
            (_, ArrowType::Timestamp(..)) => {
                let (ticks, _) = timestamp_ticks(array).ok_or_else(wrong)?;
                Values::Int64(ticks.values().clone())
            }
            (TypeKind::Array(element) | TypeKind::Vector(element, _), ArrowType::List(_)) => {
                let list = array.as_list::<i32>();
                Values::Array(list.offsets().clone(), Box::new(Self::new(list.values(), element)?))
            }
            (TypeKind::Map(key, value), ArrowType::Map(..)) => map(key, value)?,
            (TypeKind::Multiset(element), ArrowType::Map(..)) => map(element, &count_type())?,
            (TypeKind::Row(fields), ArrowType::Struct(columns)) if columns.len() == fields.len() => {
                let columns = array.as_struct().columns().iter().zip(fields);
                Values::Row(columns.map(|(column, field)| Self::new(column, &field.data_type)).collect::<Result<_>>()?)
            }
            (_, ArrowType::Utf8 | ArrowType::Utf8View | ArrowType::Binary | ArrowType::BinaryView)
                if !data_type.is_nested() =>
            {
                bytes()?
            }
            _ => return Err(wrong()),
        };
        Ok(Self { nulls: array.logical_nulls(), nullable: data_type.nullable, values })
    }

    fn put(&self, row: usize, out: &mut Vec<u8>) {
        if self.nullable {
            let is_null = self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            put_long(i64::from(!is_null), out);
            if is_null {
                return;
            }
        }
        match &self.values {
            Values::Boolean(values) => out.push(u8::from(values.value(row))),
            Values::Int8(values) => put_int(values[row].into(), out),
            Values::Int16(values) => put_int(values[row].into(), out),
            Values::Int32(values) => put_int(values[row], out),
            Values::Int64(values) => put_long(values[row], out),
            Values::Float32(values) => out.extend_from_slice(&values[row].to_le_bytes()),
            Values::Float64(values) => out.extend_from_slice(&values[row].to_le_bytes()),
            Values::Decimal(values) => {
                let (bytes, start) = shortest(values[row]);
                put_bytes(&bytes[start..], out);
            }
            Values::Bytes(values) => put_bytes(values.value(row), out),
            Values::Array(offsets, element) => put_items(offsets, row, out, |item, out| element.put(item, out)),
            Values::Map(offsets, parts) => put_items(offsets, row, out, |item, out| {
                parts.iter().for_each(|part| part.put(item, out));
            }),
            Values::Row(columns) => columns.iter().for_each(|column| column.put(row, out)),
        }
    }
}

/// One block of items, and the end.
fn put_items(offsets: &OffsetBuffer<i32>, row: usize, out: &mut Vec<u8>, put: impl Fn(usize, &mut Vec<u8>)) {
    let items = offsets[row] as usize..offsets[row + 1] as usize;
    if !items.is_empty() {
        put_long(items.len() as i64, out);
        items.for_each(|item| put(item, out));
    }
    put_long(0, out);
}

/// The big-endian bytes of a number and where the shortest form of it starts.
fn shortest(value: i128) -> ([u8; 16], usize) {
    // Bits that only repeat the sign are left out, but for one.
    let bits = if value < 0 { value.leading_ones() } else { value.leading_zeros() };
    (value.to_be_bytes(), ((bits - 1) / 8) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortest_when_any_sign_then_least_bytes_that_keep_it() {
        let bytes = |value: i128| {
            let (bytes, start) = shortest(value);
            bytes[start..].to_vec()
        };
        assert_eq!(bytes(0), [0]);
        assert_eq!(bytes(127), [127]);
        assert_eq!(bytes(128), [0, 128]);
        assert_eq!(bytes(-1), [255]);
        assert_eq!(bytes(-128), [128]);
        assert_eq!(bytes(-129), [255, 127]);
        assert_eq!(bytes(i128::MIN).len(), 16);
    }

    /// `types/nested_key_avro` as Java wrote it.
    #[test]
    fn schema_when_nested_then_as_java_writes_it() {
        let int = || Box::new(DataType::nullable(TypeKind::Int));
        let field = |id, name: &str, kind| DataField::new(id, name, DataType::nullable(kind));
        let inner = TypeKind::Row(vec![field(17, "p", TypeKind::VarChar(5)), field(18, "q", TypeKind::Array(int()))]);
        let pairs = TypeKind::Row(vec![field(22, "u", TypeKind::Int), field(23, "w", TypeKind::Date)]);
        let fields = [
            DataField::new(0, "id", DataType::not_null(TypeKind::Int)),
            field(6, "mil", TypeKind::Map(int(), Box::new(DataType::nullable(TypeKind::BigInt)))),
            field(15, "rr", TypeKind::Row(vec![field(16, "n", TypeKind::Int), field(19, "inner_row", inner)])),
            field(21, "mr", TypeKind::Map(Box::new(DataType::string()), Box::new(DataType::nullable(pairs)))),
            field(24, "ts", TypeKind::Timestamp(3)),
            field(25, "lt", TypeKind::TimestampLtz(6)),
        ];
        let expected: Value = serde_json::from_str(
            r#"{"type":"record","name":"record","namespace":"org.apache.paimon.avro.generated","fields":[
            {"name":"id","type":"int"},
            {"name":"mil","type":["null",{"type":"array","items":{"type":"record","name":"record_mil","fields":[
                {"name":"key","type":["null","int"]},{"name":"value","type":["null","long"],"default":null}]},
                "logicalType":"map"}],"default":null},
            {"name":"rr","type":["null",{"type":"record","name":"record_rr","fields":[
                {"name":"n","type":["null","int"],"default":null},
                {"name":"inner_row","type":["null",{"type":"record","name":"record_rr_inner_row","fields":[
                    {"name":"p","type":["null","string"],"default":null},
                    {"name":"q","type":["null",{"type":"array","items":["null","int"]}],"default":null}]}],"default":null}
                ]}],"default":null},
            {"name":"mr","type":["null",{"type":"map","values":["null",{"type":"record","name":"record_mr","fields":[
                {"name":"u","type":["null","int"],"default":null},
                {"name":"w","type":["null",{"type":"int","logicalType":"date"}],"default":null}]}]}],"default":null},
            {"name":"ts","type":["null",{"type":"long","logicalType":"timestamp-millis"}],"default":null},
            {"name":"lt","type":["null",{"type":"long","logicalType":"local-timestamp-micros"}],"default":null}]}"#,
        )
        .unwrap();
        assert_eq!(record_schema(ROOT, Some(NAMESPACE), &fields), expected);
    }
}
