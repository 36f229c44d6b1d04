#!/usr/bin/env bash
# curl_jq.sh URL PAGE_SIZE FILE: the pages of a list of QR codes, by curl and jq, into a table of
# SQLite; without sqlite3, into a CSV file.
set -euo pipefail
url=$1 size=$2 file=$3
get() { curl -sS --fail -H 'Authorization: Bearer a-key-of-usual-length' "$@"; }
pages=$(get "$url/api/qr?limit=$size&page=1" | jq .data.maxpage)
rows() {
    # One process of curl for all pages, so that it keeps its connection.
    get "$url/api/qr?limit=$size&page=[1-$pages]" |
        jq -r '.data.qrs[] | [.id, .link, .scans, .name, .date] | @csv'
}
if command -v sqlite3 >/dev/null; then
    sqlite3 "$file" 'CREATE TABLE qr(id INTEGER PRIMARY KEY, link TEXT, scans INTEGER, name TEXT, date TEXT)'
    rows | sqlite3 "$file" '.mode csv' '.import /dev/stdin qr'
    sqlite3 "$file" 'SELECT count(*) FROM qr'
else
    rows >"$file"
    wc -l <"$file"
fi
