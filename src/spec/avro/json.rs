//! For tests: Avro values as JSON, and containers made of JSON.

use serde_json::{Value as Json, json};

use super::cursor::Cursor;
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

/// The schema of a container.
pub(crate) fn schema(bytes: &[u8]) -> Json {
    let mut cursor = Cursor::new(bytes);
    let header = super::container::Header::parse(&mut cursor).unwrap();
    serde_json::from_slice(header.schema).unwrap()
}

/// A container of rows, which are cut into blocks and compressed by `compress`.
pub(crate) fn container(schema: &Json, rows: &[Json], codec: &str, compress: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let json = schema.to_string();
    let parsed = Schema::parse(json.as_bytes()).unwrap();
    let mut out = b"Obj\x01".to_vec();
    long(2, &mut out);
    for text in ["avro.schema", &json, "avro.codec", codec] {
        bytes(text.as_bytes(), &mut out);
    }
    long(0, &mut out);
    out.extend_from_slice(&[7; 16]);
    for rows in rows.chunks(3) {
        let mut plain = Vec::new();
        for row in rows {
            encode(&parsed, parsed.root(), row, &mut plain);
        }
        long(rows.len() as i64, &mut out);
        bytes(&compress(&plain), &mut out);
        out.extend_from_slice(&[7; 16]);
    }
    out
}

fn encode(schema: &Schema, node: NodeId, value: &Json, out: &mut Vec<u8>) {
    match schema.node(node) {
        Node::Null => {}
        Node::Long => long(value.as_i64().unwrap(), out),
        Node::Bytes => {
            let list = value.as_array().unwrap().iter().map(|byte| byte.as_u64().unwrap() as u8).collect::<Vec<_>>();
            bytes(&list, out);
        }
        Node::Double => out.extend_from_slice(&value.as_f64().unwrap().to_le_bytes()),
        Node::Array(item) => {
            // Blocks of one and two items, the latter with its size, as writers may cut them.
            for items in value.as_array().unwrap().chunks(2) {
                let mut block = Vec::new();
                items.iter().for_each(|value| encode(schema, *item, value, &mut block));
                if items.len() == 2 {
                    long(-2, out);
                    long(block.len() as i64, out);
                } else {
                    long(1, out);
                }
                out.extend_from_slice(&block);
            }
            long(0, out);
        }
        Node::Union(branches) => {
            let fits = |branch: &NodeId| (*schema.node(*branch) == Node::Null) == value.is_null();
            let branch = branches.iter().position(fits).unwrap();
            long(branch as i64, out);
            encode(schema, branches[branch], value, out);
        }
        Node::Record(fields) => fields.iter().for_each(|field| encode(schema, field.node, &value[&field.name], out)),
        other => panic!("{other:?}"),
    }
}

fn long(value: i64, out: &mut Vec<u8>) {
    let mut value = ((value << 1) ^ (value >> 63)) as u64;
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn bytes(value: &[u8], out: &mut Vec<u8>) {
    long(value.len() as i64, out);
    out.extend_from_slice(value);
}
