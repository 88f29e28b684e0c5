//! Procedures that go back to an earlier state.

use arrow::array::RecordBatch;
use async_trait::async_trait;

use super::{Argument, Kind, Procedure, TABLE, Values, numbers};
use crate::error::{Error, Result};
use crate::maintain::rollback::{self, RollbackTarget};

const TAG: Argument = Argument::optional("tag", Kind::Text).also(&["tag_name"]);
const SNAPSHOT: Argument = Argument::optional("snapshot_id", Kind::Number).also(&["snapshot"]);

fn told(done: &rollback::Rollback) -> Result<RecordBatch> {
    numbers(&[("previous_snapshot_id", done.previous), ("current_snapshot_id", done.current)])
}

/// The one state that the arguments `tag`, `snapshot_id` and `version` name.
fn target(values: &Values<'_>) -> Result<RollbackTarget> {
    let tag = values.optional_text("tag").filter(|tag| !tag.is_empty());
    let version = values.optional_text("version").filter(|version| !version.is_empty());
    match (tag, values.optional_number("snapshot_id")?, version) {
        (Some(tag), None, None) => Ok(RollbackTarget::Tag(tag.to_owned())),
        (None, Some(id), None) => Ok(RollbackTarget::Snapshot(id)),
        (None, None, Some(version)) => Ok(match version.parse() {
            Ok(id) => RollbackTarget::Snapshot(id),
            Err(_) => RollbackTarget::Tag(version.to_owned()),
        }),
        (None, None, None) => Err(Error::invalid("say where to: give a snapshot or a tag")),
        _ => Err(Error::invalid("a snapshot and a tag are given; give one of them")),
    }
}

/// `rollback_to`
pub(super) struct RollbackTo;

#[async_trait]
impl Procedure for RollbackTo {
    fn name(&self) -> &'static str {
        "rollback_to"
    }

    fn arguments(&self) -> &'static [Argument] {
        const { &[TABLE, TAG, SNAPSHOT] }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let table = values.table().await?;
        told(&rollback::rollback(&table, &target(values)?).await?)
    }
}

/// `rollback`, as Spark calls it.
pub(super) struct Rollback;

#[async_trait]
impl Procedure for Rollback {
    fn name(&self) -> &'static str {
        "rollback"
    }

    fn arguments(&self) -> &'static [Argument] {
        const { &[TABLE, Argument::optional("version", Kind::Text), SNAPSHOT, TAG] }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let table = values.table().await?;
        told(&rollback::rollback(&table, &target(values)?).await?)
    }
}

/// `rollback_to_as_latest`
pub(super) struct RollbackToAsLatest;

#[async_trait]
impl Procedure for RollbackToAsLatest {
    fn name(&self) -> &'static str {
        "rollback_to_as_latest"
    }

    fn arguments(&self) -> &'static [Argument] {
        const { &[TABLE, TAG, SNAPSHOT] }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let table = values.table().await?;
        told(&Box::pin(rollback::restore(&table, &target(values)?)).await?)
    }
}

/// `rollback_to_timestamp`
pub(super) struct RollbackToTimestamp;

#[async_trait]
impl Procedure for RollbackToTimestamp {
    fn name(&self) -> &'static str {
        "rollback_to_timestamp"
    }

    fn arguments(&self) -> &'static [Argument] {
        const { &[TABLE, Argument::required("timestamp", Kind::Time)] }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let table = values.table().await?;
        told(&rollback::rollback(&table, &RollbackTarget::Time(values.time("timestamp")?)).await?)
    }
}

/// `rollback_to_watermark`
pub(super) struct RollbackToWatermark;

#[async_trait]
impl Procedure for RollbackToWatermark {
    fn name(&self) -> &'static str {
        "rollback_to_watermark"
    }

    fn arguments(&self) -> &'static [Argument] {
        const { &[TABLE, Argument::required("watermark", Kind::Number)] }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let table = values.table().await?;
        told(&rollback::rollback(&table, &RollbackTarget::Watermark(values.number("watermark")?)).await?)
    }
}
