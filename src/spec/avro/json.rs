//! For tests: Avro values as JSON, and containers made of JSON.

use serde_json::{Value as Json, json};

use super::cursor::Cursor;
use super::encode::{put_bytes, put_long};
use super::schema::{Node, NodeId, Schema};
use super::value::Value;

/// A value as JSON; bytes and text are lists of numbers.
pub(crate) fn to_json(value: &Value<'_>) -> Json {
    match value {
        Value::Null | Value::Other => Json::Null,
        Value::Long(value) => json!(value),
        Value::Bytes(bytes) => json!(bytes),
        Value::Array(values) => values.iter().map(to_json).collect(),
        Value::Record(record) => record
            .iter()
            .map(|(name, value)| (name.to_owned(), to_json(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
    }
}

/// The rows of a container with plain or compressed blocks.
pub(crate) fn rows(bytes: &[u8]) -> Vec<Json> {
    let mut rows = Vec::new();
    super::for_each_record(bytes, |record| {
        rows.push(to_json(&Value::Record(record.clone())));
        Ok(())
    })
    .unwrap();
    rows
}

/// The plain bytes of all rows of a container.
pub(crate) fn raw_rows(bytes: &[u8]) -> Vec<u8> {
    let container = super::Container::parse(bytes).unwrap();
    let (mut decompressor, mut plain) = (super::Decompressor::new(container.codec), Vec::new());
    container.blocks.iter().for_each(|block| decompressor.append(block.data, &mut plain).unwrap());
    plain
}

/// The schema of a container, as it is written.
pub(crate) fn schema_text(bytes: &[u8]) -> &str {
    let header = super::container::Header::parse(&mut Cursor::new(bytes)).unwrap();
    std::str::from_utf8(header.schema).unwrap()
}

/// The schema of a container.
pub(crate) fn schema(bytes: &[u8]) -> Json {
    serde_json::from_str(schema_text(bytes)).unwrap()
}

/// A container of rows, which are cut into blocks and compressed by `compress`.
pub(crate) fn container(schema: &Json, rows: &[Json], codec: &str, compress: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let json = schema.to_string();
    let parsed = Schema::parse(json.as_bytes()).unwrap();
    let mut out = b"Obj\x01".to_vec();
    put_long(2, &mut out);
    for text in ["avro.schema", &json, "avro.codec", codec] {
        put_bytes(text.as_bytes(), &mut out);
    }
    put_long(0, &mut out);
    out.extend_from_slice(&[7; 16]);
    for rows in rows.chunks(3) {
        let mut plain = Vec::new();
        for row in rows {
            encode(&parsed, parsed.root(), row, &mut plain);
        }
        put_long(rows.len() as i64, &mut out);
        put_bytes(&compress(&plain), &mut out);
        out.extend_from_slice(&[7; 16]);
    }
    out
}

fn encode(schema: &Schema, node: NodeId, value: &Json, out: &mut Vec<u8>) {
    match schema.node(node) {
        Node::Null => {}
        Node::Long => put_long(value.as_i64().unwrap(), out),
        Node::Bytes => {
            let list = value.as_array().unwrap().iter().map(|byte| byte.as_u64().unwrap() as u8).collect::<Vec<_>>();
            put_bytes(&list, out);
        }
        Node::Double => out.extend_from_slice(&value.as_f64().unwrap().to_le_bytes()),
        Node::Array(item) => {
            // Blocks of one and two items, the latter with its size, as writers may cut them.
            for items in value.as_array().unwrap().chunks(2) {
                let mut block = Vec::new();
                items.iter().for_each(|value| encode(schema, *item, value, &mut block));
                if items.len() == 2 {
                    put_long(-2, out);
                    put_long(block.len() as i64, out);
                } else {
                    put_long(1, out);
                }
                out.extend_from_slice(&block);
            }
            put_long(0, out);
        }
        Node::Union(branches) => {
            let fits = |branch: &NodeId| (*schema.node(*branch) == Node::Null) == value.is_null();
            let branch = branches.iter().position(fits).unwrap();
            put_long(branch as i64, out);
            encode(schema, branches[branch], value, out);
        }
        Node::Record(fields) => fields.iter().for_each(|field| encode(schema, field.node, &value[&field.name], out)),
        other => panic!("{other:?}"),
    }
}
