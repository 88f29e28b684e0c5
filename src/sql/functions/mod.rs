//! Functions that Flink has and the engine lacks, or has with another meaning. Imports the engine's function traits.

mod binary;
mod cardinality;
mod collections;
pub(crate) mod health;
mod incremental;
mod json_value;
mod pattern;
pub(crate) mod rewrites;
mod timestamp_add;

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;
use datafusion::prelude::SessionContext;

/// Registers the functions in a session.
pub(crate) fn register(context: &SessionContext) {
    for function in all() {
        context.register_udf(function);
    }
    for function in incremental::ALL {
        context.register_udtf(function.name, Arc::new(function));
    }
    context.register_udtf(health::NAME, Arc::new(health::Health));
}

fn all() -> Vec<ScalarUDF> {
    vec![
        ScalarUDF::from(cardinality::Cardinality::new()),
        ScalarUDF::from(binary::FlinkBinary::new()),
        ScalarUDF::from(collections::Multiset::new()),
        ScalarUDF::from(collections::StrToMap::new()),
        ScalarUDF::from(json_value::JsonValue::new()),
        ScalarUDF::from(timestamp_add::TimestampAdd::new()),
        // Flink's ROW(a, b) is the engine's struct(a, b).
        Arc::unwrap_or_clone(datafusion::functions::core::r#struct()).with_aliases(["row"]),
    ]
}
