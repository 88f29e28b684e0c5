//! Files of every format, read back with the readers.

use std::collections::BTreeMap;

use ::parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use arrow::array::{
    BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, ListArray, MapArray, StringViewArray, StructArray, Time32MillisecondArray,
    TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType as ArrowType, FieldRef};
use datafusion::execution::memory_pool::{
    GreedyMemoryPool, MemoryConsumer, MemoryLimit, MemoryPool, UnboundedMemoryPool,
};
use futures::TryStreamExt;
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;

use super::*;
use crate::format::FileRead;
use crate::options::TableOptions;
use crate::spec::{DataType, TypeKind};

fn options(pairs: &[(&str, &str)]) -> Arc<WriteOptions> {
    let pairs: BTreeMap<String, String> =
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Arc::new(WriteOptions::new(&TableOptions::new(&pairs, &BTreeMap::new()).unwrap(), true).unwrap())
}

fn file(
    store: &Arc<InMemory>,
    name: &str,
    fields: &[DataField],
    options: Arc<WriteOptions>,
    pool: &Arc<dyn MemoryPool>,
) -> FileWrite {
    FileWrite {
        store: Arc::clone(store) as Arc<dyn ObjectStore>,
        path: Path::from(name),
        format: FileFormat::of_file(name).unwrap(),
        compression: options.compression(crate::options::FileRole::Data(0)).to_owned(),
        fields: fields.into(),
        repeated: Vec::new(),
        distinct: Vec::new(),
        options,
        reservation: MemoryConsumer::new("test").register(pool),
        memory_limit: MemoryLimit::Infinite,
    }
}

fn unbounded() -> Arc<dyn MemoryPool> {
    Arc::new(UnboundedMemoryPool::default())
}

async fn write(
    name: &str,
    fields: &[DataField],
    batches: &[RecordBatch],
    options: Arc<WriteOptions>,
) -> (Arc<InMemory>, u64) {
    let store = Arc::new(InMemory::new());
    let mut writer = file(&store, name, fields, options, &unbounded()).open().unwrap();
    for batch in batches {
        writer.write(batch).await.unwrap();
    }
    (store, writer.finish().await.unwrap())
}

async fn read(store: &Arc<InMemory>, name: &str, size: u64, fields: &[DataField]) -> RecordBatch {
    let store = Arc::clone(store) as Arc<dyn ObjectStore>;
    let read = FileRead::new(store, Path::from(name), size, fields.to_vec()).unwrap();
    let batches: Vec<RecordBatch> = read.open().await.unwrap().try_collect().await.unwrap();
    concat_batches(&batches[0].schema(), &batches).unwrap()
}

fn nullable(kind: TypeKind) -> DataType {
    DataType::nullable(kind)
}

fn list(element: &DataType, values: &ArrayRef, lengths: &[usize], valid: &[bool]) -> ArrayRef {
    let ArrowType::List(field) = nullable(TypeKind::Array(Box::new(element.clone()))).to_arrow() else { panic!() };
    let values = cast(values, field.data_type()).unwrap();
    let offsets = OffsetBuffer::from_lengths(lengths.iter().copied());
    Arc::new(ListArray::new(field, offsets, values, Some(NullBuffer::from(valid.to_vec()))))
}

fn map(data_type: &DataType, keys: ArrayRef, values: ArrayRef, lengths: &[usize], valid: &[bool]) -> ArrayRef {
    let ArrowType::Map(entries, _) = data_type.to_arrow() else { panic!() };
    let ArrowType::Struct(fields) = entries.data_type() else { panic!() };
    let part = |array: ArrayRef, field: &FieldRef| cast(&array, field.data_type()).unwrap();
    let columns = vec![part(keys, &fields[0]), part(values, &fields[1])];
    let structs = StructArray::new(fields.clone(), columns, None);
    let offsets = OffsetBuffer::from_lengths(lengths.iter().copied());
    Arc::new(MapArray::new(entries, offsets, structs, Some(NullBuffer::from(valid.to_vec())), false))
}

fn row(data_type: &DataType, columns: &[ArrayRef], valid: &[bool]) -> ArrayRef {
    let ArrowType::Struct(fields) = data_type.to_arrow() else { panic!() };
    let columns = columns.iter().zip(&fields).map(|(array, field)| cast(array, field.data_type()).unwrap()).collect();
    Arc::new(StructArray::new(fields, columns, Some(NullBuffer::from(valid.to_vec()))))
}

fn texts(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(values.iter().copied().collect::<StringViewArray>())
}

/// Four rows of every type: values at the ends of the type, and NULL.
pub(super) fn scalars() -> Vec<(TypeKind, ArrayRef)> {
    let decimal = |precision: u8, scale: u8| {
        let most = 10_i128.pow(precision.into()) - 1;
        let values = Decimal128Array::from(vec![Some(most), None, Some(-most), Some(0)]);
        Arc::new(values.with_precision_and_scale(precision, scale as i8).unwrap()) as ArrayRef
    };
    let bytes = || {
        let values: Vec<Option<&[u8]>> = vec![Some(b""), Some(&[0, 255]), None, Some(b"longer than a view holds")];
        Arc::new(values.into_iter().collect::<BinaryViewArray>()) as ArrayRef
    };
    let long = "x".repeat(10_000);
    let text = || texts(&[Some(""), Some("派蒙🙂"), None, Some(&long)]);
    let millis = || TimestampMillisecondArray::from(vec![Some(-1), None, Some(0), Some(1_719_403_200_123)]);
    let micros = || TimestampMicrosecondArray::from(vec![Some(-1), None, Some(0), Some(1_719_403_200_123_456)]);
    let nanos = || {
        TimestampNanosecondArray::from(vec![
            Some(-86_400_000_000_001),
            None,
            Some(i64::MAX),
            Some(1_719_403_200_123_456_789),
        ])
    };
    let mut found: Vec<(TypeKind, ArrayRef)> = vec![
        (TypeKind::Boolean, Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), None]))),
        (TypeKind::TinyInt, Arc::new(Int8Array::from(vec![Some(i8::MIN), None, Some(i8::MAX), Some(0)]))),
        (TypeKind::SmallInt, Arc::new(Int16Array::from(vec![Some(i16::MIN), None, Some(i16::MAX), Some(0)]))),
        (TypeKind::Int, Arc::new(Int32Array::from(vec![Some(i32::MIN), None, Some(i32::MAX), Some(0)]))),
        (TypeKind::BigInt, Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX), Some(0)]))),
        (TypeKind::Float, Arc::new(Float32Array::from(vec![Some(-0.0), None, Some(f32::MAX), Some(f32::INFINITY)]))),
        (TypeKind::Double, Arc::new(Float64Array::from(vec![Some(-0.0), None, Some(f64::MIN), Some(1e-300)]))),
        (TypeKind::Char(5), texts(&[Some("a"), None, Some("abcde"), Some("b c")])),
        (TypeKind::VarChar(20_000), text()),
        (TypeKind::Binary(40), bytes()),
        (TypeKind::VarBinary(u32::MAX >> 1), bytes()),
        (TypeKind::Date, Arc::new(Date32Array::from(vec![Some(-719_162), None, Some(0), Some(2_932_896)]))),
        (TypeKind::Time(3), Arc::new(Time32MillisecondArray::from(vec![Some(0), None, Some(86_399_999), Some(1)]))),
        (TypeKind::Timestamp(0), Arc::new(millis())),
        (TypeKind::Timestamp(3), Arc::new(millis())),
        (TypeKind::Timestamp(6), Arc::new(micros())),
        (TypeKind::Timestamp(9), Arc::new(nanos())),
        (TypeKind::TimestampLtz(3), Arc::new(millis().with_timezone("UTC"))),
        (TypeKind::TimestampLtz(6), Arc::new(micros().with_timezone("UTC"))),
        (TypeKind::TimestampLtz(7), Arc::new(nanos().with_timezone("UTC"))),
    ];
    for (precision, scale) in [(1, 0), (9, 2), (10, 10), (18, 3), (19, 0), (38, 38)] {
        found.push((TypeKind::Decimal(precision, scale), decimal(precision, scale)));
    }
    found
}

/// Four rows of nested types, with NULL and empty on every level.
pub(super) fn nested() -> Vec<(TypeKind, ArrayRef)> {
    let (int, text, nanos) = (nullable(TypeKind::Int), DataType::string(), nullable(TypeKind::Timestamp(9)));
    let four_nanos =
        || -> ArrayRef { Arc::new(TimestampNanosecondArray::from(vec![Some(-1), None, Some(7), Some(i64::MIN)])) };
    let four_ints = || -> ArrayRef { Arc::new(Int32Array::from(vec![Some(1), None, Some(3), Some(4)])) };
    let lists =
        |element: &DataType, values: ArrayRef| list(element, &values, &[2, 0, 0, 2], &[true, false, true, true]);
    let array = |element: &DataType| TypeKind::Array(Box::new(element.clone()));
    let map_of = |key: &DataType, value: &DataType| TypeKind::Map(Box::new(key.clone()), Box::new(value.clone()));
    let keys = || texts(&[Some("a"), Some("b"), Some("a"), Some("")]);
    let pair = TypeKind::Row(vec![
        DataField::new(90, "a", int.clone()),
        DataField::new(91, "t", nanos.clone()),
        DataField::new(92, "s", DataType::not_null(TypeKind::VarChar(9))),
    ]);
    let pairs = |valid: &[bool]| row(&nullable(pair.clone()), &[four_ints(), four_nanos(), keys()], valid);
    let inner = nullable(array(&nanos));
    let inner_lists = lists(&nanos, four_nanos());
    let variant = {
        let part =
            |bytes: &'static [u8]| -> ArrayRef { Arc::new((0..4).map(|_| Some(bytes)).collect::<BinaryViewArray>()) };
        row(&nullable(TypeKind::Variant), &[part(&[12, 5]), part(&[1, 0, 0])], &[true, false, true, true])
    };
    let multiset = TypeKind::Multiset(Box::new(text.clone()));
    let counts = Arc::new(Int32Array::from(vec![1, 2, 3, 4])) as ArrayRef;
    let string_map = nullable(map_of(&text, &nanos));
    let int_map = nullable(map_of(&int, &text));
    let int_keys = Arc::new(Int32Array::from(vec![1, 2, 3, 4])) as ArrayRef;
    vec![
        (array(&int), lists(&int, four_ints())),
        (array(&text), lists(&text, texts(&[Some("x"), None, Some(""), Some("longer than a view can hold")]))),
        (array(&nanos), lists(&nanos, four_nanos())),
        (array(&inner), list(&inner, &inner_lists, &[1, 0, 2, 1], &[true, false, true, true])),
        (string_map.kind.clone(), map(&string_map, keys(), four_nanos(), &[2, 0, 0, 2], &[true, false, true, true])),
        (
            int_map.kind.clone(),
            map(
                &int_map,
                int_keys,
                texts(&[Some("x"), None, Some(""), Some("y")]),
                &[1, 3, 0, 0],
                &[true, true, true, false],
            ),
        ),
        (multiset.clone(), map(&nullable(multiset), keys(), counts, &[2, 0, 0, 2], &[true, false, true, true])),
        (pair.clone(), pairs(&[true, false, true, true])),
        (
            array(&nullable(pair.clone())),
            list(
                &nullable(pair.clone()),
                &pairs(&[true, true, false, true]),
                &[2, 0, 0, 2],
                &[true, true, false, true],
            ),
        ),
        (TypeKind::Variant, variant),
    ]
}

fn table(columns: Vec<(TypeKind, ArrayRef)>) -> (Vec<DataField>, RecordBatch) {
    let fields: Vec<DataField> = columns
        .iter()
        .enumerate()
        .map(|(index, (kind, _))| DataField::new(index as i32, format!("c{index}"), nullable(kind.clone())))
        .collect();
    let batch = RecordBatch::try_new(arrow_schema(&fields), columns.into_iter().map(|(_, array)| array).collect());
    (fields, batch.unwrap())
}

async fn check(name: &str, fields: &[DataField], batches: &[RecordBatch], options: Arc<WriteOptions>) {
    let (store, size) = write(name, fields, batches, options).await;
    assert_eq!(store.head(&Path::from(name)).await.unwrap().size, size);
    let expected = concat_batches(&batches[0].schema(), batches).unwrap();
    let found = read(&store, name, size, fields).await;
    for (field, (expected, found)) in fields.iter().zip(expected.columns().iter().zip(found.columns())) {
        assert_eq!(expected, found, "{name}: {} {}", field.name, field.data_type);
    }
}

#[tokio::test]
async fn parquet_when_every_type_then_read_back_the_same() {
    for codec in ["zstd", "none", "snappy", "gzip", "brotli", "lz4", "lz4_raw"] {
        let (fields, batch) = table(scalars());
        check("x.parquet", &fields, &[batch.clone(), batch.slice(1, 2)], options(&[("file.compression", codec)])).await;
    }
    let (fields, batch) = table(nested());
    check("x.parquet", &fields, &[batch.slice(2, 2), batch.clone(), batch], options(&[])).await;
}

#[tokio::test]
async fn parquet_when_row_groups_are_small_then_read_back_the_same() {
    let (fields, batch) = table(nested());
    let options = options(&[
        ("file.block-size", "1 b"),
        ("parquet.writer.version", "v2"),
        ("parquet.enable.dictionary", "false"),
    ]);
    check("x.parquet", &fields, &vec![batch; 3], options).await;
}

#[tokio::test]
async fn parquet_when_rows_have_ids_then_the_ids_have_no_dictionary() {
    let fields: Vec<DataField> = ["_ROW_ID", "_SEQUENCE_NUMBER", "n"]
        .iter()
        .enumerate()
        .map(|(index, name)| DataField::new(index as i32, *name, DataType::nullable(TypeKind::BigInt)))
        .collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![Some(7), Some(8)])),
        Arc::new(Int64Array::from(vec![None, None])),
        Arc::new(Int64Array::from(vec![Some(1), Some(1)])),
    ];
    let batch = RecordBatch::try_new(arrow_schema(&fields), columns).unwrap();
    let (store, _) = write("x.parquet", &fields, &[batch], options(&[])).await;
    let bytes = store.get(&"x.parquet".into()).await.unwrap().bytes().await.unwrap();
    let group = ParquetMetaDataReader::new().parse_and_finish(&bytes).unwrap().row_group(0).clone();
    let dictionaries: Vec<bool> =
        group.columns().iter().map(|column| column.dictionary_page_offset().is_some()).collect();
    assert_eq!(dictionaries, [false, false, true]);
}

#[tokio::test]
async fn parquet_when_columns_are_not_null_then_required() {
    let fields: Vec<DataField> = scalars()
        .into_iter()
        .enumerate()
        .map(|(index, (kind, _))| DataField::new(index as i32, format!("c{index}"), DataType::not_null(kind)))
        .collect();
    // The first row has no NULL, but for the ones of CHAR and so on: take what is there.
    let columns: Vec<ArrayRef> = scalars().into_iter().map(|(_, array)| array.slice(0, 1)).collect();
    let batch = RecordBatch::try_new(arrow_schema(&fields), columns).unwrap();
    check("x.parquet", &fields, &[batch], options(&[])).await;
}

#[tokio::test]
async fn write_when_null_in_not_null_column_then_invalid_and_names_it() {
    let fields = [DataField::new(0, "k", DataType::not_null(TypeKind::Int))];
    let nullable = [DataField::new(0, "k", DataType::nullable(TypeKind::Int))];
    let batch = RecordBatch::try_new(arrow_schema(&nullable), vec![Arc::new(Int32Array::from(vec![None]))]).unwrap();
    let mut writer = file(&Arc::new(InMemory::new()), "x.parquet", &fields, options(&[]), &unbounded()).open().unwrap();
    let error = writer.write(&batch).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("column k") && error.to_string().contains("x.parquet"), "{error}");
}

#[tokio::test]
async fn write_when_memory_is_short_then_more_row_groups_or_exhausted() {
    let fields = [DataField::new(0, "s", DataType::string())];
    let rows: Vec<String> = (0..20_000).map(|i| format!("{i}-{}", i * 7919 % 10_007)).collect();
    let batch = RecordBatch::try_new(
        arrow_schema(&fields),
        vec![Arc::new(rows.iter().map(|text| Some(text.as_str())).collect::<StringViewArray>())],
    )
    .unwrap();
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(2 << 20));
    let store = Arc::new(InMemory::new());
    let mut writer =
        file(&store, "x.parquet", &fields, options(&[("parquet.enable.dictionary", "false")]), &pool).open().unwrap();
    for start in (0..batch.num_rows()).step_by(1000).cycle().take(100) {
        writer.write(&batch.slice(start, 1000)).await.unwrap();
    }
    let size = writer.finish().await.unwrap();
    assert_eq!(pool.reserved(), 0);
    assert_eq!(read(&store, "x.parquet", size, &fields).await.num_rows(), 100_000);

    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(100));
    let mut writer = file(&store, "y.parquet", &fields, options(&[]), &pool).open().unwrap();
    let error = writer.write(&batch).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
    writer.abort().await;
    assert!(store.head(&Path::from("y.parquet")).await.is_err());
}

#[test]
fn open_when_codec_is_unknown_then_refused() {
    let fields = [DataField::new(0, "s", DataType::string())];
    for (name, codec) in [("x.parquet", "lzo"), ("x.avro", "xz"), ("x.avro", "lz4"), ("x.orc", "brotli")] {
        let store = Arc::new(InMemory::new());
        let write = file(&store, name, &fields, options(&[("file.compression", codec)]), &unbounded());
        let error = write.open().err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{name} {codec}");
        assert!(error.to_string().contains(codec), "{error}");
    }
}

#[tokio::test]
async fn avro_when_every_type_then_read_back_the_same() {
    let columns = |all: Vec<(TypeKind, ArrayRef)>| -> Vec<(TypeKind, ArrayRef)> {
        let fits =
            |kind: &TypeKind| check_types(FileFormat::Avro, &[DataField::new(0, "c", nullable(kind.clone()))]).is_ok();
        all.into_iter().filter(|(kind, _)| fits(kind)).collect()
    };
    for codec in ["zstd", "none", "snappy", "deflate", "bzip2"] {
        let (fields, batch) = table(columns(scalars()));
        check("x.avro", &fields, &[batch.clone(), batch.slice(1, 2)], options(&[("file.compression", codec)])).await;
    }
    let micros = || nested().into_iter().map(|(kind, array)| in_micros(kind, &array)).collect();
    let (fields, batch) = table(columns(micros()));
    assert_eq!(fields.len(), 9);
    check("x.avro", &fields, &[batch.slice(2, 2), batch.clone(), batch], options(&[])).await;
}

/// The type and the array with timestamps of 6 digits for those of more.
fn in_micros(kind: TypeKind, array: &ArrayRef) -> (TypeKind, ArrayRef) {
    fn cut(data_type: &DataType) -> DataType {
        let boxed = |inner: &DataType| Box::new(cut(inner));
        let kind = match &data_type.kind {
            TypeKind::Timestamp(_) => TypeKind::Timestamp(6),
            TypeKind::Array(inner) => TypeKind::Array(boxed(inner)),
            TypeKind::Map(key, value) => TypeKind::Map(boxed(key), boxed(value)),
            TypeKind::Row(fields) => TypeKind::Row(
                fields.iter().map(|field| DataField { data_type: cut(&field.data_type), ..field.clone() }).collect(),
            ),
            other => other.clone(),
        };
        DataType { kind, nullable: data_type.nullable }
    }
    let data_type = cut(&nullable(kind));
    let array = cast(array, &data_type.to_arrow()).unwrap();
    (data_type.kind, array)
}

#[tokio::test]
async fn orc_when_every_type_it_has_then_read_back_the_same() {
    // ORC holds instants of the second before 1970 a second late, and cuts CHAR: neither is among these.
    let fits =
        |kind: &TypeKind| check_types(FileFormat::Orc, &[DataField::new(0, "c", nullable(kind.clone()))]).is_ok();
    let late = |kind: &TypeKind| matches!(kind, TypeKind::Timestamp(_) | TypeKind::TimestampLtz(_));
    let columns = |from: usize| -> Vec<(TypeKind, ArrayRef)> {
        let all = scalars().into_iter().filter(|(kind, _)| fits(kind));
        all.map(|(kind, array)| if late(&kind) { (kind, array.slice(2, 2)) } else { (kind, array.slice(from, 2)) })
            .collect()
    };
    for codec in ["zstd", "none", "snappy", "lz4", "zlib"] {
        let (fields, batch) = table(columns(0));
        let (_, other) = table(columns(2));
        let batches = [other.clone(), batch.clone(), batch.slice(1, 1), other];
        check("x.orc", &fields, &batches, options(&[("file.compression", codec)])).await;
        let small = options(&[
            ("file.compression", codec),
            ("file.block-size", "1 b"),
            ("orc.timestamp-ltz.legacy.type", "false"),
        ]);
        check("x.orc", &fields, &batches, small).await;
    }
}

#[tokio::test]
async fn orc_when_integers_are_of_any_shape_then_read_back_the_same() {
    let fields =
        [DataField::new(0, "n", nullable(TypeKind::BigInt)), DataField::new(1, "d", nullable(TypeKind::Double))];
    let mut state = 1_u64;
    let mut word = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state
    };
    let mut numbers: Vec<Option<i64>> = vec![Some(i64::MIN), Some(i64::MAX), Some(i64::MIN), Some(0), Some(-1)];
    for bits in [1, 7, 20, 33, 63] {
        numbers.extend((0..700).map(|_| Some((word() >> (64 - bits)) as i64)));
        numbers.extend((0..700).map(|i| Some(i * (1 << (bits % 40)))));
        numbers.extend((0..20).map(|_| Some(bits)));
        numbers.extend((0..700).map(|_| (word() % 3 != 0).then(|| word() as i64 >> bits)));
        numbers.extend((0..300).map(|i| Some(if i % 50 == 7 { i64::MAX - i } else { i })));
    }
    let doubles: Vec<Option<f64>> =
        numbers.iter().map(|number| number.map(|number| f64::from_bits(number as u64 >> 2))).collect();
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(numbers)), Arc::new(Float64Array::from(doubles))];
    let batch = RecordBatch::try_new(arrow_schema(&fields), columns).unwrap();
    check("x.orc", &fields, &[batch], options(&[])).await;
}

#[tokio::test]
async fn orc_when_within_the_second_before_1970_then_refused() {
    let fields = [DataField::new(0, "t", nullable(TypeKind::Timestamp(6)))];
    let batch = |tick: i64| {
        let columns: Vec<ArrayRef> = vec![Arc::new(TimestampMicrosecondArray::from(vec![Some(7), None, Some(tick)]))];
        RecordBatch::try_new(arrow_schema(&fields), columns).unwrap()
    };
    for tick in [-1, -999_000] {
        let store = Arc::new(InMemory::new());
        let mut writer = file(&store, "x.orc", &fields, options(&[]), &unbounded()).open().unwrap();
        let error = writer.write(&batch(tick)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("column t"), "{error}");
    }
    for tick in [0, -1_000_000, -999_001, -1_500_000] {
        check("x.orc", &fields, &[batch(tick)], options(&[])).await;
    }
}

#[tokio::test]
async fn write_when_columns_repeat_earlier_ones_then_they_read_as_if_written_twice() {
    // More rows than a row group has; texts of few values get a dictionary.
    let rows = 1_100_000_i64;
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row * 7)));
    let names: ArrayRef =
        Arc::new((0..rows).map(|row| Some(format!("city {}", row % 50))).collect::<StringViewArray>());
    let floats: ArrayRef =
        Arc::new(Float64Array::from_iter_values((0..rows).map(|row| if row == 9 { f64::NAN } else { row as f64 })));
    let field = |id, name: &str, kind| DataField::new(id, name, DataType::not_null(kind));
    let fields = [
        field(10, "_KEY_n", TypeKind::BigInt),
        field(11, "_KEY_s", TypeKind::VarChar(20)),
        field(12, "_KEY_f", TypeKind::Double),
        field(1, "f", TypeKind::Double),
        field(2, "n", TypeKind::BigInt),
        field(3, "s", TypeKind::VarChar(20)),
    ];
    let columns = [&numbers, &names, &floats, &floats, &numbers, &names].map(Arc::clone);
    let batch = RecordBatch::try_new(arrow_schema(&fields), columns.into()).unwrap();
    for settings in [&[][..], &[("parquet.enable.dictionary#s", "false")], &[("parquet.bloom.filter.enabled", "true")]]
    {
        let store = Arc::new(InMemory::new());
        let mut sizes = Vec::new();
        for repeated in [vec![], vec![(3, 2), (4, 0), (5, 1)]] {
            let write = file(&store, "t.parquet", &fields, options(settings), &unbounded());
            let mut writer = FileWrite { repeated, ..write }.open().unwrap();
            for start in (0..rows as usize).step_by(100_000) {
                writer.write(&batch.slice(start, 100_000)).await.unwrap();
            }
            let size = writer.finish().await.unwrap();
            assert!(read(&store, "t.parquet", size, &fields).await.columns() == batch.columns());
            let bytes = store.get(&Path::from("t.parquet")).await.unwrap().bytes().await.unwrap();
            let reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Required);
            let metadata = reader.parse_and_finish(&bytes).unwrap();
            sizes.push((size, said_of(&metadata)));
        }
        assert_eq!(sizes[0], sizes[1], "{settings:?}");
    }
}

/// What a file says of its chunks.
fn said_of(metadata: &ParquetMetaData) -> Vec<String> {
    let chunks = metadata.row_groups().iter().flat_map(|group| group.columns());
    let indexes = metadata.offset_index().unwrap().iter().flatten();
    chunks.map(|chunk| format!("{chunk:?}")).chain(indexes.map(|index| format!("{index:?}"))).collect()
}
