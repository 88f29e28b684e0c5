//! Procedures of branches.

use arrow::array::RecordBatch;
use async_trait::async_trait;

use super::{Argument, Kind, Procedure, TABLE, Values, success};
use crate::error::Result;
use crate::maintain::branches;

const BRANCH: Argument = Argument::required("branch", Kind::Text);

/// `create_branch`
pub(super) struct CreateBranch;

#[async_trait]
impl Procedure for CreateBranch {
    fn name(&self) -> &'static str {
        "create_branch"
    }

    fn arguments(&self) -> &'static [Argument] {
        const {
            &[
                TABLE,
                BRANCH,
                Argument::optional("tag", Kind::Text).also(&["tag_name"]),
                Argument::optional("ignore_if_exists", Kind::Flag),
            ]
        }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let table = values.table().await?;
        // An empty text stands for no tag, where arguments are given by their place.
        let tag = values.optional_text("tag").filter(|tag| !tag.is_empty());
        branches::create_branch(&table, values.text("branch")?, tag, values.flag("ignore_if_exists")).await?;
        success()
    }
}

/// `delete_branch`: one branch, or several with commas between.
pub(super) struct DeleteBranch;

#[async_trait]
impl Procedure for DeleteBranch {
    fn name(&self) -> &'static str {
        "delete_branch"
    }

    fn arguments(&self) -> &'static [Argument] {
        const { &[TABLE, BRANCH] }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let table = values.table().await?;
        for branch in values.text("branch")?.split(',') {
            branches::delete_branch(&table, branch.trim()).await?;
        }
        success()
    }
}

/// `rename_branch`
pub(super) struct RenameBranch;

#[async_trait]
impl Procedure for RenameBranch {
    fn name(&self) -> &'static str {
        "rename_branch"
    }

    fn arguments(&self) -> &'static [Argument] {
        const { &[TABLE, Argument::required("from_branch", Kind::Text), Argument::required("to_branch", Kind::Text)] }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let table = values.table().await?;
        branches::rename_branch(&table, values.text("from_branch")?, values.text("to_branch")?).await?;
        success()
    }
}

/// `fast_forward`
pub(super) struct FastForward;

#[async_trait]
impl Procedure for FastForward {
    fn name(&self) -> &'static str {
        "fast_forward"
    }

    fn arguments(&self) -> &'static [Argument] {
        const { &[TABLE, BRANCH] }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let table = values.table().await?;
        branches::fast_forward(&table, values.text("branch")?).await?;
        success()
    }
}
