//! What EXPLAIN and EXPLAIN ANALYZE show of a scan: the funnel from manifests to rows.

use std::fmt;

use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder};
use datafusion_datasource::source::DataSource;

use super::LakeScanExec;
use crate::plan::{ScanPlan, SectionKind};

/// Sections of a plan by what happens to them.
struct SectionCounts {
    resolved: usize,
    folded: usize,
    files: usize,
}

impl SectionCounts {
    fn of(plan: &ScanPlan) -> Self {
        let folded = plan.sections.iter().filter(|section| section.kind == SectionKind::Fold).count();
        Self {
            resolved: plan.sections.len() - folded,
            folded,
            files: plan.sections.iter().map(|section| section.files.len()).sum(),
        }
    }
}

pub(super) fn fmt_scan(scan: &LakeScanExec, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let plan = &scan.plan;
    let counters = &plan.counters;
    let sections = SectionCounts::of(plan);
    if matches!(t, DisplayFormatType::TreeRender) {
        writeln!(f, "table={}", scan.table.identifier())?;
        return writeln!(f, "files={}", counters.files);
    }
    write!(f, "LakeScanExec: table={}", scan.table.identifier())?;
    match &plan.snapshot {
        Some(snapshot) => write!(f, ", snapshot={}", snapshot.id)?,
        None => write!(f, ", snapshot=none")?,
    }
    let read = counters.manifests - counters.manifests_skipped;
    write!(f, ", manifests={read}/{}", counters.manifests)?;
    write!(f, ", files={}", counters.files)?;
    let mut pruned = Vec::new();
    for (name, count) in [
        ("partition", counters.pruned_by_partition),
        ("bucket", counters.pruned_by_bucket),
        ("key", counters.pruned_by_key),
        ("value", counters.pruned_by_value),
        ("index", counters.pruned_by_index),
        ("level", counters.skipped_by_level),
        ("time", counters.skipped_by_time),
    ] {
        if count > 0 {
            pruned.push(format!("{name}={count}"));
        }
    }
    if !pruned.is_empty() {
        write!(f, ", pruned=[{}]", pruned.join(", "))?;
    }
    if counters.broken_indexes > 0 {
        write!(f, ", broken_indexes={}", counters.broken_indexes)?;
    }
    if counters.postponed > 0 {
        write!(f, ", postponed_files={}", counters.postponed)?;
    }
    write!(f, ", raw_files={}", plan.raw.len())?;
    if !plan.sections.is_empty() {
        write!(
            f,
            ", sections=[resolve={}, fold={}], section_files={}, fan_in={}",
            sections.resolved, sections.folded, sections.files, counters.fan_in
        )?;
    }
    if !plan.groups.is_empty() {
        let files: usize = plan.groups.iter().map(|group| group.files.len()).sum();
        write!(f, ", column_groups={}, group_files={files}", plan.groups.len())?;
    }
    if let Some(unit) = scan.units.first() {
        // The source's own words for projection, limit and predicate; its list of files is empty in a template.
        let source = SourceText(unit.template.as_ref(), t).to_string();
        let source = source.strip_prefix("file_groups={0 groups: []}").unwrap_or(&source);
        f.write_str(source)?;
    }
    Ok(())
}

/// An engine source as it shows itself.
struct SourceText<'a>(&'a dyn DataSource, DisplayFormatType);

impl fmt::Display for SourceText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_as(self.1, f)
    }
}

/// The counters of planning as metrics.
pub(super) fn plan_metrics(plan: &ScanPlan, metrics: &ExecutionPlanMetricsSet) {
    let counters = &plan.counters;
    MetricBuilder::new(metrics).subset_time("time_plan", 0).add_duration(counters.elapsed);
    for (name, count) in [
        ("manifests_read", counters.manifests - counters.manifests_skipped),
        ("manifests_skipped", counters.manifests_skipped),
        ("manifests_cached", counters.manifests_cached),
        ("entries", counters.entries),
        ("files_total", counters.files),
    ] {
        MetricBuilder::new(metrics).counter(name, 0).add(count);
    }
}
