"""What is declared is what is imported, and what is pinned is what is declared."""

import ast
import re
import subprocess
import sys
import tomllib

from tests.tidy.source import ROOT, parsed, python_files

DISTRIBUTION_OF = {
    "yaml": "pyyaml",
    "botocore": "boto3",
    "grpc": "pyspark",
    "google": "pyspark",
    "pyarrow": "pyspark",
    "py4j": "pyspark",
    "zstandard": "pyspark",
}
"""Where a module comes from, when the name does not tell. `pyspark[connect]` brings the last five."""


NEWER_THAN_OURS = {"annotationlib"}
"""Standard modules of later Pythons, imported where they exist."""


def names(lines: list[str]) -> set[str]:
    """Distribution names of requirement lines, normalised."""
    bare = [re.split(r"[\[<>=!~; ]", line.strip(), maxsplit=1)[0] for line in lines]
    return {re.sub(r"[-_.]+", "-", name).lower() for name in bare if name and not name.startswith(("#", "-"))}


def declared() -> set[str]:
    """Names in pyproject.toml's dependencies."""
    return names(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"])


def extras() -> set[str]:
    """Names of what is installed only by who wants it."""
    optional = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    return names([name for each in optional.values() for name in each])


def imported() -> set[str]:
    """Distributions that the package imports, at any depth."""
    modules: set[str] = set()
    for file in python_files("src"):
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.Import):
                modules.update(alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                modules.add(node.module.split(".")[0])
    foreign = modules - set(sys.stdlib_module_names) - NEWER_THAN_OURS - {"firesteel"}
    return {DISTRIBUTION_OF.get(module, module).replace("_", "-") for module in foreign}


def test_imports_are_declared() -> None:
    assert not (missing := imported() - declared() - extras()), (
        f"add to pyproject.toml and requirements/runtime.in: {missing}"
    )


def test_declarations_are_imported() -> None:
    needed_by_others = {"pandas", "httptools"}  # by PySpark, and by uvicorn to parse HTTP
    assert not (idle := (declared() | extras()) - imported() - needed_by_others), f"nothing imports these: {idle}"


def test_pins_follow_the_declarations() -> None:
    wanted = names((ROOT / "requirements" / "runtime.in").read_text().splitlines())
    pinned = names((ROOT / "requirements" / "runtime.txt").read_text().splitlines())
    assert wanted == declared()
    assert wanted <= pinned, f"run `make lock`: {wanted - pinned}"
    for_tests = names((ROOT / "requirements" / "dev.in").read_text().splitlines())
    assert extras() <= for_tests, "what is optional is tested all the same: add it to requirements/dev.in"


def test_every_pin_has_a_hash() -> None:
    for file in sorted((ROOT / "requirements").glob("*.txt")):
        entries = re.split(r"\n(?=[a-z0-9])", file.read_text())
        bare = [entry.split()[0] for entry in entries if "==" in entry and "--hash=" not in entry]
        assert not bare, f"{file.name}: {bare}"


def test_importing_firesteel_leaves_the_modules_of_others_alone() -> None:
    """A notebook that imports it, and something else later, finds that whole."""
    program = (
        "import firesteel, firesteel.client, firesteel.rest.app, firesteel.minicluster, sys\n"
        "print([name for name, module in sys.modules.items() if module is None])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
