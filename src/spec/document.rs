//! JSON documents with Java's white space: `"key" : value`, two blanks a level, lists in one line.

use std::io::{Result as IoResult, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

use crate::error::{Error, Result};

/// `value` as the text of a document.
///
/// # Errors
/// Internal when the value is no document, as a map with keys that are no text.
pub fn to_document(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    value
        .serialize(&mut Serializer::with_formatter(&mut out, Layout::default()))
        .map_err(|error| Error::internal("a document can't be written").with_source(error))?;
    Ok(out)
}

/// How Java lays a document out.
#[derive(Default)]
struct Layout {
    /// Objects around, ..
    depth: usize,
    /// .. and whether the innermost has a member.
    has_member: bool,
}

impl Layout {
    fn new_line<W: ?Sized + Write>(&self, writer: &mut W) -> IoResult<()> {
        writer.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| writer.write_all(b"  "))
    }
}

impl Formatter for Layout {
    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> IoResult<()> {
        self.depth += 1;
        self.has_member = false;
        writer.write_all(b"{")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> IoResult<()> {
        if !first {
            writer.write_all(b",")?;
        }
        self.new_line(writer)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> IoResult<()> {
        writer.write_all(b" : ")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _writer: &mut W) -> IoResult<()> {
        self.has_member = true;
        Ok(())
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> IoResult<()> {
        self.depth -= 1;
        if self.has_member {
            self.new_line(writer)?;
            writer.write_all(b"}")
        } else {
            writer.write_all(b" }")
        }
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> IoResult<()> {
        writer.write_all(if first { b" " } else { b", " })
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> IoResult<()> {
        writer.write_all(b" ]")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[derive(Serialize)]
    struct Field {
        id: i32,
        name: &'static str,
        r#type: Type,
    }

    #[derive(Serialize)]
    #[serde(untagged)]
    enum Type {
        Atom(&'static str),
        List { r#type: &'static str, element: &'static str },
    }

    #[derive(Serialize)]
    struct Schema {
        fields: Vec<Field>,
        keys: [&'static str; 1],
        partitions: [&'static str; 0],
        options: BTreeMap<&'static str, &'static str>,
    }

    #[test]
    fn to_document_when_lists_and_objects_nest_then_as_java_lays_out_schemas() {
        let schema = Schema {
            fields: vec![
                Field { id: 0, name: "id", r#type: Type::Atom("INT NOT NULL") },
                Field { id: 1, name: "tags", r#type: Type::List { r#type: "ARRAY", element: "STRING" } },
            ],
            keys: ["id"],
            partitions: [],
            options: BTreeMap::from([("bucket", "1"), ("write-only", "true")]),
        };
        let text = r#"{
  "fields" : [ {
    "id" : 0,
    "name" : "id",
    "type" : "INT NOT NULL"
  }, {
    "id" : 1,
    "name" : "tags",
    "type" : {
      "type" : "ARRAY",
      "element" : "STRING"
    }
  } ],
  "keys" : [ "id" ],
  "partitions" : [ ],
  "options" : {
    "bucket" : "1",
    "write-only" : "true"
  }
}"#;
        assert_eq!(String::from_utf8(to_document(&schema).unwrap()).unwrap(), text);
    }

    #[test]
    fn to_document_when_values_are_empty_then_a_blank_inside() {
        for (value, text) in [
            (json!({}), "{ }"),
            (json!([]), "[ ]"),
            (json!([1, 2]), "[ 1, 2 ]"),
            (json!({"a": {}, "b": [{}]}), "{\n  \"a\" : { },\n  \"b\" : [ { } ]\n}"),
        ] {
            assert_eq!(String::from_utf8(to_document(&value).unwrap()).unwrap(), text);
        }
    }
}
