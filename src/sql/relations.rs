//! The guard of stock sessions: a version that nobody resolved is an error.
//!
//! The engine parses `t TIMESTAMP AS OF ..` under some dialects and then reads today's rows. Our own front end has moved every
//! version into a name before planning; whatever still carries one came another way. Imports the engine's planner.

use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::logical_expr::planner::{RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::sql::sqlparser::ast::TableFactor;

/// Refuses versions on relations.
#[derive(Debug)]
pub(crate) struct VersionGuard;

impl RelationPlanner for VersionGuard {
    fn plan_relation(
        &self,
        relation: TableFactor,
        _context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if let TableFactor::Table { name, version: Some(version), .. } = &relation {
            return plan_err!(
                "the version '{version}' of {name} is not resolved by this session; use LakeSession::sql, or name the version: \
                 \"{name}@5\", \"{name}@tag:x\""
            );
        }
        Ok(RelationPlanning::Original(Box::new(relation)))
    }
}
