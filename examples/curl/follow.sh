#!/bin/sh
# Prints every change that the mirror keeps, and then each as it comes, one line of JSON each. The file keeps the position:
# start it again to continue there.
set -eu
file=${1:-orders.position}
after=$(sed 's/^/?after=/' "$file" 2>/dev/null || true)
curl --silent --show-error --fail --no-buffer --header "Authorization: Bearer ${MIRROR_TOKEN-}" \
  "${MIRROR_URL:-http://127.0.0.1:3000}/v1/changes/stream$after" |
  while IFS= read -r line; do
    case $line in
      id:*) position=${line#id: } ;;
      event:*) event=${line#event: } ;;
      data:*) [ "$event" != change ] || printf '%s\n' "${line#data: }"; echo "$position" >"$file" ;;
    esac
  done
