//! Avro schemas, parsed from JSON into a flat table of nodes, and skipping of values by them.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value as Json};

use super::cursor::Cursor;
use crate::error::{Error, Result};

/// Values nest no deeper than this: more is either an attack or a recursive type that no metadata file has.
const MAX_DEPTH: usize = 64;

/// Where a node lies in its [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeId(u32);

/// A type; what it consists of lies elsewhere in the table, so that types may refer to themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// No bytes.
    Null,
    /// One byte.
    Boolean,
    /// `int` and `long`, which are encoded alike.
    Long,
    /// Four bytes.
    Float,
    /// Eight bytes.
    Double,
    /// `bytes` and `string`, which are encoded alike.
    Bytes,
    /// So many bytes.
    Fixed(usize),
    /// A number that stands for a symbol.
    Enum,
    /// Blocks of items.
    Array(NodeId),
    /// Blocks of a name and an item each.
    Map(NodeId),
    /// The number of a branch and its value.
    Union(Vec<NodeId>),
    /// The fields, one after another.
    Record(Vec<Field>),
}

/// A field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// The name, unique in the record.
    pub(crate) name: String,
    /// The type.
    pub(crate) node: NodeId,
}

/// The schema that a file was written with.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    nodes: Vec<Node>,
    /// Whether the values of a node have no bytes at all.
    empty: Vec<bool>,
    root: NodeId,
}

impl Schema {
    /// Parses the JSON of a schema. Logical types and defaults are passed over: values are matched by name and read as
    /// they are encoded (`spec/metadata.md 4.1`).
    pub(crate) fn parse(json: &[u8]) -> Result<Self> {
        let json: Json = serde_json::from_slice(json)
            .map_err(|error| Error::corrupt("the Avro schema is no JSON").with_source(error))?;
        let mut parser = Parser { nodes: Vec::new(), empty: Vec::new(), names: HashMap::new() };
        let root = parser.parse(&json, "")?;
        Ok(Self { nodes: parser.nodes, empty: parser.empty, root })
    }

    /// The type of a whole value.
    pub(crate) fn root(&self) -> NodeId {
        self.root
    }

    /// The type at `id`.
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        // Ids come from this schema only, so this never falls back.
        self.nodes.get(id.0 as usize).unwrap_or(&Node::Null)
    }

    /// Whether values of `id` have no bytes. Types that refer to empty types over and over would otherwise keep a reader
    /// busy without end.
    pub(crate) fn is_empty(&self, id: NodeId) -> bool {
        self.empty.get(id.0 as usize).copied().unwrap_or(true)
    }

    /// How a value of `id` that may be null is told, and its type when it is not.
    pub(crate) fn nullable(&self, id: NodeId) -> Result<(Branches, NodeId)> {
        let Node::Union(branches) = self.node(id) else {
            return Ok((Branches::NONE, id));
        };
        let is_null = |branch: &NodeId| *self.node(*branch) == Node::Null;
        let null = branches.iter().position(is_null).map_or(-1, |index| index as i64);
        let mut values = branches.iter().enumerate().filter(|(_, branch)| !is_null(branch));
        match (values.next(), values.next()) {
            (Some((index, value)), None) => Ok((Branches { union: true, null, value: index as i64 }, *value)),
            _ => Err(Error::unsupported("a union of several types, where one type or null was expected")),
        }
    }

    /// Passes over a value of type `id`.
    pub(crate) fn skip(&self, id: NodeId, cursor: &mut Cursor<'_>) -> Result<()> {
        self.skip_at(id, cursor, MAX_DEPTH)
    }

    fn skip_at(&self, id: NodeId, cursor: &mut Cursor<'_>, depth: usize) -> Result<()> {
        if self.is_empty(id) {
            return Ok(());
        }
        let depth = deeper(depth)?;
        match self.node(id) {
            Node::Null => {}
            Node::Boolean => drop(cursor.take(1)?),
            Node::Long | Node::Enum => drop(cursor.long()?),
            Node::Float => drop(cursor.take(4)?),
            Node::Double => drop(cursor.take(8)?),
            Node::Bytes => drop(cursor.bytes()?),
            Node::Fixed(size) => drop(cursor.take(*size)?),
            Node::Array(item) => loop {
                let count = cursor.items()?;
                if count == 0 {
                    break;
                }
                for _ in 0..count {
                    self.skip_at(*item, cursor, depth)?;
                }
            },
            Node::Map(item) => loop {
                let count = cursor.items()?;
                if count == 0 {
                    break;
                }
                for _ in 0..count {
                    cursor.bytes()?;
                    self.skip_at(*item, cursor, depth)?;
                }
            },
            Node::Union(branches) => self.skip_at(branch(branches, cursor)?, cursor, depth)?,
            Node::Record(fields) => {
                for field in fields {
                    self.skip_at(field.node, cursor, depth)?;
                }
            }
        }
        Ok(())
    }
}

/// The branch of a union that comes next.
pub(crate) fn branch(branches: &[NodeId], cursor: &mut Cursor<'_>) -> Result<NodeId> {
    let index = cursor.long()?;
    let branch = usize::try_from(index).ok().and_then(|index| branches.get(index));
    branch.copied().ok_or_else(|| Error::corrupt(format!("branch {index} of a union of {}", branches.len())))
}

/// One level less to go.
pub(crate) fn deeper(depth: usize) -> Result<usize> {
    depth.checked_sub(1).ok_or_else(|| Error::corrupt(format!("values nest deeper than {MAX_DEPTH} levels")))
}

/// How a value of one type is told from null: not at all, or by a union with null, in whatever order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Branches {
    union: bool,
    null: i64,
    value: i64,
}

impl Branches {
    /// No union: a value always comes next.
    pub(crate) const NONE: Self = Self { union: false, null: -1, value: -1 };

    /// Whether a value comes next; false for null.
    #[inline]
    pub(crate) fn present(self, cursor: &mut Cursor<'_>) -> Result<bool> {
        if !self.union {
            return Ok(true);
        }
        let branch = cursor.long()?;
        if branch == self.value {
            Ok(true)
        } else if branch == self.null && branch >= 0 {
            Ok(false)
        } else {
            Err(Error::corrupt(format!("branch {branch} of a union of a type and null")))
        }
    }
}

struct Parser {
    nodes: Vec<Node>,
    empty: Vec<bool>,
    /// Full names of records, enums and fixed types.
    names: HashMap<String, NodeId>,
}

impl Parser {
    fn add(&mut self, node: Node) -> NodeId {
        self.empty.push(self.has_no_bytes(&node));
        self.nodes.push(node);
        // A node takes at least a byte of JSON, which is much smaller than 4 GB.
        NodeId((self.nodes.len() - 1) as u32)
    }

    // The JSON parser bounds the nesting of its input, so recursion needs no bound of its own.
    fn parse(&mut self, json: &Json, namespace: &str) -> Result<NodeId> {
        match json {
            Json::String(name) => self.named(name, namespace),
            Json::Array(branches) => {
                let branches = branches.iter().map(|branch| self.parse(branch, namespace)).collect::<Result<_>>()?;
                Ok(self.add(Node::Union(branches)))
            }
            Json::Object(object) => match object.get("type") {
                Some(Json::String(name)) => self.complex(name, object, namespace),
                // {"type": {"type": "array", ..}}: a type wrapped once more.
                Some(inner) => self.parse(inner, namespace),
                None => Err(bad("a type without `type`")),
            },
            _ => Err(bad("a type that is neither name, list nor object")),
        }
    }

    fn named(&mut self, name: &str, namespace: &str) -> Result<NodeId> {
        let node = match name {
            "null" => Node::Null,
            "boolean" => Node::Boolean,
            "int" | "long" => Node::Long,
            "float" => Node::Float,
            "double" => Node::Double,
            "bytes" | "string" => Node::Bytes,
            _ => {
                let found = self.names.get(&full_name(name, namespace)).or_else(|| self.names.get(name));
                return found.copied().ok_or_else(|| bad(format!("the unknown type `{name}`")));
            }
        };
        Ok(self.add(node))
    }

    fn complex(&mut self, kind: &str, object: &Map<String, Json>, namespace: &str) -> Result<NodeId> {
        match kind {
            "array" | "map" => {
                let item = object.get(if kind == "array" { "items" } else { "values" });
                let item = self.parse(item.ok_or_else(|| bad(format!("{kind} without items")))?, namespace)?;
                if kind == "map" {
                    return Ok(self.add(Node::Map(item)));
                }
                // Items without bytes could be any number: a few bytes would keep a reader busy for years.
                if self.is_empty(item) {
                    return Err(bad("an array of empty values"));
                }
                Ok(self.add(Node::Array(item)))
            }
            "record" | "error" | "enum" | "fixed" => {
                let name =
                    object.get("name").and_then(Json::as_str).ok_or_else(|| bad(format!("{kind} without name")))?;
                let own = object.get("namespace").and_then(Json::as_str).unwrap_or(namespace);
                let full = full_name(name, own);
                let inner = full.rsplit_once('.').map_or("", |(namespace, _)| namespace).to_owned();
                // Stands for the type while its parts, which may name it, are parsed.
                let id = self.add(Node::Enum);
                if self.names.insert(full, id).is_some() {
                    return Err(bad(format!("the name `{name}` twice")));
                }
                let node = match kind {
                    "enum" => Node::Enum,
                    "fixed" => Node::Fixed(
                        object
                            .get("size")
                            .and_then(Json::as_u64)
                            .and_then(|size| usize::try_from(size).ok())
                            .ok_or_else(|| bad("fixed without size"))?,
                    ),
                    _ => Node::Record(self.fields(object, &inner)?),
                };
                let empty = self.has_no_bytes(&node);
                if let (Some(place), Some(flag)) =
                    (self.nodes.get_mut(id.0 as usize), self.empty.get_mut(id.0 as usize))
                {
                    *place = node;
                    *flag = empty;
                }
                Ok(id)
            }
            primitive => self.named(primitive, namespace),
        }
    }

    fn fields(&mut self, object: &Map<String, Json>, namespace: &str) -> Result<Vec<Field>> {
        let fields = object.get("fields").and_then(Json::as_array).ok_or_else(|| bad("record without fields"))?;
        let mut names = HashSet::new();
        let parse = |field: &Json| {
            let name = field.get("name").and_then(Json::as_str).ok_or_else(|| bad("a field without name"))?;
            if !names.insert(name.to_owned()) {
                return Err(bad(format!("the field `{name}` twice")));
            }
            let node = self.parse(field.get("type").ok_or_else(|| bad("a field without type"))?, namespace)?;
            Ok(Field { name: name.to_owned(), node })
        };
        fields.iter().map(parse).collect()
    }

    fn is_empty(&self, id: NodeId) -> bool {
        self.empty.get(id.0 as usize).copied().unwrap_or(true)
    }

    fn has_no_bytes(&self, node: &Node) -> bool {
        match node {
            Node::Null | Node::Fixed(0) => true,
            Node::Record(fields) => fields.iter().all(|field| self.is_empty(field.node)),
            _ => false,
        }
    }
}

fn full_name(name: &str, namespace: &str) -> String {
    if namespace.is_empty() || name.contains('.') { name.to_owned() } else { format!("{namespace}.{name}") }
}

fn bad(what: impl std::fmt::Display) -> Error {
    Error::corrupt(format!("the Avro schema has {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_when_types_are_referred_to_by_name_then_resolved_in_the_namespace() {
        let schema = Schema::parse(
            br#"{"type":"record","name":"r","namespace":"a.b","fields":[
                {"name":"x","type":{"type":"fixed","name":"two","size":2}},
                {"name":"y","type":["null","two"]},
                {"name":"z","type":"a.b.two"},
                {"name":"next","type":["null","r"]},
                {"name":"m","type":{"type":"map","values":{"type":"long","logicalType":"timestamp-millis"}}},
                {"name":"e","type":{"type":"enum","name":"c.e","symbols":["A","B"]}}]}"#,
        )
        .unwrap();
        let bytes = [1, 1, 2, 1, 1, 1, 1, 0, 2, 2, b'k', 8, 0, 2, 9];
        let mut cursor = Cursor::new(&bytes);
        schema.skip(schema.root(), &mut cursor).unwrap();
        assert_eq!(cursor.rest(), [9]);
        for len in 0..bytes.len() - 1 {
            assert!(schema.skip(schema.root(), &mut Cursor::new(&bytes[..len])).is_err());
        }
    }

    #[test]
    fn parse_when_schema_is_wrong_then_error() {
        for json in [
            "",
            "7",
            r#""what""#,
            r#"{"type":"array"}"#,
            r#"{"type":"array","items":"null"}"#,
            r#"{"type":"array","items":{"type":"record","name":"r","fields":[{"name":"a","type":"null"}]}}"#,
            r#"{"type":"record","name":"r","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}"#,
            r#"{"type":"record","name":"r"}"#,
            r#"{"type":"fixed","name":"f","size":-1}"#,
        ] {
            assert!(Schema::parse(json.as_bytes()).is_err(), "{json}");
        }
        assert!(Schema::parse("[".repeat(10_000).as_bytes()).is_err());
    }

    #[test]
    fn skip_when_empty_types_double_then_fast() {
        let mut fields = vec![r#"{"name":"f","type":{"type":"record","name":"r0","fields":[]}}"#.to_owned()];
        for level in 1..60 {
            let inner = level - 1;
            let a = format!(r#"{{"name":"a","type":"r{inner}"}},{{"name":"b","type":"r{inner}"}}"#);
            fields
                .push(format!(r#"{{"name":"f{level}","type":{{"type":"record","name":"r{level}","fields":[{a}]}}}}"#));
        }
        let json = format!(r#"{{"type":"record","name":"r","fields":[{}]}}"#, fields.join(","));
        let schema = Schema::parse(json.as_bytes()).unwrap();
        schema.skip(schema.root(), &mut Cursor::new(&[])).unwrap();
    }

    #[test]
    fn skip_when_type_recurses_without_end_then_error() {
        let schema = Schema::parse(br#"{"type":"record","name":"r","fields":[{"name":"a","type":"r"}]}"#).unwrap();
        assert!(schema.skip(schema.root(), &mut Cursor::new(&[0; 8])).is_err());
    }
}
