#!/bin/sh
# check.sh GATEWAY: what `make e2e-docker` holds against the running trial.
set -eu

url=$1/demo/
fail() { echo "check: $*" >&2; exit 1; }
code() { curl -s -o /dev/null -w '%{http_code}' "$@"; }

tries=60
until [ "$(code -H 'Authorization: pro' "$url")" = 200 ]; do
  tries=$((tries - 1))
  [ "$tries" -gt 0 ] || fail "$url does not answer 200 to the key pro; see: docker-compose logs gateway"
  sleep 1
done
[ "$(code "$url")" = 401 ] || fail "a request without a key is not refused with 401"

# Twenty on one connection, faster than the bucket of five refills.
answers=$(curl -s -o /dev/null -D - -H 'Authorization: free' "$url?n=[1-20]" | tr -d '\r' | tr '[:upper:]' '[:lower:]')
codes=$(echo "$answers" | awk '/^http/ { printf " %s", $2 }')
case $codes in
  " 200 200 200 200 200"*429*) ;;
  *) fail "key free: got$codes, want five times 200 and then 429" ;;
esac
refusals=$(echo "$answers" | awk '/^http/ { refused = ($2 == 429) } refused')
for field in 'ratelimit-policy: "default";q=5;w=1' 'retry-after: 1' 'content-type: application/json'; do
  echo "$refusals" | grep -qF "$field" || fail "the refusals lack $field: $refusals"
done
echo "check: ok:$codes"
