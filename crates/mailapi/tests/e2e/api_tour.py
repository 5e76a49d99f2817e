"""The tour in docs/api.md works as it is pasted."""

import os
import re
import subprocess

from harness import needs, tell

DOCUMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../docs/api.md")


def blocks():
    with open(DOCUMENT, encoding="utf-8") as file:
        tour = file.read().split("\n## A tour\n")[1]
    return re.findall(r"^```sh\n(.*?)^```$", tour, re.MULTILINE | re.DOTALL)


def story(server):
    place = {"http://127.0.0.1:8080/api/v1": server.api_url, "mailapi-data/": server.data + "/"}
    pasted = "\n".join(blocks())
    for default, actual in place.items():
        assert default in pasted, default
        pasted = pasted.replace(default, actual)
    # A failed command ends the script, also at the start of a pipe.
    script = "set -eo pipefail\n" + pasted
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    calls = pasted.count("call ") - pasted.count("# call ") - pasted.count("$(call ")
    assert done.stdout.count('"success":true') >= calls - 3, "but for one token, one file and one line of the set-up"
    assert "Hello!" in done.stdout and '"name":"Ann"' in done.stdout, done.stdout
    assert server.get("/domains")["total"] == 0, "the tour removes what it created"


if __name__ == "__main__":
    needs("bash", "curl", "sed")
    tell(story)
