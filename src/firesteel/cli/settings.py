"""Configuration of a command: conf/config.yaml, then -D on top; and parameters."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from firesteel.cli.exits import BAD_USAGE, CommandError
from firesteel.cli.flinkkeys import is_flinks, is_ours, sorted_out
from firesteel.model.configuration import JOB_PREFIXES, PLACES_OF_SPARK
from firesteel.model.options import (
    REST_ADDRESS,
    SPARK_MASTER,
    Configuration,
    ConfigurationError,
    is_known,
    parse_duration_ms,
)

CONF_DIR_VARIABLE = "FIRESTEEL_CONF_DIR"
CONF_FILE = "config.yaml"


def load_configuration(definitions: Sequence[str], master: str = "") -> Configuration:
    """The configuration file's values with `key=value` definitions and masters' addresses on top. Raises CommandError."""
    file = _configuration_file()
    unused: list[str] = []
    try:
        base = _known(read_yaml(file) if file else {}, unused)
    except ConfigurationError as error:
        raise CommandError(f"{file}: {error}", BAD_USAGE) from None
    try:
        above = _known(pairs(definitions, "-D"), unused)
    except ConfigurationError as error:
        raise CommandError(str(error), BAD_USAGE) from None
    if unused:
        _warn_once(f"options of Flink that mean nothing here: {', '.join(dict.fromkeys(unused))}")
    return base.merged(above).merged({REST_ADDRESS.key: master} if master else {})


def _known(given: Mapping[str, str], unused: list[str]) -> Configuration:
    """What of it means something here, with `~/` as a shell reads it; of Flink's keys the others go to `unused`. Raises
    ConfigurationError."""
    values, without_meaning = sorted_out(given)
    unused += without_meaning
    return Configuration({key: _at_home(value) if is_known(key) else value for key, value in values.items()})


def _at_home(value: str) -> str:
    return os.path.expanduser(value) if value.startswith("~/") else value


def _warn_once(text: str) -> None:
    """On standard error, however often the command looks at its configuration."""
    context = click.get_current_context(silent=True)
    told = context.meta.setdefault(__name__, set()) if context else set()
    if text not in told:
        told.add(text)
        click.echo(f"firesteel: warning: {text}", err=True)


def pairs(definitions: Sequence[str], option: str) -> dict[str, str]:
    """Texts `key=value` as a dict. Raises CommandError for what is none, or comes twice."""
    values: dict[str, str] = {}
    for definition in definitions:
        key, sign, value = definition.partition("=")
        if not sign or not key.strip():
            raise CommandError(f"{option} {definition}: write {option} key=value", BAD_USAGE)
        if key.strip() in values:
            raise CommandError(f"{option} {key.strip()} is given twice", BAD_USAGE)
        values[key.strip()] = value
    return values


_CLIENT_PREFIXES = ("client.", "cluster.dir", "cluster.work-dir", "execution.", "log.", "rest.", "security.ssl.rest.")
"""Beginnings of the keys of options that commands read for themselves."""


def is_elsewhere(configuration: Configuration, definitions: Sequence[str]) -> bool:
    """Whether a job is for another cluster, whose workers say where Spark is; definitions that are for processes of that
    cluster are warned of. Raises CommandError for definitions that want Spark elsewhere for one job."""
    if not configuration.get_option(REST_ADDRESS):
        return False
    given = pairs(definitions, "-D")
    for key in given:
        if key in (SPARK_MASTER.key, *PLACES_OF_SPARK):
            raise CommandError(
                f"-D {key}: where Spark is, the workers of that cluster say: start some with it and labels, and name"
                " these with --on",
                BAD_USAGE,
            )
    if vain := [key for key in given if is_known(key) and not key.startswith((*JOB_PREFIXES, *_CLIENT_PREFIXES))]:
        _warn_once(f"without effect on a cluster that was started without them: -D {', -D '.join(vain)}")
    return True


def named_values(given: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """`--param` options: values by name, and the names that stand alone. Raises CommandError for what comes twice."""
    flags = [each.strip() for each in given if each.strip().isidentifier()]
    values = pairs([each for each in given if each.strip() not in flags], "--param")
    for name in flags:
        if name in values or flags.count(name) > 1:
            raise CommandError(f"--param {name} is given twice", BAD_USAGE)
    return values, tuple(flags)


def read_yaml(file: Path) -> dict[str, str]:
    """Values by full key of a file with nested or flat keys, as they are written. Raises CommandError naming file and key."""
    import yaml

    class AsWritten(yaml.SafeLoader):
        """Only `null` is not a text: `off` is a word in Flink's YAML, and no number loses its form."""

        yaml_implicit_resolvers = {  # noqa: RUF012
            first: [
                (tag, pattern)
                for tag, pattern in resolvers
                if tag in ("tag:yaml.org,2002:null", "tag:yaml.org,2002:merge")
            ]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    try:
        content = yaml.load(file.read_text(encoding="utf-8"), AsWritten)
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"can't read {file}: {error}", BAD_USAGE) from None
    except yaml.YAMLError as error:
        raise CommandError(f"{file} is no valid YAML: {' '.join(str(error).split())}", BAD_USAGE) from None
    if content is None:
        return {}
    if not isinstance(content, Mapping):
        raise CommandError(f"{file}: expected keys with values, like rest.port: 8081", BAD_USAGE)
    values: dict[str, str] = {}
    for key, text in _flattened(file, "", content):
        if key in values:
            raise CommandError(f"{file}: {key} is given twice, once nested and once flat", BAD_USAGE)
        values[key] = text
    return values


def _configuration_file() -> Path | None:
    """`config.yaml` of FIRESTEEL_CONF_DIR, which must be there; else of ./conf, which may be."""
    directory = os.environ.get(CONF_DIR_VARIABLE)
    file = Path(directory or "conf") / CONF_FILE
    if file.is_file():
        return file
    if directory:
        raise CommandError(f"{CONF_DIR_VARIABLE} is {directory}, but there is no {file}", BAD_USAGE)
    return None


def _flattened(file: Path, prefix: str, content: Mapping[object, object]) -> Iterator[tuple[str, str]]:
    for name, value in content.items():
        key = f"{prefix}{name}"
        match value:
            case Mapping():
                yield from _flattened(file, f"{key}.", value)
            case None:
                continue
            case list() if is_ours(key) or not is_flinks(key):
                raise CommandError(f"{file}: {key} is a list; give one value", BAD_USAGE)
            case _:
                yield key, str(value)


def storage_settings(configuration: Configuration) -> dict[str, str]:
    """By which this process reaches what is in buckets. Raises CommandError."""
    from firesteel.adapters.storage.s3settings import hadoop_settings

    try:
        return hadoop_settings(configuration, os.environ)
    except ConfigurationError as error:
        raise CommandError(str(error), BAD_USAGE) from None


def absolute(path: str) -> str:
    """A path that starts here, or at home; of `file:PATH`, as Hadoop writes it, that path. URIs and an empty one stay."""
    if not path or "://" in path:
        return path
    return os.path.abspath(os.path.expanduser(path.removeprefix("file:")))


def time_ms(option: str, text: str) -> int:
    """What a time given with an option is, in milliseconds; a bare number is one of seconds. Raises CommandError."""
    try:
        return parse_duration_ms(f"{text} s" if text.replace(".", "", 1).isdigit() else text)
    except ValueError:
        raise CommandError(f'{option} {text}: write seconds, or a time like "90 s" or "10 min"', BAD_USAGE) from None
