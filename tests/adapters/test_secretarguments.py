"""Settings of Spark that are secrets: anyone on the machine can read a command line."""

from pathlib import Path

from firesteel.adapters.spark.jvm.launch import SECRETS_NAME, SparkInstallation, backend_command, java_command


def test_secrets_are_in_a_file_and_not_on_a_command_line(tmp_path: Path) -> None:
    installation = SparkInstallation(tmp_path, "4", "java")
    settings = {
        "spark.master": "local[1]",
        "spark.hadoop.fs.s3a.secret.key": 'the "s3cr3t\\',
        "spark.hadoop.fs.s3a.x": "1",
    }
    for more in ({}, {"spark.jars.packages": "a:b:c"}):
        command = backend_command(installation, 100, tmp_path, settings | more)(())
        assert "s3cr3t" not in " ".join(command)
        assert f"@{tmp_path / SECRETS_NAME}" in command
        file = tmp_path / SECRETS_NAME
        assert file.read_text() == '"-Dspark.hadoop.fs.s3a.secret.key=the \\"s3cr3t\\\\"\n'
        assert file.stat().st_mode & 0o777 == 0o600
    assert not [
        text for text in java_command(installation, (), tmp_path, {"spark.master": "local[1]"}) if text[0] == "@"
    ]
