#!/bin/sh
# Makes the secrets of compose.yaml in ./secrets, once: what is there already is kept. Needs nothing but a shell,
# base64 and /dev/urandom. Back up secret-keys apart from the database: without it what jobs keep as secrets is lost.
set -eu
umask 077
cd "$(dirname "$0")"
directory="${1:-secrets}"
mkdir -p "$directory"

random() { head -c 24 /dev/urandom | od -An -vtx1 | tr -d ' \n'; }
keep() { [ -s "$directory/$1" ] || cat > "$directory/$1"; }
value() { cat "$directory/$1"; }

for name in postgres-password belfry-password redis-password; do random | keep "$name"; done
printf 'postgres://belfry_owner:%s@postgres:5432/belfry' "$(value postgres-password)" | keep migrate-url
printf 'postgres://belfry:%s@postgres:5432/belfry' "$(value belfry-password)" | keep database-url
printf 'redis://belfry:%s@redis:6379/0' "$(value redis-password)" | keep redis-url
printf '1:%s\n' "$(head -c 32 /dev/urandom | base64)" | keep secret-keys
printf 'user default off\nuser belfry on >%s resetkeys ~belfry:* resetchannels &belfry:* %s\n' \
  "$(value redis-password)" \
  "-@all +@sortedset +@hash +@scripting +@connection +@pubsub +get +set +del +pexpire +pttl +time +info +ping -script" |
  keep redis-users
# readable by the users of the containers, each of which sees only what its service names; the directory is not
chmod 444 "$directory"/*
echo "The secrets are in $directory."
