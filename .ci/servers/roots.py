"""Root directories with a bare Debian, and layers above it with the packages of one server."""
import re, shutil, subprocess, sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
RELEASES = {"12": "bookworm", "13": "trixie"}
NAMESPACES = ["--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child"]


def base(roots, release):
    """Returns a bare Debian. Without the file, packages would start their servers."""
    root = roots / release
    if not root.exists():
        sources, made = roots / "sources", roots / (release + ".new")
        sources.write_text(checked([HERE.parent / "mirror", release]))
        checked(["mmdebstrap", "--quiet", "--variant=minbase", release, made, sources])
        policy = made / "usr/sbin/policy-rc.d"
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
        shutil.copy("/etc/resolv.conf", made / "etc/resolv.conf")
        checked(["chroot", made, "apt-get", "update"])
        made.rename(root)
    return root


def installed(roots, root, setup):
    """Returns the layer of a server above the bare Debian."""
    place = roots / f"{root.name}-{setup.name}"
    # What follows does not change what is installed.
    wanted, made = setup.read_text().partition("version()")[0], place / "made"
    if made.exists() and made.read_text() == wanted:
        return place / "upper"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    if package := re.search(r"^NPM=(\S+)$", wanted, re.M):
        haraka, node = place / "upper/haraka", Path(shutil.which("node")).resolve()
        checked(["npm", "install", "--prefix", haraka, "--silent", "--no-audit", "--no-fund", "--omit=optional",
                 "--ignore-scripts", package[1]])
        (place / "upper/usr/local/bin").mkdir(parents=True)
        shutil.copy(node, place / "upper/usr/local/bin/node")
    checked(["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", HERE / "machine", root, place, setup])
    made.write_text(wanted)
    return place / "upper"


def checked(command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"{command[0]} ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout
