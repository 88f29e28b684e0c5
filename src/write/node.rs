//! What nodes with one input say alike.
//!
//! May import: `error`.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ExecutionPlanProperties};
use datafusion::physical_plan::{ExecutionPlan, Partitioning, PlanProperties};

/// The methods of [`ExecutionPlan`] for a node with the fields `input` and `properties`, which has no expressions. Its input stays
/// partitioned as it is: dealt out to several partitions rows would lose their order, and small writes would make several files.
///
/// `one_input!(Node, |node, input| again)`: `again` is `node` over another `input`. In front of the closure, `expressions` leaves
/// `apply_expressions` to the node.
macro_rules! one_input {
    ($name:ident, |$node:ident, $input:ident| $again:expr) => {
        $crate::write::one_input!($name, expressions, |$node, $input| $again);

        fn apply_expressions(
            &self,
            _: &mut dyn FnMut(
                &std::sync::Arc<dyn datafusion::physical_expr::PhysicalExpr>,
            ) -> datafusion::common::Result<datafusion::common::tree_node::TreeNodeRecursion>,
        ) -> datafusion::common::Result<datafusion::common::tree_node::TreeNodeRecursion> {
            Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
        }
    };
    ($name:ident, expressions, |$node:ident, $input:ident| $again:expr) => {
        fn name(&self) -> &'static str {
            stringify!($name)
        }

        fn properties(&self) -> &std::sync::Arc<datafusion::physical_plan::PlanProperties> {
            &self.properties
        }

        fn children(&self) -> Vec<&std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            vec![&self.input]
        }

        fn with_new_children(
            self: std::sync::Arc<Self>,
            children: Vec<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>,
        ) -> datafusion::common::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            let one = <[_; 1]>::try_from(children);
            let [$input] =
                one.map_err(|_| $crate::error::Error::internal(concat!(stringify!($name), " has one input")))?;
            let $node = self;
            Ok(std::sync::Arc::new($again))
        }

        fn benefits_from_input_partitioning(&self) -> Vec<bool> {
            vec![false]
        }
    };
}
pub(crate) use one_input;

/// Of a node that makes rows of `schema` out of those of `input`, as they come.
pub(crate) fn as_they_come(input: &Arc<dyn ExecutionPlan>, schema: SchemaRef) -> Arc<PlanProperties> {
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new(schema),
        Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
        input.pipeline_behavior(),
        input.boundedness(),
    ))
}

/// Of a node that answers with rows of `schema` when it is done, in each of its partitions.
pub(crate) fn when_done(partitions: usize, schema: SchemaRef) -> Arc<PlanProperties> {
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new(schema),
        Partitioning::UnknownPartitioning(partitions),
        EmissionType::Final,
        Boundedness::Bounded,
    ))
}
