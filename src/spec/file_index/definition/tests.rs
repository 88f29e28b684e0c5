//! Definitions out of options, and containers out of rows.

use std::collections::BTreeMap;

use arrow::array::{Int32Array, MapBuilder, StringBuilder, StringViewArray};
use serde_json::json;

use super::*;
use crate::spec::file_index::FileIndex;

fn columns() -> Vec<DataField> {
    [
        json!({"id": 0, "name": "id", "type": "INT NOT NULL"}),
        json!({"id": 1, "name": "b", "type": "STRING"}),
        json!({"id": 2, "name": "mp", "type": {"type": "MAP", "key": "STRING NOT NULL", "value": "STRING"}}),
        json!({"id": 3, "name": "mi", "type": {"type": "MAP", "key": "INT NOT NULL", "value": "STRING"}}),
        json!({"id": 4, "name": "odd[x]", "type": "INT"}),
    ]
    .iter()
    .map(|json| DataField::from_json(json, &mut 0).unwrap())
    .collect()
}

fn all(options: &[(&str, &str)]) -> Result<Vec<FileIndexDefinition>> {
    let options: BTreeMap<String, String> =
        options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    FileIndexDefinition::all(&columns(), &TableOptions::new(&options, &BTreeMap::new())?)
}

#[test]
fn all_when_options_name_columns_and_keys_then_definitions_with_their_options() {
    let definitions = all(&[
        ("file-index.bloom-filter.columns", "mp[x], b, mp[y]"),
        ("file-index.bloom-filter.b.items", "100"),
        ("file-index.bloom-filter.mp.items", "20"),
        ("file-index.bloom-filter.mp.fpp", "0.2"),
        ("file-index.bloom-filter.mp[y].items", "40"),
        ("file-index.bitmap.columns", "odd[x],b"),
        ("file-index.bitmap.b.version", "1"),
        ("file-index.bitmap.b.index-block-size", "1 kb"),
        ("file-index.range-bitmap.columns", "id"),
        ("file-index.range-bitmap.id.chunk-size", "7 b"),
        ("file-index.bsi.columns", "id"),
    ])
    .unwrap();
    let options = IndexOptions::default();
    let told: Vec<_> = definitions
        .iter()
        .map(|definition| (definition.column, definition.name.as_str(), definition.kind, definition.options.clone()))
        .collect();
    use IndexKind::{BitSliced, Bitmap, BloomFilter, RangeBitmap};
    assert_eq!(
        told,
        [
            (0, "id", BitSliced, options.clone()),
            (0, "id", RangeBitmap, IndexOptions { chunk_size: Some(7), ..options.clone() }),
            (1, "b", BloomFilter, IndexOptions { items: 100, ..options.clone() }),
            (1, "b", Bitmap, IndexOptions { version: 1, block_size: 1024, ..options.clone() }),
            (2, "mp[x]", BloomFilter, IndexOptions { items: 20, fpp: 0.2, ..options.clone() }),
            (2, "mp[y]", BloomFilter, IndexOptions { items: 40, fpp: 0.2, ..options.clone() }),
            (4, "odd[x]", Bitmap, options),
        ]
    );
    assert_eq!(definitions[4].map_key.as_deref(), Some("x"));
    assert_eq!(definitions[6].map_key, None);
    assert!(all(&[]).unwrap().is_empty());
}

#[test]
fn all_when_options_make_no_index_then_error_names_the_option() {
    for (options, told) in [
        (&[("file-index.bitmap.columns", "nope")][..], "file-index.bitmap.columns"),
        (&[("file-index.bitmap.columns", "nope[x]")], "file-index.bitmap.columns"),
        (&[("file-index.bitmap.columns", "b[x]")], "file-index.bitmap.columns"),
        (&[("file-index.bitmap.columns", "mi[1]")], "file-index.bitmap.columns"),
        (&[("file-index.bitmap.columns", "mp")], "file-index.bitmap.columns"),
        (&[("file-index.bitmap.columns", "b,,id")], "file-index.bitmap.columns"),
        (&[("file-index.bitmap.columns", "b,b")], "file-index.bitmap.columns"),
        (&[("file-index.bsi.columns", "b")], "file-index.bsi.columns"),
        (&[("file-index.bitmap.columns", "b"), ("file-index.bitmap.b.version", "3")], "file-index.bitmap.b.version"),
        (
            &[("file-index.bitmap.columns", "b"), ("file-index.bitmap.b.index-block-size", "x")],
            "file-index.bitmap.b.index-block-size",
        ),
        (
            &[("file-index.bloom-filter.columns", "b"), ("file-index.bloom-filter.b.items", "0")],
            "file-index.bloom-filter.b.items",
        ),
        (
            &[("file-index.bloom-filter.columns", "b"), ("file-index.bloom-filter.b.items", "9000000000")],
            "file-index.bloom-filter.columns",
        ),
        (
            &[("file-index.bloom-filter.columns", "b"), ("file-index.bloom-filter.b.fpp", "1.5")],
            "file-index.bloom-filter.b.fpp",
        ),
        (
            &[("file-index.bloom-filter.columns", "mp[x]"), ("file-index.bloom-filter.mp.items", "-1")],
            "file-index.bloom-filter.mp.items",
        ),
        (
            &[("file-index.range-bitmap.columns", "b"), ("file-index.range-bitmap.b.chunk-size", "-1")],
            "file-index.range-bitmap.b.chunk-size",
        ),
    ] {
        let error = all(options).unwrap_err();
        assert!(error.to_string().contains(told), "{told}: {error}");
    }
}

/// The table `file_indexes` of Java 1.4, whose container is `testdata/file_index/java14.index`.
#[test]
fn finish_when_rows_came_in_batches_then_payloads_as_java() {
    let definitions = all(&[
        ("file-index.bloom-filter.columns", "b,mp[x]"),
        ("file-index.bloom-filter.b.items", "100"),
        ("file-index.bloom-filter.mp[x].items", "100"),
        ("file-index.range-bitmap.columns", "id"),
    ])
    .unwrap();
    let mut writer = FileIndexesWriter::new(&definitions).unwrap();
    let mut maps = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for row in [Some(&[("x", Some("1")), ("y", Some("2"))][..]), None, Some(&[("y", Some("1"))]), Some(&[("x", None)])]
    {
        for (key, value) in row.unwrap_or_default() {
            maps.keys().append_value(key);
            maps.values().append_option(*value);
        }
        maps.append(row.is_some()).unwrap();
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![Some(1), Some(20), None, Some(300)])),
        Arc::new(StringViewArray::from(vec![Some("a"), Some("b"), None, Some("a")])),
        Arc::new(maps.finish()),
    ];
    for (start, length) in [(0, 1), (1, 0), (1, 3)] {
        writer.add(&columns.iter().map(|column| column.slice(start, length)).collect::<Vec<_>>()).unwrap();
    }
    assert!(writer.memory() > 0);
    let ours = writer.finish().unwrap();
    let java = include_bytes!("../../testdata/file_index/java14.index").to_vec();
    let payloads = |bytes: &[u8]| {
        let index = FileIndex::parse(bytes.to_vec().into()).unwrap();
        let payloads = index.columns().flat_map(|(name, indexes)| {
            indexes.iter().map(|index| (name.to_owned(), bytes[index.payload.clone().unwrap()].to_vec()))
        });
        payloads.collect::<BTreeMap<_, _>>()
    };
    let (ours, java) = (payloads(&ours), payloads(&java));
    assert_eq!(ours.keys().collect::<Vec<_>>(), ["b", "id", "mp[x]"]);
    for (name, of_java) in [("b", "b"), ("id", "r"), ("mp[x]", "mp[x]")] {
        assert_eq!(ours[name], java[of_java], "{name}");
    }
}

#[test]
fn finish_when_no_row_came_then_empty_indexes() {
    let definitions = all(&[("file-index.bitmap.columns", "b"), ("file-index.bloom-filter.columns", "b")]).unwrap();
    let bytes = FileIndexesWriter::new(&definitions).unwrap().finish().unwrap();
    let index = FileIndex::parse(bytes.into()).unwrap();
    let (name, indexes) = index.columns().next().unwrap();
    assert_eq!((name, indexes.len()), ("b", 2));
    assert!(indexes.iter().all(|index| index.payload.is_none()));
}
