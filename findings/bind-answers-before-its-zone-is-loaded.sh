#!/usr/bin/env bash
# BIND opens its port before its zones are loaded, and answers SERVFAIL about them until they are.
#
# Version: BIND 9.18 (bind9, Debian 12).
# Expected: a server that takes connections answers for its zones, or does not take connections yet. A program that waits for
# the port would then know that the server is ready.
# Seen: with a zone of 600,000 records the port is open after some hundredths of a second. Until the zone is loaded, seconds
# later, each question about it gets SERVFAIL (2) without the bit of an authoritative answer, as if the zone were broken.
# Dynamic updates get SERVFAIL, too. So wait until the SOA record of each zone is answered with that bit.
#
# It needs root, mmdebstrap, and 700 MB in the temporary directory. The packages come from this machine's own mirror.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT

"$here/../.ci/mirror" bookworm >"$work/sources"
mmdebstrap --quiet --variant=minbase --include=bind9,python3-minimal \
    --essential-hook='printf "#!/bin/sh\nexit 101\n" >"$1/usr/sbin/policy-rc.d"; chmod 755 "$1/usr/sbin/policy-rc.d"' \
    bookworm "$work/root" "$work/sources" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 2; }
found=$(chroot "$work/root" dpkg-query -W -f '${Version}' bind9)
case $found in 1:9.18.*) echo "BIND $found" ;; *) echo "another version: $found" >&2; exit 2 ;; esac

mkdir "$work/root/try"
cat >"$work/root/try/ask.py" <<'PYTHON'
import socket, struct, subprocess, time

ADDRESS = ("127.0.0.1", 29153)
with open("/try/large.zone", "w") as zone:
    zone.write("$TTL 60\n@ IN SOA ns hostmaster 1 3600 600 86400 60\n@ IN NS ns\nns IN A 127.0.0.1\n")
    zone.writelines(f"host{number} IN A 192.0.2.1\n" for number in range(600_000))
with open("/try/named.conf", "w") as settings:
    settings.write('options { directory "/try"; listen-on port 29153 { 127.0.0.1; }; listen-on-v6 { none; }; '
                   'recursion no; pid-file none; session-keyfile none; notify no; };\ncontrols { };\n'
                   'zone "large.test" { type primary; file "large.zone"; };\n')
SOA = b"\0\1\0\0\0\1\0\0\0\0\0\0\5large\4test\0\0\6\0\1"


def answer():
    """Returns the code, and whether the answer is authoritative; None while the port is closed."""
    try:
        with socket.create_connection(ADDRESS, timeout=5) as server:
            server.sendall(struct.pack(">H", len(SOA)) + SOA)
            head = server.makefile("rb").read(6)
            return head[5] & 15, bool(head[4] & 4)
    except OSError:
        return None


server = subprocess.Popen(["named", "-f", "-c", "/try/named.conf"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
seen, end = [], time.monotonic() + 120
try:
    while time.monotonic() < end and (not seen or seen[-1][1] != (0, True)):
        one = answer()
        if one is not None and (not seen or seen[-1][1] != one):
            seen.append((time.monotonic(), one))
finally:
    server.terminate()
    server.wait()
for moment, (code, is_authoritative) in seen:
    print(f"after {moment - seen[0][0]:.2f} s: code {code}, authoritative: {is_authoritative}")
raise SystemExit(0 if [one for _, one in seen] == [(2, False), (0, True)] else "changed")
PYTHON
chroot "$work/root" python3 /try/ask.py
