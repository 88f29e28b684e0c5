//! Partitions that expire, and those that are marked as done.

use chrono::NaiveDate;

use super::*;
use crate::maintain::expire_partitions::{PartitionExpiry, expire_partitions};
use crate::maintain::mark_done::mark_partitions_done;
use crate::maintain::tags::{Retention, TagTarget, create_tag};

/// The row of a partition of one short text.
fn row(text: &str) -> Vec<u8> {
    let mut row = vec![0, 0, 0, 1];
    row.extend([0; 8]);
    let mut slot = [0u8; 8];
    if text.len() <= 7 {
        slot[..text.len()].copy_from_slice(text.as_bytes());
        slot[7] = 0x80 | text.len() as u8;
        row.extend(slot);
    } else {
        row.extend((text.len() as u32).to_le_bytes());
        row.extend(16u32.to_le_bytes());
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(text.len().div_ceil(8) * 8, 0);
        row.extend(bytes);
    }
    row
}

async fn partitioned(options: &[(&str, &str)], partitions: &[&str]) -> Arc<Table> {
    let table = open(&create(options, &["dt"]).await).await;
    let commit = TableCommit::new(Arc::clone(&table), "me").unwrap();
    for (number, partition) in partitions.iter().enumerate() {
        let file = DataFileMeta {
            creation_time: Some(number as i64 * 86_400_000),
            ..meta(&format!("f{number}"), FileSource::Append)
        };
        let message = CommitMessage { partition: row(partition), new_files: vec![file], ..CommitMessage::default() };
        Box::pin(commit.commit(Committable::batch(vec![message]))).await.unwrap();
    }
    table
}

async fn expired(options: &[(&str, &str)], partitions: &[&str], day: (i32, u32, u32)) -> Vec<String> {
    let table = partitioned(options, partitions).await;
    let expiry = PartitionExpiry::of(table.settings()).unwrap().unwrap();
    let now = NaiveDate::from_ymd_opt(day.0, day.1, day.2).unwrap().and_hms_opt(0, 0, 0).unwrap();
    expire_partitions(&table, &expiry, now).await.unwrap()
}

#[tokio::test]
async fn expire_when_values_tell_times_then_the_old_ones_go_oldest_first() {
    let days = ["2024-01-03", "2024-01-01", "2024-01-02", "2024-01-04", "x"];
    let time = ("partition.expiration-time", "2 d");
    assert_eq!(expired(&[time], &days, (2024, 1, 5)).await, ["dt=2024-01-01", "dt=2024-01-02"]);
    let most = ("partition.expiration-max-num", "1");
    assert_eq!(expired(&[time, most], &days, (2024, 1, 5)).await, ["dt=2024-01-01"]);
    let format = ("partition.timestamp-formatter", "yyyyMMdd");
    assert_eq!(expired(&[time, format], &["20240101", "20240109"], (2024, 1, 5)).await, ["dt=20240101"]);
}

#[tokio::test]
async fn expire_when_the_youngest_file_counts_then_by_its_time() {
    let options = [("partition.expiration-time", "1 d"), ("partition.expiration-strategy", "update-time")];
    // Files are made on the first, second and third of January 1970.
    assert_eq!(expired(&options, &["a", "b", "c"], (1970, 1, 4)).await, ["dt=a", "dt=b"]);
    assert_eq!(expired(&options, &["a", "b", "a"], (1970, 1, 4)).await, ["dt=b"]);
}

#[tokio::test]
async fn expire_when_partitions_go_then_their_rows_are_gone_and_the_others_stay() {
    let table = partitioned(
        &[("partition.expiration-time", "1 d"), ("partition.expiration-batch-size", "1")],
        &["2024-01-01", "2024-01-02", "2024-01-09"],
    )
    .await;
    let expiry = PartitionExpiry::of(table.settings()).unwrap().unwrap();
    let now = NaiveDate::from_ymd_opt(2024, 1, 9).unwrap().and_hms_opt(0, 0, 0).unwrap();
    assert_eq!(expire_partitions(&table, &expiry, now).await.unwrap().len(), 2);
    assert_eq!(ids(&table).await, [1, 2, 3, 4, 5]);
    let left: Vec<String> = live(&table).await.unwrap().into_iter().map(|file| file.file_name).collect();
    assert_eq!(left, ["f2"]);
}

#[tokio::test]
async fn mark_done_when_marked_again_then_the_first_time_stays() {
    let table = partitioned(&[], &["x"]).await;
    mark_partitions_done(&table, &[row("x")], 5).await.unwrap();
    mark_partitions_done(&table, &[row("x")], 7).await.unwrap();
    let path = table.files().root().child("dt=x").unwrap().prefix().clone().join("_SUCCESS");
    let text = table.files().read(&path).await.unwrap();
    let document: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(document, serde_json::json!({"creationTime": 5, "modificationTime": 7}));
    let other = partitioned(&[("partition.mark-done-action", "success-file,mark-event")], &["x"]).await;
    assert!(mark_partitions_done(&other, &[row("x")], 5).await.is_err());
}

#[tokio::test]
async fn create_tag_when_it_is_to_be_told_then_a_file_says_so() {
    let retention = Retention { created: chrono::NaiveDateTime::default(), retained: None };
    for (options, told) in [(&[("tag.create-success-file", "true")][..], true), (&[], false)] {
        let table = partitioned(options, &["x"]).await;
        create_tag(&table, "kept", TagTarget::Latest, retention).await.unwrap();
        let path = table.files().tag_dir().join("tag-success-file").join("kept_SUCCESS");
        match table.files().read(&path).await {
            Ok(text) => {
                assert!(told);
                let document: serde_json::Value = serde_json::from_slice(&text).unwrap();
                assert!(document["creationTime"].as_i64().unwrap() > 0, "{document}");
            }
            Err(error) => assert!(!told, "{error}"),
        }
    }
}
