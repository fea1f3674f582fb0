"""The jars beside our Java sources are made of them."""

import zipfile
from pathlib import Path

import pytest

from tools.jars import JARS, MANIFEST, manifest


@pytest.mark.parametrize(("jar", "source"), JARS.items(), ids=[jar.name for jar in JARS])
def test_a_jar_is_made_of_the_source_beside_it(jar: Path, source: Path) -> None:
    with zipfile.ZipFile(jar) as packed:
        assert packed.read(MANIFEST).decode() == manifest(source), "make jars"
