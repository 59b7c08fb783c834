"""MkDocs' hooks: the navigation and llms.txt come from docs/README.md, and links that leave docs/ lead to the repository."""

import pathlib
import posixpath
import re

INDEX = "README.md"
ENTRY = re.compile(r"^- \[[^]]*\]\(([^)#]+\.md)\):? ?(.*)$")


def entries(docs_dir):
    """Yields (group, page, description) for each page of the index. A group is a bold line or a heading of the second level."""
    group = ""
    for line in (pathlib.Path(docs_dir) / INDEX).read_text().splitlines():
        if line.startswith("## ") or re.fullmatch(r"\*\*[^*]+\*\*", line):
            group = line.strip("#* ")
        elif (entry := ENTRY.match(line)) and not entry[1].startswith("../"):
            yield group, entry[1], entry[2]


def on_config(config):
    groups = {}
    for group, page, _ in entries(config.docs_dir):
        groups.setdefault(group, []).append(page)
    config.nav = [INDEX, *({group: pages} for group, pages in groups.items())]
    return config


def on_page_markdown(markdown, page, config, **_):
    """GitHub needs no empty line before a list, and takes two spaces for a nested one; and it knows all files of the repository."""
    folder = posixpath.dirname(page.file.src_uri)

    def outside(link):
        target = posixpath.normpath(posixpath.join("docs", folder, link[1]))
        return link[0] if target.startswith("docs/") else f"]({config.repo_url}/blob/main/{target}{link[2] or ''})"

    lines, fenced, before = [], False, ""
    for line in markdown.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        listed = re.match(r"( *)([-*]|\d+\.) ", line)
        if not fenced and listed:
            if before.strip() and not re.match(r" *([-*]|\d+\.) |  ", before):
                lines.append("")
            line = " " * len(listed[1]) + line  # two spaces more for each two
        lines.append(line if fenced else re.sub(r"\]\((\.\.?/[^)#\s]*)(#[^)\s]*)?\)", outside, line))
        before = line
    return "\n".join(lines)


def on_post_build(config):
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    last = None
    for group, page, description in entries(config.docs_dir):
        if group != last:
            lines += ["", f"## {group}", ""]
            last = group
        url = config.site_url + re.sub(r"(^|/)README\.md$", r"\1", page).removesuffix(".md")
        lines.append(f"- [{page.removesuffix('.md')}]({url.rstrip('/')}/): {description}")
    (pathlib.Path(config.site_dir) / "llms.txt").write_text("\n".join(lines) + "\n")
