#!/usr/bin/env bash
# OpenSMTPD's notice about a message that it gives up says `Action: delayed`.
#
# Version: OpenSMTPD 6.8.0p2 (Debian 12).
# Expected: RFC 3464 section 2.3.3 has `delayed` for a recipient whom the server goes on trying to reach, and `failed` for
# one whom it gives up. RFC 3463 section 3.5 has X.4.7 for a message that has expired, with class 5 if it is final.
# Seen: after `queue ttl`, OpenSMTPD removes the message from its queue, and sends the text of a delay: the message is "kept
# in the queue for up to 7 days", and need not be sent again. Only the words "Envelope expired" tell the truth. Programs
# read `Action: delayed` and `Status: 4.4.7`. The queue is empty then: one that trusts them waits without end.
#
# It needs root, mmdebstrap, and 500 MB in the temporary directory. The packages come from this machine's own mirror.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
VERSION=6.8.0p2-4+b4

"$here/../.ci/mirror" bookworm >"$work/sources"
mmdebstrap --quiet --variant=minbase --include=opensmtpd,ca-certificates bookworm "$work/root" "$work/sources" \
    >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 2; }
found=$(chroot "$work/root" dpkg-query -W -f '${Version}' opensmtpd)
[ "$found" = "$VERSION" ] || { echo "another version: $found" >&2; exit 2; }

# Nothing listens at the port of the relay.
cat >"$work/root/etc/smtpd.conf" <<'SMTPD'
queue ttl 5s
listen on lo hostname mx.sender.example
action "local" mbox
action "relay" relay host smtp://127.0.0.1:2526
match from any for domain "sender.example" action "local"
match from any for any action "relay"
SMTPD
cat >"$work/root/send" <<'SHELL'
smtpd -d >/log 2>&1 &
server=$!
until [ -S /run/smtpd.sock ] || [ -S /var/run/smtpd.sock ]; do sleep 0.1; done
useradd -m ann
printf 'Subject: one\n\nhello\n' | /usr/sbin/sendmail -f ann@sender.example zoe@far.example
for _ in $(seq 600); do
    [ -s /var/mail/ann ] && break
    sleep 0.1
done
smtpctl show queue >/queue
kill "$server"
wait
SHELL
unshare --net --mount --pid --fork --kill-child \
    sh -c "ip link set lo up && mount -t proc proc '$work/root/proc' && exec chroot '$work/root' sh /send" || true
box=$work/root/var/mail/ann
[ -s "$box" ] || { echo "no notice" >&2; tail -n 20 "$work/root/log" >&2; exit 1; }
grep -aE '^(Action|Status|Final-Recipient|Diagnostic-Code)|expired|kept in the queue' "$box"
grep -q '^Action: delayed' "$box" && grep -q '^Status: 4.4.7' "$box" && ! grep -q '^Action: failed' "$box" &&
    ! grep -q zoe "$work/root/queue" || { echo "changed" >&2; exit 1; }
