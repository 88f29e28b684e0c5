#!/usr/bin/env bash
# Three meetings with the other engines, whose answers become answers of the truth suite:
#
# 1. the shell writes tables of every kind (tables.sql); the Java library reads and checks each of them;
# 2. Flink writes on top of them (flink.sql) and tells what it sees; the Java library checks them again, we read them;
# 3. the shell writes on top of the tables that Flink made (the fixtures); the Java library reads and checks them.
#
#   TIDELAKE_ORACLE=/path/to/oracle/java/run.sh TIDELAKE_FLINK=/path/to/oracle/flink/run.sh sql-tests/java/matrix.sh
#
# TIDELAKE_ORACLE is a program that knows `dump WAREHOUSE DB.TABLE` (rows as JSON lines) and `check WAREHOUSE DB.TABLE` (exit status
# 1 when files and metadata disagree); TIDELAKE_FLINK runs `WAREHOUSE EXPECTED_DIR SCRIPT`. TIDELAKE_GROUPS names the groups of fixtures of the third meeting. What can't be run is said.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

oracle=${TIDELAKE_ORACLE:-}
flink=${TIDELAKE_FLINK:-}
fixtures=${TIDELAKE_FIXTURES:-../shared/fixtures}
groups=${TIDELAKE_GROUPS:-partitions}

missing() { echo "the matrix with Java is not run: $1"; exit 0; }
[ -f "$oracle" ] || missing 'TIDELAKE_ORACLE names no program that reads tables with the Java library'
command -v java >/dev/null || missing 'there is no java'
command -v mvn >/dev/null || missing 'there is no mvn'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong=0
cargo build --quiet --features cli --bin tidelake || exit 1
tidelake=${CARGO_TARGET_DIR:-target}/debug/tidelake

# check_tables GROUP DATABASE MEETING: what Java finds in each table; its rows are the expected ones where `dump` is to be asked.
check_tables() {
    local group=$1 database=$2 dump=$3 folder table tables=0
    for folder in "$group/warehouse/$database.db"/*/; do
        table=$(basename "$folder")
        [ -f "$group/only" ] && ! grep -qx "$table" "$group/only" && continue
        tables=$((tables + 1))
        if [ "$dump" = dump ]; then
            printf '// SELECT * FROM %s.`%s`\n' "$database" "$table" >"$group/expected/$table.jsonl"
            if ! bash "$oracle" dump "$group/warehouse" "$database.$table" >>"$group/expected/$table.jsonl" 2>"$work/error"; then
                echo "$table: Java can't read it: $(tail -1 "$work/error")"
                rm "$group/expected/$table.jsonl"
                wrong=1
            fi
        fi
        if ! bash "$oracle" check "$group/warehouse" "$database.$table" >"$work/check" 2>&1; then
            echo "$table: Java finds something wrong: $(tail -3 "$work/check")"
            wrong=1
        fi
    done
    echo "$tables tables of $database checked by Java"
}

# compare GROUP..: the expected rows with ours.
compare() {
    local group
    for group in "$@"; do
        TIDELAKE_FIXTURES=$work cargo test --quiet --features cli --test sql-tests "truth::$group::" 2>&1 | tail -40 >"$work/compared"
        if [ "${PIPESTATUS[0]}" != 0 ]; then cat "$work/compared"; wrong=1; fi
        grep -h '^test result' "$work/compared" | sed "s/^/$group: /"
    done
}

java=$work/java
mkdir -p "$java/warehouse" "$java/expected"
"$tidelake" --warehouse "$java/warehouse" -q -f sql-tests/java/tables.sql >"$work/out" 2>&1 || { tail -5 "$work/out"; exit 1; }
check_tables "$java" m dump
compare java

if [ -f "$flink" ]; then
    rm -f "$java"/expected/*
    if bash "$flink" "$java/warehouse" "$java/expected" sql-tests/java/flink.sql >"$work/out" 2>&1; then
        # Flink made a database of its own.
        rmdir "$java/warehouse/default.db"
        check_tables "$java" m check
        compare java
    else
        echo "Flink could not write on top of our tables: $(tail -5 "$work/out")"
        wrong=1
    fi
else
    echo 'Flink is not run: TIDELAKE_FLINK names no program'
fi
rm -rf "$java"

for group in $groups; do
    archive=$fixtures/$group/tables.tar.zst
    if [ ! -f "$archive" ] || ! command -v zstd >/dev/null; then
        echo "nothing is written on top of the tables of $group: there is no $archive, or no zstd"
        continue
    fi
    folder=$work/onto_$group
    mkdir -p "$folder"
    tar -I zstd -xf "$archive" -C "$folder" || { wrong=1; continue; }
    rm -rf "$folder/expected"
    mkdir "$folder/expected"
    refused=0
    for database in "$folder"/warehouse/*.db; do
        name=$(basename "$database" .db)
        : >"$folder/only"
        for table in "$database"/*/; do
            table=$(basename "$table")
            if "$tidelake" --warehouse "$folder/warehouse" -q \
                -c "INSERT INTO $name.\`$table\` SELECT * FROM $name.\`$table\`" >"$work/out" 2>&1; then
                echo "$table" >>"$folder/only"
            else
                refused=$((refused + 1))
                echo "$table is not written: $(grep -v '^$' "$work/out" | head -1 | cut -c1-200)"
            fi
        done
        check_tables "$folder" "$name" dump
    done
    echo "$refused tables of $group could not be written"
    rm "$folder/only"
    compare "onto_$group"
    rm -rf "$folder"
done
exit $wrong
