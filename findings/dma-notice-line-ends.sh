#!/usr/bin/env bash
# dma's notice about a refusal in several lines has a bare CR, and names the failed recipient as the original one.
#
# Version: dma 0.13 (Debian 12).
# Expected: RFC 5321 section 2.3.8 allows CR in a message only before LF. `X-Original-To` is known from Postfix and others,
# where it names the recipient to whom the message itself came.
# Seen: dma copies `550-…\r\n550 …` with the CR of each line but the last, and ends the lines of the notice with LF. If it
# sends the notice by SMTP, LF becomes CRLF, and the line ends in CR CR LF. A server that refuses bare CR refuses the notice;
# dma drops it then. The notice is for root@…, and its X-Original-To says zoe@far.example, who could not be reached.
#
# It needs root, mmdebstrap, and 500 MB in the temporary directory. The packages come from this machine's own mirror.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
VERSION=0.13-1+b1

"$here/../.ci/mirror" bookworm >"$work/sources"
mmdebstrap --quiet --variant=minbase --include=dma,python3-minimal bookworm "$work/root" "$work/sources" \
    >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 2; }
found=$(chroot "$work/root" dpkg-query -W -f '${Version}' dma)
[ "$found" = "$VERSION" ] || { echo "another version: $found" >&2; exit 2; }
printf 'SMARTHOST 127.0.0.1\nPORT 2526\nMAILNAME sender.example\n' >"$work/root/etc/dma/dma.conf"

# A server that takes the sender, and refuses each recipient in two lines.
cat >"$work/root/server.py" <<'PYTHON'
import socket
with socket.create_server(("127.0.0.1", 2526)) as listener:
    print("ready", flush=True)
    client, _ = listener.accept()
    lines = client.makefile("rwb", 0)
    lines.write(b"220 server.example\r\n")
    for line in lines:
        is_recipient = line.upper().startswith(b"RCPT")
        refusal = b"550-5.1.1 There is no such box\r\n550 5.1.1 at this place\r\n"
        lines.write(refusal if is_recipient else b"250 Ok\r\n")
        if line.upper().startswith(b"QUIT"):
            break
PYTHON
cat >"$work/root/send" <<'SHELL'
python3 /server.py >/ready &
until grep -q ready /ready; do :; done
touch /var/mail/root && chown root:mail /var/mail/root && chmod 660 /var/mail/root
printf 'Subject: one\n\nhello\n' | /usr/sbin/dma -f root zoe@far.example
wait
for _ in $(seq 200); do
    [ -s /var/mail/root ] && exit 0
    sleep 0.1
done
exit 1
SHELL
unshare --net --mount sh -c "ip link set lo up && mount -t proc proc '$work/root/proc' && chroot '$work/root' sh /send" ||
    { echo "no notice" >&2; exit 1; }
cat -A "$work/root/var/mail/root" | grep -E '^X-Original-To|^To:|^550'
grep -q $'^550-5.1.1 There is no such box\r$' "$work/root/var/mail/root" &&
    grep -q $'^550 5.1.1 at this place$' "$work/root/var/mail/root" &&
    grep -q '^X-Original-To: <zoe@far.example>$' "$work/root/var/mail/root" || { echo "changed" >&2; exit 1; }
