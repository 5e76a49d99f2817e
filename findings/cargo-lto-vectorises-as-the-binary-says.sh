#!/usr/bin/env bash
# With link time optimisation, the level of the binary's crate decides whether loops of all other crates are vectorised.
#
# Version: cargo and rustc 1.95.0, x86_64.
# Expected: `[profile.release.package.NAME] opt-level` concerns that package, as Cargo's book says of overrides. A small
# level for the crate that only starts the program costs the libraries nothing.
# Seen: with `lto = "fat"` or `"thin"` and level `s` for the binary alone, no loop of a library at level 2 or 3 is
# vectorised. Without LTO it is, and with LTO when the binary has level 2.
#
# It needs cargo and objdump.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
cd "$work"
found="$(rustc --version), $(cargo --version)"
case $found in rustc\ 1.95.0*cargo\ 1.95.0*) ;; *) echo "another version: $found" >&2; exit 2 ;; esac
[ "$(uname -m)" = x86_64 ] || { echo "another processor: $(uname -m)" >&2; exit 2; }

mkdir -p program/src library/src
cat >Cargo.toml <<'END'
[workspace]
members = ["program", "library"]
resolver = "2"
END
cat >program/Cargo.toml <<'END'
[package]
name = "program"
edition = "2024"
[dependencies]
library = { path = "../library" }
END
cat >library/Cargo.toml <<'END'
[package]
name = "library"
edition = "2024"
END
cat >program/src/main.rs <<'END'
fn main() {
    let line = std::env::args().collect::<String>();
    println!("{}", library::count_spaces(line.as_bytes()));
}
END
cat >library/src/lib.rs <<'END'
#[unsafe(no_mangle)]
#[inline(never)]
pub fn count_spaces(line: &[u8]) -> u32 {
    line.iter().map(|byte| u32::from(*byte == b' ')).sum()
}
END

# Prints whether the library's loop uses vector registers.
vectorised() {
    cargo build --quiet --release --offline --config "profile.release.lto=$1" --config "profile.release.opt-level=$2" \
        --config "profile.release.package.program.opt-level=$3"
    objdump -d target/release/program >listing
    grep -q '<count_spaces>:' listing || { echo "the function is gone" >&2; exit 2; }
    if awk '/<count_spaces>:/ { inside = 1 } inside && /^$/ { exit } inside' listing | grep -q xmm; then
        echo yes
    else
        echo no
    fi
}

seen=
for case in '"fat" 2 "s"' '"fat" 3 "s"' '"thin" 2 "s"' 'false 2 "s"' '"fat" 2 2' '"thin" 2 2'; do
    read -r lto library program <<<"$case"
    answer=$(vectorised "$lto" "$library" "$program")
    echo "lto $lto, library $library, program $program: $answer"
    seen+="$answer "
done
[ "$seen" = "no no no yes yes yes " ] || { echo "changed" >&2; exit 1; }
