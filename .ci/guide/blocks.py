"""Writes the blocks of commands of a Markdown page into a directory.

    blocks.py PAGE DIRECTORY

The file is named after the section and the place in it: `5-2.sh` is the second block of section 5, `backup-1.sh` the
first of `## Backup`. Lines that a list indents lose the indentation.
"""
import pathlib, re, sys, textwrap

page, directory = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
directory.mkdir(parents=True)
section, counts = "", {}
for heading, language, block in re.findall(r"^## ([^\n]*)$|^ *```(\w+)\n(.*?)^ *```$", page.read_text(), re.M | re.S):
    if heading:
        number = re.match(r"(\d+)\. ", heading)
        section = number[1] if number else re.sub(r"[^a-z]+", "-", heading.lower()).strip("-")
        continue
    counts[section] = counts.get(section, 0) + 1
    (directory / f"{section}-{counts[section]}.{language}").write_text(textwrap.dedent(block))
