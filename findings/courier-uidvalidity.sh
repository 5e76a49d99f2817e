#!/usr/bin/env bash
# Courier IMAP gives a folder another UIDVALIDITY with each EXAMINE, until a SELECT has opened it once.
#
# Version: courier-imap 5.0.13 (Debian 12).
# Expected: RFC 3501 section 2.3.1.1 lets UIDVALIDITY change only if UIDs cannot persist, and between sessions.
# Seen: two EXAMINE of one folder in one session say two numbers, the later one higher. EXAMINE writes no list of UIDs, so
# that each one begins a new list in memory. After a SELECT, EXAMINE says the number of that SELECT, time after time.
# A program that only reads, as an import should, cannot recognise the messages of such a folder the next time.
#
# It needs root, mmdebstrap, and 500 MB in the temporary directory. The packages come from this machine's own mirror.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
VERSION=5.0.13+1.0.16-3+b6

"$here/../.ci/mirror" bookworm >"$work/sources"
# Without the file, packages would start their servers.
mmdebstrap --quiet --variant=minbase --include=courier-imap \
    --essential-hook='printf "#!/bin/sh\nexit 101\n" >"$1/usr/sbin/policy-rc.d"; chmod 755 "$1/usr/sbin/policy-rc.d"' \
    bookworm "$work/root" "$work/sources" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 2; }
found=$(chroot "$work/root" dpkg-query -W -f '${Version}' courier-imap)
[ "$found" = "$VERSION" ] || { echo "another version: $found" >&2; exit 2; }

mkdir -p "$work/root/mail/Maildir"/{cur,new,tmp} "$work/root/mail/Maildir/.Archive"/{cur,new,tmp}
touch "$work/root/mail/Maildir/.Archive/maildirfolder"
printf 'Subject: one\n\nhello\n' >"$work/root/mail/Maildir/.Archive/new/1700000000.M1P1.host"

# Started by hand, the server serves the Maildir on its standard streams, without a log-in.
numbers() {
    { for command in "$@"; do printf 'a %s INBOX.Archive\r\n' "$command"; sleep 1; done; printf 'b LOGOUT\r\n'; } |
        chroot "$work/root" sh -c 'cd /mail && IMAP_CAPABILITY=IMAP4rev1 timeout 60 /usr/bin/imapd Maildir 2>/dev/null' |
        sed -n 's/.*\[UIDVALIDITY \([0-9]*\)\].*/\1/p' | tr '\n' ' '
    echo
}

read -r first second < <(numbers EXAMINE EXAMINE)
read -r selected third fourth < <(numbers SELECT EXAMINE EXAMINE)
echo "before SELECT: $first, $second; SELECT: $selected; afterwards: $third, $fourth"
[ "$first" -lt "$second" ] && [ "$selected" = "$third" ] && [ "$third" = "$fourth" ] || { echo "changed" >&2; exit 1; }
