//! Procedures of tags.

use arrow::array::RecordBatch;
use async_trait::async_trait;
use chrono::{DateTime, NaiveDateTime, Utc};

use super::{Argument, Kind, Procedure, TABLE, Values, success, text_column};
use crate::error::Result;
use crate::maintain::automatic_tags;
use crate::maintain::tags::{self, Retention, TagTarget};
use crate::sql::zone;

const TAG: Argument = Argument::required("tag", Kind::Text).also(&["tag_name"]);
const SNAPSHOT: Argument = Argument::optional("snapshot_id", Kind::Number).also(&["snapshot"]);
const RETAINED: Argument = Argument::optional("time_retained", Kind::Duration);

fn retention(values: &Values<'_>) -> Result<Retention> {
    Ok(Retention { created: values.wall_clock(Utc::now())?, retained: values.optional_duration("time_retained") })
}

fn snapshot(values: &Values<'_>) -> Result<TagTarget> {
    Ok(values.optional_number("snapshot_id")?.map_or(TagTarget::Latest, TagTarget::Snapshot))
}

/// `create_tag`
pub(super) struct CreateTag;

#[async_trait]
impl Procedure for CreateTag {
    fn name(&self) -> &'static str {
        "create_tag"
    }

    fn arguments(&self) -> &'static [Argument] {
        const { &[TABLE, TAG, SNAPSHOT, RETAINED] }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let table = values.table().await?;
        tags::create_tag(&table, values.text("tag")?, snapshot(values)?, retention(values)?).await?;
        success()
    }
}

/// `create_tag_from_timestamp`
pub(super) struct CreateTagFromTimestamp;

#[async_trait]
impl Procedure for CreateTagFromTimestamp {
    fn name(&self) -> &'static str {
        "create_tag_from_timestamp"
    }

    fn arguments(&self) -> &'static [Argument] {
        const { &[TABLE, TAG, Argument::required("timestamp", Kind::Time), RETAINED] }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let table = values.table().await?;
        let target = TagTarget::SinceTime(values.time("timestamp")?);
        let made = tags::create_tag(&table, values.text("tag")?, target, retention(values)?).await?;
        told(values.text("tag")?, &made)
    }
}

/// `create_tag_from_watermark`
pub(super) struct CreateTagFromWatermark;

#[async_trait]
impl Procedure for CreateTagFromWatermark {
    fn name(&self) -> &'static str {
        "create_tag_from_watermark"
    }

    fn arguments(&self) -> &'static [Argument] {
        const { &[TABLE, TAG, Argument::required("watermark", Kind::Number), RETAINED] }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let table = values.table().await?;
        let target = TagTarget::SinceWatermark(values.number("watermark")?);
        let made = tags::create_tag(&table, values.text("tag")?, target, retention(values)?).await?;
        told(values.text("tag")?, &made)
    }
}

/// Which snapshot was found for a tag.
fn told(tag: &str, snapshot: &crate::spec::Snapshot) -> Result<RecordBatch> {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use arrow::datatypes::{DataType, Field, Schema};
    let fields = vec![
        Field::new("tag_name", DataType::Utf8, false),
        Field::new("snapshot", DataType::Int64, false),
        Field::new("commit_time", DataType::Int64, false),
        Field::new("watermark", DataType::Int64, true),
    ];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(vec![tag])),
        Arc::new(Int64Array::from(vec![snapshot.id])),
        Arc::new(Int64Array::from(vec![snapshot.time_millis])),
        Arc::new(Int64Array::from(vec![snapshot.watermark()])),
    ];
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

/// `delete_tag`: one tag, or several with commas between.
pub(super) struct DeleteTag;

#[async_trait]
impl Procedure for DeleteTag {
    fn name(&self) -> &'static str {
        "delete_tag"
    }

    fn arguments(&self) -> &'static [Argument] {
        const { &[TABLE, TAG] }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let table = values.table().await?;
        for tag in values.text("tag")?.split(',') {
            tags::delete_tag(&table, tag.trim()).await?;
        }
        success()
    }
}

/// `rename_tag`
pub(super) struct RenameTag;

#[async_trait]
impl Procedure for RenameTag {
    fn name(&self) -> &'static str {
        "rename_tag"
    }

    fn arguments(&self) -> &'static [Argument] {
        const TARGET: Argument = Argument::required("target_tag", Kind::Text).also(&["target_tag_name"]);
        const { &[TABLE, TAG, TARGET] }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let table = values.table().await?;
        tags::rename_tag(&table, values.text("tag")?, values.text("target_tag")?).await?;
        success()
    }
}

/// `replace_tag`
pub(super) struct ReplaceTag;

#[async_trait]
impl Procedure for ReplaceTag {
    fn name(&self) -> &'static str {
        "replace_tag"
    }

    fn arguments(&self) -> &'static [Argument] {
        const { &[TABLE, TAG, SNAPSHOT, RETAINED] }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let table = values.table().await?;
        tags::replace_tag(&table, values.text("tag")?, snapshot(values)?, retention(values)?).await?;
        success()
    }
}

/// `expire_tags`
pub(super) struct ExpireTags;

#[async_trait]
impl Procedure for ExpireTags {
    fn name(&self) -> &'static str {
        "expire_tags"
    }

    fn arguments(&self) -> &'static [Argument] {
        const { &[TABLE, Argument::optional("older_than", Kind::Time)] }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let table = values.table().await?;
        let now = values.wall_clock(Utc::now())?;
        let older_than = values.optional_wall_clock("older_than")?;
        let zone = values.session().zone();
        let local = move |instant: DateTime<Utc>| -> NaiveDateTime {
            zone::local_time(instant, &zone).unwrap_or_else(|_| instant.naive_utc())
        };
        text_column("expired_tags", tags::expire_tags(&table, now, older_than, &local).await?)
    }
}

/// `trigger_tag_automatic_creation`
pub(super) struct TriggerTagAutomaticCreation;

#[async_trait]
impl Procedure for TriggerTagAutomaticCreation {
    fn name(&self) -> &'static str {
        "trigger_tag_automatic_creation"
    }

    fn arguments(&self) -> &'static [Argument] {
        const { &[TABLE] }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let table = values.table().await?;
        let session = values.session().zone();
        let clock = |zone: Option<&str>, instant| zone::local_time(instant, zone.unwrap_or(&session));
        automatic_tags::create_due_tags(&table, Utc::now(), &clock).await?;
        success()
    }
}
