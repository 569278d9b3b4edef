#!/bin/sh
# A file per day for cron: writes the orders that last changed on one day (UTC, default yesterday) as CSV to FOLDER/DAY.csv.
# The mirror answers 412 before it has everything of the day; the job then ends with the exit code 75, and cron tries again
# later. A file appears only when it is whole. For NDJSON replace csv; DuckDB reads both.
set -eu
folder=$1
day=${2:-$(date --utc --date yesterday +%F)}
end="$(date --utc --date "$day + 1 day" +%F)T00:00:00Z"

draft="$folder/.$day.csv.part"
trap 'rm -f "$draft"' EXIT
status=$(curl --silent --show-error --output "$draft" --write-out '%{http_code}' \
  --header "Authorization: Bearer ${MIRROR_TOKEN-}" \
  "${MIRROR_URL:-http://127.0.0.1:3000}/v1/orders.csv?updatedSince=${day}T00:00:00Z&updatedUntil=$end&complete=$end")
case $status in
  200) mv "$draft" "$folder/$day.csv" ;;
  412) echo "The mirror does not have everything of $day yet." >&2; exit 75 ;;
  *) echo "The mirror answered $status." >&2; exit 1 ;;
esac
