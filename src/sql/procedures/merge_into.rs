//! `merge_into`: MERGE INTO in the form of a procedure, from before Flink had statements for it.

use arrow::array::RecordBatch;
use async_trait::async_trait;

use super::{Argument, Kind, Procedure, Values, success};
use crate::error::{Error, Result};
use crate::sql::session::split_statements;

/// `merge_into`
pub(super) struct MergeInto;

#[async_trait]
impl Procedure for MergeInto {
    fn name(&self) -> &'static str {
        "merge_into"
    }

    fn arguments(&self) -> &'static [Argument] {
        const {
            &[
                Argument::required("target_table", Kind::Table),
                Argument::optional("target_alias", Kind::Text),
                Argument::optional("source_sqls", Kind::Text),
                Argument::optional("source_table", Kind::Text),
                Argument::optional("merge_condition", Kind::Text),
                Argument::optional("matched_upsert_condition", Kind::Text),
                Argument::optional("matched_upsert_setting", Kind::Text),
                Argument::optional("not_matched_insert_condition", Kind::Text),
                Argument::optional("not_matched_insert_values", Kind::Text),
                Argument::optional("matched_delete_condition", Kind::Text),
                Argument::optional("not_matched_by_source_upsert_condition", Kind::Text),
                Argument::optional("not_matched_by_source_upsert_setting", Kind::Text),
                Argument::optional("not_matched_by_source_delete_condition", Kind::Text),
            ]
        }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let given = |name: &str| values.optional_text(name).map(str::trim).filter(|text| !text.is_empty());
        let merge = statement(values.text("target_table")?, &given)?;
        for sql in split_statements(given("source_sqls").unwrap_or_default())? {
            Box::pin(values.session().sql(&sql)).await?.collect().await?;
        }
        Box::pin(values.session().sql(&merge)).await?.collect().await?;
        success()
    }
}

/// The MERGE that the arguments of a call stand for.
fn statement<'a>(target: &str, given: &dyn Fn(&str) -> Option<&'a str>) -> Result<String> {
    let needed = |name: &str| given(name).ok_or_else(|| Error::invalid(format!("argument {name} is missing")));
    let mut sql = format!("MERGE INTO {target}");
    if let Some(alias) = given("target_alias") {
        sql.push_str(&format!(" AS {alias}"));
    }
    sql.push_str(&format!(" USING {} ON {}", needed("source_table")?, needed("merge_condition")?));
    let mut clauses = 0;
    let mut clause = |when: &str, condition: Option<&str>, action: String| {
        clauses += 1;
        let condition = condition.map(|condition| format!(" AND ({condition})")).unwrap_or_default();
        sql.push_str(&format!(" WHEN {when}{condition} THEN {action}"));
    };
    let update = |setting: &str| match setting {
        "*" => "UPDATE *".to_owned(),
        setting => format!("UPDATE SET {setting}"),
    };
    let deletes = [
        (
            "MATCHED",
            given("matched_upsert_condition"),
            given("matched_upsert_setting"),
            given("matched_delete_condition"),
        ),
        (
            "NOT MATCHED BY SOURCE",
            given("not_matched_by_source_upsert_condition"),
            given("not_matched_by_source_upsert_setting"),
            given("not_matched_by_source_delete_condition"),
        ),
    ];
    for (when, condition, setting, delete) in deletes {
        match (condition, setting) {
            (_, Some(setting)) => clause(when, condition, update(setting)),
            (Some(_), None) => {
                return Err(Error::invalid(format!(
                    "the condition of WHEN {when} THEN UPDATE is given without a setting"
                )));
            }
            (None, None) => {}
        }
        if let Some(delete) = delete {
            clause(when, Some(delete), "DELETE".to_owned());
        }
    }
    match (given("not_matched_insert_condition"), given("not_matched_insert_values")) {
        (condition, Some("*")) => clause("NOT MATCHED", condition, "INSERT *".to_owned()),
        (condition, Some(values)) => clause("NOT MATCHED", condition, format!("INSERT VALUES ({values})")),
        (Some(_), None) => {
            return Err(Error::invalid("not_matched_insert_condition is given without not_matched_insert_values"));
        }
        (None, None) => {}
    }
    if clauses == 0 {
        return Err(Error::invalid("no argument says what becomes of the rows"));
    }
    Ok(sql)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(arguments: &[(&str, &'static str)]) -> Result<String> {
        let given = |name: &str| arguments.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        statement("db.t", &given)
    }

    #[test]
    fn statement_when_arguments_are_given_then_clauses_of_a_merge() {
        let base = [("source_table", "s"), ("merge_condition", "T.k = s.k"), ("target_alias", "T")];
        let more = [
            ("matched_upsert_condition", "s.v > 0"),
            ("matched_upsert_setting", "v = s.v"),
            ("matched_delete_condition", "s.v < 0"),
            ("not_matched_insert_values", "*"),
        ];
        let all: Vec<_> = base.iter().chain(&more).copied().collect();
        assert_eq!(
            of(&all).unwrap(),
            "MERGE INTO db.t AS T USING s ON T.k = s.k WHEN MATCHED AND (s.v > 0) THEN UPDATE SET v = s.v WHEN MATCHED AND \
             (s.v < 0) THEN DELETE WHEN NOT MATCHED THEN INSERT *"
        );
        assert!(of(&base).unwrap_err().message().contains("what becomes of the rows"));
        assert!(of(&more).unwrap_err().message().contains("source_table is missing"));
    }
}
