//! Files as engines wrote them: the bytes stand here in hex.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::util::display::array_value_to_string;
use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::{FileRead, variant_to_json};
use crate::error::{ErrorKind, Result};
use crate::spec::{DataField, DataType, TypeKind};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().map(|digit| (digit as char).to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

async fn read(
    name: &str,
    file: &[u8],
    fields: Vec<DataField>,
    rows: Option<Vec<Range<u64>>>,
) -> Result<Vec<RecordBatch>> {
    let store = Arc::new(InMemory::new());
    let path = Path::from(name);
    store.put(&path, file.to_vec().into()).await?;
    let mut read = FileRead::new(store as Arc<dyn ObjectStore>, path, file.len() as u64, fields)?;
    read.selection = rows;
    read.open().await?.try_collect().await
}

fn shown(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    batches
        .iter()
        .flat_map(|batch| {
            (0..batch.num_rows())
                .map(|row| batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap()).collect())
        })
        .collect()
}

fn field(id: i32, name: &str, kind: TypeKind) -> DataField {
    DataField::new(id, name, DataType::nullable(kind))
}

/// `evolution_casts/cast_ts3_orc`: `id INT` and columns of TIMESTAMP(3), rows 2 and 3. ORC holds 1969-12-31T23:59:59.999 a second
/// late; row 3 is NULL.
const ORC: &str = "\
        4f52431100000a061204080250002b00000a130a03000000120c0802120608041006180a50003d00000a1c0a0a000000000000000000\
        00120e08014a0818ce0f20ce0f300150013d00000a1c0a0a00000000000000000000120e08014a0818ce0f20ce0f300150013d00000a\
        1c0a0a00000000000000000000120e08014a0818ce0f20ce0f300150013d00000a1c0a0a00000000000000000000120e08014a0818ce\
        0f20ce0f300150013d00000a1c0a0a00000000000000000000120e08014a0818ce0f20ce0f300150013d00000a1c0a0a000000000000\
        00000000120e08014a0818ce0f20ce0f300150013d00000a1c0a0a00000000000000000000120e08014a0818ce0f20ce0f300150013d\
        00000a1c0a0a00000000000000000000120e08014a0818ce0f20ce0f300150013d00000a1c0a0a00000000000000000000120e08014a\
        0818ce0f20ce0f300150013d00000a1c0a0a00000000000000000000120e08014a0818ce0f20ce0f30015001070000460146050000ff\
        800d00007600a9491bff0900005e001f3d050000ff800d00007600a9491bff0900005e001f3d050000ff800d00007600a9491bff0900\
        005e001f3d050000ff800d00007600a9491bff0900005e001f3d050000ff800d00007600a9491bff0900005e001f3d050000ff800d00\
        007600a9491bff0900005e001f3d050000ff800d00007600a9491bff0900005e001f3d050000ff800d00007600a9491bff0900005e00\
        1f3d050000ff800d00007600a9491bff0900005e001f3d050000ff800d00007600a9491bff0900005e001f3d24010028b52ffd609100\
        45040072461316a0276d8f7e339c052ebca341cd4194246dda4424210102422160380cac2013314c84e539e7ffddd936b3b655658c29\
        a5581296fb4b42e2be9270b86f1224e7676b990248ca2458f72707d67d2720e0850e5fdc3127ee1c73e2ce314edc39e6c49d634eb873\
        cc893bc79cb8738c13778e21275af17b9965912fb32cf9324b41db30412e0178000028b52ffd20cd9d0100b4020aca010a0408025000\
        0a0e0802120608041006180a500058060a1008014a0818ce0f20ce0f3001500158150100fb1435cbdc010028b52ffd603b0125070012\
        4c2e2f80b939f3d8303130035c92008de63d125188952d2d7cd10c14868518c4682b3f8db8c4c515dc35c4462499ec2d33910feaa22a\
        47c219a3c01091309031c613ba38a08be40bec117d19833dd28b1a7fb1bd4119acbda13d67d510852e305d0807964101e451418fd3e4\
        b855cade4a8d38c0a7419dc7e96da554c9db4ab1f5e12dda7d28e7a4525fbbef72f291cd82407c83767f212f6b5a5ebbffe4565b321e\
        e88be734ae991101dc4e4dc0120e9e90ba22721e201d8ac8791100fdd4a40ae016240c2402920309038980e440c24022bcd9ce661b6d\
        25035cc14210e41bcb0a1408f1011005188080102202000c283f300982f403034f524318";

#[tokio::test]
async fn orc_when_written_by_java_then_its_values_and_selected_rows() {
    let file = bytes(ORC);
    let fields = || vec![field(1, "to_ts0", TypeKind::Timestamp(3)), field(0, "id", TypeKind::Int)];
    let all = read("x.orc", &file, fields(), None).await.unwrap();
    assert_eq!(shown(&all), [["1970-01-01T00:00:00.999", "2"], ["", "3"]]);
    let second = read("x.orc", &file, fields(), Some(vec![1..2])).await.unwrap();
    assert_eq!(shown(&second), [["", "3"]]);
    // A column the file lacks is NULL; a read without columns counts rows.
    let more = read("x.orc", &file, vec![field(9, "nowhere", TypeKind::Date)], None).await.unwrap();
    assert_eq!(shown(&more), [[""], [""]]);
    assert_eq!(read("x.orc", &file, vec![], None).await.unwrap()[0].num_rows(), 2);
    let error = read("x.orc", &file, fields(), Some(vec![1..3])).await.unwrap_err().to_string();
    assert!(error.contains("2 rows") && error.contains("file x.orc"), "{error}");
    let error = read("x.orc", &file, vec![field(0, "id", TypeKind::Boolean)], None).await.unwrap_err().to_string();
    assert!(error.contains("column id") && error.contains("BOOLEAN"), "{error}");
}

/// `types/multiset_append_avro`.
const AVRO_MULTISET: &str = "\
        4f626a0104166176726f2e736368656d61c4037b2274797065223a227265636f7264222c226e616d65223a227265636f7264222c226e\
        616d657370616365223a226f72672e6170616368652e7061696d6f6e2e6176726f2e67656e657261746564222c226669656c6473223a\
        5b7b226e616d65223a226964222c2274797065223a5b226e756c6c222c22696e74225d2c2264656661756c74223a6e756c6c7d2c7b22\
        6e616d65223a226d73222c2274797065223a5b226e756c6c222c7b2274797065223a226d6170222c2276616c756573223a5b226e756c\
        6c222c22696e74225d7d5d2c2264656661756c74223a6e756c6c7d5d7d146176726f2e636f646563127a7374616e6461726400910a21\
        bee4bdc946a37edf728b73a3a1043e28b52ffd0048b1000002020204026102040262020200020402020263020200910a21bee4bdc946\
        a37edf728b73a3a1";

/// `spark09/types_avro`: the row is a union of null and record.
const AVRO_UNION: &str = "\
        4f626a0104166176726f2e736368656d619c165b226e756c6c222c7b2274797065223a227265636f7264222c226e616d65223a227265\
        636f7264222c226e616d657370616365223a226f72672e6170616368652e7061696d6f6e2e6176726f2e67656e657261746564222c22\
        6669656c6473223a5b7b226e616d65223a2262222c2274797065223a5b226e756c6c222c22626f6f6c65616e225d2c2264656661756c\
        74223a6e756c6c7d2c7b226e616d65223a2274222c2274797065223a5b226e756c6c222c22696e74225d2c2264656661756c74223a6e\
        756c6c7d2c7b226e616d65223a2273222c2274797065223a5b226e756c6c222c22696e74225d2c2264656661756c74223a6e756c6c7d\
        2c7b226e616d65223a2269222c2274797065223a5b226e756c6c222c22696e74225d2c2264656661756c74223a6e756c6c7d2c7b226e\
        616d65223a226c222c2274797065223a5b226e756c6c222c226c6f6e67225d2c2264656661756c74223a6e756c6c7d2c7b226e616d65\
        223a2266222c2274797065223a5b226e756c6c222c22666c6f6174225d2c2264656661756c74223a6e756c6c7d2c7b226e616d65223a\
        2264222c2274797065223a5b226e756c6c222c22646f75626c65225d2c2264656661756c74223a6e756c6c7d2c7b226e616d65223a22\
        6465222c2274797065223a5b226e756c6c222c7b2274797065223a226279746573222c226c6f676963616c54797065223a2264656369\
        6d616c222c22707265636973696f6e223a32302c227363616c65223a347d5d2c2264656661756c74223a6e756c6c7d2c7b226e616d65\
        223a2263222c2274797065223a5b226e756c6c222c22737472696e67225d2c2264656661756c74223a6e756c6c7d2c7b226e616d6522\
        3a227663222c2274797065223a5b226e756c6c222c22737472696e67225d2c2264656661756c74223a6e756c6c7d2c7b226e616d6522\
        3a227374222c2274797065223a5b226e756c6c222c22737472696e67225d2c2264656661756c74223a6e756c6c7d2c7b226e616d6522\
        3a226269222c2274797065223a5b226e756c6c222c226279746573225d2c2264656661756c74223a6e756c6c7d2c7b226e616d65223a\
        226461222c2274797065223a5b226e756c6c222c7b2274797065223a22696e74222c226c6f676963616c54797065223a226461746522\
        7d5d2c2264656661756c74223a6e756c6c7d2c7b226e616d65223a227473222c2274797065223a5b226e756c6c222c7b227479706522\
        3a226c6f6e67222c226c6f676963616c54797065223a226c6f63616c2d74696d657374616d702d6d6963726f73227d5d2c2264656661\
        756c74223a6e756c6c7d2c7b226e616d65223a22746e222c2274797065223a5b226e756c6c222c7b2274797065223a226c6f6e67222c\
        226c6f676963616c54797065223a2274696d657374616d702d6d6963726f73227d5d2c2264656661756c74223a6e756c6c7d2c7b226e\
        616d65223a226172222c2274797065223a5b226e756c6c222c7b2274797065223a226172726179222c226974656d73223a5b226e756c\
        6c222c22696e74225d7d5d2c2264656661756c74223a6e756c6c7d2c7b226e616d65223a226d222c2274797065223a5b226e756c6c22\
        2c7b2274797065223a226d6170222c2276616c756573223a5b226e756c6c222c22696e74225d7d5d2c2264656661756c74223a6e756c\
        6c7d2c7b226e616d65223a2272222c2274797065223a5b226e756c6c222c7b2274797065223a227265636f7264222c226e616d65223a\
        227265636f72645f72222c226669656c6473223a5b7b226e616d65223a2278222c2274797065223a5b226e756c6c222c22696e74225d\
        2c2264656661756c74223a6e756c6c7d2c7b226e616d65223a2279222c2274797065223a5b226e756c6c222c22737472696e67225d2c\
        2264656661756c74223a6e756c6c7d5d7d5d2c2264656661756c74223a6e756c6c7d5d7d5d146176726f2e636f646563127a7374616e\
        64617264009a755e54deb10622d8003cb60b8b7a3704c60128b52ffd0048d5020042051320a035e96b0a51e03c9ea2046d5873c9af90\
        a616a6337d7ec0ffad83bdc9be6465edef3efbdbc79f63583d12a1100da607401f8a37a7b4fc358e598ad74a588eb040f303bb2168cf\
        d5f8131f040060a009791d18d482309a755e54deb10622d8003cb60b8b7a37";

#[tokio::test]
async fn avro_when_row_is_a_union_then_its_columns() {
    let fields = vec![
        field(13, "ts", TypeKind::TimestampLtz(6)),
        field(1, "t", TypeKind::TinyInt),
        field(7, "de", TypeKind::Decimal(20, 4)),
    ];
    let batches = read("x.avro", &bytes(AVRO_UNION), fields, None).await.unwrap();
    assert_eq!(shown(&batches), [["2024-02-29T01:02:03.456789Z", "1", "1234.5678"], ["", "", ""]]);
}

#[tokio::test]
async fn avro_when_multiset_then_a_map_to_counts() {
    let multiset = TypeKind::Multiset(Box::new(DataType::string()));
    let batches = read("x.avro", &bytes(AVRO_MULTISET), vec![field(1, "ms", multiset)], None).await.unwrap();
    assert_eq!(shown(&batches)[0].len(), 1);
    let maps = batches[0].column(0).as_map();
    assert_eq!((maps.value_length(0), maps.len()), (2, 2));
}

/// `java14/variant_shredded`: `k INT`, `v VARIANT`, shredded by inference.
const SHREDDED: &str = "\
        5041523115001534154c1583d2c4c30b1c150a150015061508000028b52ffd0048d0000002000000031f010000000200000003000000\
        040000000500000001000015041558157015b3ad9bf1093c15061504000028b52ffd00486001000c0000000102000307616765636974\
        791100000001030003070b616765636974796d6f72650300000001000001000015001514152c15dcd9fdbe0f1c150a15041506150800\
        0028b52ffd004850000002000000030f02039000010000150015960115980115a88291d1051c150a150015061508000028b52ffd0048\
        04020022040e15704f3a8cbd7d14d74255afac086ec4544bfe963b052bff5ef6c31faa11c302ee8dfd0fa86a0c5332285ad43893b420\
        490afd6e7f66e0df010060319d0100001911021918040100000019180405000000150219160000191102191803010000191811010300\
        03070b616765636974796d6f726515021916020019110219180e020200010002070c2411526f6d651918020c05150219160200191c16\
        08157a16000000191c169802155a16000019165800191c16f20215ca0116000019166a001502195c480d7061696d6f6e5f736368656d\
        611504001502250218016b55000035021801761504450200150c250018086d65746164617461550000150c2500180576616c75655502\
        00160a191c193c26001c150219350608001918016b150c160a1662167a26083c18040500000018040100000016002804050000001804\
        0100000000191c150015001502003c000016ee05151416bc04152e0026001c150c193506040819280176086d65746164617461150c16\
        0a16c00116f0012698022682011c3602281101030003070b616765636974796d6f7265180301000000192c1504150415020015001504\
        1502003c16580000168206151c16ea0415460026001c150c1935060800192801760576616c7565150c160a16c80116ca0126f2023c36\
        0228020c05180e020200010002070c2411526f6d6500191c150015001502003c166a0000169e06151e16b005153e0016ea03160a2608\
        16b404140000284a706172717565742d6d722076657273696f6e20312e31362e3020286275696c642034303263333831306333373264\
        32393630336531383137373161636562666563633731626566363129193c1c00001c00001c000000b401000050415231";

#[tokio::test]
async fn parquet_when_variant_is_shredded_then_put_together() {
    let fields = vec![field(1, "v", TypeKind::Variant)];
    let batches = read("x.parquet", &bytes(SHREDDED), fields, None).await.unwrap();
    let variants = batches[0].column(0).as_struct();
    let json: Vec<Option<String>> = (0..variants.len())
        .map(|row| {
            let part = |at: usize| variants.column(at).as_binary::<i32>().value(row);
            variants.is_valid(row).then(|| variant_to_json(part(1), part(0)).unwrap())
        })
        .collect();
    let expected = [
        Some(r#"{"age":35,"city":"Chicago"}"#),
        Some(r#"{"age":36,"city":"Rome"}"#),
        Some(r#"{"age":"old","city":null,"more":[1]}"#),
        Some("5"),
        None,
    ];
    assert_eq!(json, expected.map(|text| text.map(str::to_owned)));
}

#[tokio::test]
async fn open_when_file_is_cut_or_missing_then_error_names_it() {
    for (name, hex, column) in [
        ("x.orc", ORC, field(0, "id", TypeKind::Int)),
        ("x.avro", AVRO_MULTISET, field(0, "id", TypeKind::Int)),
        ("x.parquet", SHREDDED, field(0, "k", TypeKind::Int)),
    ] {
        let whole = bytes(hex);
        for length in [0, 1, 4, 17, whole.len() / 2, whole.len() - 1] {
            let error = read(name, &whole[..length], vec![column.clone()], None).await.unwrap_err();
            assert!(error.to_string().contains(&format!("file {name}")), "{length}: {error}");
        }
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let missing = FileRead::new(store, Path::from(name), whole.len() as u64, vec![column]).unwrap();
        let error = missing.open().await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
}
