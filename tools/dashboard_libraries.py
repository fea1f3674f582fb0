"""Fetch the libraries of the dashboard as they are pinned here, and put them beside its files: `make dashboard-libraries`.

Standard library, and npm to fetch; neither is needed to build, install or run firesteel. Each package is compared with its
hash, the files that are used are taken out of it, and the bare names of modules become the files they stand for.
"""

import base64
import hashlib
import re
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

VENDOR = Path(__file__).resolve().parent.parent / "src" / "firesteel" / "rest" / "dashboard" / "vendor"
LIST = VENDOR / "LIBRARIES.txt"
MODULES = {"preact": "./preact.js", "htm": "./htm.js"}
"""Where a module of that bare name lies: a browser knows no packages."""


@dataclass(frozen=True)
class Library:
    """A package of npm: `sha512` is of the whole package, `files` says what becomes what."""

    name: str
    version: str
    licence: str
    sha512: str
    files: tuple[tuple[str, str], ...]


LIBRARIES = (
    Library(
        "preact", "10.29.8", "MIT",
        "ej2aVZ+vZ8WO7tvlQWRM9N63A0KzF9q4mWJfDUHgYaIofWY9hu74QdnQrjoPMmZi2/nZ5gN0bJCQF49xQqx09Q==",
        (("dist/preact.module.js", "preact.js"), ("hooks/dist/hooks.module.js", "hooks.js"), ("LICENSE", "preact.LICENSE.txt")),
    ),
    Library(
        "htm", "3.1.1", "Apache-2.0",
        "983Vyg8NwUE7JkZ6NmOqpCZ+sh1bKv2iYTlUkzlWmA5JD2acKoxd4KVxbMmxX/85mtfdnDmTFoNKcg5DGAvxNQ==",
        (("dist/htm.module.js", "htm.js"), ("LICENSE", "htm.LICENSE.txt")),
    ),
    Library(
        "@dagrejs/dagre", "3.1.3", "MIT",
        "X4aUTwOReZvthaZWOVHqlJ52/ZdhZFEM4+Lh/uR4XooUSLE6p71bcy7MPGzYnNUcNh+nj+i/qJQpCMIdQnSmrg==",
        (("dist/dagre.esm.js", "dagre.js"), ("LICENSE", "dagre.LICENSE.txt")),
    ),
)  # fmt: skip


def main() -> int:
    """Exit code 1 when a package is not the one that is pinned."""
    for library in LIBRARIES:
        with tempfile.TemporaryDirectory() as directory:
            package = fetched(library, Path(directory))
            digest = base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
            if digest != library.sha512:
                print(f"{library.name} {library.version} has the hash {digest}", file=sys.stderr)
                return 1
            with tarfile.open(package) as archive:
                for source, target in library.files:
                    member = archive.extractfile(f"package/{source}")
                    assert member is not None, f"{library.name} has no file {source}"
                    (VENDOR / target).write_text(adapted(member.read().decode()))
    LIST.write_text(listing())
    return 0


def fetched(library: Library, directory: Path) -> Path:
    command = ("npm", "pack", "--silent", f"{library.name}@{library.version}")
    subprocess.run(command, cwd=directory, check=True, stdout=subprocess.DEVNULL)
    (package,) = directory.glob("*.tgz")
    return package


def adapted(text: str) -> str:
    """A file as a browser reads it: modules by their files, no map of sources that is not there."""
    text = re.sub(r"^//# sourceMappingURL=.*$", "", text, flags=re.MULTILINE).rstrip() + "\n"
    return re.sub(r'(from)"(\w+)"', lambda match: f'{match[1]}"{MODULES.get(match[2], match[2])}"', text)


def listing() -> str:
    """What lies here, with versions, licences and hashes."""
    lines = ["Libraries of the dashboard, made by tools/dashboard_libraries.py: not to be edited.", ""]
    for library in LIBRARIES:
        lines += [f"{library.name} {library.version} ({library.licence})", f"  package  sha512 {library.sha512}"]
        for _, target in library.files:
            lines.append(f"  {target}  sha256 {hashlib.sha256((VENDOR / target).read_bytes()).hexdigest()}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
