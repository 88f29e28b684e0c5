#!/usr/bin/env bash
# Writes tables of every kind with the shell (tables.sql), lets the Java library read and check each of them, and compares its rows
# with ours: Java's rows become answers of the truth suite.
#
#   TIDELAKE_ORACLE=/path/to/oracle/java/run.sh sql-tests/java/matrix.sh
#
# TIDELAKE_ORACLE is a program that knows `dump WAREHOUSE DB.TABLE` (rows as JSON lines) and `check WAREHOUSE DB.TABLE` (exit status
# 1 when files and metadata disagree). Without it, or without Java and Maven, nothing is compared, which is said.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

missing() { echo "the matrix with Java is not run: $1"; exit 0; }
[ -n "${TIDELAKE_ORACLE:-}" ] || missing 'TIDELAKE_ORACLE names no program that reads tables with the Java library'
command -v java >/dev/null || missing 'there is no java'
command -v mvn >/dev/null || missing 'there is no mvn'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
group=$work/java
mkdir -p "$group/warehouse" "$group/expected"
cargo run --quiet --features cli -- --warehouse "$group/warehouse" -q -f sql-tests/java/tables.sql >"$work/out" || {
    tail -5 "$work/out"
    exit 1
}

wrong=0
for folder in "$group"/warehouse/m.db/*/; do
    table=$(basename "$folder")
    printf '// SELECT * FROM m.`%s`\n' "$table" >"$group/expected/$table.jsonl"
    if ! "$TIDELAKE_ORACLE" dump "$group/warehouse" "m.$table" >>"$group/expected/$table.jsonl" 2>"$work/error"; then
        echo "$table: Java can't read it: $(tail -1 "$work/error")"
        rm "$group/expected/$table.jsonl"
        wrong=1
    fi
    if ! "$TIDELAKE_ORACLE" check "$group/warehouse" "m.$table" >"$work/check" 2>&1; then
        echo "$table: Java finds something wrong: $(tail -3 "$work/check")"
        wrong=1
    fi
done
TIDELAKE_FIXTURES=$group cargo test --quiet --features cli --test sql-tests truth::java:: || wrong=1
exit $wrong
