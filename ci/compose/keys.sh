#!/bin/sh
# keys.sh GATEWAY: makes the demo's two keys, once the gateway answers.
set -eu

gateway=$1
tries=60
until curl -fsS -o /dev/null "$gateway/hello" 2>/dev/null; do
  tries=$((tries - 1))
  [ "$tries" -gt 0 ] || { echo "keys: $gateway/hello does not answer" >&2; exit 1; }
  sleep 1
done

key() {
  curl -fsS -X POST -H 'x-tyk-authorization: demo-secret' "$gateway/tyk/keys/$1" -d '{
    "org_id": "default",
    "access_rights": {"demo": {"api_id": "demo", "api_name": "demo", "versions": ["Default"]}},
    "meta_data": {"ratelimit": "'"$2"'"}
  }'
}
key free "5/s burst 5"
key pro "100/s burst 200"
