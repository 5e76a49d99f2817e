#!/usr/bin/env bash
# A message that Postfix's queue manager skips as "still being delivered" waits for new mail, and not for a queue run.
#
# Version: Postfix 3.7 (Debian 12).
# Expected: the queue manager looks at the message again after `queue_run_delay`, when the agent of the former queue manager
# has ended.
# Seen: a queue manager is killed while an agent delivers, and starts again. It logs "skipped, still being delivered" and
# leaves the message in the incoming queue, which queue runs do not read. The agent ends; the other recipients of the
# message wait. New mail, `postqueue -f`, or the wake-up time of `qmgr` in master.cf (300 seconds) has the message delivered.
#
# It needs root, mmdebstrap, python3, and 500 MB in the temporary directory. The packages come from this machine's own mirror.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
root=$work/root
sink=
cleanup() {
    [ -z "$sink" ] || kill "$sink" 2>/dev/null || true
    [ ! -e "$root/usr/sbin/postfix" ] || chroot "$root" postfix stop >/dev/null 2>&1 || true
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT

"$here/../.ci/mirror" bookworm >"$work/sources"
mmdebstrap --quiet --variant=minbase --include=postfix \
    --essential-hook='printf "#!/bin/sh\nexit 101\n" >"$1/usr/sbin/policy-rc.d"; chmod 755 "$1/usr/sbin/policy-rc.d"' \
    bookworm "$root" "$work/sources" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 2; }
found=$(chroot "$root" dpkg-query -W -f '${Version}' postfix)
case $found in 3.7.*) ;; *) echo "another version: $found" >&2; exit 2 ;; esac

# A server that answers the first message after the file `go` exists, and all others at once.
cat >"$work/sink.py" <<'END'
import os, socketserver, sys, time
work = sys.argv[1]
class Session(socketserver.StreamRequestHandler):
    def handle(self):
        say = lambda text: self.wfile.write(text.encode() + b"\r\n")
        say("220 mx.example")
        while line := self.rfile.readline():
            word = line[:4].upper()
            if word == b"DATA":
                say("354 go on")
                while self.rfile.readline() not in (b".\r\n", b""):
                    pass
                if not os.path.exists(work + "/holds"):
                    open(work + "/holds", "w").close()
                    while not os.path.exists(work + "/go"):
                        time.sleep(0.05)
            say("221 bye" if word == b"QUIT" else "250 ok")
class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
server = Server(("127.0.0.1", 0), Session)
with open(work + "/port.new", "w") as file:
    file.write(str(server.server_address[1]))
os.rename(work + "/port.new", work + "/port")
server.serve_forever()
END
python3 "$work/sink.py" "$work" 2>/dev/null &
sink=$!

# Waits for a condition, at most 30 s.
until_is() {
    for _ in $(seq 300); do
        if "$@"; then return; fi
        sleep 0.1
    done
    echo "timed out: $*" >&2
    cat "$root/var/log/postfix.log" >&2 || true
    exit 2
}
logged() { grep -q "$1" "$root/var/log/postfix.log"; }
until_is test -e "$work/port"

# One agent, and each recipient is a delivery of its own: the second waits while the first is held.
cat >"$root/etc/postfix/main.cf" <<END
compatibility_level = 3.6
maillog_file = /var/log/postfix.log
myhostname = mx.example.org
mydestination =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
smtp_dns_support_level = disabled
smtp_host_lookup = native
relayhost = [127.0.0.1]:$(cat "$work/port")
smtp_destination_recipient_limit = 1
queue_run_delay = 3s
minimal_backoff_time = 3s
maximal_backoff_time = 3s
END
sed -i -e '/^smtp .* smtpd$/d' -e 's/^\(smtp *unix .*\)-\( *smtp\)$/\11\2/' "$root/etc/postfix/master.cf"
chroot "$root" postfix start >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 2; }
send() { printf 'Subject: one\n\nhello\n' | chroot "$root" sendmail -f ann@example.org "$@"; }
manager() { pgrep -x qmgr --parent "$(tr -d ' ' <"$root/var/spool/postfix/pid/master.pid")"; }

send first@there.example second@there.example
until_is test -e "$work/holds"
kill -KILL "$(manager)"
until_is eval '! manager >/dev/null'
# A new message wakes a new queue manager.
send third@there.example
until_is logged 'skipped, still being delivered'
touch "$work/go"
until_is logged 'to=<first@there.example>.*status=sent'
until_is logged 'to=<third@there.example>.*status=sent'

# Some queue runs.
sleep 12
if logged 'to=<second@there.example>'; then by_runs=yes; else by_runs=no; fi
queue=$(chroot "$root" postqueue -j | grep -o '"queue_name": "[a-z]*"' | cut -d '"' -f 4 | sort | xargs)
send fourth@there.example
until_is logged 'to=<second@there.example>.*status=sent'
grep -o 'qmgr.*skipped.*' "$root/var/log/postfix.log" | sed 's/[0-9A-F]\{8,\}/QUEUE-ID/'
echo "delivered by queue runs: $by_runs; queue of the message: $queue; delivered after new mail: yes"
[ "$by_runs $queue" = "no incoming" ] || { echo "changed" >&2; exit 1; }
