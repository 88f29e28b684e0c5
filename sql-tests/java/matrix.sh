#!/usr/bin/env bash
# Five meetings with the other engines, whose answers become answers of the truth suite:
#
# 1. the shell writes tables of every kind (tables.sql); the Java library reads and checks each of them;
# 2. Flink writes on top of them (flink.sql) and tells what it sees; the Java library checks them again, we read them;
# 3. the shell writes on top of the tables that Flink made (the fixtures); the Java library reads and checks them;
# 4. the shell changes, compacts, cleans and shrinks tables of every kind, step by step (upkeep.sql); the Java library reads and
#    checks them after each step; then Flink writes and compacts on top (upkeep_flink.sql) and we again (upkeep_after.sql);
# 5. the shell uses branches, tags, rollbacks, consumers, whole partitions and the rarer clauses and options, step by step
#    (shapes.sql); the Java library reads tables, branches and changelogs and checks them after each step.
#
#   TIDELAKE_ORACLE=/path/to/oracle/java/run.sh TIDELAKE_FLINK=/path/to/oracle/flink/run.sh sql-tests/java/matrix.sh
#
# TIDELAKE_ORACLE is a program that knows `script WAREHOUSE EXPECTED_DIR FILE`, where each line of the file is `dump DB.TABLE > NAME`
# (rows as JSON lines) or `check DB.TABLE --all` (fails when files and metadata disagree); TIDELAKE_FLINK runs `WAREHOUSE EXPECTED_DIR
# SCRIPT`. TIDELAKE_MEETINGS (1 2 3 4 5) says which meetings are held, TIDELAKE_GROUPS names the groups of fixtures of the third,
# TIDELAKE_TABLES the tables that meetings 4 and 5 keep to (`a_plain k_full`; the others are made, and left alone).
# TIDELAKE_BIN and TIDELAKE_TESTS name a shell and a binary of the suites that are built already. What can't be run is said.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

oracle=${TIDELAKE_ORACLE:-}
flink=${TIDELAKE_FLINK:-}
fixtures=${TIDELAKE_FIXTURES:-../shared/fixtures}
groups=${TIDELAKE_GROUPS:-partitions}
meetings=" ${TIDELAKE_MEETINGS:-1 2 3 4 5} "

missing() { echo "the matrix with Java is not run: $1"; exit 0; }
[ -f "$oracle" ] || missing 'TIDELAKE_ORACLE names no program that reads tables with the Java library'
command -v java >/dev/null || missing 'there is no java'
command -v mvn >/dev/null || missing 'there is no mvn'

work=$(mktemp -d)
[ -n "${TIDELAKE_KEEP:-}" ] && echo "the warehouses stay in $work" || trap 'rm -rf "$work"' EXIT
wrong=0
tidelake=${TIDELAKE_BIN:-}
if [ -z "$tidelake" ]; then
    cargo build --quiet --features cli --bin tidelake || exit 1
    tidelake=${CARGO_TARGET_DIR:-target}/debug/tidelake
fi

# complain LINES..: something is wrong.
complain() { echo "$*"; wrong=1; }

# named NAME FILE: whether the file, if there is one, has the name on a line.
named() { [ -f "$2" ] && grep -qx "$1" "$2"; }

# complaints WAREHOUSE: what Java complains of, and whether it does. A tag keeps the rows of a snapshot that has expired and not its
# changelog: that one is missing is what Java's own expiry leaves behind, too. What matches `forgiven` is kept in the file `left` beside
# the warehouse and not complained of, now and later.
forgiven=
complaints() {
    awk -v warehouse="$1" -v forgiven="$forgiven" -v left="$(dirname "$1")/left" '
        function what(line) { sub(/ snapshot [0-9]+/, "", line); return line }
        BEGIN { while ((getline line <left) > 0) known[what(line)] }
        /^ok: / || /^note: / { next }
        /^ERROR: check / { split($3, name, "."); snapshots = warehouse "/" name[1] ".db/" name[2] "/snapshot/snapshot-"; held = $0; next }
        held != "" && /^  exit code/ { held = held "\n" $0; next }
        held != "" && /^problem: .*: changelog file is missing/ && system("test -e " snapshots ($3 + 0)) != 0 { next }
        held != "" && what($0) in known { next }
        held != "" && forgiven != "" && index($0, forgiven) { print >>left; next }
        held != "" && /^[0-9]+ problems/ { held = ""; next }
        held != "" { print held; held = ""; found = 1 }
        NF { print; found = 1 }
        END { exit !found }' "$work/java"
}

# check_tables GROUP DATABASE dump|check: what Java finds in each table; its rows are the expected ones where `dump` is to be asked.
# The tables are those of the file `only`, if there is one; the rows of those in `undumped` are not asked, those in `unchecked` are not
# checked; the file `dumps` says what else is asked.
check_tables() {
    local group=$1 database=$2 dump=$3 folder table what tables=0 more=0
    : >"$work/script"
    for folder in "$group/warehouse/$database.db"/*/; do
        table=$(basename "$folder")
        [ -f "$group/only" ] && ! named "$table" "$group/only" && continue
        tables=$((tables + 1))
        if [ "$dump" = dump ] && ! named "$table" "$group/undumped"; then echo "dump $database.$table > $table" >>"$work/script"; fi
        named "$table" "$group/unchecked" || echo "check $database.$table --all" >>"$work/script"
    done
    if [ -f "$group/dumps" ]; then
        while read -r what; do more=$((more + 1)); echo "dump $database.$what > more_$more"; done <"$group/dumps" >>"$work/script"
    fi
    bash "$oracle" script "$group/warehouse" "$group/expected" "$work/script" >"$work/java" 2>&1
    complaints "$group/warehouse" && wrong=1
    if [ "$(grep -c '^ok: [dc]' "$work/java")" = 0 ]; then complain "Java checked no table of $database"; fi
    # The truth suite asks what the first line holds.
    sed -i -E -e "1s/^\/\/ dump ([^.]*)\.([^ ]*)/\/\/ SELECT * FROM \1.\`\2\`/" \
        -e "1s/ --option ([^ =]+)=(.*)$/ \/*+ OPTIONS('\1'='\2') *\//" "$group"/expected/*.jsonl 2>/dev/null
    echo "$tables tables of $database checked by Java"
}

# compare GROUP: the expected rows with ours.
compare() {
    local tests=(cargo test --quiet --features cli --test sql-tests --)
    [ -n "${TIDELAKE_TESTS:-}" ] && tests=("$TIDELAKE_TESTS")
    TIDELAKE_FIXTURES=$work "${tests[@]}" "truth::$1::" >"$work/all" 2>&1 || { wrong=1; grep -A3 -e '^---- ' -e '^error' "$work/all" | cut -c1-600; }
    grep -h '^test result' "$work/all" | sed "s/^/$1: /"
}

# shell GROUP FILE: the statements of a file, as ours.
shell() { "$tidelake" --warehouse "$1/warehouse" -q -f "$2" >"$work/out" 2>&1 || { complain "$(basename "$2") fails: $(tail -3 "$work/out" | cut -c1-600)"; return 1; }; }

# on_flink GROUP SCRIPT: the statements of a file, by Flink; it makes a database of its own.
on_flink() {
    bash "$flink" "$1/warehouse" "$1/expected" "$2" >"$work/out" 2>&1 || { complain "Flink could not run $2: $(tail -5 "$work/out")"; return 1; }
    rmdir "$1/warehouse/default.db"
}

# steps FILE FOLDER: cuts a file at `-- @step NAME` into FOLDER/NN_NAME.sql; statements behind `-- @for TABLES` (up to the next, or a
# step) are told once for each of the tables, which `$t` names; `-- @let NAME TABLES` gives several a name. `-- @dump TABLE OPTIONS`
# asks Java for more than the tables (see play).
steps() {
    awk -v folder="$2" -v keep=" ${TIDELAKE_TABLES:-} " '
        function tell(  i, count, names, text) {
            if (text_of == "") return
            count = split(tables, names, " ")
            if (count == 0) { printf "%s", text_of >>file }
            for (i = 1; i <= count; i++) if (keep == "  " || index(keep, " " names[i] " ")) { text = text_of; gsub(/\$t/, names[i], text); printf "%s", text >>file }
            text_of = ""
        }
        /^-- @step / { tell(); number++; file = sprintf("%s/%02d_%s.sql", folder, number, $3); tables = ""; next }
        /^-- @let /  { named[$3] = $0; sub(/^-- @let [^ ]+ /, "", named[$3]); next }
        /^-- @for/  { tell(); tables = ""; for (i = 3; i <= NF; i++) tables = tables " " ($i in named ? named[$i] : $i); next }
        /^-- @(batch|expect|dump)/ { text_of = text_of $0 "\n"; next }
        /^--/ || /^$/ { next }
        { text_of = text_of $0 "\n" }
        END { tell() }' "$1"
}

# play GROUP FILE: each step by us, then the tables that it names as Java finds them, and what `-- @dump` asks. Files grow old from
# step to step, so that orphans are removed.
play() {
    local step folder=$work/steps_$(basename "$2" .sql)
    mkdir -p "$folder"
    steps "$2" "$folder"
    for step in "$folder"/*.sql; do
        echo "step $(basename "$step" .sql)"
        find "$1/warehouse" -type f -exec touch -d '3 days ago' {} +
        shell "$1" "$step"
        rm -f "$1"/expected/*
        grep -o '\bu\.[a-z_0-9]*' "$step" | sed 's/^u\.//' | sort -u >"$1/only"
        if [ -n "${TIDELAKE_TABLES:-}" ]; then
            tr ' ' '\n' <<<"$TIDELAKE_TABLES" | grep -Fx -f - "$1/only" >"$1/kept"
            mv "$1/kept" "$1/only"
            [ -s "$1/only" ] || continue
        fi
        sed -n 's/^-- @dump //p' "$step" >"$1/dumps"
        check_tables "$1" u dump
        compare "$(basename "$1")"
    done
    rm -f "$1/only" "$1/dumps"
}

# compact_one FOLDER DATABASE TABLE: a full compaction by us.
compact_one() {
    "$tidelake" --warehouse "$1/warehouse" -q -c "CALL sys.compact(\`table\` => '$2.$3', compact_strategy => 'full', \
        options => 'compaction.min.file-num=2,compaction.delete-ratio-threshold=0')" >"$work/out" 2>&1 && echo "$3" >>"$1/only"
}

# write_onto FOLDER DATABASE TABLE: the rows of a table once more. Java shows nothing of level 0 where the newest schema says that
# deletion vectors or first rows are kept: if nobody compacts such a table, we do.
write_onto() {
    local schema
    "$tidelake" --warehouse "$1/warehouse" -q -c "INSERT INTO $2.\`$3\` SELECT * FROM $2.\`$3\`" >"$work/out" 2>&1 || return 1
    schema=$(find "$1/warehouse/$2.db/$3/schema" -name 'schema-*' | sort -V | tail -1)
    if grep -q '"write-only" *: *"true"' "$schema" && grep -q -e '"deletion-vectors.enabled" *: *"true"' -e '"first-row"' "$schema"; then
        compact_one "$1" "$2" "$3"
    else
        echo "$3" >>"$1/only"
    fi
}

group_folder() { mkdir -p "$work/$1/warehouse" "$work/$1/expected"; }

java=$work/java_tables
if [[ $meetings == *" 1 "* || $meetings == *" 2 "* ]]; then
    group_folder java_tables
    shell "$java" sql-tests/java/tables.sql
    check_tables "$java" m dump
    compare java_tables
fi

if [[ $meetings == *" 2 "* ]]; then
    if [ -f "$flink" ]; then
        rm -f "$java"/expected/*
        if on_flink "$java" sql-tests/java/flink.sql; then
            check_tables "$java" m check
            compare java_tables
        fi
    else
        echo 'Flink is not run: TIDELAKE_FLINK names no program'
    fi
fi
[ -n "${TIDELAKE_KEEP:-}" ] || rm -rf "$java"

if [[ $meetings == *" 4 "* ]]; then
    group_folder upkeep
    play "$work/upkeep" sql-tests/java/upkeep.sql
    if [ -f "$flink" ]; then
        rm -f "$work"/upkeep/expected/*
        mkdir "$work/flink"
        steps sql-tests/java/upkeep_flink.sql "$work/flink"
        if on_flink "$work/upkeep" "$work/flink/01_flink.sql"; then
            # Flink 1.3.1 does so when a full compaction writes one file of the highest level anew.
            forgiven='deletion vector for a file which is not live'
            check_tables "$work/upkeep" u check
            forgiven=
            [ -f "$work/upkeep/left" ] && sed 's/^/left by Flink, and no fault of ours: /' "$work/upkeep/left"
            compare upkeep
            play "$work/upkeep" sql-tests/java/upkeep_after.sql
        fi
    fi
    [ -n "${TIDELAKE_KEEP:-}" ] || rm -rf "$work/upkeep"
fi

if [[ $meetings == *" 5 "* ]]; then
    group_folder shapes
    play "$work/shapes" sql-tests/java/shapes.sql
    [ -n "${TIDELAKE_KEEP:-}" ] || rm -rf "$work/shapes"
fi

[[ $meetings == *" 3 "* ]] || groups=
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
    # What Java can't read or finds wrong before we write is not ours, and where our rows differ from Java's on purpose the list says so.
    for database in "$folder"/warehouse/*.db; do
        name=$(basename "$database" .db)
        for table in "$database"/*/; do
            table=$(basename "$table")
            printf '%s\n' "dump $name.$table > $table" "check $name.$table --all"
        done >"$work/script"
        bash "$oracle" script "$folder/warehouse" "$folder/expected" "$work/script" 2>&1
    done >"$work/java"
    sed -n 's/^ERROR: check [^.]*\.\(.*\) --all$/\1/p' "$work/java" >"$folder/unchecked"
    sed -n 's/^ERROR: dump [^.]*\.\([^ ]*\) .*/\1/p' "$work/java" >"$folder/undumped"
    differs=" differs .*"
    sed -n "/level 0 of/!s/^$group::\([a-z_0-9]*\) $differs/\1/p" sql-tests/truth.list | grep -v __ >>"$folder/undumped"
    sed -n "s/^$group::\([a-z_0-9]*\) $differs are two keys.*/\1/p" sql-tests/truth.list >>"$folder/unchecked"
    # With their rows twice: products that do not fit, which are an error of ours, and lists whose order is open.
    [ "$group" = merge_functions ] && printf '%s\n' agg_product_l0 agg_product_mixed agg_collect_l0 agg_nested_update_key_l0 >>"$folder/undumped"
    echo "not checked: $(tr '\n' ' ' <"$folder/unchecked"); rows not compared: $(tr '\n' ' ' <"$folder/undumped")"
    for did in written compacted; do
        rm -f "$folder"/expected/*
        for database in "$folder"/warehouse/*.db; do
            name=$(basename "$database" .db)
            : >"$folder/only"
            for table in "$database"/*/; do
                if [ "$did" = written ]; then
                    write_onto "$folder" "$name" "$(basename "$table")"
                else
                    compact_one "$folder" "$name" "$(basename "$table")"
                fi || { refused=$((refused + 1)); echo "$(basename "$table") is not $did: $(grep -v '^$' "$work/out" | head -1 | cut -c1-200)"; }
            done
            check_tables "$folder" "$name" dump
        done
        compare "onto_$group"
    done
    echo "$refused tables of $group could not be written, or not be compacted"
    rm "$folder/only"
    [ -n "${TIDELAKE_KEEP:-}" ] || rm -rf "$folder"
done
if [ "$wrong" = 0 ]; then echo "all agreed in meetings$meetings($SECONDS s)"; else echo "NOT all agreed in meetings$meetings($SECONDS s)"; fi
exit "$wrong"
