"""The jar beside LocalFiles.java is made of it."""

import zipfile

from tools.local_files import JAR, MANIFEST, manifest


def test_the_jar_is_made_of_the_source_beside_it() -> None:
    with zipfile.ZipFile(JAR) as jar:
        assert jar.read(MANIFEST).decode() == manifest(), "make local-files"
