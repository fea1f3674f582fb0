"""Build the documentation as a site, and check every link in it: `make site`. It lies in build/site.

Pages are those of docs/, with README, CHANGELOG and CONTRIBUTING from beside it. Links to files of the repository that are
no pages become plain text. mkdocs, in strict mode, fails at a link or an anchor that leads nowhere, and at a page that is
in no menu.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements" / "site.txt"
PAGES = ROOT / "build" / "site-pages"
BESIDE = {"README.md": "index.md", "CHANGELOG.md": "CHANGELOG.md", "CONTRIBUTING.md": "CONTRIBUTING.md"}
ICON = ROOT / "src" / "firesteel" / "rest" / "dashboard" / "icon.svg"
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
LOADED = re.compile(r"""<(?:script|link|img)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//[^"'\s>]+""")


def main() -> int:
    """Exit code 1 when a link leads nowhere, or a page loads something from elsewhere."""
    command = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "install", "--no-deps")
    subprocess.run([*command, "--require-hashes", "-r", REQUIREMENTS], check=True)
    gather()
    build = (sys.executable, "-m", "mkdocs", "build", "--strict")  # not --quiet: what is not said is not counted
    built = subprocess.run(build, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=False)
    if built.returncode:
        return 1
    foreign = sorted(
        {found for page in (ROOT / "build" / "site").rglob("*.html") for found in loaded(page.read_text())}
    )
    print(
        "\n".join(f"loaded from elsewhere: {each}" for each in foreign) or f"the site is in {ROOT / 'build' / 'site'}"
    )
    return 1 if foreign else 0


def gather() -> None:
    """All pages in one directory, with their links as they are there."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES)
    shutil.copy(ICON, PAGES)
    places = {(ROOT / "docs" / page.name).resolve(): page.name for page in (ROOT / "docs").glob("*.md")}
    places |= {(ROOT / name).resolve(): place for name, place in BESIDE.items()}
    for page, place in places.items():
        (PAGES / place).write_text(relinked(page.read_text(), page, places))


def relinked(text: str, page: Path, places: dict[Path, str]) -> str:
    """A page's text; what is in fences stays as it is."""

    def link(match: re.Match[str]) -> str:
        words, target, anchor = match[1], match[2], match[3] or ""
        if not target or "://" in target or target.startswith("mailto:"):
            return match[0]
        place = places.get((page.parent / target).resolve())
        return words if place is None else f"[{words}]({place}{anchor})"

    parts = FENCE.split(text)
    return "".join(part if index % 2 else LINK.sub(link, part) for index, part in enumerate(parts))


def loaded(html: str) -> list[str]:
    """What a page has a browser load from another host. Links that somebody may follow are none."""
    return [found for found in LOADED.findall(html) if 'rel="canonical"' not in found]


if __name__ == "__main__":
    raise SystemExit(main())
