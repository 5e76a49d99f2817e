# A private PostgreSQL server in a directory of its own, for as long as standard input is open.
#
# Arguments: the directory of the server's programs, where to make the directory, the port, the password of `mailapi`.
# It says the directory when the server takes connections. The lines `stop` and `start` are answered when done.
# However the test that started this ends, its end of the pipe closes, and nothing is left behind.
set -eu
programs=$1 port=$3 password=$4
directory=$(mktemp -d "$2/mailapi-postgres.XXXXXX")
server=

stop() {
    [ -z "$server" ] || kill -INT "$server" 2>/dev/null || true
    [ -z "$server" ] || wait "$server" || true
    server=
}

start() {
    "$programs/postgres" -D "$directory/data" -k "$directory" -p "$port" -h 127.0.0.1 \
        -c fsync=off -c synchronous_commit=off -c full_page_writes=off -c shared_buffers=32MB \
        -c max_connections=400 -c ssl=on -c ssl_cert_file="$directory/server.pem" \
        -c ssl_key_file="$directory/server.key" </dev/null >>"$directory/log" 2>&1 &
    server=$!
    until "$programs/pg_isready" -q -h "$directory" -p "$port"; do
        kill -0 "$server" 2>/dev/null || { cat "$directory/log" >&2; exit 1; }
        sleep 0.02
    done
}

trap 'stop; rm -rf "$directory"' EXIT
trap 'exit 1' HUP INT TERM

# Whoever sorts texts must not rely on the order of the database: this one is that of English.
printf %s "$password" >"$directory/password"
"$programs/initdb" -D "$directory/data" -U mailapi -E UTF8 --locale=C.UTF-8 --locale-provider=icu --icu-locale=en \
    --pwfile="$directory/password" --auth-local=trust --auth-host=scram-sha-256 --no-sync >"$directory/log" 2>&1 ||
    { cat "$directory/log" >&2; exit 1; }
# For the host's name and not for its address, so that a test can be at the wrong door.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE \
    -keyout "$directory/server.key" -out "$directory/server.pem" 2>>"$directory/log" ||
    { cat "$directory/log" >&2; exit 1; }
chmod 600 "$directory/server.key"
chmod 755 "$directory"
start
echo "$directory"
while read -r command; do
    "$command"
    echo done
done
